"""Receipts and invoices."""

from __future__ import annotations

from ..sheet import Sheet, named
from ..wording import CELL, COUNT_OF, PRICE, lowered
from ..words import vocabulary
from .fields import ARRANGEMENTS, HELD_ARRANGEMENTS, cased, make_fields, pen_for
from .forms import logo

SUMS = (
    "Subtotal",
    "Sub total",
    "Tax",
    "VAT 20%",
    "GST 6%",
    "Total",
    "Total due",
    "Amount due",
    "Cash",
    "Change",
    "Discount",
    "Rounding",
    "Service charge",
    "Tip",
    "Card",
    "Balance",
    "Net",
    "Shipping",
    "Deposit",
    "Items",
    "Total (RM)",
    "Visa",
    "You saved",
)


def shop(sheet: Sheet, style: str) -> str:
    """Name and address of the seller."""
    name = sheet.mark(
        cased(sheet.fake.company(), sheet.pick("as", "upper")),
        f"font-size:{sheet.random.uniform(1.1, 1.8):.1f}em;font-weight:bold",
    )
    street, town = (
        sheet.mark(sheet.fake.street_address().replace("\n", ", ")),
        sheet.mark(f"{sheet.fake.postcode()} {sheet.fake.city()}"),
    )
    phone = sheet.mark(sheet.value("phone"))
    sheet.ask(
        "title",
        (
            "Which shop is this?",
            "What is the company name?",
            "Who issued this?",
            "seller",
            "store name",
            "What is the name of the store?",
            "From which company is it?",
        ),
        name,
    )
    sheet.ask(
        "field",
        ("What is the address?", "What is the address of the shop?", "Where is the shop?", "street of the seller"),
        street,
    )
    sheet.ask(
        "field",
        ("What is the phone number of the shop?", "phone", "telephone number", "Which number can be called?"),
        phone,
    )
    return (
        f'<div style="{style}">{name}<br>{street}<br>{town}<br>{sheet.pick("Tel:", "Phone", "T.", "TEL")} {phone}</div>'
    )


def sums(sheet: Sheet, n: int, high: float) -> list[tuple[object, object]]:
    out = []
    for label in sorted(sheet.random.sample(SUMS, n), key=SUMS.index):
        big = label.startswith(("Total", "Amount"))
        bold = "font-weight:bold;" if big else ""
        lead, value = (
            sheet.mark(label if sheet.chance(0.6) else label.upper(), bold),
            sheet.mark(sheet.money(high), bold + ("font-size:1.2em" if big and sheet.chance(0.4) else "")),
        )
        sheet.ask_field(label, "money", value, lead)
        out.append((lead, value))
    return out


