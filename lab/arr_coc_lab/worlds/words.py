"""Words of drawn pages: lists from TOML files, and one writer of names, dates, sums, codes and sentences."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from arr_coc.knowing.language.tables import read_table

T = TypeVar("T")
DATA = Path(__file__).with_name("data")
FIRST_DAY, LAST_DAY = date(1958, 1, 1).toordinal(), date(2025, 12, 31).toordinal()
CURRENCIES = ("$", "$", "$", "$", "€", "€", "EUR ", "USD ", "CHF ", "RM ", "", "")
COUNTABLE = ("money", "int", "date", "measure", "percent", "code")  # kinds whose labels take a prefix
# In patterns: a figure, a figure that is not 0, a capital, a capital or a figure.
PATTERN = {"#": string.digits, "%": string.digits[1:], "@": string.ascii_uppercase}
PATTERN |= {"*": string.ascii_uppercase + string.digits}


def lists_of(path: Path) -> Callable[[str], tuple[Any, ...]]:
    """Return a function that reads the lists of a TOML file by name: "items", "patterns.code".

    A string is a list of words with blanks between them, a table is the list of its keys, and a name that is not there
    is an empty list.
    """

    @cache
    def listed(name: str) -> tuple[Any, ...]:
        found = read_table(path)
        for key in name.split("."):
            found = found.get(key, {})
        return tuple(found.split() if isinstance(found, str) else found)

    return listed


_own, _needle = (lists_of(path) for path in (DATA / "words.toml", DATA.parent / "needle" / "data" / "words.toml"))


def vocabulary(name: str) -> tuple[Any, ...]:
    """Return a list of words; names, cities and syllables are those of Needle World."""
    return _own(name) or _needle(name)


@cache
def label_kinds() -> dict[str, str]:
    """Map every label that a form may carry to the kind of value that stands beside it."""
    return {label: kind for kind, labels in read_table(DATA / "labels.toml").items() for label in labels}


def lowered(text: str) -> str:
    """Convert to lower case as inside a sentence; abbreviations and codes keep their capitals."""
    return " ".join(word if word.isupper() and len(word) < 5 else word.lower() for word in text.split())


class Writer:
    """Choices and texts from one source of chance. A writer keeps to one currency and mostly to one form of dates."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.date_format = source.choice(vocabulary("dates"))
        self.currency = source.choice(CURRENCIES)

    # Choices -----------------------------------------------------------------------------------------------------
    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: T) -> T:
        return self.random.choice(choices)

    def between(self, low: int, high: int) -> int:
        """Draw a whole number, both ends included."""
        return self.random.randint(low, high)

    def word(self, name: str) -> Any:
        """Draw one entry of a vocabulary."""
        return self.random.choice(vocabulary(name))

    def some(self, name: str, n: int) -> list[Any]:
        """Draw n different entries of a vocabulary, or all of them."""
        words = vocabulary(name)
        return self.random.sample(words, min(n, len(words)))

    def distinct(self, make: Callable[[], str], n: int) -> list[str]:
        """Draw up to n different strings; fewer if the maker has no more."""
        found: dict[str, None] = {}
        for _ in range(n * 6):
            found.setdefault(make())
            if len(found) == n:
                break
        return list(found)

    def labels(self, n: int) -> list[tuple[str, str]]:
        """Draw n different (label, kind); one in nine is made from a prefix and a label."""
        result = []
        for label, kind in self.random.sample(list(label_kinds().items()), n):
            if kind in COUNTABLE and self.chance(0.12):
                label = f"{self.word('prefixes')} {label[0].lower()}{label[1:]}"
            result.append((label, kind))
        return result

    # Values ------------------------------------------------------------------------------------------------------
    def filled(self, pattern: str) -> str:
        """Fill a pattern with figures and letters."""
        return "".join(self.random.choice(PATTERN[mark]) if mark in PATTERN else mark for mark in pattern)

    def invented(self) -> str:
        """Draw a meaningless word, which must be read letter by letter."""
        parts = [self.word("syllables_one"), *(self.word("syllables_two") for _ in range(2))]
        return "".join(parts[: self.between(1, 3)]) + self.word("syllables_three")

    def last_name(self) -> str:
        return self.pick(self.word("last_names"), self.invented())

    def name(self) -> str:
        first, last = self.word("first_names"), self.last_name()
        full = f"{first} {last}"
        return self.pick(full, full, full, f"{first[0]}. {last}", f"{last}, {first}", f"Dr. {full}")

    def company(self) -> str:
        name = self.pick(self.last_name(), self.invented(), self.word("plain").title())
        return f"{name} {self.pick(self.word('companies'), self.word('companies'), f'& {self.last_name()}')}"

    def city(self) -> str:
        return self.pick(self.word("cities"), self.word("cities"), self.invented())

    def street(self) -> str:
        name = self.pick(self.last_name(), self.word("plain").title())
        number = self.between(1, 400)
        return self.pick(f"{number} {name} {self.word('streets')}", f"{name}{self.word('streets_german')} {number}")

    def email(self) -> str:
        return f"{self.last_name()}@{self.invented()}.{self.pick('com', 'org', 'net', 'de', 'fr')}".lower()

    def date(self) -> str:
        day = date.fromordinal(self.between(FIRST_DAY, LAST_DAY))
        text = day.strftime(self.date_format if self.chance(0.85) else self.word("dates"))
        return text.lstrip("0") if self.chance(0.3) else text

    def time(self) -> str:
        short = f"{self.between(1, 12)}:{self.between(0, 59):02d} {self.pick('AM', 'PM', 'a.m.', 'p.m.')}"
        return self.pick(short, f"{self.between(0, 23):02d}:{self.between(0, 59):02d}")

    def money(self, high: float = 0) -> str:
        value = self.random.uniform(1, high or self.pick(50, 900, 20000, 900000))
        return f"{self.currency}{value:,.2f}" if self.chance(0.8) else f"{self.currency}{value:,.0f}"

    def measure(self) -> str:
        number = self.pick(self.between(1, 500), round(self.random.uniform(0.1, 90), 1))
        return f"{number} {self.word('units')}"

    def percent(self) -> str:
        number = self.pick(self.between(0, 100), round(self.random.uniform(0, 100), 1))
        return f"{number}{self.pick('%', '%', ' %', ' percent')}"

    def words(self, low: int, high: int) -> str:
        """Draw some words of prose: as they are, with a capital at the beginning, or a capital each."""
        many = range(self.between(low, high))
        text = " ".join(self.invented() if self.chance(0.1) else self.word("plain") for _ in many)
        return self.pick(text, text[:1].upper() + text[1:], text.title())

    def sentence(self, low: int = 3, high: int = 12) -> str:
        """Draw words with a capital in front and without the full stop."""
        text = " ".join(self.word("plain") for _ in range(self.between(low, high)))
        return text[:1].upper() + text[1:]

    def heading(self) -> str:
        return self.pick(self.word("documents"), self.words(2, 4).title(), self.sentence(2, 5))

    def value(self, kind: str) -> str:
        """Draw a plausible value for a label of this kind."""
        match kind:
            case "code" | "phone" | "zip" | "int":
                return self.filled(self.word(f"patterns.{kind}"))
            case "country" | "job" | "yesno":
                return self.word({"country": "countries", "job": "jobs", "yesno": "answers"}[kind])
            case "word":
                return self.pick(self.word("statuses"), self.word("items"), self.invented())
            case "text":
                return self.pick(self.sentence(2, 7), self.word("documents"))
            case _:
                return getattr(self, kind)()
