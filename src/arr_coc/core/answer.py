"""`Answer`: what a model said, how sure it is, and the looks that led to it."""

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
    """One look of several: where, at what cost, how much of it was exploration, and what came out.

    entropy: in nats, mean over the answer's tokens. margin: by how much the best token was ahead of the second best,
    where it was least. Both at the temperature that calibrates the uncertainty.
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
    """What a model said, and how it came to that.

    Args:
        text: What it said.
        uncertainty: In [0, 1]: 1 − the calibrated probability of the text.
        passes: The looks that led to it, each with its allocation.
        seconds: By stage.
        full: Visual tokens of the untouched model.
        notes: Where the relevance came from, and what else one should know.
        source: What the text was read from: "pixels", "words" (copied from those of the page), or "words and pixels".
        pages: Of a document, the page of each pass.
        of_pages: How many pages the document has.

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
        """Visual tokens of all passes together: nothing is hidden."""
        return sum(step.tokens for step in self.passes)

    @property
    def allocation(self) -> Allocation:
        return self.passes[-1].allocation

    def to_json(self) -> JsonObject:
        """A JSON-ready dictionary with every pass and its allocation."""
        own = {name: getattr(self, name) for name in ("text", "uncertainty", "tokens", "full", "source")}
        passes = [
            {**{name: getattr(step, name) for name in Pass.NUMBERS}, "allocation": step.allocation.to_json()}
            for step in self.passes
        ]
        pages = {"pages": list(self.pages), "of_pages": self.of_pages} if self.pages else {}
        about = {"seconds": dict(self.seconds), "notes": list(self.notes), **pages}
        return {"schema": ANSWER_SCHEMA, **own, **about, "passes": passes}


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of several, stage by stage."""
    total: Counter[str] = Counter()
    for part in parts:
        total.update(part)
    return dict(total)


# From here on the model gives more to other texts than to the one it says.
LIKELY_WRONG = 0.5
SOMEWHAT = 0.2
UNSURE = "I cannot read this: the answer is probably wrong; check it, or give more tokens"


def comparable(text: str) -> str:
    """A text as two answers are compared: without case, spaces, signs of currency and the marks between digits."""
    return re.sub(r"[\s$€£¥:;,]+", "", text).strip(".").casefold()


def is_unsure(uncertainty: float) -> bool:
    return uncertainty >= LIKELY_WRONG


def sureness_words(uncertainty: float) -> str:
    """ "sure", "fairly sure" or "unsure", with the number."""
    kind = "unsure" if is_unsure(uncertainty) else "fairly sure" if uncertainty >= SOMEWHAT else "sure"
    return f"{kind}, uncertainty {uncertainty:.2f}"
