"""What may be asked of `look`, `ask`, `attach`, passes and clips: one frozen value, checked in one place.

Request.of(budget=256, strategy="quadtree", criterion="peak")     options of a strategy beside the request's own
Request.of(keep="25%").tokens(1024)                               → 256
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..core.checks import as_number, of_kind, percentage, share_of, shown, whole, whole_size
from ..core.errors import InputError
from ..core.values import DEFAULT_CELL, MOST_CELLS
from .distance import check_scale
from .strategies import DEFAULT_STRATEGY, check_options, check_strategy

if TYPE_CHECKING:
    from typing_extensions import TypedDict  # closed dictionaries: a type checker then knows a wrong keyword

    class AnyOptions(TypedDict, total=False):
        """Every option of every strategy; `allocation.strategies` says whose they are."""

        shape: str
        overview: int | None
        reading: object
        criterion: str
        fovea: object
        confident: float
        most: int
        least: int
        level: int
        permuted: object
        edges: object
        boxes: object
        curve: str
        steepness: float
        labels: object
        saliency: object

    class StrategyOptions(AnyOptions, closed=True):
        """These, and no other keywords."""


DEFAULT_KEEP = 0.25
# With a larger share of the tokens OCR does not pay.
MOST_READ_SHARE = 0.5
# Characters of a question. A whole document does not belong into one: a language model reads it at every step.
LONGEST_QUESTION = 4000
# The keywords of `Eye.ask` beside those of the request.
ASK_KEYWORDS = ("query", "relevance", "allocation", "words", "max_new_tokens", "model", "device")
# Kinds of devices, told without torch.
DEVICES = re.compile(r"(cpu|cuda|mps|xpu|hpu|npu|mtia|xla|meta|privateuseone)(:\d{1,4})?")
Budget = int | str
Share = float | str


@dataclass(frozen=True)
class Request:
    """How much may be spent and how it is laid out.

    budget: tokens that a picture may cost (several pictures: one number, or one for each), or "25%". keep: the share of
    its full count, or "25%". Neither: a quarter. strategy, options: see `allocation.strategies`. levels: the coarsest
    level of detail; None leaves it to the allocator. cell, canvas: pixels of one token, and (height, width) that the
    backbone resizes to. seed: for strategies that draw lots. ceiling: tokens that no picture may cost, whatever was
    asked for; a note tells where it held. total: the budget is that of all pictures of a prompt together. scale: from
    how far it is read, "auto", a number from 0.25 to 4, or None for auto where the grip of the model is known
    (`allocation.distance`); tokens are counted at scale 1. ocr: whether "auto" may read the words of a page by OCR,
    where that is installed and pays.
    """

    budget: int | Sequence[int] | None = None
    keep: float | None = None
    strategy: str = DEFAULT_STRATEGY
    levels: int | None = None
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None
    seed: int = 0
    options: Mapping[str, object] = field(default_factory=dict)
    ceiling: int | None = None
    total: bool = False
    scale: float | str | None = None
    ocr: bool = True

    def __post_init__(self) -> None:
        budget, keep = check_amount(self.budget, self.keep)
        check_strategy(self.strategy)
        check_options(self.strategy, self.options)
        checked = {
            "budget": budget,
            "keep": keep,
            "levels": None if self.levels is None else whole(self.levels, "levels"),
            "cell": whole(self.cell, "cell", 1),
            "canvas": None if self.canvas is None else whole_size(self.canvas, "canvas"),
            "seed": whole(self.seed, "seed", -(1 << 63)),
            "ceiling": None if self.ceiling is None else whole(self.ceiling, "ceiling", 1),
            "total": of_kind(self.total, bool, "total"),
            "scale": check_scale(self.scale),
            "ocr": of_kind(self.ocr, bool, "ocr"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        if self.canvas is not None and math.prod(-(-side // self.cell) for side in self.canvas) > MOST_CELLS:
            raise InputError(f"canvas={self.canvas} has more than {MOST_CELLS} cells of {self.cell} pixels; give less")

    @classmethod
    def of(cls, budget: Any = None, keep: Any = None, *, keywords: Iterable[str] = (), **how: Any) -> Request:
        """From keywords as a user gives them, the strategy's options among them.

        keywords: the caller's own, so that a misspelt one finds its nearest among them as well.
        """
        own = {item.name for item in fields(cls)} - {"options"}
        given = {name: how.pop(name) for name in own & how.keys()}
        options = {**how.pop("options", {}), **how}
        check_options(check_strategy(given.get("strategy", DEFAULT_STRATEGY)), options, keywords)
        return cls(budget, keep, **given, options=options)

    def override(self, **changes: object) -> Request:
        """One call may answer "how many" in either unit: the newer answer counts."""
        given = {name: value for name, value in changes.items() if value is not None}
        if "budget" in given and "keep" not in given:
            given["keep"] = None
        if "keep" in given and "budget" not in given:
            given["budget"] = None
        return replace(self, **given) if given else self

    def wanted(self, full: int) -> int:
        """Tokens that may be spent on a picture that costs `full` at level 0 everywhere; it may be above that."""
        if self.budget is not None and not isinstance(self.budget, Sequence):
            return self.budget
        return share_of(full, DEFAULT_KEEP if self.keep is None else self.keep)

    def tokens(self, full: int) -> int:
        """Tokens to spend on such a picture: a budget above its full count means all of it."""
        return self.capped(min(self.wanted(full), full))

    def reads(self, full: int, relevance: object = "auto") -> bool:
        """Whether OCR may be asked about such a picture: with most of it shown there is little to choose."""
        by_itself = isinstance(relevance, str) and relevance == "auto"
        return self.ocr and by_itself and self.tokens(full) <= MOST_READ_SHARE * full

    def capped(self, tokens: int) -> int:
        return tokens if self.ceiling is None else min(tokens, self.ceiling)

    def notes(self, full: int, name: str = "the whole picture") -> tuple[str, ...]:
        """What a reader should know: this picture does not reach the budget."""
        if self.total:
            return ()
        asked = self.budget if isinstance(self.budget, Sequence) else [self.wanted(full)]
        if self.ceiling is not None and max(min(one, full) for one in asked) > self.ceiling:
            return (f"no picture may cost more than {self.ceiling} tokens here: the budget was lowered to that",)
        above = isinstance(self.budget, int) and self.budget > full
        return (f"budget {self.budget} is above the {full} tokens of {name}: all of it is seen",) if above else ()


def check_amount(budget: object = None, keep: object = None) -> tuple[Any, float | None]:
    """(budget, keep) as numbers, one of them None; "25%" is a share in either place."""
    if budget is not None and keep is not None:
        raise InputError(f"both budget={budget} and keep={keep} were given; give one of them")
    if isinstance(budget, str) and budget.strip().endswith("%"):
        budget, keep = None, percentage(budget, "budget")
    if isinstance(keep, str):
        keep = percentage(keep, "keep") if keep.strip().endswith("%") else as_number(keep)
    if keep is not None and not (isinstance(keep, int | float) and not isinstance(keep, bool) and 0 < keep <= 1):
        raise InputError(f"keep {keep!r} is not a share above 0 and up to 1; give for example 0.25 or 25%")
    if isinstance(budget, str):
        budget = as_number(budget)
    if isinstance(budget, Sequence) and not isinstance(budget, str):
        budget = [whole(one, "budget", 1) for one in budget]
    elif budget is not None:
        budget = whole(budget, "budget (tokens, such as 256, or a share, such as 25%)", 1)
    return budget, keep


def check_request(queries: Sequence[str], budget: object = None, keep: object = None) -> None:
    """What can be wrong with a question and a budget whatever the picture; costs nothing, raises `InputError`."""
    for query in queries:
        if not isinstance(query, str) or not query.strip():
            raise InputError('the question is empty; ask something, for example "What number is on the red sign?"')
    check_amount(budget, keep)


def check_decided(allocation: object, **how: object) -> None:
    """Where tokens go is decided by an allocation or by the rest, not by both."""
    given = [f"{name}=" for name, value in how.items() if value is not None]
    if allocation is not None and given:
        raise InputError(f"allocation= says all; leave out {', '.join(given)}, or the allocation")


def check_question(query: str) -> None:
    """A question that a model would choke on is refused before anything is loaded or looked at."""
    if len(query) > LONGEST_QUESTION:
        raise InputError(f"the question has {len(query)} characters, more than {LONGEST_QUESTION}; shorten it")


def check_device(device: str) -> None:
    """Can this device be used? Raises `InputError`."""
    if isinstance(device, str) and device == "cpu":
        return
    if isinstance(device, str) and not DEVICES.fullmatch(device):
        raise InputError(f"device {shown(device)} is unknown; give cpu, cuda, cuda:1 or mps")
    torch = import_module("torch")
    if not isinstance(device, str | torch.device):
        raise InputError(f"device must be a name such as cpu or cuda:1, got {shown(device)}")
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise InputError(f"device {device!r} cannot be used ({reason}); use cpu") from error
