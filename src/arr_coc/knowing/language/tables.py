"""Tables of words as TOML files beside the code, read on first use, once a process.

`data/*.toml` has colours, places, words about reading and ordinals in four languages, without grammar. Words are
compared after `plain`: lower case, no accents, ß as ss. The meaning of a word is in English: a name of
`lexical.COLOURS`, a kind of place, a number. `senses` decides which sense a word has in a question.
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
    """Read the tables of one file. Callers share the result and must not change it."""
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8"))


def plain(text: str) -> str:
    """Convert to lower case without accents: "Où est l'É?" becomes "ou est l'e?"."""
    if text.isascii():
        return text.lower()
    letters = unicodedata.normalize("NFKD", text.lower().replace("ß", "ss"))
    return "".join(letter for letter in letters if not unicodedata.combining(letter))


@lru_cache(maxsize=512)
def words_in(text: str) -> frozenset[str]:
    return frozenset(plain(text).split())


def meanings(entries: dict[str, str], endings: str = "") -> dict[str, str]:
    """Return word → meaning from entries meaning → words. A word ending in * takes each of the endings (| is none)."""
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
    """The words of one language. colours, places, ordinals: word → meaning. reading, phrases: words that ask for text.
    compounds: endings of such words. asking: words that identify the language."""

    name: str
    colours: dict[str, str]
    places: dict[str, str]
    reading: frozenset[str]
    phrases: tuple[str, ...]
    compounds: tuple[str, ...]
    ordinals: dict[str, int]
    asking: frozenset[str]

    def votes(self, words: list[str]) -> int:
        """Count the evidence that a question is in this language; words of `asking` count most."""
        own = self.colours.keys() | self.places.keys() | self.reading | self.ordinals.keys()
        return sum(2 * (word in self.asking) + (word in own) for word in words)

    def reads(self, word: str) -> bool:
        """Return whether a word asks for text."""
        return word in self.reading or word.endswith(self.compounds)


@cache
def languages() -> tuple[Language, ...]:
    """Return all languages, English first, which wins ties."""
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
