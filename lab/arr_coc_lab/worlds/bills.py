"""Bills: goods, the sums that they come to, and where each text of a bill stands.

    for bill in bills(100, seed=3): bill.words, bill.questions

A bill has a subtotal, a tax, a total and often a sum that was paid; each stands beside, above or far from its label.
The ranker of words learns here which is which. Printed pages take the texts and their places, pages only the sums.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from arr_coc.pictures.words import Words, make_words

from .words import DATA, lists_of

SIZE = (1170.0, 827.0)  # height and width of A4 at 100 dots an inch

words = lists_of(DATA / "bills.toml")
MONEY: tuple[Callable[[float], str], ...] = (
    lambda value: f"${value:,.2f}",
    lambda value: f"{value:,.2f} EUR",
    lambda value: f"USD {value:,.2f}",
    lambda value: f"{value:,.2f}",
    lambda value: f"€ {value:,.2f}".replace(",", " ").replace(".", ","),
    lambda value: f"{value:.2f}",
    lambda value: f"£{value:,.2f}",
    lambda value: f"CHF {value:,.2f}".replace(",", "'"),
    lambda value: f"$ {value:,.2f}",
    lambda value: f"{value:,.2f} kr",
)


class Goods(NamedTuple):
    thing: str
    count: int
    price: float


class Sum(NamedTuple):
    """One line of the sums. kind: one of those of `asked` in bills.toml. label, value: as written."""

    kind: str
    label: str
    value: str


def goods_of(lots: random.Random, things: Iterable[str], dearest: float = 400) -> list[Goods]:
    """Things with how many were bought, and the price of one."""
    return [Goods(thing, lots.randint(1, 9), round(lots.uniform(1, dearest), 2)) for thing in things]


def sums_of(
    lots: random.Random, goods: Sequence[Goods], money: Callable[[float], str], till: bool, language: str = ""
) -> list[Sum]:
    """The lines below the goods. The total is what has to be paid for them, whatever was paid already.

    language: "german." for German labels.
    """

    def label(kind: str) -> str:
        return lots.choice(words(language + kind))

    net = sum(one.count * one.price for one in goods)
    rest, lines = net, [("subtotal", label("sums.subtotal"), net)] if lots.random() < 0.85 else []
    for kind in words("more"):
        if lots.random() < 0.2:
            amount = round(net * lots.uniform(0.02, 0.15), 2)
            rest += -amount if kind == "discount" else amount
            lines.append((kind, label(f"more.{kind}"), amount))
    tax = round(rest * lots.choice((0.05, 0.07, 0.085, 0.19, 0.2)), 2)
    if lots.random() < 0.85:
        lines.append(("tax", label("sums.tax"), tax))
        rest += tax
    after = lots.random() < (0.6 if till else 0.2)
    labels = [one for one in words(f"{language}sums.total") if not after or not re.search("due|pay|zahl", one.lower())]
    lines.append(("total", lots.choice(labels), rest))
    if after:
        how = "till" if till else "paid"
        paid = round(rest * lots.uniform(1.0, 1.3), 2) if till else round(rest * lots.uniform(0.1, 0.9), 2)
        lines += [("paid", label(f"{how}.paid"), paid)]
        lines += [("balance", label(f"{how}.balance"), abs(rest - paid))]
    if not till and lots.random() < 0.12:  # the sum that counts stands first
        lines.sort(key=lambda line: line[0] != "total")
    return [Sum(kind, label, money(value)) for kind, label, value in lines]


# ---- Bills as texts with places --------------------------------------------------------------------------------------


class BillText(NamedTuple):
    """A text that begins (or ends, where `right`) at x on the line y, and (n, 4) the boxes of its words in 0–1."""

    text: str
    x: float
    y: float
    right: bool
    scale: float
    boxes: np.ndarray


class BillQuestion(NamedTuple):
    """A question, the text that answers it, and those that name it."""

    query: str
    answer: BillText
    named: tuple[BillText, ...] = ()

    @property
    def context(self) -> np.ndarray:
        """(n, 4) boxes of what names it."""
        return np.concatenate([np.zeros((0, 4)), *(one.boxes for one in self.named)])


class Bill(NamedTuple):
    """texts: of the page, `size` pixels high. words: of all texts, shuffled. kind: invoice or receipt."""

    texts: list[BillText]
    size: float
    words: Words
    questions: list[BillQuestion]
    kind: str


@dataclass
class BillSheet:
    """A page that is being filled. size: height of its type. wide: how wide its letters are."""

    lots: random.Random
    size: float
    wide: float
    texts: list[BillText] = field(default_factory=list)
    questions: list[BillQuestion] = field(default_factory=list)

    def put(self, x: float, y: float, text: str, *, right: bool = False, scale: float = 1.0) -> BillText:
        """Write a text that begins (or ends) at x on the line y."""
        high = self.size * scale
        widths = [self.wide * high * sum(0.5 if letter in "ilI.,:;'|1fjt " else 1.0 for letter in word) * 0.62
                  for word in text.split()]  # fmt: skip
        space = 0.3 * high
        at = x - (sum(widths) + space * (len(widths) - 1)) if right else x
        boxes = []
        for width in widths:
            boxes.append((at, y - high, at + width, y + 0.25 * high))
            at += width + space
        placed = BillText(text, x, y, right, scale, np.array(boxes) / (SIZE[1], SIZE[0], SIZE[1], SIZE[0]))
        self.texts.append(placed)
        return placed

    def words(self, source: str) -> Words:
        """The words in a random order: readers must not lean on the order of a file."""
        texts = [word for one in self.texts for word in one.text.split()]
        boxes = np.concatenate([one.boxes for one in self.texts]) * (SIZE[1], SIZE[0], SIZE[1], SIZE[0])
        order = self.lots.sample(range(len(texts)), len(texts))
        return make_words([texts[place] for place in order], boxes[order], size=SIZE, source=source)


Placed = tuple[Sum, BillText, BillText]


def sums_beside(sheet: BillSheet, y: float, sums: Sequence[Sum], ends: tuple[float, float]) -> list[Placed]:
    """Labels left of their values, one a line; the values end at the right edge."""
    label_at, value_at = ends
    right, found = sheet.lots.random() < 0.5, []
    for one in sums:
        scale = 1.25 if one.kind == "total" and sheet.lots.random() < 0.4 else 1.0
        label = sheet.put(label_at, y, one.label + sheet.lots.choice(("", "", ":")), right=right, scale=scale)
        found.append((one, label, sheet.put(value_at, y, one.value, right=True, scale=scale)))
        y += sheet.size * scale * sheet.lots.uniform(1.5, 2.2)
    return found


def sums_below(sheet: BillSheet, y: float, sums: Sequence[Sum], ends: tuple[float, float]) -> list[Placed]:
    """Labels in a row, each with its value below it."""
    found = []
    for place, one in enumerate(sums):
        x = 60 + place * (SIZE[1] - 120) / len(sums)
        label = sheet.put(x, y, one.label)
        found.append((one, label, sheet.put(x, y + 1.6 * sheet.size, one.value)))
    return found


def sums_in_lines(sheet: BillSheet, y: float, sums: Sequence[Sum], ends: tuple[float, float]) -> list[Placed]:
    """Sentences: two sums a line, the total on the last."""
    found, x = [], 60.0
    for place, one in enumerate(sums):
        if place and (place % 2 == 0 or one.kind == "total"):
            x, y = 60.0, y + 1.9 * sheet.size
        label = sheet.put(x, y, one.label + sheet.lots.choice((":", "")))
        start = label.boxes[-1, 2] * SIZE[1] + 0.6 * sheet.size
        value = sheet.put(start, y, one.value)
        found.append((one, label, value))
        x = value.boxes[-1, 2] * SIZE[1] + 2.5 * sheet.size
    return found


def sums_at_left(sheet: BillSheet, y: float, sums: Sequence[Sum], ends: tuple[float, float]) -> list[Placed]:
    """As `sums_beside`, close together at the left edge."""
    return sums_beside(sheet, y, sums, (60.0 if sheet.lots.random() < 0.7 else 220.0, 420.0))


def sums_in_boxes(sheet: BillSheet, y: float, sums: Sequence[Sum], ends: tuple[float, float]) -> list[Placed]:
    """Each value above its label, as on tickets and dashboards."""
    found = []
    for place, one in enumerate(sums):
        x, top = 60 + 250 * (place % 3), y + 3.6 * sheet.size * (place // 3)
        value = sheet.put(x, top, one.value, scale=1.3)
        found.append((one, sheet.put(x, top + 1.4 * sheet.size, one.label), value))
    return found


# The most common one stands twice.
LAYOUTS = (sums_beside, sums_below, sums_in_lines, sums_at_left, sums_beside, sums_in_boxes)


def bills(number: int, seed: int = 0, split: str = "train") -> Iterator[Bill]:
    """Bills 0 … number - 1. The same seed and split give the same pages; two splits share none."""
    for place in range(number):
        lots = random.Random(f"{seed} {split} {place}")
        yield make_bill(lots, "receipt" if lots.random() < 0.25 else "invoice")


def make_bill(lots: random.Random, kind: str) -> Bill:
    """One page of one shop, with all that may be asked about it."""
    sheet = BillSheet(lots, lots.uniform(9, 17), lots.uniform(0.8, 1.15))
    money, narrow = lots.choice(MONEY), kind == "receipt"
    left, right = (180.0, 560.0) if narrow else (50.0, SIZE[1] - 50.0)
    y = head_of(sheet, left, right, narrow)
    goods = goods_of(lots, (lots.choice(words("things")) for _ in range(lots.randint(2, 12))))
    y = items_of(sheet, goods, money, y, (left, right), narrow)
    y += sheet.size * lots.uniform(1, 4)
    sums = sums_of(lots, goods, money, narrow)
    lay = sums_beside if narrow else lots.choice(LAYOUTS)
    placed = lay(sheet, y, sums, (left if narrow else lots.uniform(430, 560), right))
    for one, label, value in placed:
        asked = [one.label.lower().strip(":"), *words(f"asked.{one.kind}")]
        alone = sum(other.kind == "balance" for other in sums) == 0 or one.kind != "total"
        names = asked if alone else [name for name in asked if "pay" not in name and "due" not in name]
        chosen = lots.sample(names, min(2, len(names)))
        sheet.questions += [BillQuestion(phrased(lots, name), value, (label,)) for name in chosen]
    for text in lots.sample(words("foot"), 2):
        sheet.put(left, SIZE[0] - lots.uniform(20, 120), text)
    return Bill(sheet.texts, sheet.size, sheet.words(f"a drawn {kind}"), sheet.questions, kind)


def phrased(lots: random.Random, name: str) -> str:
    form = lots.choice(words("forms"))
    text = form.format(name if form in ("{}", "{}?") else f"the {name}")
    return text[:1].upper() + text[1:] if lots.random() < 0.8 else text


def head_of(sheet: BillSheet, left: float, right: float, narrow: bool) -> float:
    """Shop, customer, number and dates → where the goods begin."""
    lots, y = sheet.lots, sheet.lots.uniform(50, 110)
    shop = sheet.put(left, y, lots.choice(words("shops")), scale=lots.uniform(1, 1.8))
    who = lots.choice(("Which shop is this?", "Who sent this invoice?", "What is the company?"))
    sheet.questions.append(BillQuestion(who, shop))
    y += 2 * sheet.size
    sheet.put(left, y, lots.choice(words("streets")))
    day = f"{lots.randint(1, 28):02}{lots.choice('./-')}{lots.randint(1, 12):02}.20{lots.randint(10, 29)}"
    due = f"{lots.choice(('March', 'June', 'October'))} {lots.randint(1, 28)}, 20{lots.randint(10, 29)}"
    lines = [(("Invoice no.", "Invoice number", "No.", "Receipt #"), str(lots.randint(1000, 99999)), "invoice number"),
             (("Date", "Invoice date", "Issued"), day, "date")]  # fmt: skip
    if not narrow:
        lines += [(("Due date", "Pay by", "Payment due"), due, "due date")]
        lines += [(("Customer", "Bill to", "Client", "Sold to"), lots.choice(words("people")), "customer")]
    aside = lots.random() < 0.5 and not narrow
    for labels, value, name in lines:
        y += 1.8 * sheet.size
        x = right - 300 if aside else left
        label = sheet.put(x, y, lots.choice(labels) + lots.choice(("", ":")))
        placed = sheet.put(right if aside else label.boxes[-1, 2] * SIZE[1] + sheet.size, y, value, right=aside)
        sheet.questions.append(BillQuestion(phrased(lots, name), placed, (label,)))
    return y + sheet.size * lots.uniform(2, 5)


def items_of(
    sheet: BillSheet,
    goods: Sequence[Goods],
    money: Callable[[float], str],
    y: float,
    ends: tuple[float, float],
    narrow: bool,
) -> float:
    """The table of goods, its columns in any order → where it ends."""
    lots, (left, right) = sheet.lots, ends
    names = ["thing", "sum"] if narrow else ["thing", *lots.sample(["count", "price", "sum"], 3)]
    if not narrow and lots.random() < 0.3:
        names = [names[1], names[0], *names[2:]]
    edges = {name: left + (place + 1) * (right - left) / len(names) for place, name in enumerate(names)}
    begins = {name: edge - (right - left) / len(names) for name, edge in edges.items()}

    def cell(name: str, text: str) -> BillText:
        return sheet.put(begins[name] if name == "thing" else edges[name], y, text, right=name != "thing")

    headed: dict[str, BillText] = {}
    if not narrow:
        headed = {name: cell(name, lots.choice(words(f"heads.{name}"))) for name in names}
        y += 1.8 * sheet.size
    asked = set(lots.sample(range(len(goods)), min(2, len(goods))))
    once = [thing for thing, _, _ in goods]
    for place, (thing, count, price) in enumerate(goods):
        values = {"thing": thing, "count": str(count), "price": money(price), "sum": money(count * price)}
        row = {name: cell(name, values[name]) for name in names}
        y += sheet.size * 1.75
        if place in asked and once.count(thing) == 1:
            name = lots.choice([name for name in names if name != "thing"])
            form = {"count": "How many {}?", "price": "What is the unit price of the {}?",
                    "sum": "How much is the {}?"}[name]  # fmt: skip
            named = (row["thing"], headed[name]) if headed else (row["thing"],)
            sheet.questions.append(BillQuestion(form.format(thing.lower()), row[name], named))
    return y
