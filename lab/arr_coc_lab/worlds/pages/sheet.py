"""A page in the making: its words, its style, marked pieces of HTML, and what may be asked about them."""

from __future__ import annotations

import html
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import NamedTuple

from .typefaces import typefaces
from .wording import BY_KIND, CLICK, FIELD, POINT, TITLE, lowered, readable, roughened
from .words import Words, vocabulary

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


def named(write: Callable[..., str], *names: str) -> dict[str, Callable[[Sheet], str]]:
    """Layouts by name, all written by one function that is told the name."""
    return {name: partial(write, layout=name) for name in names}


class Mark(NamedTuple):
    """A piece of text that can be asked for; written into an f-string it becomes its HTML."""

    key: int
    text: str
    markup: str

    def __str__(self) -> str:
        return self.markup

    def __format__(self, spec: str) -> str:
        return self.markup


class Question(NamedTuple):
    """kind: field, title, click, cell, value, highest, … . answers, context: keys of marks."""

    kind: str
    text: str
    answer: str
    answers: tuple[int, ...]
    context: tuple[int, ...]


class Sheet(Words):
    """One page: Words plus a canvas, a look, marks and questions. Families write it; `drawing` reads it."""

    def __init__(self, split: str, seed: int, index: int) -> None:
        super().__init__(random.Random(f"{split}/{seed}/{index}"))
        self.split = split
        self.width, self.height = self.random.choice(CANVASES)
        self.marks: dict[int, str] = {}
        self.questions: list[Question] = []
        self.manner = "sans"
        self.size = self.random.choices((8, 9, 10, 11, 12, 13, 14), (1, 3, 5, 6, 5, 3, 2))[0]
        self.ink, self.paper = "#000", "#fff"
        self.padding = self.random.randint(8, 48)
        self.styles: list[str] = []
        self.layout = ""
        self.cropped = self.chance(0.65)
        self.icons: Counter[str] = Counter()

    # Choices -----------------------------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: str) -> str:
        return self.random.choice(choices)

    def face(self, manner: str) -> str:
        return self.random.choice(typefaces(self.split, manner))

    def hue(self, low: int = 25, high: int = 60) -> str:
        return f"hsl({self.random.randrange(360)},{self.random.randint(35, 90)}%,{self.random.randint(low, high)}%)"

    def some(self, name: str, n: int) -> list[str]:
        words = vocabulary(name)
        return self.random.sample(words, min(n, len(words)))

    # Marks -------------------------------------------------------------------------------------------------------
    def mark(self, text: object, style: str = "", tag: str = "span", inner: str | None = None) -> Mark:
        """Text that may be asked for; `inner` replaces the escaped text where it carries markup of its own."""
        key, shown = len(self.marks) + 1, " ".join(str(text).split())
        self.marks[key] = shown
        written = f' style="{style}"' if style else ""
        return Mark(key, shown, f'<{tag} data-t="{key}"{written}>{inner or html.escape(shown)}</{tag}>')

    def whole(self, inner: str, style: str = "") -> Mark:
        """A thing without words, an icon say; its box is the element's own."""
        key = len(self.marks) + 1
        self.marks[key] = ""
        return Mark(key, "", f'<span data-t="{key}" class="icon whole" style="{style}">{inner}</span>')

    def text(self, text: str) -> str:
        return html.escape(text)

    # Questions ---------------------------------------------------------------------------------------------------
    def ask(
        self,
        kind: str,
        wordings: Sequence[str],
        answers: Mark | Iterable[Mark],
        context: Iterable[Mark] = (),
        answer: str | None = None,
        **slots: str,
    ) -> None:
        """Ask for marks in one of many wordings; dropped where a character is outside the scorer's alphabet."""
        found = (answers,) if isinstance(answers, Mark) else tuple(answers)
        answer = " ".join(mark.text for mark in found) if answer is None else answer
        text = self.random.choice(wordings).format(**slots)
        text = roughened(text, self.random)
        if readable(text) and readable(answer) and text.strip() and answer.strip():
            keys = tuple(mark.key for mark in found)
            self.questions.append(Question(kind, text, answer, keys, tuple(mark.key for mark in context)))

    def ask_field(self, label: str, kind: str, value: Mark, label_mark: Mark) -> None:
        plain = label.rstrip(":. ")
        wordings = FIELD + BY_KIND.get(kind, ()) * 2
        self.ask("field", wordings, value, (label_mark,), L=plain, l=lowered(plain))

    def ask_title(self, title: Mark, wordings: Sequence[str] = TITLE) -> None:
        self.ask("title", wordings, title)

    def ask_click(self, mark: Mark, name: str | None = None) -> None:
        name = name or mark.text
        self.ask("click", CLICK, mark, L=name, l=lowered(name))

    def ask_place(self, mark: Mark) -> None:
        self.ask("place", POINT, mark, L=mark.text, l=lowered(mark.text))

    def one_meaning(self, question: Question, present: Iterable[int]) -> bool:
        """Whether the words asked by stand once on the page, among the marks that are there; icons likewise."""
        if question.kind == "icon":
            return self.icons[question.answer] == 1
        if question.kind not in ("field", "click", "place"):
            return True
        key = (question.context or question.answers)[0]
        others = Counter(self.marks[other].lower().strip(" :.-=?") for other in present)
        return others[self.marks[key].lower().strip(" :.-=?")] == 1

    # The page ----------------------------------------------------------------------------------------------------
    def document(self, body: str) -> str:
        """The whole HTML. Elements of class "cut" may be removed from the end where they pass the lower edge."""
        face = self.face(self.manner)
        line = self.random.choice((1.05, 1.15, 1.2, 1.3, 1.45))
        base = (
            f"*{{box-sizing:border-box}}html{{overflow:hidden}}body{{margin:0;background:{self.paper};color:{self.ink};font-family:'{face}';"
            f"font-size:{self.size}px;line-height:{line};font-variant-ligatures:none}}table{{border-collapse:collapse;font-size:inherit}}"
            "h1,h2,h3,h4,p{margin:.35em 0}button,input{font:inherit;color:inherit}svg{display:block}"
            ".deco{pointer-events:none;position:absolute}"
        )
        return (
            "<!doctype html><html><head><meta"
            f' charset="utf-8"><style>{base}{"".join(self.styles)}</style></head><body><div id="page"'
            f' style="padding:{self.padding}px;min-height:{self.height}px;position:relative">{body}</div></body></html>'
        )
