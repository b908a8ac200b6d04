"""Texts of pages and questions about them, in English, German, French and Spanish."""

from __future__ import annotations

import random
from datetime import date
from functools import cache
from pathlib import Path
from typing import NamedTuple

from arr_coc.knowing.language.tables import read_table

from ..words import FIRST_DAY, LAST_DAY, Writer, lists_of, lowered

DATA = Path(__file__).with_name("data")
speech, choices = lists_of(DATA / "speech.toml"), lists_of(DATA / "values.toml")
LANGUAGES = ("en", "de", "fr", "es")
TYPO = 0.06  # share of questions with one letter wrong


class PageField(NamedTuple):
    """A label with the kind of value beside it. names: other labels of the same meaning, by language. asks: whole
    questions, by language."""

    label: str
    kind: str
    names: dict[str, tuple[str, ...]]
    asks: dict[str, tuple[str, ...]]


@cache
def _scope(name: str) -> tuple[tuple[str, dict[str, tuple[str, ...]], dict[str, tuple[str, ...]]], ...]:
    """List (kind, labels by language, questions by language) of every field of a scope."""
    table = read_table(DATA / "fields.toml")[name]
    return tuple(
        (
            row["kind"],
            {language: tuple(row[language]) for language in LANGUAGES},
            {language: tuple(asks) for language, asks in row.get("ask", {}).items()},
        )
        for row in table.values()
    )


def scopes() -> tuple[str, ...]:
    return tuple(read_table(DATA / "fields.toml"))


