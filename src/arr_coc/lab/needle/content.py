"""What is written on things: names, dates, amounts, codes, as strings in tensors."""

from __future__ import annotations

import torch

from ...alphabet import IDS
from . import words
from .scene import Stage
from .strings import choose, digits, fill, join, literal, money, upper

KINDS = tuple(words.FIELDS)
VALUE_LENGTH = 18
FIELD_NAMES = tuple(name for names in words.FIELDS.values() for name in names)
FIELD_KINDS = tuple(KINDS.index(kind) for kind, names in words.FIELDS.items() for _ in names)


def pseudo_word(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """(B, slots, 9) words that mean nothing and so must be read letter by letter, like Talina or Robek."""
    draws = stage.draws
    one = choose(words.SYLLABLES_ONE, draws.integers(f"{name}/one", 0, len(words.SYLLABLES_ONE), slots))
    two = choose(words.SYLLABLES_TWO, draws.integers(f"{name}/two", 0, len(words.SYLLABLES_TWO), slots))
    three = choose(words.SYLLABLES_THREE, draws.integers(f"{name}/three", 0, len(words.SYLLABLES_THREE), slots))
    return join([one, two, three], 9)


def person(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """(B, slots, L) a first and a last name; half of the last names are invented."""
    draws = stage.draws
    first = choose(words.FIRST_NAMES, draws.integers(f"{name}/first", 0, len(words.FIRST_NAMES), slots))
    last = choose(words.LAST_NAMES, draws.integers(f"{name}/last", 0, len(words.LAST_NAMES), slots))
    made = pseudo_word(stage, f"{name}/made", slots)
    use_made = draws.chance(f"{name}/which", 50, slots)[..., None]
    return join([first, literal(" ", first), last * ~use_made, made * use_made], VALUE_LENGTH)


def date(stage: Stage, name: str, slots: int) -> torch.Tensor:
    """(B, slots, L) one of four ways to write a day; a picture keeps to one way."""
    draws = stage.draws
    day, month = draws.integers(f"{name}/day", 1, 29, slots), draws.integers(f"{name}/month", 1, 13, slots)
    year = draws.integers(f"{name}/year", 1985, 2031, slots)
    two_day, two_month = digits(day, 2, leading_zeros=True), digits(month, 2, leading_zeros=True)
    four, letters = digits(year, 4), choose(words.MONTHS, month - 1)
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
    """(B, slots, L) codes like KX-4821 or B730."""
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
    """(B, 1, 1) the sign that a picture's amounts carry."""
    return choose(("$", "$", "$", "€"), stage.draws.integers(name, 0, 4))


def amount(cents: torch.Tensor, sign: torch.Tensor) -> torch.Tensor:
    """(B, K) cents with a picture's sign (B, 1, 1) → (B, K, L)."""
    plain = money(cents)[..., 1:]
    return join([sign.expand(*cents.shape, 1), plain], VALUE_LENGTH)


def field_values(stage: Stage, name: str, kind: torch.Tensor) -> torch.Tensor:
    """(B, K) kinds → (B, K, VALUE_LENGTH) values."""
    draws, slots = stage.draws, kind.shape[1]
    number = digits(draws.integers(f"{name}/number", 100, 1_000_000, slots), 6)
    exchange = digits(draws.integers(f"{name}/exchange", 200, 1000, slots), 3)
    extension = digits(draws.integers(f"{name}/extension", 0, 10000, slots), 4, leading_zeros=True)
    cents = draws.integers(f"{name}/cents", 100, 100_000, slots)
    city = choose(words.CITIES, draws.integers(f"{name}/city", 0, len(words.CITIES), slots))
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
    """(B, K, L) field names as a form would print them: `Due date:`, `DUE DATE` or `Due date`."""
    style = stage.draws.integers(name, 0, 4)[:, :, None]
    capital = torch.cat([upper(label[..., :1]), label[..., 1:]], -1)
    text = torch.where(style == 2, upper(label), capital)
    return join([text, literal(":", label) * (style < 2)], length)


def ask(stage: Stage, name: str, templates: tuple[str, ...], values: list[torch.Tensor], length: int) -> torch.Tensor:
    """(B, length) one of the wordings, filled."""
    return fill(templates, stage.draws.integers(name, 0, len(templates))[:, 0], values, length)
