"""Tables of words as TOML files beside the code: read when first needed, once a process.

`data/*.toml` has colours, places, words about reading and ordinals in five languages: no grammar. Words are compared as
`plain` gives them: lower case, no accents, ß as ss. What a word means is said in English: a name of `lexical.COLOURS`,
a kind of place, a number. `senses` decides which sense a word has in a question.
"""

from __future__ import annotations

import re
import unicodedata
import zlib
from dataclasses import dataclass
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


# ---- the words of five languages -------------------------------------------------------------------------------------

LAST = -1
KNOWN = "English, German, French, Spanish and Chinese"


@dataclass(frozen=True)
class Language:
    """colours, places, ordinals: meaning by word. reading: words and phrases. asking: what marks the language."""

    name: str
    colours: dict[str, str]
    places: dict[str, str]
    reading: frozenset[str]
    phrases: tuple[str, ...]
    ordinals: dict[str, int]
    lines: frozenset[str]
    asking: frozenset[str]

    def votes(self, words: list[str]) -> int:
        """How much speaks for a question being in this language; words that ask count most."""
        own = self.colours.keys() | self.places.keys() | self.reading | self.ordinals.keys()
        return sum(2 * (word in self.asking) + (word in own) for word in words)


@dataclass(frozen=True)
class Ordinal:
    """ "the third line": number 3 (-1: the last), said "third line". line: it counts lines of the whole page."""

    number: int
    said: str
    line: bool


@dataclass(frozen=True)
class CoupledWords:
    """The words of one question that something in a picture can be tied to, as they stand there, each once; and what
    colours and places they mean. language: None where no word of a known language was found."""

    colours: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    reading: tuple[str, ...] = ()
    ordinals: tuple[Ordinal, ...] = ()
    colour_names: tuple[str, ...] = ()
    place_kinds: tuple[str, ...] = ()
    language: str | None = None

    def __bool__(self) -> bool:
        return bool(self.colours or self.places or self.reading)


@cache
def languages() -> tuple[Language, ...]:
    """English first: it wins where two languages have as much to say for them."""
    return tuple(_language(name) for name in ("english", "german", "french", "spanish"))


def _language(name: str) -> Language:
    table = read_table(DATA / f"{name}.toml")
    endings = table.get("endings", {})
    colours, places, ordinals = (
        meanings(table[kind], endings.get(kind, "")) for kind in ("colours", "places", "ordinals")
    )
    return Language(
        name=table["name"],
        colours=colours,
        places=places,
        reading=words_in(table["reading"]),
        phrases=tuple(table["phrases"]),
        ordinals={word: int(number) for word, number in ordinals.items()},
        lines=words_in(table["lines"]),
        asking=words_in(table["asking"]),
    )


# ---- Chinese, searched for in text that has no spaces ----------------------------------------------------------------

NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", 1)}

_ORDINAL = re.compile(r"(?:第([一二三四五六七八九十]|\d{1,2})|(最后一))(行|列|张|个|幅|排)")


@cache
def chinese_words() -> dict[str, tuple[str, str]]:
    """(colour, place, reading or nothing, meaning) by word."""
    table = read_table(DATA / "chinese.toml")
    return {
        **{word: ("colour", meaning) for word, meaning in meanings(table["colours"]).items()},
        **{word: ("place", meaning) for word, meaning in meanings(table["places"]).items()},
        **dict.fromkeys(words_in(table["reading"]), ("reading", "")),
        **dict.fromkeys(words_in(table["otherwise"]), ("", "")),
    }


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(sorted(chinese_words(), key=len, reverse=True)))


def with_chinese(found: CoupledWords, text: str) -> CoupledWords:
    """What was found in other letters, and the Chinese words."""
    by_kind: dict[str, dict[str, str]] = {"colour": {}, "place": {}, "reading": {}, "": {}}
    for one in _pattern().finditer(text):
        kind, meaning = chinese_words()[one[0]]
        by_kind[kind][one[0]] = meaning
    ordinals = tuple(
        Ordinal(LAST if last else NUMERALS.get(number) or int(number), f"第{number}{unit}" if number
                else f"最后一{unit}", unit == "行")
        for number, last, unit in _ORDINAL.findall(text)
    )  # fmt: skip
    colours, places = by_kind["colour"], by_kind["place"]
    if re.search(r"[从從][左右上下].*第", text):  # counted from there
        places = {}
    kinds = dict.fromkeys(kind for meaning in places.values() for kind in meaning.split())
    return CoupledWords(
        colours=(*found.colours, *colours),
        places=(*found.places, *places),
        reading=(*found.reading, *by_kind["reading"]),
        ordinals=(*found.ordinals, *ordinals),
        colour_names=tuple(dict.fromkeys((*found.colour_names, *colours.values()))),
        place_kinds=tuple(dict.fromkeys((*found.place_kinds, *kinds))),
        language="Chinese",
    )
