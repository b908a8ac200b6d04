"""Receipts and invoices."""

from __future__ import annotations

from markupsafe import Markup

from ..sheet import Mark, PageSheet, named
from ..words import vocabulary
from .fields import ARRANGEMENTS, HELD_ARRANGEMENTS, arrange, cased, make_fields, pen_for
from .forms import logo

HELD_HEADS = ("banner", "sidebar")
COLUMN_KINDS = {"Qty": "int", "Quantity": "int", "Units": "int", "Hours": "int", "Code": "code", "Tax": "percent"}


def shop(sheet: PageSheet, style: str) -> Markup:
    """Name and address of the seller."""
    text = cased(sheet.fake.company(), sheet.pick("as", "upper"))
    name = sheet.mark(text, f"{sheet.larger(1.1, 1.8)};font-weight:bold")
    street, town = sheet.mark_all(sheet.street(), f"{sheet.fake.postcode()} {sheet.fake.city()}")
    phone = sheet.mark(sheet.value("phone"))
    sheet.ask("title", "sale.shop", name)
    sheet.ask("field", "sale.street", street)
    sheet.ask("field", "sale.phone", phone)
    context = {"name": name, "street": street, "town": town, "phone": phone, "style": style}
    return sheet.render("sales/shop", lead=sheet.pick("Tel:", "Phone", "T.", "TEL"), **context)


def sums(sheet: PageSheet, n: int, high: float) -> list[tuple[Mark, Mark]]:
    """Labels and amounts below the lines: subtotal, tax, total."""
    result, known = [], vocabulary("sale.sums")
    for label in sorted(sheet.random.sample(known, n), key=known.index):
        big = label.startswith(("Total", "Amount"))
        bold = "font-weight:bold;" if big else ""
        lead = sheet.mark(label if sheet.chance(0.6) else label.upper(), bold)
        amount = sheet.money(high)
        value = sheet.mark(amount, bold + ("font-size:1.2em" if big and sheet.chance(0.4) else ""))
        sheet.ask_field(label, "money", value, lead)
        result.append((lead, value))
    return result


