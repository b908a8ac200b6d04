"""A page in the making: its words, its style, pieces of text that carry a mark, and what may be asked about them."""

from __future__ import annotations

import html
import random
import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from jinja2.ext import Extension
from markupsafe import Markup

from ..words import Writer, lists_of, lowered
from .typefaces import DATA, typefaces

wordings = lists_of(DATA / "wording.toml")  # of questions: "field", "by_kind.date", "letter.subject", …
LETTERS = set(string.printable[:95]) | {"€"}

# (width, height) in pixels, multiples of 32, the small ones more often: pages are many, and have to be carried.
CANVASES = (
    *((768, 1024),) * 3,
    *((1024, 768),) * 2,
    *((640, 832),) * 4,
    *((832, 640),) * 3,
    *((512, 512),) * 4,
    *((640, 640),) * 3,
    *((512, 704),) * 3,
    *((704, 512),) * 3,
    *((768, 768), (1024, 1024), (512, 768), (768, 512), (704, 896), (896, 704), (576, 768), (800, 576)),
)
TRIMMED = " :.-=?"


def roughened(text: str, source: random.Random) -> str:
    """As typed in a hurry, now and then: other case, no question mark, one typo."""
    pick = source.random()
    if pick < 0.05:
        return text.lower()
    if pick < 0.07:
        return text.upper()
    if pick < 0.12:
        return text.rstrip("?.")
    if pick < 0.17 and len(text) > 12:
        at, kind = source.randrange(3, len(text) - 3), source.randrange(4)
        letter = source.choice(string.ascii_lowercase)
        if text[at].isalpha():
            before, here, then, rest = text[:at], text[at], text[at + 1], text[at + 2 :]
            typos = (then, letter + then, then + here, here + here + then)  # left out, another, swapped, twice
            return before + typos[kind] + rest
    return text


def readable(text: str) -> bool:
    """Whether every character is in the scorer's alphabet, ASCII and €."""
    return set(text) <= LETTERS


class JoinedLines(Extension):
    """Drop the end of a template's line with the blanks around it. A blank that counts stands inside a line."""

    def preprocess(self, source: str, name: str | None, filename: str | None = None) -> str:
        # The comment keeps the numbers of lines in messages.
        return re.sub(r"\s*\n\s*", "{#\n#}", source.strip())


@cache
def environment() -> Environment:
    """Templates under `templates/`: marks and markup as they are, all else escaped; `{{ name|style("color:red") }}`."""

    def escaped(value: object) -> object:
        return value if hasattr(value, "__html__") else Markup(html.escape(str(value)))

    loader = FileSystemLoader(Path(__file__).with_name("templates"))
    made = Environment(loader=loader, autoescape=True, finalize=escaped, undefined=StrictUndefined)
    made.add_extension(JoinedLines)
    made.filters["style"] = lambda thing, style: thing._replace(style=style)
    return made


class Mark(NamedTuple):
    """A piece of text that can be asked for. In a template it becomes a span that carries its key."""

    key: int
    text: str
    style: str = ""

    def __html__(self) -> Markup:
        style = f' style="{self.style}"' if self.style else ""
        return Markup(f'<span data-t="{self.key}"{style}>{html.escape(self.text)}</span>')


Marks = Mark | Iterable[Mark]


class MarkedQuestion(NamedTuple):
    """kind: field, title, click, cell, value, highest, … . answers, context: keys of marks."""

    kind: str
    text: str
    answer: str
    answers: tuple[int, ...]
    context: tuple[int, ...]


