"""Who writes what is printed: names, dates, sums, codes, sentences, each in many forms, from one source of chance.

What is written is a pattern. Some of its places say only "a figure", "a capital"; they are filled when it is drawn.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable, Sequence

from ..needle import words as needle_words
from ..pages.words import vocabulary

LENGTH = 96  # characters of a row at most
VALUE = 30  # … of what belongs to a label
FIRST_CLASS = 200  # from here on a byte is a class of characters
# In patterns: a figure, not 0, a capital, a small letter, capital or figure, a vowel.
MARKS = {"#": string.digits, "%": "123456789", "@": string.ascii_uppercase, "&": string.ascii_lowercase}
MARKS |= {"*": string.ascii_uppercase + string.digits, "~": "aeiou"}
OTHERS = "".join(chr(code) for code in range(33, 127) if not chr(code).isalnum()) + "€"
CLASSES = (*MARKS.values(), OTHERS, string.ascii_letters + string.digits + OTHERS)
SMALL, CAPITAL, FIGURE, OTHER, ANY = 3, 2, 0, 6, 7
PLAIN = (
    "the of and to in a is that for it as was with be by on not he his but at are this have from or had an they "
    "which one you were all her she there would their we him been has when who will no more if out so up said "
    "what its about than into them can only other time new some could these two may first then do any like my now "
    "over such our man me even most made after also did many off before must well back through years much where "
    "your way down should because long each just state those people too mr how little good world make very year "
    "still see own work men day get here between both life being under three never know same last another while "
    "us might great go come since against right came take used himself few house american use place during high "
    "without again home around small however found mrs part school thought went say general once upon left war "
    "every number until always away something fact water though less public put think almost hand enough far took "
    "head yet better set told nothing night end why called did eyes find going look asked later point next "
    "program city business give group toward young days let room within children side social given present "
    "several order national second possible rather per face among form important often things looked early white "
    "john case big become large need four felt along god seen saw best church least power development light thing "
    "family seemed interest want members others mind area country turned already although please enclosed "
    "regarding attached hereby agreement herein thereof pursuant section shall party account payment invoice "
    "delivery terms conditions within amount total balance notice receipt customer service department office und "
    "der die das mit von ist nicht auch eine wird oder als bei nach durch Rechnung Betrag Datum Straße Lieferung "
    "le la les des une est dans pour que qui sur avec par facture montant prix livraison el los las con para por "
    "del una como factura importe fecha entrega het een van voor met zijn niet bedrag datum och att det som till "
    "faktura"
).replace("ß", "ss")


def _list(text: str) -> tuple[str, ...]:
    return tuple(text.split("|"))


COMPANIES = _list(
    "Inc.|Ltd.|LLC|Corp.|GmbH|AG|S.A.|B.V.|& Co.|& Sons|Group|Partners|Holdings|Co.|PLC|Bros.|SARL|AB|Oy|K.K."
)
STREETS = _list("Street|St.|Avenue|Ave.|Road|Rd.|Lane|Drive|Blvd.|Court|Place|Way|Square|Terrace|Park|Row|Quay|Hill")
MONTHS = _list("January|February|March|April|May|June|July|August|September|October|November|December")
DAYS = _list("Mon|Tue|Wed|Thu|Fri|Sat|Sun|Monday|Tuesday|Wednesday|Thursday|Friday|Saturday|Sunday")
UNITS = _list("mm|cm|kg|g|mg|km|m|in.|lbs|ml|l|V|W|Hz|psi|min|hours|weeks|ppm|kW|MB|oz|pcs|dB|rpm|days")
CODES = _list(
    "##-####|######|####-##|@######|##-#####-@|@@@####|########|##/####|@-##|#####|@@@-###|##-##-##|#### ####|"
    "@#@#@#|###|@@-####-@|%##|INV-####|No. ####|#%##-@|***-****|******|@@##@@|%###/##|PO-#####|A#-##.##|#.##.###|"
    "@@@ ###|@@ ## ###|###-##-####|&&&&-####|@## #@@|%-###-###|********|@&&&-##|(##) ####|##########|@@ ####/%#"
)
CURRENCIES = ("$", "€", "USD ", "EUR ", "GBP ", "RM ", "Rs. ", "CHF ", "$ ", "A$", "")
TAXES = _list(
    "VAT 19 %|VAT (20%)|Sales tax|Tax|VAT|GST 10%|GST|HST 13%|MwSt. 7 %|TVA 20%|IVA 21%|Tax 8.25%|City tax|Excise"
)
SUBTOTALS = _list(
    "Subtotal|Sub-total|Sub total|Net|Net amount|Net total|Total excl. tax|Total before tax|SUBTOTAL|Goods total|"
    "Amount before tax|Items total|Total net|Taxable amount|Zwischensumme"
)
TOTALS = _list(
    "Total|TOTAL|Total due|Amount due|Grand total|Balance due|To pay|Total amount|Total incl. tax|GRAND TOTAL|"
    "Invoice total|Total to pay|Amount payable|Total price|Please pay|Gross total|Sum total|Gesamtbetrag|Net to pay"
)
DATED = _list("Date|Invoice date|Date of issue|Issued|Bill date|Datum|Order date|DATE|Billing date|Sale date")
OTHER_SUMS = _list(
    "Discount|Shipping|Delivery|Cash|Change|Card|Deposit|Tip|Service charge|Rounding|Paid|Credit|Postage|Handling|"
    "Freight|VISA|Mastercard|Amount paid|Fee|Surcharge|Voucher"
)


def _pattern(text: str) -> str:
    """Marks of a pattern as the bytes of their classes."""
    return text.translate({ord(mark): chr(FIRST_CLASS + index) for index, mark in enumerate(MARKS)})


class TextWriter:
    """Rows of every kind, from one source of chance."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        nouns = [
            w for name in ("items", "services", "nouns", "goods", "sections", "documents") for w in vocabulary(name)
        ]
        self.words = PLAIN.split() * 2 + [word for noun in nouns for word in noun.split()]

    def pick(self, texts: Sequence[str]) -> str:
        return self.random.choice(texts)

    def invented(self) -> str:
        """A word that means nothing."""
        parts = [self.pick(needle_words.SYLLABLES_ONE), *(self.pick(needle_words.SYLLABLES_TWO) for _ in range(2))]
        return "".join(parts[: self.random.randint(1, 3)]) + self.pick(needle_words.SYLLABLES_THREE)

    def person(self) -> str:
        first, last = (
            self.pick(needle_words.FIRST_NAMES),
            self.pick((self.pick(needle_words.LAST_NAMES), self.invented())),
        )
        short = f"{first[0]}."
        return self.pick(
            (
                f"{first} {last}",
                f"{first} {last}",
                f"{short} {last}",
                f"{last}, {first}",
                f"Dr. {first} {last}",
                f"{first} {self.pick(string.ascii_uppercase)}. {last}",
                f"{last}",
                f"{short}{_pattern('@')}. {last}",
            )
        )

    def company(self) -> str:
        name = self.pick((self.pick(needle_words.LAST_NAMES), self.invented(), self.pick(self.words).title()))
        return self.pick(
            (
                f"{name} {self.pick(COMPANIES)}",
                f"{name} {self.pick(self.words).title()} {self.pick(COMPANIES)}",
                f"{name} & {self.invented()}",
                f"{name.upper()} {self.pick(COMPANIES)}",
                self.pick(needle_words.SHOPS),
            )
        )

    def date(self) -> str:
        day, month, year = self.random.randint(1, 28), self.random.randint(1, 12), self.pick(("19##", "20##"))
        name = self.pick((MONTHS[month - 1], MONTHS[month - 1][:3]))
        ways = (
            f"{day:02d}/{month:02d}/{year}",
            f"{month}/{day}/##",
            f"{year}-{month:02d}-{day:02d}",
            f"{day} {name} {year}",
            f"{name} {day}, {year}",
            f"{day:02d}.{month:02d}.{year}",
            f"{month:02d}-{day:02d}-##",
            f"{name} {year}",
            f"{self.pick(DAYS)}, {name} {day}",
            f"{day}.{month}.##",
            f"{day:02d} {name.upper()} ##",
        )
        return _pattern(self.pick(ways))

    def time(self) -> str:
        hour, minute = self.random.randint(1, 12), self.random.randint(0, 59)
        return self.pick(
            (
                f"{hour}:{minute:02d} {self.pick(('AM', 'PM', 'a.m.', 'p.m.'))}",
                f"{hour + 11}:{minute:02d}",
                f"{hour + 11:02d}:{minute:02d}:{self.random.randint(0, 59):02d}",
            )
        )

    def money(self) -> str:
        whole = self.pick(("%", "%#", "%##", "%##", "%,###", "%#,###", "%###", "%##,###"))
        text = self.pick(
            (f"{whole}.##", f"{whole}.##", f"{whole}.##", whole, f"{whole.replace(',', '.')},##", f"{whole} ##")
        )
        mark = self.pick(CURRENCIES)
        return _pattern(
            self.pick((mark + text, mark + text, text, f"{text} {mark.strip()}".strip(), f"({text})", f"-{text}"))
        )

    def code(self) -> str:
        return _pattern(self.pick(CODES))

    def phone(self) -> str:
        return _pattern(
            self.pick(
                (
                    "(%##) ###-####",
                    "%##-###-####",
                    "+## ## #######",
                    "0### ######",
                    "%##.###.####",
                    "+1 %## ### ####",
                    "###-####",
                    "0## #### ####",
                    "%##/###-####",
                )
            )
        )

    def email(self) -> str:
        name, host = self.person().split()[-1].lower().strip("."), self.invented().lower()
        return f"{name}@{host}.{self.pick(('com', 'org', 'net', 'de', 'co.uk', 'fr'))}".replace(
            chr(FIRST_CLASS + 2), "x"
        )

    def street(self) -> str:
        name = self.pick((self.invented(), self.pick(needle_words.LAST_NAMES), self.pick(self.words).title()))
        return _pattern(self.pick(("%##", "%#", "%", "%###"))) + f" {name} {self.pick(STREETS)}"

    def city(self) -> str:
        return self.pick(
            (
                self.pick(needle_words.CITIES),
                self.invented(),
                f"{self.invented()}, {_pattern('@@')}",
                _pattern("#####") + f" {self.pick(needle_words.CITIES)}",
            )
        )

    def zip(self) -> str:
        return _pattern(self.pick(("#####", "#####-####", "@@# #@@", "####", "@#@ #@#", "@-####", "## ###")))

    def whole(self) -> str:
        return _pattern(self.pick(("%", "%#", "%##", "%,###", "%###", "%#,###", "%#", "0", "%.#", "%#.##")))

    def measure(self) -> str:
        return _pattern(self.pick(("%", "%#", "%##", "%.#", "%#.#", "0.##", "%.##"))) + f" {self.pick(UNITS)}"

    def percent(self) -> str:
        return _pattern(self.pick(("%", "%#", "%.#", "%#.#", "0.##"))) + self.pick(
            ("\x25", "\x25", " \x25", " percent")
        )

    def word(self) -> str:
        return self.pick(
            (self.pick(vocabulary("statuses")), self.pick(vocabulary("items")), self.invented(), self.pick(self.words))
        )

    def words_of(self, most: int) -> str:
        """Some words: as they come, with a capital in front, or a capital each."""
        text = " ".join(
            self.pick((self.pick(self.words),) * 4 + (self.invented(),)) for _ in range(self.random.randint(1, most))
        )
        return self.pick((text, text[:1].upper() + text[1:], text.title()))

    def sentence(self) -> str:
        """Prose with its marks, figures and names, as long as a line may be."""
        parts: list[str] = []
        length, start = 0, self.random.random() < 0.4
        while length < LENGTH:
            pick = self.random.random()
            word = (
                self.pick(self.words)
                if pick < 0.8
                else self.pick((self.invented(), self.person(), self.whole(), self.code(), self.date()))
            )
            word = word[:1].upper() + word[1:] if start else word
            start = self.random.random() < 0.1
            mark = "." if start else self.pick(("",) * 12 + (",", ",", ";", ":", " -"))
            word = self.pick((word,) * 30 + (f'"{word}"', f"({word})", f"'{word}'")) + mark
            parts.append(word)
            length += len(word) + 1
        return " ".join(parts)

    def nonsense(self) -> str:
        """Groups of any characters."""
        parts: list[str] = []
        length = 0
        classes = [chr(FIRST_CLASS + n) for n in self.random.choices((SMALL, CAPITAL, FIGURE, 4, OTHER, ANY), k=3)]
        while length < LENGTH:
            size = self.random.randint(1, 9)
            parts.append(
                "".join(self.random.choices(classes, k=size))
                if self.random.random() < 0.5
                else self.pick(classes) * size
            )
            length += size + 1
        return " ".join(parts)

    def leader(self) -> str:
        return self.pick((".", ". ", "_", "-", " .", "..", "_ ")) * LENGTH

    def tick(self) -> str:
        return _pattern(self.pick(("%", "%#", "%##", "%#0", "%00", "%,000", "0.#", "%.#", "%#k", "%0\x25", "%.#M")))

    def label_of_chart(self) -> str:
        return self.pick(
            (
                self.pick(self.random.choice(needle_words.CHART_SETS)),
                self.pick(needle_words.CITIES),
                self.pick(vocabulary("series")),
                _pattern("20##"),
                _pattern("Q% ##"),
                self.invented(),
                self.pick(vocabulary("goods")).title(),
            )
        )

    def makers(self, labels: Sequence[str]) -> dict[str, tuple[int, Callable[[], str]]]:
        """Of every kind how many are written, and how."""
        return {
            "name": (4096, self.person),
            "company": (3072, self.company),
            "date": (3072, self.date),
            "time": (512, self.time),
            "money": (1024, self.money),
            "code": (len(CODES) * 4, self.code),
            "phone": (64, self.phone),
            "email": (1024, self.email),
            "street": (3072, self.street),
            "city": (1024, self.city),
            "country": (512, self.city),
            "zip": (64, self.zip),
            "job": (1024, lambda: self.words_of(2)),
            "int": (64, self.whole),
            "measure": (512, self.measure),
            "percent": (64, self.percent),
            "yesno": (16, lambda: self.pick(("Yes", "No", "X", "N/A", "yes", "no", "NO", "YES"))),
            "word": (2048, self.word),
            "text": (4096, lambda: self.words_of(5)),
            "sentence": (8192, self.sentence),
            "nonsense": (4096, self.nonsense),
            "leader": (32, self.leader),
            **self.page_makers(labels),
        }

    def page_makers(self, labels: Sequence[str]) -> dict[str, tuple[int, Callable[[], str]]]:
        """The same of what only pages have: titles, columns, items, sums, what stands below."""
        return {
            "title": (
                2048,
                lambda: self.pick((self.pick(vocabulary("documents")), self.words_of(4), self.company())),
            ),
            "column": (
                1024,
                lambda: self.pick(
                    (
                        self.pick(labels),
                        self.pick(vocabulary("series")),
                        self.words_of(1).title(),
                        _pattern("20##"),
                        self.pick(needle_words.MONTHS),
                    )
                ),
            ),
            "item": (
                3072,
                lambda: self.pick(
                    (
                        self.pick(vocabulary("items")),
                        self.pick(vocabulary("services")),
                        self.pick(vocabulary("dishes")),
                        self.words_of(3),
                        self.invented(),
                        f"{self.pick(vocabulary('items'))} {self.measure()}",
                    )
                ),
            ),
            "tick": (256, self.tick),
            "category": (1024, self.label_of_chart),
            "subtotal": (16, lambda: self.pick(SUBTOTALS)),
            "tax": (16, lambda: self.pick(TAXES)),
            "total": (32, lambda: self.pick(TOTALS)),
            "sum": (32, lambda: self.pick(OTHER_SUMS)),
            "footer": (
                512,
                lambda: self.pick(
                    (
                        self.email(),
                        self.phone(),
                        self.words_of(7),
                        self.street(),
                        self.company(),
                        "Thank you for your business.",
                        "Please pay within 30 days.",
                    )
                ),
            ),
            "page": (
                64,
                lambda: _pattern(self.pick(("Page %", "Page % of %", "%", "- % -", "%/%#", "%##", "p. %#", "Page %#"))),
            ),
            "section": (256, lambda: self.pick((self.pick(vocabulary("sections")), self.words_of(3)))),
            "invoice": (
                64,
                lambda: self.pick(
                    (
                        "Invoice",
                        "Invoice no.",
                        "Invoice number",
                        "Receipt",
                        "Receipt no.",
                        "Bill no.",
                        "Order no.",
                        "Invoice #",
                        "Document no.",
                        "Ref.",
                        "Reference",
                        "Customer no.",
                        "Ticket",
                        "Check #",
                    )
                ),
            ),
            "dated": (16, lambda: self.pick(DATED)),
        }