def bought(sheet: PageSheet) -> list[dict[str, Mark | int]]:
    """The lines of a receipt."""
    lines = []
    case = sheet.pick("as", "upper", "as")
    known = vocabulary("items") + vocabulary("dishes")
    for item in sheet.random.sample(known, sheet.between(3, max(5, sheet.height // 40))):
        text = cased(item, case)
        name, price, count = sheet.mark_all(text, sheet.money(60, plain=sheet.chance(0.7)), sheet.between(1, 9))
        sheet.ask("value", "price", price, name, I=item)
        if sheet.chance(0.4):
            sheet.ask("value", "count_of", count, name, I=item)
        line = {"name": name, "price": price, "count": count, "each": sheet.mark(sheet.money(60, plain=True))}
        lines.append(line | {"code": sheet.between(10000, 999999) if sheet.layout == "coded" else 0})
    return lines


def receipt(sheet: PageSheet) -> str:
    """A till roll. slip: a narrow column; wide: over the page; twoline: price under the name; coded: numbers first."""
    sheet.set_manner(mono=6, sans=3, serif=1)
    if sheet.chance(0.6) and sheet.width > sheet.height:
        sheet.turn()
    pen, center = pen_for(sheet), sheet.pick("center", "center", "left")
    fields, number = make_fields(sheet, pen, 2, 0, False), sheet.value("code")
    date, time = sheet.mark_all(sheet.date(), sheet.value("time"))
    lead = sheet.mark(sheet.pick("Date:", "DATE", "Date", "Dt:"))
    sheet.ask("field", "sale.date", date, lead)
    sheet.ask("field", "sale.time", time, date)
    bill, code = sheet.mark_all(sheet.word("sale.numbers"), number)
    sheet.ask("field", "sale.number", code, bill)
    context: dict[str, object] = {"lead": lead, "date": date, "time": time, "bill": bill, "code": code}
    context |= {"fields": fields, "lines": bought(sheet), "sums": sums(sheet, sheet.between(3, 7), 300)}
    context |= {"rule": sheet.pick("-" * 32, "=" * 30, "*" * 30, "")}
    room = sheet.width - 2 * sheet.padding
    widths = {"slip": sheet.between(220, 320), "twoline": sheet.between(240, 380), "dotted": 340}
    context |= {"width": min(widths.get(sheet.layout, room), room)}
    context |= {"thanks": sheet.word("sale.thanks"), "text": sheet.sentence(3, 8)}
    return sheet.render("sales/receipt", shop=shop(sheet, f"text-align:{center}"), **context)


def order(sheet: PageSheet, columns: list[Mark]) -> list[list[Mark]]:
    """The lines of an invoice: a thing, and what each column says of it."""
    lines = []
    known = vocabulary("services") + vocabulary("items")
    for item in sheet.random.sample(known, sheet.between(2, max(4, sheet.height // 50))):
        lines.append([name := sheet.mark(item)])
        for column in columns[1:]:
            kind = COLUMN_KINDS.get(column.text)
            text = sheet.value(kind) if kind else sheet.money(3000, plain=sheet.chance(0.5))
            lines[-1].append(value := sheet.mark(text))
            sheet.ask("cell", "cell", value, (name, column), r=item, c=column.text.lower())
    return lines


def invoice(sheet: PageSheet) -> str:
    """Seller, buyer, fields, lines, sums; ruled, striped or plain; the head differs by layout."""
    sheet.set_manner(sans=6, serif=3, mono=2)
    accent = sheet.pick("#000", "#333", sheet.hue(20, 45), sheet.hue(20, 45))
    text = sheet.word("sale.titles")
    title = sheet.mark(text, f"font-size:2em;color:{accent};font-weight:{sheet.pick('bold', 'normal')}")
    sheet.ask_title(title)
    pen = pen_for(sheet)
    fields = make_fields(sheet, pen, sheet.between(4, 8), 0.05, False)
    arrangements = HELD_ARRANGEMENTS if sheet.layout in HELD_HEADS else ARRANGEMENTS
    arrangement = sheet.pick(*(name for name in arrangements if name not in ("combed", "running")))
    block = arrange(sheet, arrangement, fields, sheet.between(1, 5))
    lead, buyer = sheet.mark_all(sheet.word("sale.buyers"), sheet.fake.company())
    sheet.ask_field(lead.text, "company", buyer, lead)
    context: dict[str, object] = {"accent": accent, "title": title, "block": block, "lead": lead, "buyer": buyer}
    context |= {"street": sheet.fake.street_address(), "city": sheet.fake.city()}
    columns = sheet.mark_all(*sheet.word("sale.columns").split("|"))
    context["cell"] = sheet.pick(
        f"border:1px solid {accent};padding:3px 6px",
        "border-bottom:1px solid #ccc;padding:4px 6px",
        "padding:3px 6px",
        "border-left:1px solid #666;border-right:1px solid #666;padding:3px 6px",
    )
    top = sheet.pick(f"background:{accent};color:#fff", "border-bottom:2px solid", "background:#ddd", "")
    context |= {"columns": columns, "top": top, "striped": sheet.chance(0.3), "lines": order(sheet, columns)}
    context |= {"sums": sums(sheet, sheet.between(2, 6), 9000), "seller": shop(sheet, "")}
    sizes = {"letterhead": 44, "sidebar": 40}
    context |= {"logo": logo(sheet, sizes[sheet.layout]) if sheet.layout in sizes else ""}
    context |= {"side": sheet.pick("auto", "auto", "0"), "text": sheet.paragraph(1)}
    return sheet.render(f"sales/{sheet.layout}", **context)


INVOICES, HELD_INVOICES = named(invoice, "letterhead", "split", "centered"), named(invoice, *HELD_HEADS)
RECEIPTS, HELD_RECEIPTS = named(receipt, "slip", "wide", "twoline", "coded"), named(receipt, "dotted")