class PageSpeaker(Writer):
    """One page's language, dates and money, and the language it is asked in."""

    def __init__(self, source: random.Random) -> None:
        super().__init__(source)
        self.language = source.choices(LANGUAGES, (64, 16, 10, 10))[0]
        self.asking = source.choices((self.language, "en"), (3, 1))[0]
        if self.language == "en" and self.chance(0.08):
            self.asking = self.pick("de", "fr", "es")
        self.date_style = self.between(0, 9)
        self.decimal_comma = self.language != "en" and self.chance(0.85)
        if self.language != "en":
            self.currency = self.pick("€", "EUR ", "€ ", "", " €", " EUR", " €")

    # Labels ------------------------------------------------------------------------------------------------------
    def fields(self, scope: str, n: int) -> list[PageField]:
        """Draw n different fields of a scope; "any" mixes all scopes and the long list of English labels."""
        if scope == "any" and self.language == "en" and self.chance(0.7):
            return [PageField(label, kind, {"en": (label,)}, {}) for label, kind in self.labels(n)]
        rows = [row for name in scopes() for row in _scope(name)] if scope == "any" else list(_scope(scope))
        found: dict[str, PageField] = {}
        for kind, names, asks in self.random.sample(rows, min(len(rows), 2 * n)):
            label = self.pick(names[self.language][0], self.random.choice(names[self.language]))
            if all(label.lower() not in other.lower() and other.lower() not in label.lower() for other in found):
                found[label] = PageField(label, kind, names, asks)
        return list(found.values())[:n]

    def question_about(self, field: PageField, marked: bool = True) -> str:
        """Ask for a field. marked: its label stands on the page; otherwise only its meaning is asked for."""
        language, asks = self.asking, field.asks.get(self.asking, ())
        if asks and (not marked or self.chance(0.35)):
            return self.roughened(self.random.choice(asks))
        names = field.names.get(language) or field.names.get("en") or (field.label,)
        name = field.label if language == self.language and marked and self.chance(0.6) else self.random.choice(names)
        name = name.rstrip(":.# ")
        forms = speech(f"{language}.{field.kind}") if self.chance(0.4) else ()
        return self.phrase(forms or speech(f"{language}.field"), L=name, l=lowered(name) if language != "de" else name)

    def say(self, wording: str, **slots: str) -> str:
        """Draw a wording of the asker's language and fill its slots; capital slots are as written."""
        lower = {name.lower(): text for name, text in slots.items() if name.isupper()}
        return self.phrase(speech(f"{self.asking}.{wording}"), **{**lower, **slots})

    def phrase(self, forms: tuple[str, ...], **slots: str) -> str:
        form = self.random.choice(forms[: max(1, len(forms) // 3)] if self.chance(0.5) else forms)
        return self.roughened(form.format(**slots))

    def roughened(self, text: str) -> str:
        """Vary a question as people type: sometimes no capitals, no question mark, politeness, or one wrong letter."""
        pick = self.random.random()
        if pick < 0.1:
            text = text.lower()
        elif pick < 0.16:
            text = text.rstrip("?. ")
        elif pick < 0.22:
            text = f"{self.random.choice(choices(f'before.{self.asking}'))} {text[:1].lower()}{text[1:]}"
        elif pick < 0.26:
            text = f"{text} {self.random.choice(choices(f'after.{self.asking}'))}"
        if self.chance(TYPO) and len(text) > 12:
            at = self.between(2, len(text) - 3)
            if text[at].isalpha():
                swapped = text[:at] + text[at + 1] + text[at] + text[at + 2 :]
                text = self.pick(text[:at] + text[at + 1 :], swapped, text[:at] + text[at] + text[at:])
        return text

    # Values ------------------------------------------------------------------------------------------------------
    def value(self, kind: str) -> str:
        patterns = choices(f"patterns.{kind}")
        if patterns:
            return self.filled(self.random.choice(patterns))
        listed = choices(f"{kind}.{self.language}") or choices(f"{kind}.en")
        if listed:
            return self.random.choice(listed)
        match kind:
            case "first_name":
                return self.word("first_names")
            case "venue":
                return self.pick(self.city(), f"{self.company()}, {self.city()}", self.filled("Room %##"))
            case "big_money":
                return f"{self.number(self.random.uniform(1, 900), 1)}{self.pick('M', 'k', ' million', ' bn')}"
            case "big_int":
                return self.number(self.between(1000, 9_000_000))
            case "period":
                return f"{self.date()} - {self.date()}"
            case "month":
                return self.pick(*speech(f"{self.language}.months"))
            case "year":
                return str(self.between(1962, 2026))
            case _:
                return super().value(kind)

    def prose_words(self, low: int, high: int) -> str:
        """Draw some words of the page's language, in lower case."""
        known = choices(f"words.{self.language}")
        if not known:
            return self.words(low, high).lower()
        many = range(self.between(low, high))
        return " ".join(self.invented() if self.chance(0.1) else self.random.choice(known) for _ in many)

    def number(self, value: float, digits: int = 0) -> str:
        text = f"{value:,.{digits}f}"
        return text.translate(str.maketrans(",.", self.pick(".", ".", " ") + ",")) if self.decimal_comma else text

    def amount(self, value: float) -> str:
        """Format money in the style of this page."""
        text = self.number(value, 2)
        return f"{text}{self.currency}" if self.currency.startswith(" ") else f"{self.currency}{text}"

    def money(self, high: float = 0) -> str:
        return self.amount(self.random.uniform(1, high or self.pick(50, 900, 20000, 900000)))

    def percent(self) -> str:
        number = self.number(self.random.uniform(0, 100), self.between(0, 1))
        return f"{number}{self.pick('%', '%', ' %')}"

    def date(self) -> str:
        day = date.fromordinal(self.between(FIRST_DAY, LAST_DAY))
        month = speech(f"{self.language}.months")[day.month - 1]
        if self.language == "en":
            return super().date() if self.chance(0.9) else f"{month} {day.year}"
        forms = (
            f"{day:%d.%m.%Y}", f"{day:%d.%m.%y}", f"{day.day}. {month} {day.year}", f"{day:%d/%m/%Y}",
            f"{day.day} {month} {day.year}", f"{day.day} de {month} de {day.year}", f"{day:%Y-%m-%d}",
        )  # fmt: skip
        chosen = {"de": (0, 0, 1, 2, 2, 6), "fr": (3, 3, 4, 4, 6), "es": (3, 3, 5, 5, 6)}[self.language]
        return forms[chosen[self.date_style % len(chosen)]]

    def time(self) -> str:
        if self.language == "en":
            return super().time()
        hour, minute = self.between(0, 23), self.between(0, 59)
        marks = {"de": (f"{hour}:{minute:02d} Uhr", f"{hour:02d}:{minute:02d}"), "fr": (f"{hour}h{minute:02d}",)}
        return self.pick(*marks.get(self.language, (f"{hour}:{minute:02d}", f"{hour}:{minute:02d} h")))
