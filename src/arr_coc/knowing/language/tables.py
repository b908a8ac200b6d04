"""Tables of words as TOML files beside the code: read when first needed, once a process."""

from __future__ import annotations

import re
import unicodedata
import zlib
from functools import cache, lru_cache
from pathlib import Path

from ...core.values import JsonObject

DATA = Path(__file__).with_name("data")


@cache
def read_table(path: Path) -> JsonObject:
    """The tables of one file. Callers share what is returned, and leave it as it is."""
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """Lower case, without accents: "Où est l'É?" and "ou est l'e?" are one."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=512)
def words_in(text: str) -> frozenset[str]:
    return frozenset(plain(text).split())


def meanings(entries: dict[str, str], endings: str = "") -> dict[str, str]:
    """Meaning by word, of entries "meaning: words". A word that ends in * takes each of the endings (a bar: none)."""
    tails = ["" if ending == "|" else ending for ending in endings.split()]
    found = {}
    for meaning, words in entries.items():
        for word in plain(words).split():
            stems = [word[:-1] + tail for tail in tails] if word[-1] == "*" else [word]
            found |= dict.fromkeys(stems, meaning)
    return found


# ----------------------------------------------------------------------------------------------------------------------
# Words of a question as rows of a small table, by their hashes: any word has one, and needs no list.

MOST_WORDS = 24


def word_rows(question: str, buckets: int) -> list[int]:
    """1 … buckets − 1 for each word, in order, at most 24; 0 is kept for padding."""
    words = re.findall(r"[^\W_]+", question.lower())[:MOST_WORDS]
    return [1 + zlib.crc32(word.encode()) % (buckets - 1) for word in words]
