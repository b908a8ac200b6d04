"""`Answer`: the text of a model, its uncertainty, and the passes that led to it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from .values import Allocation, JsonObject

ANSWER_SCHEMA = 1


@dataclass(frozen=True)
class Pass:
    """One pass: its allocation and cost, the share that explored, and its answer.

    entropy: in nats, mean over the answer's tokens. margin: the smallest lead of the best token over the second best.
    Both at the temperature that calibrates the uncertainty.
    """

    NUMBERS: ClassVar[tuple[str, ...]] = ("tokens", "exploration", "text", "uncertainty", "entropy", "margin")
    allocation: Allocation
    tokens: int
    exploration: float = 0.0
    text: str = ""
    uncertainty: float | None = None
    entropy: float | None = None
    margin: float | None = None


@dataclass(frozen=True)
class Answer:
    """The answer of a model, and how it was found.

    Args:
        text: The answer.
        uncertainty: In [0, 1]: 1 − the calibrated probability of the text.
        passes: The passes that led to it, each with its allocation.
        seconds: Seconds of each stage.
        full: Visual tokens that the untouched model would spend.
        notes: Where the relevance came from, and what else the user should know.
        source: What the text was read from: "pixels", "words" (copied from those of the page), or "words and pixels".
        pages: For a document, the page of each pass.
        of_pages: Number of pages of the document.

    Example:
        >>> ask("street.png", "What does the pink sign say?").text  # doctest: +SKIP
        'COFFEE'
    """

    text: str
    uncertainty: float
    passes: tuple[Pass, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    full: int = 0
    notes: tuple[str, ...] = ()
    source: str = "pixels"
    pages: tuple[int, ...] = ()
    of_pages: int = 0

    def __post_init__(self) -> None:
        laid = [note for step in self.passes for note in step.allocation.notes]
        object.__setattr__(self, "notes", tuple(dict.fromkeys((*self.notes, *laid))))

    @property
    def tokens(self) -> int:
        """Visual tokens of all passes together."""
        return sum(step.tokens for step in self.passes)

    @property
    def allocation(self) -> Allocation:
        return self.passes[-1].allocation

    def to_json(self) -> JsonObject:
        """Return a JSON-ready dictionary with every pass and its allocation."""
        own = {name: getattr(self, name) for name in ("text", "uncertainty", "tokens", "full", "source")}
        passes = [
            {**{name: getattr(step, name) for name in Pass.NUMBERS}, "allocation": step.allocation.to_json()}
            for step in self.passes
        ]
        pages = {"pages": list(self.pages), "of_pages": self.of_pages} if self.pages else {}
        about = {"seconds": dict(self.seconds), "notes": list(self.notes), **pages}
        return {"schema": ANSWER_SCHEMA, **own, **about, "passes": passes}


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Add up the seconds of several parts, stage by stage."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


# Above this uncertainty, other texts together are likelier than the answer.
LIKELY_WRONG = 0.5
SOMEWHAT = 0.2
UNSURE = "I cannot read this: the answer is probably wrong; check it, or give more tokens"


def comparable(text: str) -> str:
    """Normalise a text to compare answers: without case, spaces, currency signs and separators of digits."""
    return re.sub(r"[\s$€£¥:;,]+", "", text).strip(".").casefold()


def is_unsure(uncertainty: float) -> bool:
    return uncertainty >= LIKELY_WRONG


def sureness_words(uncertainty: float) -> str:
    """Describe an uncertainty as "sure", "fairly sure" or "unsure", with the number."""
    kind = "unsure" if is_unsure(uncertainty) else "fairly sure" if uncertainty >= SOMEWHAT else "sure"
    return f"{kind}, uncertainty {uncertainty:.2f}"
