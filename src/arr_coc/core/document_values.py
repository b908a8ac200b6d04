"""`DocumentAllocation`: one budget over the pages of a document, as one value."""

from __future__ import annotations

from dataclasses import dataclass

from . import notebook
from .checks import of_kind, whole
from .errors import InputError
from .values import Allocation, JsonObject

DOCUMENT_SCHEMA = 1


@dataclass(frozen=True, eq=False)
class PageShare:
    """What one page got.

    number: from 1, as the document counts its pages. name: for captions. full: the tokens of the whole page.
    allocation: its regions; None where the page got no token. why: one line. worth: what its best place is worth,
    beside those of the other pages; tokens also go where much is a little likely.
    """

    number: int
    name: str
    full: int
    allocation: Allocation | None = None
    why: str = ""
    worth: float = 0.0

    @property
    def tokens(self) -> int:
        return 0 if self.allocation is None else self.allocation.tokens


@dataclass(frozen=True, eq=False)
class DocumentAllocation:
    """Which regions of which pages the model will see, at one budget in all.

    pages: in the document's order, those without a token too. of_pages: how many the whole document has, which may be
    more than were looked at. budget: the tokens allowed in all. name: of the document.
    """

    pages: tuple[PageShare, ...]
    budget: int
    strategy: str
    name: str = "document"
    of_pages: int = 0
    notes: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "pages", tuple(of_kind(page, PageShare, "a page") for page in self.pages))
        object.__setattr__(self, "budget", whole(self.budget, "budget of a document", 0))
        object.__setattr__(self, "of_pages", max(whole(self.of_pages, "of_pages"), len(self.pages)))
        if not self.pages:
            raise InputError("an allocation of a document needs at least one page")
        if len({page.number for page in self.pages}) != len(self.pages):
            raise InputError("two pages of a document have one number; count them from 1")

    def __repr__(self) -> str:
        best = ", ".join(f"{page.number}: {page.tokens}" for page in self.ranked[:4] if page.tokens)
        return (
            f"DocumentAllocation({self.name}: {self.tokens} of {self.full} tokens on {len(self.funded)} of "
            f"{self.of_pages} pages; {best})"
        )

    def _repr_png_(self) -> bytes:
        """The page with most tokens, in a notebook."""
        best = self.ranked[0].allocation
        return b"" if best is None else notebook.leaves_png(best.leaf_map(), best.levels)

    @property
    def tokens(self) -> int:
        """What all pages cost together."""
        return sum(page.tokens for page in self.pages)

    @property
    def full(self) -> int:
        """What all pages would cost at level 0 everywhere."""
        return sum(page.full for page in self.pages)

    @property
    def keep(self) -> float:
        """Share of the full count that is spent."""
        return self.tokens / self.full if self.full else 0.0

    @property
    def funded(self) -> tuple[PageShare, ...]:
        """Pages with tokens, in the document's order."""
        return tuple(page for page in self.pages if page.tokens)

    @property
    def left_out(self) -> tuple[int, ...]:
        """Numbers of pages without a token."""
        return tuple(page.number for page in self.pages if not page.tokens)

    @property
    def ranked(self) -> tuple[PageShare, ...]:
        """Pages by their tokens, most first."""
        return tuple(sorted(self.pages, key=lambda page: (-page.tokens, page.number)))

    @property
    def best(self) -> PageShare:
        """The page that most likely answers."""
        return max(self.pages, key=lambda page: (page.worth, page.tokens, -page.number))

    def to_json(self) -> JsonObject:
        """This allocation as JSON."""
        pages = [
            {
                **{"number": page.number, "name": page.name, "full": page.full, "tokens": page.tokens, "why": page.why},
                "worth": page.worth,
                "allocation": None if page.allocation is None else page.allocation.to_json(),
            }
            for page in self.pages
        ]
        own = {"name": self.name, "of_pages": self.of_pages, "budget": self.budget, "strategy": self.strategy}
        told = {"tokens": self.tokens, "full": self.full, "notes": list(self.notes)}
        return {"document_schema": DOCUMENT_SCHEMA, **own, **told, "pages": pages}
