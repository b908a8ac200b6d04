"""Fill the figures of the README and of pages from the JSON in docs/data.

    python scripts/fill_figures.py [--check, which fails where a page and its JSON disagree] [--intro, which draws]

The README's come from what benchmarks wrote. `tables.json` has tables of other pages, each with its page, the version
it was measured with, and where it matters the machine and the commands.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DATA = ROOT / "docs" / "data"
BUDGETS = (64, 32, 16, 8)
# Of `mini` and scorer together, by the hash that a benchmark wrote.
VERSIONS = {"f33fe543e997": "0.2.0", "f42648a711a5": "0.3.0"}
DOCUMENTS = {"funsd": "scanned forms", "chartqa": "charts"}


def percent(row: dict[str, Any], scale: float = 100.0) -> str:
    """Return a value with its 95 % interval."""
    return f"{scale * row['value']:.1f} [{scale * row['low']:.1f}, {scale * row['high']:.1f}]"


def needle_table() -> list[str]:
    """What `mini` answers from few tokens: ours, the best peer, down-sampling."""
    peers = json.loads((DATA / "peers.json").read_text(encoding="utf-8"))
    rows, version = peers["rows"], VERSIONS[peers["facts"]["weights"]]
    full = next(row for row in rows if row["way"] == "full")
    lines = ["| tokens of 256 | ours | best peer | down-sampling | random |", "|--:|--:|--:|--:|--:|"]
    for budget in BUDGETS:
        here = [row for row in rows if row["keep"] == budget / full["tokens"]]
        ways = {row["way"]: row for row in here}
        peer = max((row for row in here if row["group"] == "peer"), key=lambda row: row["value"])
        ours, even, chance = ways["scorer + overlay"], ways["uniform down-sampling"], ways["random + overlay"]
        shown = [f"**{percent(ours)}**", f"{percent(peer)} ({peer['way']})", percent(even), percent(chance)]
        lines.append(f"| {budget} | " + " | ".join(shown) + " |")
    number = f"{full['n']:,}".replace(",", " ")
    said = f"Answers of `mini` {version} on Needle World, %, held-out seeds and typefaces, n = {number} a cell"
    return [f"{said}; all 256 tokens: {percent(full)}.", "", *lines]


def document_table() -> list[str]:
    """Return how much of the answer is shown in full on real documents."""
    tables = json.loads((DATA / "real_documents.json").read_text(encoding="utf-8"))["tables"]
    rows = next(table for table in tables if table["title"] == "coverage")["rows"]
    found = {(row["source"], row["relevance"], row["strategy"]): row for row in rows}
    lines = ["| real documents | n | ours, 1/8 of the tokens | the middle | down-sampling |", "|---|--:|--:|--:|--:|"]
    for source, name in DOCUMENTS.items():
        ours = found[source, "scorer", "overlay"]
        controls = [found.get((source, *control)) for control in (("centre", "overlay"), ("uniform", "–"))]
        shown = [percent(one["keep_8"], 1.0) if one else "–" for one in (ours, *controls)]
        lines.append(f"| {name} ({source}) | {ours['n']} | " + " | ".join(shown) + " |")
    return ["Share of the answer that is shown in full detail, %:", "", *lines]


def table(entry: dict[str, Any]) -> str:
    """Return a table of `tables.json` with its version below it; columns of numbers stand to the right."""
    columns, rows = entry["columns"], entry["rows"]
    firsts = ({row[place].lstrip("*−+")[:1] for row in rows} for place in range(len(columns)))
    lines = [columns, ["--:" if all(map(str.isdigit, first - {"", "–"})) else "---" for first in firsts], *rows]
    shown = ["| " + " | ".join(line) + " |" for line in lines]
    note = f"Version {entry['version']}" + (f", {entry['machine']}." if "machine" in entry else ".")
    commands = [f"    {one}" for one in entry.get("commands", ())]
    return "\n".join([*shown, "", note, *([""] if commands else []), *commands])


def blocks() -> Iterator[tuple[Path, str, str]]:
    """Yield every page, the name of a block in it, and what stands there."""
    yield ROOT / "README.md", "figures", "\n".join([*needle_table(), "", *document_table()])
    for name, entry in json.loads((DATA / "tables.json").read_text(encoding="utf-8")).items():
        yield ROOT / "docs" / entry["page"], name, table(entry)


def intro(path: Path) -> None:
    """Draw README's moving picture: a page, two questions, where 60 of 768 tokens go, the answers."""
    from PIL import Image

    import arr_coc
    from arr_coc.draw import layout, panes
    from arr_coc.looking import examine
    from arr_coc.pictures.lettering import BOLD, write

    page, shown, frames = arr_coc.load_picture(ROOT / "src/arr_coc/examples/receipt.png"), (640, 480), []
    pixels = layout.resize(page.pixels, shown)
    for query in ("What was paid for the pepper?", "What is the date?"):
        answer, seen = arr_coc.ask(page, query, budget=60), examine(page, query, arr_coc.Options(budget=60))
        given = answer.allocation
        stages = (
            (f"The page: {given.full} tokens without ARR-COC", pixels),
            ("What matters for this question: before the encoder runs", panes.heat(seen.relevance, shown, pixels)),
            (f"Where the tokens go: {given.tokens} of {given.full}", panes.overlay(pixels, given)),
            ("What the model sees (dark: not read)", panes.foveated(page, given, shown)),
        )
        for number, (title, pane) in enumerate(stages):
            canvas = layout.page(760, 1060)
            write(canvas, query, 24, 8, size=30, weight=BOLD)
            write(canvas, title, 24, 52, size=20)
            said = answer.text if number == 3 else ""
            write(canvas, said, 1036, 8, size=30, weight=BOLD, colour=(20, 120, 60), align="right")
            layout.place(canvas, pixels, 24, 96, shown)
            layout.place(canvas, pane, 556, 96, shown)
            frames.append(Image.fromarray(canvas))
    times = [1200, 1500, 2200, 3000] * 2
    frames[0].save(path, save_all=True, append_images=frames[1:], duration=times, loop=0, quality=60, method=6)


def main() -> None:
    if "--intro" in sys.argv:
        intro(ROOT / "docs" / "images" / "intro.webp")
    wrong = []
    for page, name, text in blocks():
        begin, end = f"<!-- {name}: begin -->\n", f"\n<!-- {name}: end -->"
        before = page.read_text(encoding="utf-8")
        head, rest = before.split(begin)
        after = f"{head}{begin}{text}{end}{rest.split(end)[1]}"
        if after != before and "--check" in sys.argv:
            wrong.append(f"{page.name}, {name}: the page and its JSON disagree; run python scripts/fill_figures.py")
        elif after != before:
            page.write_text(after, encoding="utf-8")
    sys.exit("\n".join(wrong) or 0)


if __name__ == "__main__":
    main()
