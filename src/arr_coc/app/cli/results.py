"""Files and tables of looks and answers, of pictures and of documents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ...core.files import write_json
from ...core.values import DocumentAllocation, JsonObject, PageShare
from ...decide_document import DocumentLook, listed
from .console import save_png, say, seconds_line, show, table, writing

if TYPE_CHECKING:
    from PIL.Image import Image

    from ...core.values import Answer, Relevance
    from ...looking import Look
    from ...pictures.document import Document
    from ...pictures.load import Picture
    from ...pictures.words import Words
    from .inputs import PictureSource

# Pages of a document whose homunculus is drawn, and rows of its table.
DRAWN, ROWS = 3, 12


def write_all(out: Path, drawn: Mapping[str, Image], documents: Mapping[str, object]) -> None:
    """Write pictures as PNG and documents as JSON, by file name."""
    with writing(out):
        for name, image in drawn.items():
            save_png(image, out / name)
        for name, document in documents.items():
            write_json(out / name, document)


# ---- looks -----------------------------------------------------------------------------------------------------------


def write_look(out: Path, name: str, tag: str, look: Look | DocumentLook) -> tuple[Look | DocumentLook, dict[str, str]]:
    """Write the allocation and the drawings of a look; return it with its seconds, and the paths by kind."""
    started = perf_counter()
    drawn = document_drawings(look) if isinstance(look, DocumentLook) else look_drawing(look)
    look = look.timed("draw", perf_counter() - started)
    started = perf_counter()
    names = {kind: f"{name}.{kind}{tag}.png" for kind in drawn}
    names["allocation"] = f"{name}.allocation{tag}.json"
    write_all(out, {names[kind]: one for kind, one in drawn.items()}, {names["allocation"]: look.allocation.to_json()})
    return look.timed("save", perf_counter() - started), {kind: str(out / file) for kind, file in names.items()}


def look_drawing(look: Look) -> dict[str, Image]:
    from ...draw import homunculus

    return {"homunculus": homunculus(look.picture, look.allocation, look.relevance, look.relevance.query)}


def document_drawings(look: DocumentLook) -> dict[str, Image]:
    """All pages as a sheet, and the homunculi of those with most tokens."""
    from ...draw import document_sheet, homunculus
    from ...knowing.scene import VIEW_SIDE

    drawn = {"pages": document_sheet(look.document, look.allocation, look.query)}
    places = {page.number: place for place, page in enumerate(look.document.pages)}
    for share in look.allocation.ranked[:DRAWN]:
        if share.allocation is not None and share.tokens > 1:
            place = places[share.number]
            picture, known = look.document.pages[place].draw(VIEW_SIDE), look.relevances[place].relevance
            drawn[f"page{share.number}.homunculus"] = homunculus(picture, share.allocation, known, look.query)
    return drawn


def look_entry(source: PictureSource, look: Look | DocumentLook, files: Mapping[str, str]) -> JsonObject:
    """A look at a picture or at a document, for JSON."""
    allocation = look.allocation
    if isinstance(look, DocumentLook):
        query, notes = look.query, allocation.notes
        spent = {"pages": {str(page.number): page.tokens for page in look.allocation.pages}}
    else:
        query, notes = look.relevance.query, look.relevance.notes
        spent = {"tokens_by_level": {str(level): n for level, n in look.allocation.tokens_by_level().items()}}
    return {
        "image": source.name,
        "query": query,
        "strategy": allocation.strategy,
        "budget": allocation.budget,
        "tokens": allocation.tokens,
        "full": allocation.full,
        **spent,
        "seconds": dict(look.seconds),
        "relevance": notes[0] if notes else "",
        "notes": list(look.notes),
        "files": dict(files),
        "allocation": allocation.to_json(),
    }


def print_look(name: str, look: Look | DocumentLook, files: Mapping[str, str]) -> None:
    """Print tokens by level or by page, then sums, seconds and notes."""
    allocation, pages = look.allocation, ""
    if isinstance(look, DocumentLook):
        query, columns, rows = look.query, ("page", "tokens", "of full", "why"), page_rows(look.allocation)
        pages = f" on {len(look.allocation.funded)} of {look.allocation.of_pages} pages"
    else:
        query, columns = look.relevance.query, ("level", "region", "tokens", "of tokens", "of area")
        rows = level_cells(look)
    sides = {name: "left" if name == "why" else "right" for name in columns}
    show(table(f"{name}: {query}", sides, rows, sections=[len(rows) - 2]))
    say(
        f"{allocation.strategy}: {allocation.tokens} tokens of {allocation.full} ({100 * allocation.keep:.1f} %)"
        f"{pages}, budget {allocation.budget}",
        f"seconds: {seconds_line(look.seconds)}",
        *(f"note: {note}" for note in look.notes),
        f"files: {', '.join(files.values())}",
    )


def level_cells(look: Look) -> list[tuple[str, ...]]:
    """Tokens of each level with their share of the area, and the sum."""
    from ...draw.legend import level_rows

    tokens = look.allocation.tokens
    rows = [
        (
            str(row.told),
            f"{row.side}×{row.side} px",
            str(row.tokens),
            f"{100 * row.tokens / max(tokens, 1):.1f} %",
            f"{100 * row.area:.1f} %",
        )
        for row in level_rows(look.allocation)
    ]
    return [*rows, ("all", "", str(tokens), "100.0 %", "")]


def page_rows(allocation: DocumentAllocation) -> list[tuple[str, ...]]:
    """Tokens of the best pages, of all others together, and the sum."""
    best = [page for page in allocation.ranked if page.tokens > 1][:ROWS] or allocation.ranked[:1]
    rows = [
        (str(page.number), str(page.tokens), f"{100 * page.tokens / page.full:.1f} %", page.why)
        for page in sorted(best, key=lambda one: one.number)
    ]
    overviews = sum(page.tokens for page in allocation.pages) - sum(page.tokens for page in best)
    if overviews:
        rows.append(("others", str(overviews), "", "overviews"))
    return [*rows, ("all", str(allocation.tokens), f"{100 * allocation.keep:.1f} %", "")]


def summary_row(source: PictureSource, look: Look | DocumentLook) -> tuple[str, ...]:
    """A row of the table of many pictures: only texts, so that no picture is kept."""
    from ...draw.legend import level_rows

    allocation = look.allocation
    if isinstance(look, DocumentLook):
        best, query = look.allocation.ranked[0], look.query
        finest = (f"page {best.number}", f"{100 * best.tokens / max(1, allocation.tokens):.1f} %")
    else:
        row, query = level_rows(look.allocation)[0], look.relevance.query
        finest = (f"level {row.told}", f"{100 * row.area:.1f} %")
    spent = (str(allocation.tokens), f"{100 * allocation.keep:.1f} %")
    return (source.file, query, allocation.strategy, *spent, *finest, f"{sum(look.seconds.values()):.2f}")


def print_summary(rows: Sequence[tuple[str, ...]], pictures: int, several: bool) -> None:
    """Print one row for each picture, question and strategy. several: whether there are several questions."""
    columns = {"picture": "fold", **({"question": "left"} if several else {}), "strategy": "left"}
    columns |= dict.fromkeys(("tokens", "of full", "finest", "area finest", "seconds"), "right")
    shown = [row if several else (row[0], *row[2:]) for row in rows]
    show(table(f"{pictures} pictures", columns, shown))


# ---- answers ---------------------------------------------------------------------------------------------------------


def write_answer(
    out: Path,
    name: str,
    picture: Picture,
    answer: Answer,
    query: str,
    relevance: Relevance | None,
    words: Words | None,
) -> dict[str, str]:
    """Write NAME.answer.json, NAME.allocation.json and NAME.homunculus.png; return the paths by kind."""
    from ...draw import homunculus

    drawn = {"homunculus.png": homunculus(picture, answer.allocation, relevance, query, answer=answer, words=words)}
    documents = {"allocation.json": answer.allocation.to_json(), "answer.json": answer.to_json()}
    write_all(
        out,
        {f"{name}.{kind}": one for kind, one in drawn.items()},
        {f"{name}.{kind}": one for kind, one in documents.items()},
    )
    return {kind: str(out / f"{name}.{kind}") for kind in (*drawn, *documents)}


def write_document_answer(out: Path, document: Document, answer: Answer, query: str) -> dict[str, str]:
    """Write NAME.answer.json, NAME.pages.png and the homunculi of the pages with most tokens."""
    from ...draw import document_sheet, homunculus
    from ...knowing.scene import VIEW_SIDE

    name = Path(document.name).stem
    looked = dict(zip(answer.pages, (step.allocation for step in answer.passes), strict=False))
    shares = tuple(PageShare(page.number, page.name, 0, looked.get(page.number)) for page in document.pages)
    allocation = DocumentAllocation(shares, answer.tokens, answer.allocation.strategy, document.name)
    drawn = {"pages.png": document_sheet(document, allocation, query)}
    pages = {page.number: page for page in document.pages}
    best = sorted(zip(answer.pages, answer.passes, strict=False), key=lambda one: -one[1].tokens)[:DRAWN]
    for number, step in best:
        page = homunculus(pages[number].draw(VIEW_SIDE), step.allocation, None, query, answer=answer)
        drawn[f"page{number}.homunculus.png"] = page
    written = {f"{name}.{kind}": one for kind, one in drawn.items()}
    write_all(out, written, {f"{name}.answer.json": answer.to_json()})
    return {kind: str(out / f"{name}.{kind}") for kind in ("answer.json", *drawn)}


def print_answer(name: str, query: str, answer: Answer, files: Mapping[str, str]) -> None:
    """Print the answer, its sureness, its cost, the passes where there are several, and the notes."""
    from rich.text import Text

    from ...core.values import UNSURE, is_unsure, sureness_words

    last = answer.passes[-1]
    sure = f"{sureness_words(answer.uncertainty).partition(',')[0]}; entropy {last.entropy:.2f} nats, "
    rows = [
        ("answer", Text(answer.text or "(nothing)", style="bold")),
        ("uncertainty", f"{answer.uncertainty:.2f} ({sure}margin {last.margin:.2f})"),
        *((("read from", answer.source),) if answer.source != "pixels" else ()),
        ("tokens", f"{answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)"),
    ]
    if answer.pages:
        pages = listed(sorted(set(answer.pages)))
        rows.append(("pages", f"{pages} of {answer.of_pages}, the answer from {answer.pages[-1]}"))
    rows += [("seconds", seconds_line(answer.seconds)), *files.items()]
    show(table(f"{name}: {query}", {"what": "left", "value": "left"}, rows, headings=False))
    if len(answer.passes) > 1 and not answer.pages:
        columns = {"pass": "right", "tokens": "right", "explored": "right", "answer": "fold", "unsure": "right"}
        show(table("Passes", columns, pass_rows(answer), narrow=True))
    say(*(f"note: {note}" for note in answer.notes))
    if is_unsure(answer.uncertainty):
        say(f"unsure: {UNSURE}")


def pass_rows(answer: Answer) -> list[tuple[str, ...]]:
    """One row for each look: its tokens, how much of it was exploration, what it said and how unsure."""
    return [
        (
            str(number),
            str(step.tokens),
            f"{100 * step.exploration:.0f} %",
            step.text or "(nothing)",
            f"{step.uncertainty or 0.0:.2f}",
        )
        for number, step in enumerate(answer.passes, start=1)
    ]
