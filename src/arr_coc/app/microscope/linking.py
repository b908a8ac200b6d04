"""What a link carries: the settings of the page as the query of its address, and where its pictures come from.

A link carries settings, never a picture. The source of a picture is a short text: "example:street.png",
"needle:zoo:5", or "upload" for a picture that only its visitor has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from urllib.parse import urlencode

from ...attending.distance import LARGEST
from ...balancing.tension import DEFAULT_TENSIONS, TENSION_NAMES
from ...core.errors import InputError
from ...core.files import replacing
from ...core.folders import EXAMPLES
from ...knowing.registry import names_for
from .worlds import needle

TABS = ("ask", "compare", "clips")
LONGEST_QUERY = 400
FIRST_SOURCE = "example:street.png"
FIRST_QUERY = "What does the pink sign say?"
UPLOAD = "upload"
# What `mini` was trained on, and small enough to be answered at once.
NEEDLE_SIZE = (512, 512)
MOST_SEED = 2**31 - 1


@dataclass(frozen=True)
class PageState:
    """All settings of the page; each field is a key of the link. keep: per cent of the full count. scale: how many
    times as large the picture is read, 0 where the model's grip decides."""

    tab: str = "ask"
    picture: str = FIRST_SOURCE
    q: str = FIRST_QUERY
    keep: float = 25.0
    model: str = ""
    passes: int = 1
    scale: float = 0.0
    compress: float = DEFAULT_TENSIONS["compress_particularize"]
    explore: float = DEFAULT_TENSIONS["exploit_explore"]
    diversify: float = DEFAULT_TENSIONS["focus_diversify"]
    by: str = "strategies"
    first: str = "quadtree"
    second: str = "uniform"
    q2: str = ""
    relevance: str = "auto"
    family: str = "cards"
    seed: int = 0

    @property
    def tensions(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, (self.compress, self.explore, self.diversify), strict=True))

    def link(self) -> str:
        """The query of the address: what differs from the defaults, and always tab, picture and question."""
        default = PageState()
        everything = {one.name: getattr(self, one.name) for one in fields(self)}
        always = ("tab", "picture", "q")
        kept = {key: value for key, value in everything.items() if key in always or value != getattr(default, key)}
        return urlencode({key: f"{value:g}" if isinstance(value, float) else value for key, value in kept.items()})


def read_link(query: Mapping[str, object]) -> tuple[PageState, list[str]]:
    """Read the settings of a query; also return a sentence for everything in it that cannot be used."""
    state, complaints = PageState(), []
    for one in fields(PageState):
        if one.name not in query:
            continue
        try:
            state = replace(state, **{one.name: _read(one.name, str(query[one.name]), getattr(state, one.name))})
        except (InputError, ValueError) as error:
            complaints.append(f"The link's {one.name}={str(query[one.name])[:60]!r} is left out: {error}.")
    return state, complaints


_CHOICES = {"tab": TABS, "by": ("strategies", "questions"), "relevance": ("auto", *names_for())}
_RANGES = {
    "keep": (0.01, 100.0),
    "passes": (1, 4),
    "scale": (0.0, LARGEST),
    "seed": (0, MOST_SEED),
    **dict.fromkeys(("compress", "explore", "diversify"), (0.0, 1.0)),
}


def _read(name: str, text: str, default: object) -> object:
    if name in _CHOICES and text not in _CHOICES[name]:
        raise InputError(f"choose from {', '.join(_CHOICES[name])}")
    if name in ("q", "q2") and len(text) > LONGEST_QUERY:
        raise InputError(f"a question has at most {LONGEST_QUERY} characters")
    if name == "picture" and text != UPLOAD:
        check_source(text)
    if not isinstance(default, int | float):
        return text
    value = type(default)(text)
    low, high = _RANGES[name]
    if not low <= value <= high:
        raise InputError(f"it must lie between {low:g} and {high:g}")
    return value


# ---- sources of pictures --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExamplePicture:
    """path: the file in the page's own folder. questions: suggestions, with the true answers."""

    path: Path
    questions: tuple[tuple[str, str], ...] = ()


@cache
def example_questions() -> dict[str, tuple[tuple[str, str], ...]]:
    """file name → (question, true answer) of the pictures that come with the library."""
    path = EXAMPLES / "questions.json"
    if not path.is_file():
        raise InputError("the example pictures are not installed; install arr-coc again")
    pictures = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple((entry["query"], entry["answer"]) for entry in asked) for name, asked in pictures.items()}


def check_source(name: str) -> tuple[str, str, int]:
    """Split a source into kind, file or family, and seed; refuse what is none. Draws nothing."""
    kind, _, rest = name.partition(":")
    if kind == "example" and rest in example_questions():
        return kind, rest, 0
    if kind != "needle":
        known = ", ".join(f"example:{one}" for one in example_questions())
        raise InputError(f"no picture is called {name!r}; choose from {known}, or needle:FAMILY:SEED")
    family, _, seed = rest.partition(":")
    needle(family)
    if not seed.isdecimal() or int(seed) > MOST_SEED:
        raise InputError(f"the seed {seed!r} is not a whole number from 0 to {MOST_SEED}")
    return kind, family, int(seed)


def open_source(name: str, folder: Path) -> ExamplePicture:
    """Copy or draw the picture of a source into `folder`, the only place that the page serves from."""
    kind, rest, seed = check_source(name)
    if kind == "example":
        path = folder / "examples" / rest
        if not path.is_file():
            with replacing(path) as temporary:
                temporary.write_bytes((EXAMPLES / rest).read_bytes())
        return ExamplePicture(path, example_questions()[rest])
    drawn = needle(rest).picture(rest, seed, NEEDLE_SIZE)
    path = folder / "needle" / f"{rest}-{seed}.png"
    if not path.is_file():
        with replacing(path) as temporary:
            drawn.image.save(temporary)
    return ExamplePicture(path, ((drawn.question, drawn.answer),))
