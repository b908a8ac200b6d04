"""A page: texts with the boxes of their words, shapes, questions, and the pixels."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import cv2
import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arr_coc.knowing.language.tables import read_table

from .speech import DATA, PageSpeaker

Colour = tuple[int, int, int]
# Families by manner (sans, serif, mono, hand) for training and kept aside, and the Debian packages that bring them.
TYPEFACES = read_table(DATA / "typefaces.toml")
FOLDERS = (Path("/usr/share/fonts"), Path.home() / ".local/share/fonts", Path.home() / ".fonts")
SHAPES = {
    "tall": ((768, 1024), (832, 1088), (896, 1152), (640, 832), (1024, 1344)),
    "wide": ((1024, 768), (1152, 704), (896, 640), (1280, 800)),
    "square": ((768, 768), (640, 640), (896, 832)),
    "slip": ((448, 896), (512, 1024), (576, 896)),
    "small": ((640, 480), (720, 540), (560, 560), (480, 620)),
    "phone": ((480, 928), (544, 1024), (448, 832)),
}


@cache
def installed() -> dict[str, str]:
    """Map "family/bold" and "family/plain" to the file of every typeface on this machine."""
    found: dict[str, str] = {}
    for path in sorted(path for folder in FOLDERS for path in folder.rglob("*.[to]tf")):
        try:
            family, style = ImageFont.truetype(str(path), 12).getname()
        except OSError:
            continue
        weight = {"Bold": "bold", "Regular": "plain", "Book": "plain", "Roman": "plain"}.get(style or "")
        if family and weight:
            found.setdefault(f"{family}/{weight}", str(path))
    return found


@cache
def families(aside: bool, manner: str) -> tuple[str, ...]:
    """List installed families of a manner: sans, serif, mono or hand."""
    named = TYPEFACES["held" if aside else "train"][manner]
    return tuple(name for name in named if f"{name}/plain" in installed())


@cache
def typeface(family: str, size: int, bold: bool) -> ImageFont.FreeTypeFont:
    if not family:  # none is installed
        found = ImageFont.load_default(size)
        assert isinstance(found, ImageFont.FreeTypeFont)
        return found.font_variant(layout_engine=ImageFont.Layout.BASIC)
    files = installed()
    path = files.get(f"{family}/bold") if bold else None
    return ImageFont.truetype(path or files[f"{family}/plain"], size, layout_engine=ImageFont.Layout.BASIC)


@cache
def advance(font: ImageFont.FreeTypeFont, letter: str) -> float:
    return font.getlength(letter)


def length(font: ImageFont.FreeTypeFont, text: str) -> float:
    """Return the width of a text in pixels, letter by letter."""
    return sum(advance(font, letter) for letter in text)


class Span(NamedTuple):
    """Words of the sheet that belong together: the number of the first, and of the one after the last."""

    first: int
    end: int
    text: str


class PageQuestion(NamedTuple):
    """kind: what is asked for. named: spans that the question goes by."""

    kind: str
    text: str
    answer: Span
    named: tuple[Span, ...]


class Ink(NamedTuple):
    """A line of text. x, y: its upper left corner. align: 0 where it was set by its left end, 1 by its right end."""

    text: str
    x: float
    y: float
    font: ImageFont.FreeTypeFont
    colour: Colour
    align: float


class Area(NamedTuple):
    """A part of the sheet, in pixels."""

    x0: float
    y0: float
    x1: float
    y1: float

    @property
    def width(self) -> float:
        return self.x1 - self.x0

    def anchor(self, middle: bool) -> tuple[float, str]:
        """Return x and `align` of `Paper.write` for a line in the middle or on the left."""
        return ((self.x0 + self.x1) / 2, "middle") if middle else (self.x0, "left")


class Paper(PageSpeaker):
    """A page under construction. texts, boxes: of all texts, in the order of writing; boxes are x0, y0, x1, y1."""

    def __init__(self, source: random.Random, shape: str, aside: bool, dark: bool = False) -> None:
        super().__init__(source)
        self.width, self.height = source.choice(SHAPES[shape])
        manners = {"slip": ("mono", "mono", "sans")}.get(shape, ("sans", "sans", "sans", "serif", "serif", "mono"))
        available = families(aside, source.choice(manners)) or families(aside, "sans") or families(False, "sans")
        self.face = source.choice(available or ("",))
        self.hand = source.choice(families(aside, "hand") or (self.face,))
        self.size = round(source.choice((11, 12, 13, 14, 15, 16, 18)) * min(1.2, self.width / 800 + 0.15))
        dark = dark or self.chance(0.04)
        tint = source.choice(((255, 255, 255), (255, 255, 255), (250, 248, 240), (244, 246, 250), (236, 236, 232)))
        self.paper: Colour = (24, 26, 32) if dark else tint
        self.ink: Colour = (225, 228, 232) if dark else source.choice(((0, 0, 0), (20, 20, 40), (60, 60, 60)))
        self.accent = self.shade(30, 200)
        red, green, blue = ((3 * paper + ink) // 4 for paper, ink in zip(self.paper, self.ink, strict=True))
        self.soft: Colour = (red, green, blue)
        self.capitals = self.chance(0.08)
        self.inks: list[Ink] = []
        self.shapes: list[tuple[str, tuple[float, ...], Colour, int]] = []
        self.texts: list[str] = []
        self.boxes: list[tuple[float, float, float, float]] = []
        self.questions: list[PageQuestion] = []

    def shade(self, low: int, high: int) -> Colour:
        """Draw a colour whose channels lie between two numbers."""
        red, green, blue = (self.random.randrange(low, high) for _ in range(3))
        return red, green, blue

    # Writing -----------------------------------------------------------------------------------------------------
    def font(self, scale: float = 1.0, bold: bool = False, hand: bool = False) -> ImageFont.FreeTypeFont:
        return typeface(self.hand if hand else self.face, max(8, round(self.size * scale)), bold)

    def extent(self, text: str, scale: float = 1.0, bold: bool = False, hand: bool = False) -> float:
        return length(self.font(scale, bold, hand), text)

    def write(
        self, x: float, y: float, text: str, *, scale: float = 1.0, bold: bool = False, hand: bool = False,
        align: str = "left", colour: Colour | None = None,
    ) -> Span:  # fmt: skip
        """Write one line whose top is y; x is its left end, its right end or its middle, by `align`."""
        text = " ".join(text.split())
        text = text.upper() if self.capitals else text
        font = self.font(scale, bold, hand)
        shift = {"left": 0.0, "right": 1.0, "middle": 0.5}[align]
        x, first, high = x - shift * length(font, text), len(self.texts), font.size
        self.inks.append(Ink(text, x, y, font, colour or self.ink, shift))
        at = 0
        for word in text.split():
            start = text.index(word, at)
            at = start + len(word)
            left, right = x + length(font, text[:start]), x + length(font, text[:at])
            self.texts.append(word)
            self.boxes.append((left, y + 0.12 * high, right, y + 1.12 * high))
        return Span(first, len(self.texts), text)

    def flow(self, frame: Area, y: float, text: str, scale: float = 1.0, align: str = "left") -> tuple[Span, float]:
        """Write a text over several lines. Returns its span and the y below it."""
        font, line, first = self.font(scale), "", len(self.texts)
        anchor = {"left": frame.x0, "middle": (frame.x0 + frame.x1) / 2}[align]
        for word in [*text.split(), ""]:
            longer = f"{line} {word}".strip()
            if line and (not word or length(font, longer) > frame.width):
                self.write(anchor, y, line, scale=scale, align=align)
                y, line = y + 1.35 * font.size, word
            else:
                line = longer
        return Span(first, len(self.texts), text.upper() if self.capitals else text), y

    def part(self, span: Span, text: str) -> Span | None:
        """Return the words of a span that spell `text`, punctuation at the end aside."""
        wanted = (text.upper() if self.capitals else text).split()
        for first in range(span.first, span.end - len(wanted) + 1):
            here = self.texts[first : first + len(wanted)]
            if here[:-1] == wanted[:-1] and here[-1].rstrip(".,;:") == wanted[-1].rstrip(".,;:"):
                return Span(first, first + len(wanted), " ".join(wanted))
        return None

    def line(self, x0: float, y0: float, x1: float, y1: float, colour: Colour | None = None, width: int = 1) -> None:
        self.shapes.append(("line", (x0, y0, x1, y1), colour or self.soft, width))

    def box(self, x0: float, y0: float, x1: float, y1: float, colour: Colour | None = None, fill: bool = False) -> None:
        self.shapes.append(("fill" if fill else "box", (x0, y0, x1, y1), colour or self.soft, 1))

    def ask(self, kind: str, text: str, answer: Span | None, *named: Span) -> None:
        """Ask for a span, unless the same question has another answer."""
        if answer is not None and answer.end > answer.first and text.strip():
            self.questions.append(PageQuestion(kind, text, answer, named))

    # Reading -----------------------------------------------------------------------------------------------------
    def asked(self) -> list[PageQuestion]:
        """Return the unambiguous questions: whole answers on the page, no second answer, no repeated label."""
        texts: dict[str, set[str]] = {}
        for one in self.questions:
            texts.setdefault(one.text.lower(), set()).add(one.answer.text)
        return [
            one for one in self.questions
            if len(texts[one.text.lower()]) == 1 and all(map(self.visible, (one.answer, *one.named)))
        ]  # fmt: skip

    def visible(self, span: Span) -> bool:
        return all(
            x0 >= 0 and y0 >= 0 and x1 <= self.width and y1 <= self.height
            for x0, y0, x1, y1 in self.boxes[span.first : span.end]
        )

    def letters(self) -> Iterator[tuple[float, float, str]]:
        """Return x and y of the centre of every visible letter, and the letter."""
        for ink in self.inks:
            x, y = ink.x, ink.y + 0.62 * ink.font.size
            for letter in ink.text:
                wide = advance(ink.font, letter)
                if not letter.isspace():
                    yield x + wide / 2, y, letter
                x += wide

    def paint(self) -> np.ndarray:
        """Draw the clean page, (H, W, 3) uint8."""
        image = Image.new("RGB", (self.width, self.height), self.paper)
        draw = ImageDraw.Draw(image)
        for kind, place, colour, width in self.shapes:
            if kind == "line":
                draw.line(place, colour, width)
            elif kind == "pie":
                draw.pieslice(place[:4], place[4], place[5], fill=colour)
            else:
                x0, y0, x1, y1 = place
                corners = (min(x0, x1), min(y0, y1), max(x0, x1), max(y0, y1))
                draw.rectangle(corners, fill=colour if kind == "fill" else None, outline=colour)
        for ink in self.inks:
            draw.text((ink.x, ink.y), ink.text, ink.colour, ink.font)
        return np.array(image)


def worn(pixels: np.ndarray, source: random.Random) -> np.ndarray:
    """Wear a page (H, W, 3) uint8 like scans and photographs: softer, uneven, noisy, compressed."""
    chance = np.random.default_rng(source.getrandbits(32))
    found = pixels
    if source.random() < 0.5:
        share = source.uniform(0.45, 0.9)
        small = cv2.resize(found, None, fx=share, fy=share, interpolation=cv2.INTER_AREA)
        found = cv2.resize(small, (pixels.shape[1], pixels.shape[0]), interpolation=cv2.INTER_LINEAR)
    if source.random() < 0.12:  # a fax: black and white, with specks
        grey = cv2.cvtColor(found, cv2.COLOR_RGB2GRAY).astype(np.int16)
        black = (grey < np.median(grey) - source.randint(30, 70)) ^ (
            chance.random(grey.shape) < source.uniform(0, 0.004)
        )
        found = np.repeat(np.where(black, 0, 255).astype(np.uint8)[..., None], 3, 2)
    if source.random() < 0.4:
        found = cv2.GaussianBlur(found, (0, 0), source.uniform(0.4, 1.1))
    shade = np.linspace(source.uniform(0.8, 1), source.uniform(0.8, 1), pixels.shape[1], dtype=np.float32)
    grain = chance.normal(0, source.choice((0, 2, 6)), pixels.shape[:2]).astype(np.float32)
    found = np.clip(found * shade[None, :, None] + grain[..., None], 0, 255).astype(np.uint8)
    if source.random() < 0.5:
        quality = [cv2.IMWRITE_JPEG_QUALITY, source.randint(25, 80)]
        found = cv2.imdecode(cv2.imencode(".jpg", found, quality)[1], cv2.IMREAD_COLOR)
    return np.asarray(found, dtype=np.uint8)
