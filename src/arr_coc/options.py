"""`Options`: every choice a caller has beside picture, question and model, checked in one place.

Options(budget=256, strategy="oracle", strategy_options={"boxes": [[0.1, 0.2, 0.4, 0.5]]})
Options(budget="25%").tokens(1024)                               → 256

Keyword arguments of `look`, `ask`, `attach`, `pack` and `watch`, `--set` on the command line, the field `arr_coc` of an
HTTP request, vLLM's `mm_processor_kwargs` and the settings of a batch are all derived from this class.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import Any

import numpy as np

from .attending.distance import AUTO, check_scale
from .attending.strategies import DEFAULT_STRATEGY, check_options
from .balancing.law import read_law
from .core.errors import InputError, as_number, frozen, meant, of_kind, percentage, share_of, shown, whole, whole_size
from .core.values import DEFAULT_CELL, MOST_CELLS, Allocation, JsonObject, Relevance
from .knowing.registry import source_names
from .pictures.ocr import MOST_LINES

DEFAULT_SHARE = 0.25
# With a larger share of the tokens OCR does not pay.
MOST_READ_SHARE = 0.5
# Characters of a question. A whole document does not belong into one: a language model reads it at every step.
LONGEST_QUESTION = 4000
HINTS = ("words", "none")
# What a client of a server may choose for its pictures.
FOR_CLIENTS = ("budget", "total", "relevance", "strategy", "levels", "scale", "words", "ocr", "hints", "allocation")
# What an allocation and a preset decide.
DECIDES = {
    "allocation": ("budget", "strategy", "relevance"),
    "preset": ("strategy", "relevance", "allocation", "words", "hints"),
}
# A number of tokens, or a share such as "25%" or 0.25.
Budget = int | float | str


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """How much may be spent on pictures, and how.

    Args:
        budget: Tokens a picture may cost, or a share such as "25%" or 0.25; a list gives one number for each picture.
            "auto" spends what the question needs, a quarter of the picture at most. A quarter by default.
        relevance: Who says where to look: "auto", a name of `arr_coc.knowing.registry.source_names()`, the folder of a
            trained scorer, a function of (picture, question), or a map. The model's own by default, else "auto".
        strategy: How relevance becomes regions, a name of `arr_coc.attending.strategies`; "overlay" by default.
        strategy_options: What the strategy takes by name, such as {"boxes": [[0.1, 0.2, 0.4, 0.5]]} for the
            laboratory's "oracle".
        levels: The coarsest level of detail; chosen by the budget by default.
        scale: How many times as large the picture is read, 0.25 to 4, or "auto": by its letters and the grip of the
            model. "auto" by default where the grip is known.
        words: The words of the picture with their boxes: a list, a file or `Words`. A PDF page brings its own.
        ocr: Read the lines of a page that matter for the question, 12 by default; a number of lines, or false for none.
        photos: Use the object detector for photographs if it is installed.
        hints: "words" lets known words help to answer, "none" lets them only point.
        seed: For strategies that draw random numbers.
        device: "cpu", "cuda", "cuda:1" or "mps".
        cell: Pixels on the side of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        grip: Which heights of letters the model reads: its name, its folder, a grip.json or a `Grip`.
        allocation: Where the tokens go, decided by the caller; or a list with one for each picture.
        balancing: The folder of an `ARRCOCVIS`, whose law says how sources and tensions are balanced, or a `Law`.
        preset: A whole way of looking that decides strategy, relevance and passes: "two_pass", "four_pass", …
        max_new_tokens: The longest answer.
        total: Share the budget among all pictures of a prompt.
        ceiling: The most tokens that any picture may cost, whatever the budget says.

    Example:
        >>> Options(budget="25%", levels=2).tokens(1024)
        256
    """

    budget: Any = None
    relevance: object = None
    strategy: str | None = None
    strategy_options: Mapping[str, object] = field(default_factory=dict)
    levels: int | None = None
    scale: float | str | None = None
    words: Any = None
    ocr: bool | int = True
    photos: bool = True
    hints: str | None = None
    seed: int = 0
    device: str = "cpu"
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None
    grip: object = None
    allocation: Any = None
    balancing: object = None
    preset: str | None = None
    max_new_tokens: int = 64
    total: bool = False
    ceiling: int | None = None

    def __post_init__(self) -> None:
        strategy, hints = self.strategy, self.hints
        if not isinstance(self.strategy_options, Mapping) or not all(
            isinstance(one, str) for one in self.strategy_options
        ):
            raise InputError(
                f"strategy_options must map names to values, such as {{'level': 1}}, got {shown(self.strategy_options)}"
            )
        if strategy is not None:
            check_options(strategy, self.strategy_options)
        if hints is not None and hints not in HINTS:
            raise InputError(f"hints={shown(hints)} is unknown; use {' or '.join(map(repr, HINTS))}")
        checked = {
            "budget": check_budget(self.budget),
            "levels": None if self.levels is None else whole(self.levels, "levels"),
            "cell": whole(self.cell, "cell", 1),
            "canvas": None if self.canvas is None else whole_size(self.canvas, "canvas"),
            "seed": whole(self.seed, "seed", -(1 << 63)),
            "ceiling": None if self.ceiling is None else whole(self.ceiling, "ceiling", 1),
            "total": of_kind(self.total, bool, "total"),
            "scale": check_scale(self.scale),
            "ocr": self.ocr if isinstance(self.ocr, bool) else whole(self.ocr, "ocr (lines to read, or true or false)"),
            "photos": of_kind(self.photos, bool, "photos"),
            "max_new_tokens": whole(self.max_new_tokens, "max_new_tokens", 1),
        }
        if self.by_need and self.total:
            raise InputError('budget="auto" is found for each picture; leave out total, or give a number')
        read_law(self.balancing)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.canvas is not None and math.prod(-(-side // self.cell) for side in self.canvas) > MOST_CELLS:
            raise InputError(f"canvas={self.canvas} has more than {MOST_CELLS} cells of {self.cell} pixels; give less")

    @classmethod
    def of(cls, given: JsonObject) -> Options:
        """Build options from names and values; a name that is no field is an option of the strategy."""
        own = {name: value for name, value in given.items() if name in NAMES}
        rest = {name: value for name, value in given.items() if name not in NAMES}
        for name in () if "strategy" in own else rest:
            raise InputError(f"{name} is no option{meant(name, NAMES)}; choose from {', '.join(NAMES)}")
        options = cls(**own)
        return replace(options, strategy_options={**options.strategy_options, **rest}) if rest else options

    @classmethod
    def for_client(cls, given: JsonObject, names: Sequence[str] = FOR_CLIENTS, *, where: str = "arr_coc") -> Options:
        """Build options from the JSON of a client, which may name sources but no file of this machine.

        Args:
            given: What the client sent.
            names: What it may set.
            where: What messages call the place.

        Returns:
            The options; an allocation in them is an `Allocation`.
        """
        for name in sorted(given.keys() - set(names)):
            raise InputError(f"{where}.{shown(name)[1:-1]} is unknown here; choose from {', '.join(names)}")
        relevance, words, allocation = (given.get(name) for name in ("relevance", "words", "allocation"))
        decided: JsonObject = {}
        if isinstance(relevance, list):
            decided["relevance"] = Relevance(frozen(relevance, f"{where}.relevance", np.float32))
        elif relevance is not None and relevance not in source_names():
            raise InputError(f"{where}.relevance {shown(relevance)} is unknown; use {', '.join(source_names())}")
        if words is not None and not isinstance(words, list | dict):
            raise InputError(f"{where}.words must be a list of {{text, box}}, got {shown(words)}")
        if allocation is not None:
            several = allocation if isinstance(allocation, list) else [allocation]
            made = [Allocation.from_json(of_kind(one, dict, f"{where}.allocation")) for one in several]
            decided["allocation"] = made if isinstance(allocation, list) else made[0]
        return cls(**{**given, **decided})

    @property
    def by_need(self) -> bool:
        """Whether the question decides how many tokens are spent."""
        return self.budget == AUTO

    def override(self, **changes: object) -> Options:
        """Replace what was given: values of None leave a field as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given) if given else self

    def default(self, **usual: object) -> Options:
        """Fill fields that are None with the entry point's own values."""
        return self.override(**{name: value for name, value in usual.items() if getattr(self, name) is None})

    @property
    def layout(self) -> str:
        """The strategy, or the default one."""
        return self.strategy or DEFAULT_STRATEGY

    def to_json(self) -> JsonObject:
        """List the fields that differ from their defaults, as JSON."""
        usual = Options()
        own = {name: getattr(self, name) for name in NAMES if getattr(self, name) != getattr(usual, name)}
        return json.loads(json.dumps(own, default=str))

    def wanted(self, full: int) -> int:
        """Tokens that may be spent on a picture that costs `full` at level 0 everywhere; it may be above that."""
        if isinstance(self.budget, int):
            return self.budget
        return share_of(full, self.budget if isinstance(self.budget, float) else DEFAULT_SHARE)

    def tokens(self, full: int) -> int:
        """Tokens to spend on such a picture: a budget above its full count means all of it."""
        return self.capped(min(self.wanted(full), full))

    def reads(self, full: int, relevance: object = "auto") -> int:
        """Lines that may be read of such a picture: none where most of it is shown, so that little is to choose."""
        by_itself = isinstance(relevance, str) and relevance == "auto"
        lines = MOST_LINES if self.ocr is True else int(self.ocr)
        return lines if by_itself and self.tokens(full) <= MOST_READ_SHARE * full else 0

    def capped(self, tokens: int) -> int:
        """`tokens`, at most the ceiling."""
        return tokens if self.ceiling is None else min(tokens, self.ceiling)

    def notes(self, full: int, name: str = "the whole picture") -> tuple[str, ...]:
        """Say where a picture does not reach the budget, or where the ceiling lowered it."""
        if self.total:
            return ()
        asked = self.budget if isinstance(self.budget, list) else [self.wanted(full)]
        if self.ceiling is not None and max(min(one, full) for one in asked) > self.ceiling:
            return (f"no picture may cost more than {self.ceiling} tokens here: the budget was lowered to that",)
        above = isinstance(self.budget, int) and self.budget > full
        return (f"budget {self.budget} is above the {full} tokens of {name}: all of it is seen",) if above else ()

    def check_fixed(self, what: str) -> None:
        """Refuse the budget "auto" where it cannot be found."""
        if self.by_need:
            raise InputError(f'budget="auto" is found for one picture at a time; give {what} a number or a share')

    def check_alone(self, name: str) -> None:
        """Refuse an allocation or a preset beside what it decides."""
        given = [other for other in DECIDES[name] if getattr(self, other) is not None]
        if getattr(self, name) is not None and given:
            raise InputError(f"{name} cannot be combined with {', '.join(given)}; pass one of them")


