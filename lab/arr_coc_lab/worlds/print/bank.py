"""Rows of characters for printed pages, made once: many of every kind, from which each picture draws its own.

The figures of a number are drawn for each picture. A row may also be scrambled: each letter becomes any letter, each
figure any figure. Nothing of it is in a language then, and it has to be read.
"""

from __future__ import annotations

import random
import re
import string
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS, NUMBER_OF_IDS

from ..words import Writer, label_kinds

LENGTH = 96  # characters of a row at most
VALUE = 30  # … of what belongs to a label
FIRST_CLASS = 200  # from here on a byte is a class of characters
CLASSES = (string.digits, string.ascii_lowercase, string.ascii_uppercase)
NUMBER = re.compile(r"\D{0,4}\d[\d,' ]*([.,]\d+)?\D{0,4}")
ROWS = dict.fromkeys(label_kinds().values(), 1024)
ROWS |= {"title": 1024, "line": 6144, "nonsense": 1024}
KINDS = {name: number for number, name in enumerate(ROWS)}
assert NUMBER_OF_IDS < FIRST_CLASS


def refilled(text: str) -> str:
    """Replace all figures of a number but the first by the class of figures; keep other texts."""
    if not NUMBER.fullmatch(text):
        return text
    first = next(place for place, letter in enumerate(text) if letter.isdigit()) + 1
    return text[:first] + re.sub(r"\d", chr(FIRST_CLASS), text[first:])


def _line(writer: Writer) -> str:
    """Draw prose with marks, figures and names, up to the length of a line."""
    text, start = "", writer.chance(0.4)
    while len(text) < LENGTH:
        other = writer.pick("invented", "name", "date", "int", "code")
        word = writer.word("plain") if writer.chance(0.85) else writer.invented()
        word = writer.value(other) if other != "invented" and writer.chance(0.08) else word
        word = word[:1].upper() + word[1:] if start else word
        start = writer.chance(0.1)
        mark = "." if start else writer.pick(*("",) * 12, ",", ",", ";", ":", " -")
        text += writer.pick(*(word,) * 30, f'"{word}"', f"({word})") + mark + " "
    return text


def _nonsense(writer: Writer) -> str:
    """Draw groups of random characters."""
    letters = writer.pick(string.ascii_letters + string.digits, string.printable[:94], string.digits + "-/.,")
    return " ".join("".join(writer.random.choices(letters, k=writer.between(1, 9))) for _ in range(LENGTH // 2))


def _text(writer: Writer, kind: str) -> str:
    match kind:
        case "line":
            return _line(writer)
        case "nonsense":
            return _nonsense(writer)
        case "title":
            return writer.pick(writer.word("documents"), writer.heading(), writer.company())
    return writer.value(kind)


class Rows:
    """The texts of a bank while it is filled: first those of every kind, then single ones."""

    def __init__(self, source: random.Random) -> None:
        self.texts: list[str] = []
        self.known: dict[str, int] = {}
        for kind, number in ROWS.items():
            length = LENGTH if kind in ("line", "nonsense") else VALUE
            for _ in range(number):
                text = _text(Writer(source), kind)[:length].strip() or "-"
                self.texts.append(refilled(text.upper() if source.random() < 0.1 else text))

    def add(self, text: str, refill: bool = False) -> int:
        """Add the row of a single text. refill: draw the figures of a number for each picture."""
        text = refilled(text[:LENGTH]) if refill else text[:LENGTH]
        if text not in self.known:
            self.known[text] = len(self.texts)
            self.texts.append(text)
        return self.known[text]


@dataclass(frozen=True)
class Bank:
    """rows: (N, 96) uint8, identifiers, and classes from 200 on. first, count: (kinds,) int64. classes: (3, 128) uint8
    identifiers of every class. replaced: (2, 256) int64, the class that a byte is replaced by, −1 for itself: as it is
    filled, and as it is scrambled."""

    rows: Tensor
    first: Tensor
    count: Tensor
    classes: Tensor
    replaced: Tensor

    @classmethod
    def of(cls, rows: Rows, device: torch.device) -> Bank:
        texts = [text.replace("€", "\x7f").encode("latin-1", "replace") for text in rows.texts]
        raw = np.array(texts, dtype=f"S{LENGTH}").view(np.uint8).reshape(len(texts), LENGTH)
        odd = (raw >= 128) & (raw < FIRST_CLASS)
        raw = np.where(odd, ord("?"), raw)
        ids = np.where((raw > 0) & (raw < FIRST_CLASS), raw - 31, raw).astype(np.uint8)
        count = np.array(list(ROWS.values()))
        tables = [[IDS[letters[place * len(letters) // 128]] for place in range(128)] for letters in CLASSES]
        replaced = np.full((2, 256), -1)
        for number, letters in enumerate(CLASSES):
            replaced[1, [IDS[letter] for letter in letters]] = number
        replaced[:, FIRST_CLASS] = 0
        arrays = (ids, np.cumsum(count) - count, count, np.array(tables, np.uint8), replaced)
        return cls(*(torch.as_tensor(array, device=device) for array in arrays))

    def choose(self, kind: Tensor, bits: Tensor) -> Tensor:
        """Draw rows of these kinds by 32 random bits each, both int64 of one shape."""
        return self.first[kind] + ((bits * self.count[kind]) >> 32)

    def written(self, row: Tensor, scramble: Tensor, bits: Tensor) -> Tensor:
        """Fill rows (…,) by random bits (…, 96): (…, 96) uint8 identifiers, 0 after the end."""
        text = self.rows[row]
        code = self.replaced[scramble[..., None].long(), text.int()]
        return torch.where(code >= 0, self.classes[code.clamp_min(0), bits >> 25], text)
