"""Colours, places, words about reading and ordinals in five languages, read from `data/*.toml`: no grammar.

Words are compared as `plain` gives them: lower case, no accents, ß as ss. What a word means is said in English: a name
of `lexical.COLOURS`, a kind of place, a number. `senses` decides which sense a word has in a question.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .tables import DATA, meanings, read_table, words_in

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