def receipt(sheet: Sheet, layout: str) -> str:
    """A till roll. slip: a narrow column; wide: over the page; twoline: price under the name; coded: numbers first."""
    sheet.layout, sheet.manner = layout, sheet.random.choices(("mono", "sans", "serif"), (6, 3, 1))[0]
    if sheet.chance(0.6) and sheet.width > sheet.height:
        sheet.width, sheet.height = sheet.height, sheet.width
    pen, center = pen_for(sheet), sheet.pick("center", "center", "left")
    when, number = make_fields(sheet, pen, 2, 0, False), sheet.value("code")
    date, stamp = sheet.mark(sheet.date()), sheet.mark(sheet.value("time"))
    lead = sheet.mark(sheet.pick("Date:", "DATE", "Date", "Dt:"))
    sheet.ask(
        "field",
        (
            "What is the date?",
            "When was this bought?",
            "On which date was the receipt issued?",
            "date",
            "Date of purchase?",
        ),
        date,
        (lead,),
    )
    sheet.ask("field", ("At what time was it bought?", "What time is on the receipt?", "time"), stamp, (date,))
    bill, code = sheet.mark(sheet.pick("Receipt no:", "Invoice #", "Bill no.", "Trans:", "Check #")), sheet.mark(number)
    sheet.ask(
        "field",
        ("What is the receipt number?", "What is the number of the bill?", "receipt no", "transaction number"),
        code,
        (bill,),
    )
    rows = ""
    shown = sheet.pick("as", "upper", "as")
    for item in sheet.random.sample(
        vocabulary("items") + vocabulary("dishes"), sheet.random.randint(3, max(5, sheet.height // 40))
    ):
        name, price, count = (
            sheet.mark(cased(item, shown)),
            sheet.mark(sheet.money(60, plain=sheet.chance(0.7))),
            sheet.mark(sheet.random.randint(1, 9)),
        )
        sheet.ask("value", PRICE, price, (name,), I=item, i=lowered(item))
        if sheet.chance(0.4):
            sheet.ask("value", COUNT_OF, count, (name,), I=item, i=lowered(item))
        each = sheet.mark(sheet.money(60, plain=True))
        if layout == "twoline":
            rows += (
                f'<tr class="cut"><td colspan="2">{name}</td></tr><tr class="cut"><td style="padding-left:18px">{count}'
                f' x {each}</td><td style="text-align:right">{price}</td></tr>'
            )
        elif layout == "coded":
            rows += (
                f'<tr class="cut"><td>{sheet.random.randint(10000, 999999)}</td><td>{name}</td><td>{count}'
                f"</td><td>{each}</td><td"
                f' style="text-align:right">{price}</td></tr>'
            )
        elif layout == "dotted":
            rows += (
                f'<tr class="cut"><td colspan="2"><div style="display:flex">{count}x {name}<div'
                f' style="flex:1;border-bottom:1px dotted;margin:0 3px 3px"></div>{price}</div></td></tr>'
            )
        else:
            rows += f'<tr class="cut"><td>{count}</td><td>{name}</td><td style="text-align:right">{price}</td></tr>'
    span = {"twoline": 1, "coded": 4, "dotted": 1}.get(layout, 2)
    rows += "".join(
        f'<tr><td colspan="{span}" style="padding-top:{3 if i else 8}px">{lead_}</td><td'
        f' style="text-align:right">{value}</td></tr>'
        for i, (lead_, value) in enumerate(sums(sheet, sheet.random.randint(3, 7), 300))
    )
    rule = sheet.pick("-" * 32, "=" * 30, "*" * 30, "")
    rule = f'<div style="text-align:center;overflow:hidden;white-space:nowrap" class="icon">{rule}</div>'
    wide = {"slip": sheet.random.randint(220, 320), "twoline": sheet.random.randint(240, 380), "dotted": 340}.get(
        layout, sheet.width - 2 * sheet.padding
    )
    extra = "".join(f"<div>{f.label} {f.shown}</div>" for f in when)
    foot = (
        '<div class="cut"'
        ' style="text-align:center;margin-top:8px">'
        f"{sheet.pick('Thank you!', 'No returns', 'Please come again', 'THANK YOU FOR SHOPPING', 'Have a nice day')}"
        f"<br>{sheet.text(sheet.sentence(3, 8))}</div>"
    )
    return (
        f'<div style="width:{min(wide, sheet.width - 2 * sheet.padding)}px;margin:0'
        f' auto">{shop(sheet, f"text-align:{center}")}{rule}<div style="display:flex;flex-wrap:wrap;gap:2px'
        f' 14px"><div>{lead} {date} {stamp}</div><div>{bill} {code}</div>{extra}</div>{rule}<table'
        f' style="width:100%">{rows}</table>{rule}{foot}</div>'
    )


def invoice(sheet: Sheet, layout: str) -> str:
    """Seller, buyer, fields, lines, sums; ruled, striped or plain; the head differs by layout."""
    sheet.layout, held = layout, layout in HELD_INVOICES
    sheet.manner = sheet.random.choices(("sans", "serif", "mono"), (6, 3, 2))[0]
    arrangements = HELD_ARRANGEMENTS if held else ARRANGEMENTS
    accent = sheet.pick("#000", "#333", sheet.hue(20, 45), sheet.hue(20, 45))
    title = sheet.mark(
        sheet.pick(
            "INVOICE",
            "Invoice",
            "Purchase order",
            "QUOTATION",
            "Credit note",
            "Statement",
            "Rechnung",
            "FACTURE",
            "Delivery note",
        ),
        f"font-size:2em;color:{accent};font-weight:{sheet.pick('bold', 'normal')}",
    )
    sheet.ask_title(title)
    pen = pen_for(sheet)
    fields = make_fields(sheet, pen, sheet.random.randint(4, 8), 0.05, False)
    block = arrangements[sheet.random.choice([a for a in arrangements if a not in ("combed", "running")])](
        sheet, fields, sheet.random.randint(1, 5)
    )
    buyer_lead, buyer = (
        sheet.mark(
            sheet.pick("Bill to", "Sold to", "Customer", "Ship to", "Client"), f"color:{accent};font-weight:bold"
        ),
        sheet.mark(sheet.fake.company()),
    )
    sheet.ask_field(buyer_lead.text, "company", buyer, buyer_lead)
    to = (
        f"<div>{buyer_lead}<br>{buyer}<br>{sheet.text(sheet.fake.street_address())}<br>"
        f"{sheet.text(sheet.fake.city())}</div>"
    )
    columns = [
        sheet.mark(name, "font-weight:bold")
        for name in sheet.pick(
            "Description|Qty|Unit price|Amount",
            "Item|Quantity|Rate|Total",
            "Article|Units|Price|Sum",
            "Service|Hours|Rate|Amount",
            "Description|Code|Qty|Tax|Amount",
        ).split("|")
    ]
    kinds = {"Qty": "int", "Quantity": "int", "Units": "int", "Hours": "int", "Code": "code", "Tax": "percent"}
    cell = sheet.pick(
        f"border:1px solid {accent};padding:3px 6px",
        "border-bottom:1px solid #ccc;padding:4px 6px",
        "padding:3px 6px",
        "border-left:1px solid #666;border-right:1px solid #666;padding:3px 6px",
    )
    top = sheet.pick(f"background:{accent};color:#fff", "border-bottom:2px solid", "background:#ddd", "")
    body = ""
    striped = sheet.chance(0.3)
    for row, item in enumerate(
        sheet.random.sample(
            vocabulary("services") + vocabulary("items"), sheet.random.randint(2, max(4, sheet.height // 50))
        )
    ):
        name, cells = sheet.mark(item), ""
        for column in columns[1:]:
            value = sheet.mark(
                sheet.value(kinds[column.text]) if column.text in kinds else sheet.money(3000, plain=sheet.chance(0.5))
            )
            sheet.ask("cell", CELL, value, (name, column), r=item, c=column.text.lower())
            cells += f'<td style="{cell};text-align:right">{value}</td>'
        shade = "background:#f1f1f1" if striped and row % 2 else ""
        body += f'<tr class="cut" style="{shade}"><td style="{cell}">{name}</td>{cells}</tr>'
    heads = "".join(
        f'<td style="{cell};{top};text-align:{"right" if i else "left"}">{mark}</td>' for i, mark in enumerate(columns)
    )
    totals = "".join(
        f'<tr><td style="padding:2px 12px">{lead}</td><td style="text-align:right">{value}</td></tr>'
        for lead, value in sums(sheet, sheet.random.randint(2, 6), 9000)
    )
    seller = shop(sheet, "")
    if layout == "letterhead":
        top_part = (
            f'<div style="display:flex;justify-content:space-between">{logo(sheet, 44)}{seller}</div><div'
            f' style="margin:12px 0">{title}</div><div style="display:flex;gap:30px"><div style="flex:1">{to}</div><div'
            f' style="flex:1">{block}</div></div>'
        )
    elif layout == "split":
        top_part = (
            f'<div style="display:flex;justify-content:space-between"><div>{seller}</div><div'
            f' style="text-align:right">{title}</div></div><div style="margin:8px 0">{to}</div>{block}'
        )
    elif layout == "centered":
        top_part = (
            f'<div style="text-align:center">{title}{seller}</div><hr><div style="display:flex;gap:30px"><div'
            f' style="flex:1">{block}</div>{to}</div>'
        )
    elif layout == "banner":
        top_part = (
            "<div"
            f' style="background:{accent};color:#fff;padding:8px;display:flex;justify-content:space-between;ali'
            f'gn-items:center">{seller}<span'
            f' style="background:#fff;padding:4px">{title}</span></div><div style="margin:8px 0">{to}</div>{block}'
        )
    else:
        top_part = (
            '<div style="display:flex;gap:16px"><div style="width:30%;border-right:3px solid'
            f' {accent};padding-right:8px">{logo(sheet, 40)}{seller}<br>{to}</div><div'
            f' style="flex:1">{title}{block}</div></div>'
        )
    return (
        f'{top_part}<table style="width:100%;margin:12px 0"><tr>{heads}</tr>{body}</table><table'
        f' style="margin-left:{sheet.pick("auto", "auto", "0")}">{totals}</table><p class="cut"'
        f' style="font-size:.85em">{sheet.text(sheet.paragraph(1))}</p>'
    )


HELD_INVOICES = named(invoice, "banner", "sidebar")
INVOICES = named(invoice, "letterhead", "split", "centered")
RECEIPTS, HELD_RECEIPTS = named(receipt, "slip", "wide", "twoline", "coded"), named(receipt, "dotted")
