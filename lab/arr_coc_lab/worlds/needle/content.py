"""What is written on things and asked about them: strings as tensors of characters, names, dates, amounts, places."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

import torch

from arr_coc.core.alphabet import IDS, PADDING, text_row

from ..constants import constant
from ..words import lists_of
from .batch import ANSWER_LENGTH, QUESTION_LENGTH
from .scene import Background, Layer, Marks, NeedleScene, Stage, Text, take

DATA = Path(__file__).with_name("data")
words, wordings = lists_of(DATA / "words.toml"), lists_of(DATA / "wording.toml")

DIGIT_ZERO = IDS["0"]


@cache
def string_table(strings: tuple[str, ...], device: torch.device | str = "cpu") -> torch.Tensor:
    """Convert strings to rows of identifiers, (N, L) int64, padded with 0 on the right; cached per device."""
    length = max(1, *(len(string) for string in strings))
    rows = [text_row(string, length) for string in strings]
    return torch.tensor(rows, dtype=torch.int64, device=device)


def choose(strings: Sequence[str], index: torch.Tensor) -> torch.Tensor:
    """Return the strings (…, L) of indices (…,)."""
    return string_table(tuple(strings), index.device)[index]


def literal(text: str, like: torch.Tensor) -> torch.Tensor:
    """Return one constant string for every entry of `like` (…, anything): (…, len(text))."""
    row = string_table((text,), like.device)[0]
    return row.expand(*like.shape[:-1], len(row))


def join(pieces: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Concatenate along the last dimension, close the gaps and pad or cut to `length`."""
    text = torch.cat(list(pieces), dim=-1)
    order = (text == PADDING).to(torch.uint8).argsort(dim=-1, stable=True)
    text = text.gather(-1, order)
    missing = length - text.shape[-1]
    return torch.nn.functional.pad(text, (0, missing)) if missing > 0 else text[..., :length]


