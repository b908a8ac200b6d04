"""How people ask: many wordings for one fact (`data/wording.toml`), then typos, other case, no question mark."""

from __future__ import annotations

import random
import string
from pathlib import Path

from ..word_lists import lists_of

DATA = Path(__file__).with_name("data")
LETTERS = set(string.printable[:95]) | {"€"}


# Those of one name: "field", "by_kind.date", "letter.subject".
wordings = lists_of(DATA / "wording.toml")


def lowered(text: str) -> str:
    """Lower case as inside a sentence; abbreviations and codes keep their capitals."""
    return " ".join(word if word.isupper() and len(word) < 5 else word.lower() for word in text.split())


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
