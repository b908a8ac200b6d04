"""Words for pages: labels with the kind of value that belongs to them, vocabularies, and values made with Faker."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import date
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FIRST_DAY, LAST_DAY = date(1958, 1, 1).toordinal(), date(2025, 12, 31).toordinal()
ASSETS = Path(__file__).with_name("assets")
LOCALES = (
    *["en_US"] * 8,
    "en_GB",
    "en_GB",
    "en_AU",
    "en_CA",
    "de_DE",
    "fr_FR",
    "es_ES",
    "pt_PT",
    "nl_NL",
    "sv_SE",
    "pl_PL",
)
DATES = (
    "%d/%m/%Y",
    "%m/%d/%y",
    "%m/%d/%Y",
    "%Y-%m-%d",
    "%d %b %Y",
    "%B %d, %Y",
    "%d.%m.%Y",
    "%b %d, %Y",
    "%m-%d-%y",
    "%A, %B %d",
    "%d %B %Y",
)
UNITS = (
    "mm",
    "cm",
    "kg",
    "g",
    "mg",
    "km",
    "m",
    "in.",
    "lbs",
    "ml",
    "l",
    "°C",
    "V",
    "W",
    "Hz",
    "psi",
    "min",
    "hours",
    "weeks",
    "mg/cig",
    "ppm",
    "sq ft",
)
PREFIXES = (
    "Total",
    "Estimated",
    "Current",
    "Proposed",
    "Previous",
    "Net",
    "Revised",
    "Final",
    "Original",
    "Average",
    "Maximum",
    "Minimum",
    "Monthly",
    "Annual",
    "New",
    "Old",
    "Primary",
    "Secondary",
    "Other",
    "Local",
)


@cache
def _asset(name: str) -> dict[str, tuple[str, ...]]:
    lines = (ASSETS / name).read_text(encoding="utf-8").splitlines()
    return {key: tuple(words.strip().split("|")) for key, _, words in (line.partition(":") for line in lines if line)}


def vocabulary(name: str) -> tuple[str, ...]:
    """One of the word lists of `assets/words.txt`: items, services, dishes, ui, statuses, nouns, goods, …"""
    return _asset("words.txt")[name]


@cache
def label_kinds() -> dict[str, str]:
    """Every label that a form may carry → the kind of value that stands beside it."""
    return {label: kind for kind, labels in _asset("labels.txt").items() for label in labels}


@cache
def faker_for(locale: str) -> Any:
    """One Faker a language and process; whoever draws a page seeds it first."""
    return import_module("faker").Faker(locale)


class Words:
    """Seeded words of one page. `random` is the page's own; the language of names and places is drawn with it."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.fake = faker_for(source.choice(LOCALES))
        self.fake.seed_instance(source.getrandbits(48))
        self.date_format = source.choice(DATES)
        self.currency = source.choice(("$", "$", "$", "$", "€", "£", "RM ", "USD ", "EUR ", "", ""))
        self.code_shape = source.choice(
            ("??-####", "######", "####-##", "?######", "##-#####-?", "???####", "#########", "##/####", "?-##")
        )

    def distinct(self, make: Callable[[], str], n: int) -> list[str]:
        """Up to n different strings; fewer where the maker has no more to give."""
        found: dict[str, None] = {}
        for _ in range(n * 6):
            found.setdefault(make())
            if len(found) == n:
                break
        return list(found)

    def labels(self, n: int) -> list[tuple[str, str]]:
        """n different (label, kind); one in nine is made up from a prefix and a label."""
        kinds = label_kinds()
        chosen = self.random.sample(list(kinds), n)
        result = []
        for label in chosen:
            if self.random.random() < 0.12 and kinds[label] in ("money", "int", "date", "measure", "percent", "code"):
                result.append((f"{self.random.choice(PREFIXES)} {label[0].lower()}{label[1:]}", kinds[label]))
            else:
                result.append((label, kinds[label]))
        return result

    def date(self) -> str:
        # Not Faker's own dates: they reach until the moment of asking, so the same seed gives others every second.
        made = date.fromordinal(self.random.randint(FIRST_DAY, LAST_DAY))
        text = made.strftime(self.date_format if self.random.random() < 0.85 else self.random.choice(DATES))
        return text.lstrip("0") if self.random.random() < 0.3 else text

    def money(self, high: float = 2000, plain: bool = False) -> str:
        value = self.random.uniform(1, high)
        text = f"{value:,.2f}" if self.random.random() < 0.8 else f"{value:,.0f}"
        return text if plain else f"{self.currency}{text}"

    def code(self) -> str:
        shape = (
            self.code_shape
            if self.random.random() < 0.5
            else self.random.choice(("#####", "???-###", "##-##-##", "#### ####", "?#?#?#", "###"))
        )
        letters = {"?": string.ascii_uppercase, "#": string.digits}
        return "".join(self.random.choice(letters[c]) if c in letters else c for c in shape)

    def sentence(self, low: int = 3, high: int = 12) -> str:
        """English or the page's language, without the full stop."""
        return self.fake.sentence(nb_words=self.random.randint(low, high)).rstrip(".")

    def paragraph(self, sentences: int) -> str:
        return " ".join(self.fake.sentence(nb_words=self.random.randint(5, 16)) for _ in range(sentences))

    def heading(self) -> str:
        pick = self.random.random()
        if pick < 0.4:
            return self.fake.catch_phrase() if hasattr(self.fake, "catch_phrase") else self.fake.bs().title()
        if pick < 0.7:
            return self.random.choice(vocabulary("documents"))
        return self.fake.sentence(nb_words=self.random.randint(2, 5)).rstrip(".")

    def value(self, kind: str) -> str:
        """A believable value for a label of this kind."""
        r, fake = self.random, self.fake
        match kind:
            case "name":
                full = fake.name()
                return r.choice(
                    (full, full, f"{full.split()[0][0]}. {full.split()[-1]}", f"{full.split()[-1]}, {full.split()[0]}")
                )
            case "company":
                return fake.company()
            case "date":
                return self.date()
            case "time":
                return r.choice(
                    (
                        f"{r.randint(1, 12)}:{r.randint(0, 59):02d} {r.choice(('AM', 'PM', 'a.m.', 'p.m.'))}",
                        f"{r.randint(0, 23):02d}:{r.randint(0, 59):02d}",
                    )
                )
            case "money":
                return self.money(r.choice((50, 900, 20000, 900000)))
            case "code":
                return self.code()
            case "phone":
                return r.choice(
                    (
                        fake.phone_number(),
                        f"({r.randint(201, 989)}) {r.randint(200, 999)}-{r.randint(0, 9999):04d}",
                        f"{r.randint(201, 989)}-{r.randint(200, 999)}-{r.randint(0, 9999):04d}",
                    )
                )
            case "email":
                return fake.ascii_email()
            case "street":
                return fake.street_address().replace("\n", ", ")
            case "city":
                return fake.city()
            case "country":
                return fake.country()
            case "zip":
                return fake.postcode()
            case "job":
                return fake.job().split(",")[0]
            case "int":
                return r.choice((str(r.randint(1, 60)), str(r.randint(1, 999)), f"{r.randint(1000, 99999):,}"))
            case "measure":
                return (
                    f"{r.choice((r.randint(1, 500), round(r.uniform(0.1, 90), 1), round(r.uniform(0, 9), 2)))}"
                    f" {r.choice(UNITS)}"
                )
            case "percent":
                number = r.choice((r.randint(0, 100), round(r.uniform(0, 100), 1)))
                return f"{number}{r.choice(('%', '%', ' %', ' percent'))}"
            case "yesno":
                return r.choice(("Yes", "No", "X", "N/A", "yes", "no"))
            case "word":
                return r.choice(
                    (
                        r.choice(vocabulary("statuses")),
                        r.choice(vocabulary("statuses")),
                        fake.word().capitalize(),
                        r.choice(vocabulary("items")),
                    )
                )
            case _:
                return r.choice(
                    (
                        self.sentence(2, 7),
                        self.sentence(2, 4),
                        r.choice(vocabulary("documents")),
                        fake.bs() if hasattr(fake, "bs") else self.sentence(3, 5),
                    )
                )
