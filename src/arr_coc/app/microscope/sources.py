"""Where the page's pictures come from: the examples, Needle World by family and seed, or a visitor.

A source is a short text that a link can carry: "example:street.png", "needle:zoo:5", or "upload" for a picture that
only its visitor has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ...errors import InputError
from ...files import replacing
from ...lab.needle.families import FAMILIES

EXAMPLES = Path(__file__).parents[2] / "examples"
UPLOAD = "upload"
# What `mini` was trained on, and small enough to answer in an instant.
NEEDLE_SIZE = (512, 512)
MOST_SEED = 2**31 - 1


@dataclass(frozen=True)
class Source:
    """path: the file in the page's own folder. questions: suggestions, with the truth where it is known."""

    name: str
    path: Path
    questions: tuple[tuple[str, str], ...] = ()

    def truth(self, query: str) -> str | None:
        return dict(self.questions).get(query.strip())


@cache
def example_questions() -> dict[str, tuple[tuple[str, str], ...]]:
    """file name → (question, true answer) of the pictures that come with the library."""
    path = EXAMPLES / "questions.json"
    if not path.is_file():
        raise InputError("the example pictures are not installed; install arr-coc again")
    found = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple((entry["query"], entry["answer"]) for entry in asked) for name, asked in found.items()}


def open_source(name: str, folder: Path) -> Source:
    """The picture behind a source's name, copied or drawn into `folder`, the only place the page serves from."""
    check_source(name)
    kind, _, rest = name.partition(":")
    if kind == "example":
        path = folder / "examples" / rest
        if not path.is_file():
            with replacing(path) as temporary:
                temporary.write_bytes((EXAMPLES / rest).read_bytes())
        return Source(name, path, example_questions()[rest])
    return _drawn(name, rest, folder)


def check_source(name: str) -> None:
    """Is this the name of an example or of a picture that can be drawn? Draws nothing."""
    kind, _, rest = name.partition(":")
    if kind == "needle":
        needle_parts(rest)
    elif kind != "example" or rest not in example_questions():
        known = ", ".join(f"example:{one}" for one in example_questions())
        raise InputError(f"no picture is called {name!r}; choose from {known}, or needle:FAMILY:SEED")


def needle_parts(rest: str) -> tuple[str, int]:
    """ "zoo:5" → family and seed."""
    family, _, seed = rest.partition(":")
    if family not in FAMILIES:
        raise InputError(f"Needle World has no family {family!r}; choose from {', '.join(FAMILIES)}")
    if not seed.isdecimal() or int(seed) > MOST_SEED:
        raise InputError(f"the seed {seed!r} is not a whole number from 0 to {MOST_SEED}")
    return family, int(seed)


def _drawn(name: str, rest: str, folder: Path) -> Source:
    from ...lab.needle import render
    from ...lab.needle.export import picture

    family, seed = needle_parts(rest)
    batch = render(family, 1, NEEDLE_SIZE, seed, "test")
    path = folder / "needle" / f"{family}-{seed}.png"
    if not path.is_file():
        with replacing(path) as temporary:
            picture(batch, 0).save(temporary)
    return Source(name, path, ((batch.questions[0], batch.answers[0]),))
