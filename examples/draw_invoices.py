"""Delivery notes in a house style of its own, with questions in other words than stand on the page.

    python examples/draw_invoices.py --n 300 --out invoices

Labels are a German office's abbreviations ("USt-IdNr."), questions are plain English ("What is the tax number?"), and
the fields stand in another order on every page: whoever has not learned what the abbreviations mean cannot find the
answer. Needs Pillow only. Writes img/*.png and records.jsonl, the format that `arr-coc train scorer --data` reads.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

WIDTH, HEIGHT = 512, 640
ASKED = 3  # questions about each page
# Label on the page → what it is called in a question, and the form of its value: # a figure, @ a capital letter.
FIELDS = {
    "USt-IdNr.": (("tax number", "VAT registration"), "DE#######"),
    "Kd-Nr.": (("customer number", "number of the customer"), "######"),
    "Beleg": (("invoice number", "number of this invoice"), "@#####"),
    "Auftr.": (("order number", "purchase order"), "@@####"),
    "Lief.-Dat.": (("delivery date", "day of delivery"), "1#.1#.202#"),
    "Zahlb. bis": (("due date", "last day to pay"), "2#.0#.202#"),
    "Zw.-Summe": (("net amount", "sum before tax"), "###.##"),
    "MwSt": (("tax amount", "amount of tax"), "##.##"),
    "Rg-Betrag": (("amount payable", "total to be paid"), "####.##"),
    "Kto.": (("bank account", "account to pay into"), "########"),
    "Gew.": (("weight of the goods", "weight"), "##.# kg"),
    "Lagerpl.": (("storage place", "shelf"), "@-##"),
}
QUESTIONS = ("What is the {}?", "Tell me the {}.", "{}?", "Which {} is given?")
GOODS = ("Schrauben", "Muttern", "Bleche", "Kabel", "Rohre", "Filter", "Lack", "Draht", "Dichtung", "Griffe")
INKS = ("#101010", "#1c2b4a", "#3a2a1a", "#20402a")


def value(form: str, chance: random.Random) -> str:
    filled = (chance.choice("123456789") if mark == "#" else mark for mark in form)
    return "".join(chance.choice("ABCDEFGHKLMNPRSTUVW") if mark == "@" else mark for mark in filled)


def draw_page(chance: random.Random) -> tuple[Image.Image, list[tuple[str, str, list[float]]]]:
    """A page, and its fields: label, value, and the box of the value, x0 y0 x1 y1 in 0–1."""
    page = Image.new("RGB", (WIDTH, HEIGHT), chance.choice(("white", "#fbfaf4", "#f4f6fa")))
    pen, ink, size = ImageDraw.Draw(page), chance.choice(INKS), chance.choice((15, 16, 17))
    small, large = ImageFont.load_default(size), ImageFont.load_default(size + 8)
    pen.text((24, 20), f"Firma {chance.choice(GOODS)} & {chance.choice('ABCDEFG')}. Sohn", ink, large)
    pen.line((24, 58, WIDTH - 24, 58), ink, 2)
    table = chance.random() < 0.5  # the goods stand above the fields or below them
    top, goods = (76, 404) if table else (292, 76)
    for row in range(6):
        count, price = chance.randint(1, 40), chance.randint(100, 9900) / 100
        for x, text in (
            (24, f"{count} x {chance.choice(GOODS)}"),
            (230, f"{price:.2f}"),
            (380, f"{count * price:.2f}"),
        ):
            pen.text((x, goods + 12 + row * 30), text, ink, small)
    fields, labels = [], chance.sample(list(FIELDS), len(FIELDS))
    for place, label in enumerate(labels):
        x, y = (24, 272)[place % 2], top + 12 + place // 2 * 50
        pen.text((x, y), label, ink, small)
        text, start = value(FIELDS[label][1], chance), x + 96
        pen.text((start, y), text, ink, small)
        x0, y0, x1, y1 = pen.textbbox((start, y), text, small)
        fields.append((label, text, [x0 / WIDTH, y0 / HEIGHT, x1 / WIDTH, y1 / HEIGHT]))
    return page, fields


def write_pages(number: int, seed: int, folder: Path) -> int:
    """`number` pages; returns how many questions they have."""
    (folder / "img").mkdir(parents=True, exist_ok=True)
    lines = []
    for index in range(number):
        chance = random.Random(f"{seed} {index}")
        page, fields = draw_page(chance)
        image = f"img/{seed}-{index:04d}.png"
        page.save(folder / image)
        for label, answer, box in chance.sample(fields, ASKED):
            query = chance.choice(QUESTIONS).format(chance.choice(FIELDS[label][0]))
            record = {"source": "invoices", "image": image, "query": query[0].upper() + query[1:], "answer": answer}
            lines.append({**record, "boxes": [[round(side, 5) for side in box]]})
    (folder / "records.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return len(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=300, help="pages [300]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("invoices"))
    given = parser.parse_args()
    asked = write_pages(given.n, given.seed, given.out)
    print(f"{given.n} pages, {asked} questions: {given.out / 'records.jsonl'}")


if __name__ == "__main__":
    main()