def fill(templates: Sequence[str], index: torch.Tensor, values: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Write values into one of the templates: (…,) indices, values of (…, L_i) → (…, length).

    Every template holds the places {0}, {1}, … in this order, one per value.
    """
    parts = [_split(template, len(values)) for template in templates]
    pieces: list[torch.Tensor] = []
    for place in range(len(values) + 1):
        pieces.append(choose([part[place] for part in parts], index))
        if place < len(values):
            pieces.append(values[place])
    return join(pieces, length)


def _split(template: str, number: int) -> list[str]:
    parts = []
    for place in range(number):
        before, template = template.split(f"{{{place}}}")
        parts.append(before)
    return [*parts, template]


def digits(value: torch.Tensor, number: int, *, leading_zeros: bool = False) -> torch.Tensor:
    """Convert whole numbers (…,) to strings (…, number); without leading zeros by default."""
    powers = 10 ** torch.arange(number - 1, -1, -1, device=value.device)
    quotient = torch.div(value[..., None], powers, rounding_mode="floor")
    text = DIGIT_ZERO + quotient % 10
    if leading_zeros:
        return text
    # The last digit always stands, so that zero is written "0".
    keep = (quotient > 0) | (powers == 1)
    return text * keep


def money(cents: torch.Tensor, sign: str = "$", number: int = 6) -> torch.Tensor:
    """Convert cents (…,) to strings like $23.40."""
    whole = digits(torch.div(cents, 100, rounding_mode="floor"), number - 2)
    part = digits(cents % 100, 2, leading_zeros=True)
    ends = cents[..., None]
    return torch.cat([literal(sign, ends), whole, literal(".", ends), part], dim=-1)


def upper(text: torch.Tensor) -> torch.Tensor:
    """Convert small letters to capitals."""
    small = (text >= IDS["a"]) & (text <= IDS["z"])
    return torch.where(small, text - (IDS["a"] - IDS["A"]), text)


def capitalise(text: torch.Tensor) -> torch.Tensor:
    """Capitalise the first letter of a left-justified string."""
    return torch.cat([upper(text[..., :1]), text[..., 1:]], dim=-1)


# ---- What is written on things: names, dates, amounts, codes, as strings in tensors ----------------------------------

VALUE_LENGTH = 18
FIELDS = [(number, name) for number, kind in enumerate(words("fields")) for name in words(f"fields.{kind}")]
FIELD_KINDS, FIELD_NAMES = zip(*FIELDS, strict=True)


def any_word(stage: Stage, name: str, listed: str, slots: int = 1) -> torch.Tensor:
    """Draw words of a list, (B, slots, L)."""
    return choose(words(listed), stage.draws.integers(name, 0, len(words(listed)), slots))


def pseudo_word(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """Draw meaningless words (B, slots, 9), which must be read letter by letter, like Talina or Robek."""
    return join([any_word(stage, f"{name}/{part}", f"syllables_{part}", slots) for part in ("one", "two", "three")], 9)


def person(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """Draw a first and a last name, (B, slots, L); half of the last names are invented."""
    first, last = (any_word(stage, f"{name}/{part}", f"{part}_names", slots) for part in ("first", "last"))
    made = pseudo_word(stage, f"{name}/made", slots)
    use_made = stage.draws.chance(f"{name}/which", 50, slots)[..., None]
    return join([first, literal(" ", first), last * ~use_made, made * use_made], VALUE_LENGTH)


def date(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """Draw dates (B, slots, L) in one of four formats; a picture has one format."""
    draws = stage.draws
    day, month = draws.integers(f"{name}/day", 1, 29, slots), draws.integers(f"{name}/month", 1, 13, slots)
    year = draws.integers(f"{name}/year", 1985, 2031, slots)
    two_day, two_month = digits(day, 2, leading_zeros=True), digits(month, 2, leading_zeros=True)
    four, letters = digits(year, 4), choose(words("months"), month - 1)
    slash, dash, blank, dot = (literal(mark, four) for mark in "/- .")
    ways = [
        join([digits(day, 2), blank, letters, blank, four], VALUE_LENGTH),
        join([four, dash, two_month, dash, two_day], VALUE_LENGTH),
        join([two_month, slash, two_day, slash, four], VALUE_LENGTH),
        join([two_day, dot, two_month, dot, four], VALUE_LENGTH),
    ]
    way = draws.integers(f"{name}/way", 0, 4)[:, :, None]
    return torch.stack(ways).gather(0, way[None].expand(1, -1, slots, VALUE_LENGTH))[0]


def code(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """Draw codes like KX-4821 or B730, (B, slots, L)."""
    draws = stage.draws
    letters = IDS["A"] + draws.integers(f"{name}/letters", 0, 26, slots * 2).view(-1, slots, 2)
    number = digits(draws.integers(f"{name}/number", 100, 10000, slots), 4)
    plain = draws.chance(f"{name}/plain", 40, slots)[..., None]
    dash = literal("-", number) * ~plain
    keep = torch.cat([torch.ones_like(plain), ~plain], -1)
    return join([letters * keep, dash, number], VALUE_LENGTH)


def clock(stage: Stage, name: str, slots: int) -> torch.Tensor:
    hour = digits(stage.draws.integers(f"{name}/hour", 0, 24, slots), 2, leading_zeros=True)
    minute = digits(stage.draws.integers(f"{name}/minute", 0, 60, slots), 2, leading_zeros=True)
    return join([hour, literal(":", hour), minute], VALUE_LENGTH)


def currency(stage: Stage, name: str) -> torch.Tensor:
    """Draw the currency sign of a picture's amounts, (B, 1, 1)."""
    return choose(("$", "$", "$", "€"), stage.draws.integers(name, 0, 4))


def amount(cents: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """Format cents (B, K) with a picture's currency sign (B, 1, 1): (B, K, L)."""
    plain = money(cents)[..., 1:]
    return join([sign.expand(*cents.shape, 1), plain], VALUE_LENGTH)


def field_values(stage: Stage, name: str, kind: torch.Tensor) -> torch.Tensor:
    """Draw values (B, K, VALUE_LENGTH) of kinds (B, K)."""
    draws, slots = stage.draws, kind.shape[1]
    number = digits(draws.integers(f"{name}/number", 100, 1_000_000, slots), 6)
    exchange = digits(draws.integers(f"{name}/exchange", 200, 1000, slots), 3)
    extension = digits(draws.integers(f"{name}/extension", 0, 10000, slots), 4, leading_zeros=True)
    cents = draws.integers(f"{name}/cents", 100, 100_000, slots)
    city = any_word(stage, f"{name}/city", "cities", slots)
    made = pseudo_word(stage, f"{name}/made", slots)
    invented = draws.chance(f"{name}/invented", 40, slots)[..., None]
    percent = digits(draws.integers(f"{name}/percent", 1, 100, slots), 2)
    options = [
        person(stage, name, slots),
        join([number], VALUE_LENGTH),
        join([exchange, literal("-", number), extension], VALUE_LENGTH),
        date(stage, name, slots),
        amount(cents, currency(stage, f"{name}/sign")),
        join([city * ~invented, made * invented], VALUE_LENGTH),
        code(stage, name, slots),
        join([pseudo_word(stage, f"{name}/word", slots)], VALUE_LENGTH),
        clock(stage, name, slots),
        join([percent, literal("%", number)], VALUE_LENGTH),
    ]
    return torch.stack(options).gather(0, kind[None, :, :, None].expand(1, -1, -1, VALUE_LENGTH))[0]


def label_style(stage: Stage, name: str, label: torch.Tensor, length: int) -> torch.Tensor:
    """Format field names as on a form, (B, K, L): `Due date:`, `DUE DATE` or `Due date`."""
    style = stage.draws.integers(name, 0, 4)[:, :, None]
    capital = torch.cat([upper(label[..., :1]), label[..., 1:]], -1)
    text = torch.where(style == 2, upper(label), capital)
    return join([text, literal(":", label) * (style < 2)], length)


def ask(stage: Stage, name: str, wording: str, *values: torch.Tensor) -> torch.Tensor:
    """Draw one of the wordings of a name, filled: (B, QUESTION_LENGTH)."""
    templates = wordings(wording)
    return fill(templates, stage.draws.integers(name, 0, len(templates))[:, 0], values, QUESTION_LENGTH)


def ask_all(stage: Stage, family: str, asked_by: dict[str, list[torch.Tensor]]) -> list[torch.Tensor]:
    """Make a question for each task of a family."""
    tasks = enumerate(asked_by.items())
    return [ask(stage, f"wording/{number}", f"{family}.{task}", *values) for number, (task, values) in tasks]


def answer_of(*pieces: torch.Tensor) -> torch.Tensor:
    """Join the pieces to one answer, (…, ANSWER_LENGTH)."""
    return join(pieces, ANSWER_LENGTH)


# ---- What several families need: place words, unions of boxes, choosing among tasks ----------------------------------

PLACES = ("top left", "top", "top right", "left", "center", "right", "bottom left", "bottom", "bottom right")
YES_NO = ("no", "yes")


def places(stage: Stage, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the index (B, K) into PLACES of boxes (B, K, 4), and whether it is certain (not near a third's line)."""
    x, y = (boxes[..., 0] + boxes[..., 2]) * 3, (boxes[..., 1] + boxes[..., 3]) * 3
    full_x, full_y = 2 * stage.width, 2 * stage.height
    column, row = torch.div(x, full_x, rounding_mode="floor"), torch.div(y, full_y, rounding_mode="floor")
    inside_x, inside_y = x - column * full_x, y - row * full_y

    def clear(inside: torch.Tensor, index: torch.Tensor, full: int) -> torch.Tensor:
        margin = full // 8
        return ((inside >= margin) | (index <= 0)) & ((inside <= full - margin) | (index >= 2))

    doubtless = clear(inside_x, column, full_x) & clear(inside_y, row, full_y)
    return row.clamp(0, 2) * 3 + column.clamp(0, 2), doubtless


def union(*boxes: torch.Tensor) -> torch.Tensor:
    """Return the smallest box around all: (…, 4) each."""
    stacked = torch.stack(boxes)
    return torch.cat([stacked[..., :2].amin(0), stacked[..., 2:].amax(0)], -1)


def at_edge(stage: Stage, near: torch.Tensor, *groups: torch.Tensor) -> list[torch.Tensor]:
    """Return the groups (B, K) that questions may use; if they must lie near the edge, those that do, if any."""
    if not stage.difficulty.edge:
        return list(groups)
    return [torch.where((group & near).any(1, keepdim=True), group & near, group) for group in groups]


def by_task(task: torch.Tensor, options: Sequence[torch.Tensor]) -> torch.Tensor:
    """Choose by task (B,) among the values of each task, (B, …) each: (B, …)."""
    return take(torch.stack(list(options), 1), task)


class NeedleTask(NamedTuple):
    """A kind of question about every picture: (B, L) question and answer, (B, 4) boxes of the answer and of what names
    it. None: nothing names it."""

    question: torch.Tensor
    answer: torch.Tensor
    box: torch.Tensor
    context: torch.Tensor | None = None


def scene_of(
    background: Background,
    layers: list[Layer],
    text: Text,
    tasks: dict[str, NeedleTask],
    task: torch.Tensor,
    marks: Sequence[Marks] = (),
) -> NeedleScene:
    """Build the scene with each picture's own task (B,), with one box."""
    every = list(tasks.values())
    named = constant([one.context is not None for one in every], task.device)[task]
    return NeedleScene(
        background=background,
        layers=layers,
        text=text,
        question=by_task(task, [one.question for one in every]),
        answer=by_task(task, [one.answer for one in every]),
        boxes=by_task(task, [one.box for one in every])[:, None],
        box_mask=torch.ones_like(task, dtype=torch.bool)[:, None],
        context=by_task(task, [one.box if one.context is None else one.context for one in every])[:, None],
        context_mask=named[:, None],
        task=task,
        tasks=tuple(tasks),
        marks=list(marks),
    )


def pick_task(stage: Stage, weights: tuple[int, ...], possible: torch.Tensor) -> torch.Tensor:
    """Draw tasks (B,) by weight among the possible ones (B, tasks); every picture needs at least one."""
    share = stage.constant(weights) * possible
    upto = share.cumsum(1)
    ticket = stage.draws.below("task", upto[:, -1:])
    return (upto <= ticket).sum(1).clamp(max=len(weights) - 1)
