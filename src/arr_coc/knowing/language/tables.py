"""Tables of words as TOML files beside the code: read when first needed, once a process.

`data/*.toml` has colours, places, words about reading and ordinals in four languages: no grammar. Words are compared as
`plain` gives them: lower case, no accents, ß as ss. What a word means is said in English: a name of `lexical.COLOURS`,
a kind of place, a number. `senses` decides which sense a word has in a question.
"""

from __future__ import annotations

import unicodedata
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


# ---- the words of four languages -------------------------------------------------------------------------------------

KNOWN = "English, German, French and Spanish"


@dataclass(frozen=True, eq=False)
class Language:
    """colours, places, ordinals: meaning by word. reading, phrases: what asks for text. compounds: ends of such
    words. asking: what marks the language."""

    name: str
    colours: dict[str, str]
    places: dict[str, str]
    reading: frozenset[str]
    phrases: tuple[str, ...]
    compounds: tuple[str, ...]
    ordinals: dict[str, int]
    asking: frozenset[str]

    def votes(self, words: list[str]) -> int:
        """How much speaks for a question being in this language; words that ask count most."""
        own = self.colours.keys() | self.places.keys() | self.reading | self.ordinals.keys()
        return sum(2 * (word in self.asking) + (word in own) for word in words)

    def reads(self, word: str) -> bool:
        """Whether a word asks for text."""
        return word in self.reading or word.endswith(self.compounds)


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
    shades = table.get("shades", "").split()
    return Language(
        name=table["name"],
        colours=colours | {shade + word: colour for shade in shades for word, colour in colours.items()},
        places=places,
        reading=words_in(table["reading"]),
        phrases=tuple(table["phrases"]),
        compounds=tuple(table.get("compounds", "").split()),
        ordinals={word: int(number) for word, number in ordinals.items()},
        asking=words_in(table["asking"]),
    )
