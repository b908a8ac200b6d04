"""What the commands do with documents: files of a look, lines of a table, and an answer about several pages."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from ...attending.document_look import DocumentLook, listed
from ...core.document_values import DocumentAllocation, PageShare
from ...core.files import write_json
from .console import save_png, say, seconds_line, show, table, writing

if TYPE_CHECKING:
    from PIL.Image import Image

    from ...core.values import Answer
    from ...pictures.document import Document
    from .inputs import PictureSource

# Pages whose homunculus is drawn: those with most tokens.
DRAWN = 3
# Pages of the table.
ROWS = 12


def write_document(
    out: Path, name: str, tag: str, look: DocumentLook, draw: bool
) -> tuple[DocumentLook, dict[str, str]]:
    """NAME.allocation.json, NAME.pages.png and the homunculi of the best pages; what was written, by kind."""
    files: dict[str, str] = {}
    drawn: dict[str, Image] = {}
    if draw:
        from ...draw import document_sheet, homunculus
        from ...knowing.scene import VIEW_SIDE

        started = perf_counter()
        drawn[f"{name}.pages{tag}.png"] = document_sheet(look.document, look.allocation, look.query)
        numbered = {page.number: number for number, page in enumerate(look.document.pages)}
        for share in look.allocation.ranked[:DRAWN]:
            if share.allocation is not None and share.tokens > 1:
                number = numbered[share.number]
                picture = look.document.pages[number].draw(VIEW_SIDE)
                page = homunculus(picture, share.allocation, look.relevances[number].relevance, look.query)
                drawn[f"{name}.page{share.number}.homunculus{tag}.png"] = page
        look = look.timed("draw", perf_counter() - started)
    started = perf_counter()
    with writing(out):
        for file, image in drawn.items():
            save_png(image, out / file)
        write_json(out / f"{name}.allocation{tag}.json", look.allocation.to_json())
    files |= {"pages" if ".pages" in file else file.split(".")[-3]: str(out / file) for file in drawn}
    files["allocation"] = str(out / f"{name}.allocation{tag}.json")
    return look.timed("save", perf_counter() - started), files


def document_row(source: PictureSource, look: DocumentLook) -> tuple[str, ...]:
    """A line of the table of many pictures."""
    allocation, best = look.allocation, look.allocation.ranked[0]
    spent = (str(allocation.tokens), f"{100 * allocation.keep:.1f} %")
    where = (f"page {best.number}", f"{100 * best.tokens / max(1, allocation.tokens):.1f} %")
    return (source.file, look.query, allocation.strategy, *spent, *where, f"{sum(look.seconds.values()):.2f}")


def print_document(name: str, look: DocumentLook, files: Mapping[str, str]) -> None:
    """Tokens page by page, the best first, then the sums."""
    allocation = look.allocation
    best = [page for page in allocation.ranked if page.tokens > 1][:ROWS] or allocation.ranked[:1]
    columns = {"page": "right", "tokens": "right", "of full": "right", "why": "left"}
    rows = [
        (str(page.number), str(page.tokens), f"{100 * page.tokens / page.full:.1f} %", page.why)
        for page in sorted(best, key=lambda one: one.number)
    ]
    overviews = sum(page.tokens for page in allocation.pages) - sum(page.tokens for page in best)
    if overviews:
        rows.append(("others", str(overviews), "", "overviews"))
    rows.append(("all", str(allocation.tokens), f"{100 * allocation.keep:.1f} %", ""))
    show(table(f"{name}: {look.query}", columns, rows, sections=[len(rows) - 2]))
    say(
        f"{allocation.strategy}: {allocation.tokens} tokens of {allocation.full} on {len(allocation.funded)} of "
        f"{allocation.of_pages} pages, budget {allocation.budget}",
        f"seconds: {seconds_line(look.seconds)}",
        *(f"note: {note}" for note in look.notes),
        f"files: {', '.join(files.values())}",
    )


def answer_files(out: Path, name: str, document: Document, query: str, answer: Answer, draw: bool) -> dict[str, str]:
    """NAME.answer.json and NAME.pages.png, and of the pages that were looked at the homunculi."""
    files = {"answer.json": str(out / f"{name}.answer.json")}
    pages = {page.number: page for page in document.pages}
    looked = dict(zip(answer.pages, (step.allocation for step in answer.passes), strict=False))
    shares = tuple(PageShare(page.number, page.name, 0, looked.get(page.number)) for page in document.pages)
    with writing(out):
        write_json(out / f"{name}.answer.json", answer.to_json())
        if draw:
            from ...draw import document_sheet

            laid = DocumentAllocation(shares, answer.tokens, answer.allocation.strategy, document.name)
            save_png(document_sheet(document, laid, query), out / f"{name}.pages.png")
            files["pages.png"] = str(out / f"{name}.pages.png")
        shown = sorted(zip(answer.pages, answer.passes, strict=False), key=lambda one: -one[1].tokens)
        for number, step in shown[:DRAWN] if draw else ():
            from ...draw import homunculus
            from ...knowing.scene import VIEW_SIDE

            file = out / f"{name}.page{number}.homunculus.png"
            save_png(homunculus(pages[number].draw(VIEW_SIDE), step.allocation, None, query, answer=answer), file)
            files[f"page{number}"] = str(file)
    return files


def pages_line(answer: Answer) -> str:
    """Which pages an answer rests on."""
    return f"{listed(sorted(set(answer.pages)))} of {answer.of_pages}, the answer from {answer.pages[-1]}"
