"""`Options`: every setting besides picture, question and model, checked in one place.

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
# With a larger share of the tokens, OCR gains too little.
MOST_READ_SHARE = 0.5
# Maximum number of characters of a question; a language model reads them at every step.
LONGEST_QUESTION = 4000
HINTS = ("words", "none")
# Options that a client of a server may set.
FOR_CLIENTS = ("budget", "total", "relevance", "strategy", "levels", "scale", "words", "ocr", "hints", "allocation")
# Options that cannot be combined with an allocation or a preset, because it decides them.
DECIDES = {
    "allocation": ("budget", "strategy", "relevance"),
    "preset": ("strategy", "relevance", "allocation", "words", "hints"),
}
# A number of tokens, or a share such as "25%" or 0.25.
Budget = int | float | str


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """How many tokens to spend on pictures, and how.

    Args:
        budget: Maximum number of tokens for a picture, or a share such as "25%" or 0.25. A list gives one number for
            each picture; "auto" spends what the question needs, at most a quarter of the picture. Default: a quarter.
        relevance: The source that says where to look, such as "auto", "words" or "scorer". Any name of
            `arr_coc.knowing.registry.source_names()`, a trained scorer's folder, a function of (picture, question), or
            a map. Default: the model's own, else "auto".
        strategy: How relevance becomes regions: "overlay" (default), "quadtree", … A name in `attending.strategies`.
        strategy_options: Options of the strategy, such as {"level": 1}; of "oracle", {"boxes": [[0.1, 0.2, 0.4, 0.5]]}.
        levels: Coarsest level of detail; by default chosen for the budget.
        scale: Resize the picture before it is read, by 0.25 to 4 or "auto". "auto" goes by the height of its letters
            and by the heights that the model reads (`grip`); it is the default where these are known.
        words: Words of the picture with their boxes: a list, a file or `Words`. A PDF page brings its own.
        ocr: Number of lines that OCR may read, 12 by default; false for none. Only lines that matter are read.
        photos: Use the object detector for photographs if it is installed.
        hints: "words": known words help to answer; "none": they only say where to look.
        seed: Seed of strategies that draw random numbers.
        device: "cpu", "cuda", "cuda:1" or "mps".
        cell: Side in pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        grip: Letter heights that the model reads: its name, its folder, a grip.json or a `Grip`.
        allocation: An `Allocation` to use instead of deciding. A list gives one for each picture.
        balancing: How sources are weighed: a `Law`, or the folder of a saved `ARRCOCVIS`.
        preset: Strategy, relevance and passes in one: "two_pass", "four_pass", …
        max_new_tokens: Maximum length of the answer in tokens.
        total: Share one budget among all pictures of a prompt.
        ceiling: Upper limit of the tokens for any picture, whatever the budget.

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
            raise InputError('budget="auto" is chosen for each picture; leave out total, or give a number')
        read_law(self.balancing)
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.canvas is not None and math.prod(-(-side // self.cell) for side in self.canvas) > MOST_CELLS:
            raise InputError(f"canvas={self.canvas} has over {MOST_CELLS} cells of {self.cell} pixels; make it smaller")

    @classmethod
    def of(cls, given: JsonObject) -> Options:
        """Build options from names and values; names that are no field are options of the strategy."""
        own = {name: value for name, value in given.items() if name in NAMES}
        rest = {name: value for name, value in given.items() if name not in NAMES}
        for name in () if "strategy" in own else rest:
            raise InputError(f"{name} is not an option{meant(name, NAMES)}; choose from {', '.join(NAMES)}")
        options = cls(**own)
        return replace(options, strategy_options={**options.strategy_options, **rest}) if rest else options

    @classmethod
    def for_client(cls, given: JsonObject, names: Sequence[str] = FOR_CLIENTS, *, where: str = "arr_coc") -> Options:
        """Build options from the JSON of a client, which may name sources but no file on this machine.

        Args:
            given: The JSON object that the client sent.
            names: The options it may set.
            where: The name of that object in error messages.

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
        """Return whether the question decides how many tokens are spent."""
        return self.budget == AUTO

    def override(self, **changes: object) -> Options:
        """Return a copy with these fields replaced; a value of None leaves its field as it is."""
        given = {name: value for name, value in changes.items() if value is not None}
        return replace(self, **given) if given else self

    def default(self, **usual: object) -> Options:
        """Return a copy whose fields that are None have these values."""
        return self.override(**{name: value for name, value in usual.items() if getattr(self, name) is None})

    @property
    def layout(self) -> str:
        """Return the name of the strategy, or of the default one."""
        return self.strategy or DEFAULT_STRATEGY

    def to_json(self) -> JsonObject:
        """Return the fields that differ from their defaults, as JSON."""
        usual = Options()
        own = {name: getattr(self, name) for name in NAMES if getattr(self, name) != getattr(usual, name)}
        return json.loads(json.dumps(own, default=str))

    def wanted(self, full: int) -> int:
        """Return the budget in tokens for a picture that costs `full` in full detail; it may exceed `full`."""
        if isinstance(self.budget, int):
            return self.budget
        return share_of(full, self.budget if isinstance(self.budget, float) else DEFAULT_SHARE)

    def tokens(self, full: int) -> int:
        """Return the tokens to spend on such a picture: the budget, at most `full` and the ceiling."""
        return self.capped(min(self.wanted(full), full))

    def reads(self, full: int, relevance: object = "auto") -> int:
        """Return how many lines OCR may read: none if the budget shows most of the picture anyway."""
        by_itself = isinstance(relevance, str) and relevance == "auto"
        lines = MOST_LINES if self.ocr is True else int(self.ocr)
        return lines if by_itself and self.tokens(full) <= MOST_READ_SHARE * full else 0

    def capped(self, tokens: int) -> int:
        """Limit `tokens` to the ceiling."""
        return tokens if self.ceiling is None else min(tokens, self.ceiling)

    def notes(self, full: int, name: str = "the whole picture") -> tuple[str, ...]:
        """Note a budget that is above the full cost of the picture, or that the ceiling lowered."""
        if self.total:
            return ()
        asked = self.budget if isinstance(self.budget, list) else [self.wanted(full)]
        if self.ceiling is not None and max(min(one, full) for one in asked) > self.ceiling:
            return (f"the budget was lowered to {self.ceiling} tokens, the most that a picture may cost here",)
        above = isinstance(self.budget, int) and self.budget > full
        return (f"budget {self.budget} is above the {full} tokens of {name}: shown in full detail",) if above else ()

    def check_fixed(self, what: str) -> None:
        """Refuse the budget "auto" where it cannot be computed."""
        if self.by_need:
            raise InputError(f'budget="auto" works for one picture at a time; give {what} a number or a share')

    def check_alone(self, name: str) -> None:
        """Refuse an allocation or a preset together with options that it decides."""
        given = [other for other in DECIDES[name] if getattr(self, other) is not None]
        if getattr(self, name) is not None and given:
            raise InputError(f"{name} cannot be combined with {', '.join(given)}; pass one of them")


NAMES = tuple(item.name for item in fields(Options))


def as_options(options: Options | None) -> Options:
    """Return the options of a call, or the defaults; raise `InputError` for anything else."""
    return Options() if options is None else of_kind(options, Options, "options")


def check_budget(budget: object) -> int | float | list[int] | str | None:
    """Return a budget as tokens (int), share (float), "auto", or a list with one number for each picture."""
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
    """Refuse an empty or overlong question before anything is loaded."""
    if not isinstance(query, str) or not query.strip():
        raise InputError('the question is empty; ask something, for example "What number is on the red sign?"')
    if len(query) > LONGEST_QUESTION:
        raise InputError(f"the question has {len(query)} characters, more than {LONGEST_QUESTION}; shorten it")
    return query


def check_device(device: object) -> None:
    """Raise `InputError` if a device cannot be used."""
    if isinstance(device, str) and device == "cpu":
        return
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:\d+)?", str(device)):
        raise InputError(f"device must be a name such as cpu or cuda:1, got {shown(device)}")
    try:
        import_module("torch").empty(1, device=str(device))
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {shown(device)} cannot be used ({reason}); give cpu, cuda, cuda:1 or mps") from error
