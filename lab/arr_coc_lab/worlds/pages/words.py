"""Words for pages (`data/*.toml`): labels with the kind of value that belongs to them, values made with Faker, and the
wordings of questions, typed now and then in a hurry."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from arr_coc.knowing.language.tables import read_table

from ..word_lists import lists_of

T = TypeVar("T")
FIRST_DAY, LAST_DAY = date(1958, 1, 1).toordinal(), date(2025, 12, 31).toordinal()
SYMBOLS = ("$", "$", "$", "$", "€", "£", "RM ", "USD ", "EUR ", "", "")
CODES = ("??-####", "######", "####-##", "?######", "##-#####-?", "???####", "#########", "##/####", "?-##")
OTHER_CODES = ("#####", "???-###", "##-##-##", "#### ####", "?#?#?#", "###")
COUNTABLE = ("money", "int", "date", "measure", "percent", "code")  # kinds whose labels take a prefix


DATA = Path(__file__).with_name("data")
LETTERS = set(string.printable[:95]) | {"€"}
# Lists by name: items, services, ui, "letter.closings", …; and wordings: "field", "by_kind.date", "letter.subject", …
vocabulary, wordings = lists_of(DATA / "vocabulary.toml"), lists_of(DATA / "wording.toml")


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


@cache
def icon_codes() -> dict[str, str]:
    """Icons by name: their codes in the icon face."""
    return read_table(DATA / "vocabulary.toml")["icons"]


@cache
def label_kinds() -> dict[str, str]:
    """Every label that a form may carry → the kind of value that stands beside it."""
    return {label: kind for kind, labels in read_table(DATA / "labels.toml").items() for label in labels}


@cache
def faker_for(locale: str) -> Any:
    """One Faker a language and process; whoever draws a page seeds it first."""
    return import_module("faker").Faker(locale)


class WordChooser:
    """Choices from one source of chance."""

    def __init__(self, source: random.Random) -> None:
        self.random = source

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def pick(self, *choices: T) -> T:
        return self.random.choice(choices)

    def between(self, low: int, high: int) -> int:
        """A whole number, both ends included."""
        return self.random.randint(low, high)

    def word(self, name: str) -> str:
        """One of a vocabulary."""
        return self.random.choice(vocabulary(name))

    def some(self, name: str, n: int) -> list[Any]:
        """n different ones of a vocabulary, or all."""
        words = vocabulary(name)
        return self.random.sample(words, min(n, len(words)))

    def distinct(self, make: Callable[[], str], n: int) -> list[str]:
        """Up to n different strings; fewer where the maker has no more to give."""
        found: dict[str, None] = {}
        for _ in range(n * 6):
            found.setdefault(make())
            if len(found) == n:
                break
        return list(found)


class WordBank(WordChooser):
    """Seeded words of one page; the language of names and places is drawn with its chance."""

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self.fake = faker_for(source.choice(vocabulary("locales")))
        self.fake.seed_instance(source.getrandbits(48))
        self.date_format = source.choice(vocabulary("dates"))
        self.currency = source.choice(SYMBOLS)
        self.code_shape = source.choice(CODES)

    # Labels and values -------------------------------------------------------------------------------------------
    def labels(self, n: int) -> list[tuple[str, str]]:
        """n different (label, kind); one in nine is made up from a prefix and a label."""
        kinds = label_kinds()
        result = []
        for label in self.random.sample(list(kinds), n):
            kind = kinds[label]
            if self.chance(0.12) and kind in COUNTABLE:
                label = f"{self.word('prefixes')} {label[0].lower()}{label[1:]}"
            result.append((label, kind))
        return result

    def labels_of(self, kinds: tuple[str, ...], among: int) -> list[tuple[str, str]]:
        """Those of some kinds among `among` pairs (label, kind)."""
        return [pair for pair in self.labels(among) if pair[1] in kinds]

    def date(self) -> str:
        # Not Faker's own dates: they reach until the moment of asking, so the same seed gives others every second.
        day = date.fromordinal(self.between(FIRST_DAY, LAST_DAY))
        text = day.strftime(self.date_format if self.chance(0.85) else self.word("dates"))
        return text.lstrip("0") if self.chance(0.3) else text

    def money(self, high: float = 2000, plain: bool = False) -> str:
        value = self.random.uniform(1, high)
        text = f"{value:,.2f}" if self.chance(0.8) else f"{value:,.0f}"
        return text if plain else f"{self.currency}{text}"

    def code(self) -> str:
        shape = self.code_shape if self.chance(0.5) else self.random.choice(OTHER_CODES)
        letters = {"?": string.ascii_uppercase, "#": string.digits}
        return "".join(self.random.choice(letters[c]) if c in letters else c for c in shape)

    def street(self) -> str:
        return self.fake.street_address().replace("\n", ", ")

    def job(self) -> str:
        return self.fake.job().split(",")[0]

    def sentence(self, low: int = 3, high: int = 12) -> str:
        """English or the page's language, without the full stop."""
        return self.fake.sentence(nb_words=self.between(low, high)).rstrip(".")

    def paragraph(self, sentences: int) -> str:
        return " ".join(self.fake.sentence(nb_words=self.between(5, 16)) for _ in range(sentences))

    def heading(self) -> str:
        pick = self.random.random()
        if pick < 0.4:
            return self.fake.catch_phrase() if hasattr(self.fake, "catch_phrase") else self.fake.bs().title()
        return self.word("documents") if pick < 0.7 else self.sentence(2, 5)

    def value(self, kind: str) -> str:
        """A believable value for a label of this kind."""
        fake, pick, between, uniform = self.fake, self.pick, self.between, self.random.uniform
        match kind:
            case "name":
                full = fake.name()
                first, last = full.split()[0], full.split()[-1]
                return pick(full, full, f"{first[0]}. {last}", f"{last}, {first}")
            case "company" | "city" | "country":
                return getattr(fake, kind)()
            case "email":
                return fake.ascii_email()
            case "zip":
                return fake.postcode()
            case "date" | "code" | "street" | "job":
                return getattr(self, kind)()
            case "time":
                short = f"{between(1, 12)}:{between(0, 59):02d} {pick('AM', 'PM', 'a.m.', 'p.m.')}"
                return pick(short, f"{between(0, 23):02d}:{between(0, 59):02d}")
            case "money":
                return self.money(pick(50, 900, 20000, 900000))
            case "phone":
                dialled = fake.phone_number()
                bracketed = f"({between(201, 989)}) {between(200, 999)}-{between(0, 9999):04d}"
                return pick(dialled, bracketed, f"{between(201, 989)}-{between(200, 999)}-{between(0, 9999):04d}")
            case "int":
                return pick(str(between(1, 60)), str(between(1, 999)), f"{between(1000, 99999):,}")
            case "measure":
                number = pick(between(1, 500), round(uniform(0.1, 90), 1), round(uniform(0, 9), 2))
                return f"{number} {self.word('units')}"
            case "percent":
                number = pick(between(0, 100), round(uniform(0, 100), 1))
                return f"{number}{pick('%', '%', ' %', ' percent')}"
            case "yesno":
                return pick("Yes", "No", "X", "N/A", "yes", "no")
            case "word":
                status, other = self.word("statuses"), self.word("statuses")
                return pick(status, other, fake.word().capitalize(), self.word("items"))
            case _:
                long, short, document = self.sentence(2, 7), self.sentence(2, 4), self.word("documents")
                return pick(long, short, document, fake.bs() if hasattr(fake, "bs") else self.sentence(3, 5))