NAMES = tuple(item.name for item in fields(Options))


def as_options(options: Options | None) -> Options:
    """The options of a call, or the defaults; `InputError` where something else was given."""
    return Options() if options is None else of_kind(options, Options, "options")


def check_budget(budget: object) -> int | float | list[int] | str | None:
    """A number of tokens as int, a share as float, "auto", or one number for each picture."""
    if budget is None or budget == AUTO:
        return None if budget is None else AUTO
    if isinstance(budget, str) and budget.strip().isdigit():
        budget = int(budget)
    elif isinstance(budget, str):
        budget = percentage(budget, "budget") if budget.strip().endswith("%") else as_number(budget)
    if isinstance(budget, Sequence) and not isinstance(budget, str):
        return [whole(one, "budget", 1) for one in budget]
    if isinstance(budget, float) and 0 < budget <= 1:
        return float(budget)
    return whole(budget, "budget (tokens, such as 256, a share, such as 25% or 0.25, or auto)", 1)


def check_question(query: object) -> str:
    """Refuse an empty question, or one that a model would choke on, before anything is loaded."""
    if not isinstance(query, str) or not query.strip():
        raise InputError('the question is empty; ask something, for example "What number is on the red sign?"')
    if len(query) > LONGEST_QUESTION:
        raise InputError(f"the question has {len(query)} characters, more than {LONGEST_QUESTION}; shorten it")
    return query


def check_device(device: object) -> None:
    """Raise `InputError` where a device cannot be used."""
    if isinstance(device, str) and device == "cpu":
        return
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", str(device)):
        raise InputError(f"device must be a name such as cpu or cuda:1, got {shown(device)}")
    try:
        import_module("torch").empty(1, device=str(device))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {shown(device)} cannot be used ({reason}); give cpu, cuda, cuda:1 or mps") from error
