"""What may be asked of `look`, `ask`, `attach`, passes and clips: one frozen value, checked in one place.

Request.of(budget=256, strategy="quadtree", criterion="peak")     options of the strategy beside the request's own
Request.of(keep="25%").tokens(1024)                               → 256
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .attending.strategies import CLASSIC_SCALE, DEFAULT_STRATEGY, check_strategy, strategy_options
from .errors import InputError
from .values import DEFAULT_CELL

if TYPE_CHECKING:
    from typing_extensions import TypedDict  # closed dictionaries: a type checker then knows a wrong keyword

    class AnyOptions(TypedDict, total=False):
        """Every option of every strategy; `strategy_options` says whose they are."""

        criterion: str
        fovea: Any
        confident: float
        most: int
        level: int
        permuted: Any
        edges: Any
        boxes: Any
        preset: str
        patches: int
        steepness: float
        mapping: str
        sides: Sequence[int]
        keeps: Sequence[int]
        labels: Any
        saliency: Any
        parents: Any
        gaze: Any

    class StrategyOptions(AnyOptions, closed=True):
        """These, and no other keywords."""


DEFAULT_KEEP = 0.25
Budget = int | str
Share = float | str


@dataclass(frozen=True)
class Request:
    """How much may be spent and how it is laid out.

    budget: tokens that a picture may cost (several pictures: one number, or one for each), or "25%". keep: the share of
    its full count, or "25%". Neither: a quarter. strategy, options: see `attending.STRATEGIES`. levels: the coarsest
    level of detail; None leaves it to the allocator. cell, canvas: pixels of one token, and (height, width) that the
    backbone resizes to. seed: for strategies that draw lots.
    """

    budget: int | Sequence[int] | None = None
    keep: float | None = None
    strategy: str = DEFAULT_STRATEGY
    levels: int | None = None
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        budget, keep = check_amount(self.budget, self.keep)
        object.__setattr__(self, "budget", budget)
        object.__setattr__(self, "keep", keep)
        check_strategy(self.strategy)
        if self.strategy in CLASSIC_SCALE and keep is not None:
            raise InputError(
                f"strategy {self.strategy!r} counts 64 to 400 tokens for each patch; give budget, not keep"
            )
        if self.levels is not None and not (_is_whole(self.levels) and self.levels >= 0):
            raise InputError(f"levels={self.levels!r} is not a number of levels; give a whole number from 0 on")
        if not (_is_whole(self.cell) and self.cell >= 1):
            raise InputError(f"cell={self.cell!r} is not a size in pixels; give a whole number from 1 on, such as 32")
        if self.canvas is not None:
            object.__setattr__(self, "canvas", _canvas(self.canvas))
        if not _is_whole(self.seed):
            raise InputError(f"seed={self.seed!r} is not a whole number; give for example 0")
        check_keywords(self.options, strategy_options(self.strategy), f"strategy {self.strategy!r}")

    @classmethod
    def of(cls, budget: Any = None, keep: Any = None, *, keywords: Iterable[str] = (), **how: Any) -> Request:
        """From keywords as a user gives them, the strategy's options among them.

        keywords: the caller's own, so that a misspelt one finds its nearest among them as well.
        """
        own = {item.name for item in fields(cls)} - {"options"}
        given = {name: how.pop(name) for name in own & how.keys()}
        strategy = check_strategy(given.get("strategy", DEFAULT_STRATEGY))
        options = {**how.pop("options", {}), **how}
        known = strategy_options(strategy)
        check_keywords(options, known, f"strategy {strategy!r}", {*own, *keywords, *known})
        return cls(budget, keep, **given, options=options)

    def override(self, **changes: Any) -> Request:
        """One call may answer "how many" in either unit: the newer answer counts."""
        given = {name: value for name, value in changes.items() if value is not None}
        if "budget" in given and "keep" not in given:
            given["keep"] = None
        if "keep" in given and "budget" not in given:
            given["budget"] = None
        return replace(self, **given) if given else self

    def tokens(self, full: int, budget: int | None = None) -> int:
        """Tokens to spend on a picture that costs `full` at level 0 everywhere. A budget above that means all of it.

        budget: of this picture, where the request has one for each.
        """
        wanted: Any = self.budget if budget is None else budget
        if self.strategy in CLASSIC_SCALE:
            presets = import_module(".attending.classic", __package__).PRESETS
            return presets["classic"].budget if wanted is None else int(wanted)
        if wanted is None:
            return max(1, math.floor((DEFAULT_KEEP if self.keep is None else self.keep) * full + 1e-9))
        return min(int(wanted), full)

    def notes(self, full: int, name: str = "the picture") -> tuple[str, ...]:
        """What a reader should know: a budget is a ceiling, and this picture does not reach it."""
        whole = isinstance(self.budget, int) and self.strategy not in CLASSIC_SCALE and self.budget > full
        return (f"budget {self.budget} is above the {full} tokens that all of {name} costs: all are spent",) * whole


def check_amount(budget: Any = None, keep: Any = None) -> tuple[Any, float | None]:
    """(budget, keep) as numbers, one of them None; "25%" is a share in either place."""
    if budget is not None and keep is not None:
        raise InputError(f"both budget={budget} and keep={keep} were given; give one of them")
    if isinstance(budget, str) and budget.strip().endswith("%"):
        budget, keep = None, _percentage(budget, "budget")
    if isinstance(keep, str):
        keep = _percentage(keep, "keep") if keep.strip().endswith("%") else _number(keep)
    if keep is not None and not (isinstance(keep, int | float) and not isinstance(keep, bool) and 0 < keep <= 1):
        raise InputError(f"keep {keep!r} is not a share above 0 and up to 1; give for example 0.25 or 25%")
    if isinstance(budget, str):
        number = _number(budget)
        budget = int(number) if isinstance(number, float) and number.is_integer() else budget
    for one in budget if isinstance(budget, Sequence) and not isinstance(budget, str) else [budget]:
        if one is not None and not _is_whole(one):
            raise InputError(f"budget {budget!r} is not a whole number of tokens; give for example 256 or 25%")
        if one is not None and one < 1:
            raise InputError(f"budget {budget} leaves nothing to look with; give at least 1 token")
    return budget, keep


def check_request(queries: Sequence[str], budget: Any = None, keep: Any = None) -> None:
    """What can be wrong with a question and a budget whatever the picture; costs nothing, raises `InputError`."""
    for query in queries:
        if not isinstance(query, str) or not query.strip():
            raise InputError('the question is empty; ask something, for example "What number is on the red sign?"')
    check_amount(budget, keep)


def check_keywords(given: Iterable[str], known: Iterable[str], whose: str, near: Iterable[str] | None = None) -> None:
    """Refuse a keyword that nobody takes, naming the nearest one. near: among which to look for it."""
    known = list(known)
    for name in given:
        if name not in known:
            nearest = difflib.get_close_matches(name, list(known if near is None else near), 1)
            takes = f"it takes {', '.join(known)}" if known else "it takes no options"
            raise InputError(
                f"unknown keyword {name!r}"
                + (f"; did you mean {nearest[0]!r}?" if nearest else f" of {whose}; {takes}")
            )


def check_device(device: str) -> None:
    """Can this device be used? Raises `InputError`."""
    if device == "cpu":
        return
    torch = import_module("torch")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used ({reason}); use cpu") from error


def _is_whole(value: Any) -> bool:
    return hasattr(value, "__index__") and not isinstance(value, bool)


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _percentage(text: str, name: str) -> float:
    share = _number(text.strip().removesuffix("%"))
    if isinstance(share, str) or not 0 < share <= 100:
        raise InputError(f"{name} {text!r} is not a percentage above 0 and up to 100; give for example 25%")
    return share / 100


def _canvas(canvas: Any) -> tuple[int, int]:
    sides = tuple(canvas) if isinstance(canvas, Sequence) and not isinstance(canvas, str) else ()
    if len(sides) != 2 or not all(_is_whole(side) and side >= 1 for side in sides):
        raise InputError(f"canvas={canvas!r} is not a size; give (height, width) in pixels, such as (768, 1024)")
    return int(sides[0]), int(sides[1])