class PageSheet(Writer):
    """One page: words plus a canvas, a look, marks and questions. Families write it; `drawing` reads it."""

    def __init__(self, split: str, seed: int, index: int) -> None:
        super().__init__(random.Random(f"{split}/{seed}/{index}"))
        self.split = split
        self.width, self.height = self.random.choice(CANVASES)
        self.marks: dict[int, str] = {}
        self.questions: list[MarkedQuestion] = []
        self.manner = "sans"
        self.size = self.random.choices((8, 9, 10, 11, 12, 13, 14), (1, 3, 5, 6, 5, 3, 2))[0]
        self.ink, self.paper = "#000", "#fff"
        self.padding = self.between(8, 48)
        self.layout = ""
        self.cropped = self.chance(0.65)
        self.page: dict[str, Any] = {}

    # The look ----------------------------------------------------------------------------------------------------
    def face(self, manner: str) -> str:
        return self.random.choice(typefaces(self.split, manner))

    def set_manner(self, **weights: float) -> None:
        """Draw the manner of the page's typeface: mono=4, sans=3, …"""
        self.manner = self.random.choices(list(weights), list(weights.values()))[0]

    def hue(self, low: int = 25, high: int = 60) -> str:
        return f"hsl({self.random.randrange(360)},{self.between(35, 90)}%,{self.between(low, high)}%)"

    def larger(self, low: float, high: float, digits: int = 1) -> str:
        """A size of type, relative to that of the page."""
        return f"font-size:{self.random.uniform(low, high):.{digits}f}em"

    def turn(self) -> None:
        """Exchange width and height."""
        self.width, self.height = self.height, self.width

    # Marks -------------------------------------------------------------------------------------------------------
    def mark(self, text: object, style: str = "") -> Mark:
        """Text that may be asked for."""
        shown, key = " ".join(str(text).split()), len(self.marks) + 1
        self.marks[key] = shown
        return Mark(key, shown, style)

    def mark_all(self, *texts: object) -> list[Mark]:
        return [self.mark(text) for text in texts]

    # Questions ---------------------------------------------------------------------------------------------------
    def ask(
        self,
        kind: str,
        wording: str | tuple[str, ...],
        answers: Marks,
        context: Marks = (),
        answer: str | None = None,
        **slots: str,
    ) -> None:
        """Ask for marks in one of many wordings; dropped where a character is outside the scorer's alphabet.

        wording: a name of `wording.toml`, or the wordings. slots: an upper-case one has its lower-case one made.
        """
        marks = (answers,) if isinstance(answers, Mark) else tuple(answers)
        beside = (context,) if isinstance(context, Mark) else tuple(context)
        answer = " ".join(mark.text for mark in marks) if answer is None else answer
        slots = {name.lower(): lowered(text) for name, text in slots.items()} | slots
        text = self.random.choice(wordings(wording) if isinstance(wording, str) else wording).format(**slots)
        text = roughened(text, self.random)
        if readable(text) and readable(answer) and text.strip() and answer.strip():
            keys = tuple(mark.key for mark in marks), tuple(mark.key for mark in beside)
            self.questions.append(MarkedQuestion(kind, text, answer, *keys))

    def asked(self, kind: str, wording: str, text: object, style: str = "", by: Marks = (), **slots: str) -> Mark:
        """A mark that is asked for at once."""
        mark = self.mark(text, style)
        self.ask(kind, wording, mark, by, **slots)
        return mark

    def titled(self, text: str, style: str = "", wording: str = "title") -> Mark:
        return self.asked("title", wording, text, style)

    def listed(self, rows: Iterable[Sequence[object]], *asks: tuple[str, str, int, int, str]) -> list[list[Mark]]:
        """Rows of texts as marks. asks: of every row (kind, wording, the answer's column, the column that it is asked
        by, the wording's slot for that)."""
        made = [self.mark_all(*texts) for texts in rows]
        for marks in made:
            for kind, wording, answer, by, slot in asks:
                beside = () if by == answer else marks[by]
                self.ask(kind, wording, marks[answer], beside, **{slot: marks[by].text})
        return made

    def ask_field(self, label: str, kind: str, value: Mark, label_mark: Mark) -> None:
        wording = wordings("field") + wordings(f"by_kind.{kind}") * 2
        self.ask("field", wording, value, label_mark, L=label.rstrip(":. "))

    def one_meaning(self, question: MarkedQuestion, present: Iterable[int]) -> bool:
        """Whether the words asked by stand once on the page, among the marks that are there."""
        if question.kind not in ("field", "click", "place"):
            return True
        key = (question.context or question.answers)[0]
        others = Counter(self.marks[other].lower().strip(TRIMMED) for other in present)
        return others[self.marks[key].lower().strip(TRIMMED)] == 1

    # The page ----------------------------------------------------------------------------------------------------
    def put(self, **shown: object) -> None:
        """Hand values to the template of the layout, by their names there."""
        self.page |= shown

    def render(self, template: str, **context: object) -> Markup:
        """Fill `templates/{template}.html`, which sees the sheet and the context."""
        return Markup(environment().get_template(f"{template}.html").render(sheet=self, **context))

    def document(self, body: str) -> str:
        """The whole HTML. Elements of class "cut" may be removed from the end where they pass the lower edge."""
        face = self.face(self.manner)
        return self.render("page", body=Markup(body), face=face, line=self.pick(1.05, 1.15, 1.2, 1.3, 1.45))


# A layout puts values onto a sheet; drawn, it is the HTML of its template.
Layout = Callable[[PageSheet], str]


class PageFamily(NamedTuple):
    """weight: how often in a mixed pack. train, held: layouts by name; no layout stands in both."""

    weight: float
    train: Mapping[str, Layout]
    held: Mapping[str, Layout]


def variants(write: Callable[[PageSheet], None], template: str, *names: str) -> dict[str, Layout]:
    """Layouts that one function writes; it finds the name in `sheet.layout`. template: with {} for the name."""

    def layout(name: str) -> Layout:
        def drawn(sheet: PageSheet) -> str:
            sheet.layout = name
            write(sheet)
            return sheet.render(template.format(name), **sheet.page)

        return drawn

    return {name: layout(name) for name in names}


def layouts(folder: str, *functions: Callable[[PageSheet], None]) -> dict[str, Layout]:
    """Layouts by the names of their functions, which are those of their templates."""
    named = [(getattr(write, "__name__", ""), write) for write in functions]
    return {key: one for name, write in named for key, one in variants(write, f"{folder}/{{}}", name).items()}
