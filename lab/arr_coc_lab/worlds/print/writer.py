"""Who writes what is printed: names, dates, sums, codes, sentences, each in many forms, from one source of chance.

What is written is a pattern. Some of its places say only "a figure", "a capital"; they are filled when it is drawn.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence
from pathlib import Path

from ..needle.content import words as needle_words
from ..pages.words import WordChooser, vocabulary
from ..word_lists import lists_of

DATA = Path(__file__).with_name("data")
words = lists_of(DATA / "words.toml")

LENGTH = 96  # characters of a row at most
VALUE = 30  # … of what belongs to a label
FIRST_CLASS = 200  # from here on a byte is a class of characters
# In patterns: a figure, not 0, a capital, a small letter, capital or figure, a vowel.
MARKS = {"#": string.digits, "%": "123456789", "@": string.ascii_uppercase, "&": string.ascii_lowercase}
MARKS |= {"*": string.ascii_uppercase + string.digits, "~": "aeiou"}
OTHERS = "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum()) + "€"
CLASSES = (*MARKS.values(), OTHERS, string.ascii_letters + string.digits + OTHERS)
SMALL, CAPITAL, FIGURE, OTHER, ANY = 3, 2, 0, 6, 7
CURRENCIES = ("$", "€", "USD ", "EUR ", "GBP ", "RM ", "Rs. ", "CHF ", "$ ", "A$", "")
NOUNS = ("items", "services", "nouns", "goods", "sections", "documents")


def _pattern(text: str) -> str:
    """Marks of a pattern as the bytes of their classes."""
    return text.translate({ord(mark): chr(FIRST_CLASS + index) for index, mark in enumerate(MARKS)})


class TextWriter(WordChooser):
    """Rows of every kind, from one source of chance."""

    def __init__(self, seed: int) -> None:
        super().__init__(random.Random(seed))
        nouns = [noun for name in NOUNS for noun in vocabulary(name)]
        self.prose = [*words("plain") * 2, *(word for noun in nouns for word in noun.split())]

    def own(self, name: str) -> str:
        """One of the lists of print."""
        return self.random.choice(words(name))

    def needle(self, name: str) -> str:
        """One of the lists of Needle World."""
        return self.random.choice(needle_words(name))

    def common(self) -> str:
        """A word of prose."""
        return self.random.choice(self.prose)

    def filled(self, name: str) -> str:
        """One of a list of patterns."""
        return _pattern(self.own(f"patterns.{name}"))

    def invented(self) -> str:
        """A word that means nothing."""
        parts = [self.needle("syllables_one"), *(self.needle("syllables_two") for _ in range(2))]
        return "".join(parts[: self.between(1, 3)]) + self.needle("syllables_three")

    def person(self) -> str:
        first, last = self.needle("first_names"), self.pick(self.needle("last_names"), self.invented())
        short = f"{first[0]}."
        return self.pick(
            f"{first} {last}",
            f"{first} {last}",
            f"{short} {last}",
            f"{last}, {first}",
            f"Dr. {first} {last}",
            f"{first} {self.random.choice(string.ascii_uppercase)}. {last}",
            f"{last}",
            f"{short}{_pattern('@')}. {last}",
        )

    def company(self) -> str:
        name = self.pick(self.needle("last_names"), self.invented(), self.common().title())
        return self.pick(
            f"{name} {self.own('companies')}",
            f"{name} {self.common().title()} {self.own('companies')}",
            f"{name} & {self.invented()}",
            f"{name.upper()} {self.own('companies')}",
            self.needle("shops"),
        )

    def date(self) -> str:
        day, month, year = self.between(1, 28), self.between(1, 12), self.pick("19##", "20##")
        long = words("months")[month - 1]
        name = self.pick(long, long[:3])
        ways = (
            f"{day:02d}/{month:02d}/{year}",
            f"{month}/{day}/##",
            f"{year}-{month:02d}-{day:02d}",
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{day:02d}.{month:02d}.{year}",
            f"{month:02d}-{day:02d}-##",
            f"{name} {year}",
            f"{self.own('days')}, {name} {day}",
            f"{day}.{month}.##",
            f"{day:02d} {name.upper()} ##",
        )
        return _pattern(self.pick(*ways))

    def time(self) -> str:
        hour, minute = self.between(1, 12), self.between(0, 59)
        return self.pick(
            f"{hour}:{minute:02d} {self.pick('AM', 'PM', 'a.m.', 'p.m.')}",
            f"{hour + 11}:{minute:02d}",
            f"{hour + 11:02d}:{minute:02d}:{self.between(0, 59):02d}",
        )

    def money(self) -> str:
        whole = self.own("patterns.sum")
        cents = f"{whole}.##"
        text = self.pick(cents, cents, cents, whole, f"{whole.replace(',', '.')},##", f"{whole} ##")
        mark = self.pick(*CURRENCIES)
        behind = f"{text} {mark.strip()}".strip()
        return _pattern(self.pick(mark + text, mark + text, text, behind, f"({text})", f"-{text}"))

    def email(self) -> str:
        name, host = self.person().split()[-1].lower().strip("."), self.invented().lower()
        ending = self.pick("com", "org", "net", "de", "co.uk", "fr")
        return f"{name}@{host}.{ending}".replace(chr(FIRST_CLASS + 2), "x")

    def street(self) -> str:
        name = self.pick(self.invented(), self.needle("last_names"), self.common().title())
        return f"{self.filled('house')} {name} {self.own('streets')}"

    def city(self) -> str:
        return self.pick(
            self.needle("cities"),
            self.invented(),
            f"{self.invented()}, {_pattern('@@')}",
            f"{_pattern('#####')} {self.needle('cities')}",
        )

    def measure(self) -> str:
        return f"{self.filled('measured')} {self.own('units')}"

    def percent(self) -> str:
        return self.filled("share") + self.pick("%", "%", " %", " percent")

    def words_of(self, most: int) -> str:
        """Some words: as they come, with a capital in front, or a capital each."""
        text = " ".join(self.pick(*(self.common(),) * 4, self.invented()) for _ in range(self.between(1, most)))
        return self.pick(text, text[:1].upper() + text[1:], text.title())

    def sentence(self) -> str:
        """Prose with its marks, figures and names, as long as a line may be."""
        parts: list[str] = []
        length, start = 0, self.chance(0.4)
        while length < LENGTH:
            word = (
                self.common()
                if self.chance(0.8)
                else self.pick(self.invented(), self.person(), self.filled("int"), self.filled("code"), self.date())
            )
            word = word[:1].upper() + word[1:] if start else word
            start = self.chance(0.1)
            mark = "." if start else self.pick(*("",) * 12, ",", ",", ";", ":", " -")
            word = self.pick(*(word,) * 30, f'"{word}"', f"({word})", f"'{word}'") + mark
            parts.append(word)
            length += len(word) + 1
        return " ".join(parts)

    def nonsense(self) -> str:
        """Groups of any characters."""
        parts: list[str] = []
        length = 0
        classes = [chr(FIRST_CLASS + n) for n in self.random.choices((SMALL, CAPITAL, FIGURE, 4, OTHER, ANY), k=3)]
        while length < LENGTH:
            size = self.between(1, 9)
            mixed = self.chance(0.5)
            parts.append("".join(self.random.choices(classes, k=size)) if mixed else self.pick(*classes) * size)
            length += size + 1
        return " ".join(parts)

    def category(self) -> str:
        """What a bar of a chart is called."""
        return self.pick(
            self.random.choice(self.random.choice(needle_words("chart_sets"))),
            self.needle("cities"),
            self.word("series"),
            _pattern("20##"),
            _pattern("Q% ##"),
            self.invented(),
            self.word("goods").title(),
        )

    def column(self, labels: Sequence[str]) -> str:
        """The head of a column."""
        named, made = (self.random.choice(labels), self.word("series")), self.words_of(1).title()
        return self.pick(*named, made, _pattern("20##"), self.needle("months"))

    def item(self) -> str:
        """Something that is sold."""
        known = [self.word(name) for name in ("items", "services", "dishes")]
        made = self.words_of(3), self.invented(), f"{self.word('items')} {self.measure()}"
        return self.pick(*known, *made)

    def footer(self) -> str:
        """What stands below a page."""
        made = self.email(), self.filled("phone"), self.words_of(7), self.street(), self.company()
        return self.pick(*made, "Thank you for your business.", "Please pay within 30 days.")

    def makers(self, labels: Sequence[str]) -> dict[str, Callable[[], str]]:
        """Who writes each kind that is no list of its own."""
        makers = [self.company, self.date, self.time, self.money, self.email, self.street, self.city, self.measure]
        makers += [self.percent, self.sentence, self.nonsense, self.category, self.item, self.footer]
        return {make.__name__: make for make in makers} | {
            "name": self.person,
            "country": self.city,
            "job": lambda: self.words_of(2),
            "word": lambda: self.pick(self.word("statuses"), self.word("items"), self.invented(), self.common()),
            "text": lambda: self.words_of(5),
            "leader": lambda: self.pick(".", ". ", "_", "-", " .", "..", "_ ") * LENGTH,
            "title": lambda: self.pick(self.word("documents"), self.words_of(4), self.company()),
            "column": lambda: self.column(labels),
            "section": lambda: self.pick(self.word("sections"), self.words_of(3)),
        }

    def rows(self, kind: str, number: int, labels: Sequence[str]) -> list[str]:
        """So many of a kind: by who writes it, or of the patterns or the texts of its name."""
        listed = words(f"texts.{kind}")
        make = self.makers(labels).get(kind) or (lambda: self.pick(*listed) if listed else self.filled(kind))
        return [make().strip() or "-" for _ in range(number)]
