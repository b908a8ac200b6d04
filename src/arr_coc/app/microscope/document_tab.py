"""Document: all pages of the PDF on the left, one budget, which pages got it, and the homunculus of the best ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...attending.document_look import DocumentLook
from ...core.errors import InputError
from ...draw import document_sheet, homunculus
from ...knowing.scene import VIEW_SIDE
from ...looking import check_request, prepare
from ...pictures.pdf import is_pdf
from .desk import Desk
from .kit import MODEL, PRIVATE, MicroscopePage, SheetContent, TabSheet, gradio, literal, program
from .linking import PageState
from .markup import Figure, figures, notes, table

# Pages whose homunculus is drawn, and lines of the table.
DRAWN, ROWS = 3, 12


def show_document(desk: Desk, path: str | None, state: PageState) -> SheetContent:
    """One question about all pages of a PDF that was opened on the left."""
    check_request([state.q])
    if not path:
        raise InputError("no PDF yet: open one on the left, under the picture")
    file = desk.own_file(path)
    if not is_pdf(file):
        raise InputError(f"{file.name} is no PDF; open one on the left")
    prepared = desk.remember(("document", str(file), file.stat().st_mtime_ns), lambda: prepare(file))
    look = prepared.look(state.q, state.all)
    if not isinstance(look, DocumentLook):
        raise InputError(f"{file.name} has one page: click it on the left, and ask about it as about any picture")
    allocation, sheet = look.allocation, document_sheet(look.document, look.allocation, state.q)
    numbered = {page.number: place for place, page in enumerate(look.document.pages)}
    shown = [Figure(np.asarray(sheet), "All pages", "Those with tokens stand out; the bar says how many.")]
    best = [share for share in allocation.ranked if share.allocation is not None and share.tokens > 1]
    for share in best[:DRAWN]:
        place = numbered[share.number]
        picture, known = look.document.pages[place].draw(VIEW_SIDE), look.relevances[place].relevance
        assert share.allocation is not None
        page = np.asarray(homunculus(picture, share.allocation, known, state.q))
        shown.append(Figure(page, f"Page {share.number}: {share.tokens} tokens", share.why))
    rows = [
        {"page": share.number, "tokens": share.tokens, "full": share.full, "why": share.why}
        for share in allocation.ranked[:ROWS]
    ]
    columns = {"page": "Page", "tokens": "Tokens", "full": "Of", "why": "Why"}
    told = f"{allocation.tokens} of {allocation.full} tokens on {len(allocation.funded)} of {allocation.of_pages} pages"
    html = figures(shown, "one") + table(columns, rows, told) + notes(allocation.notes)
    lines = document_lines(state, file.name)
    return SheetContent("document", html, lambda: sheet, allocation.to_json, lines, state.link(), look)


def document_lines(state: PageState, file_name: str) -> str:
    body = [
        f"look = prepare({file_name!r}).look({literal(state.q)}, budget={state.all})",
        "print(look.allocation)",
        "document_sheet(look.document, look.allocation, look.query).save('document.png')",
    ]
    return program(["from arr_coc.draw import document_sheet", "from arr_coc.looking import prepare"], body)


def document_tab(page: MicroscopePage) -> None:
    gr = gradio()
    gr.HTML(
        '<p class="note">One question, all pages of the PDF on the left, one budget: relevance decides between pages '
        "as it does inside one. Nothing is answered here; click a page on the left to ask about it.</p>",
        padding=False,
    )
    budget = gr.Number(
        PageState.all, label="Tokens for the whole document", precision=0, minimum=1, elem_id="document-tokens"
    )
    page.settings |= {"all": budget}
    sheet = TabSheet(page, "document")
    sheet.exports()

    def looked(*values: Any) -> tuple[object, ...]:
        *common, path, tokens = values

        def make() -> SheetContent:
            if not isinstance(tokens, int | float) or not float(tokens).is_integer() or tokens < 1:
                raise InputError("the budget must be a whole number of tokens, at least 1")
            return show_document(page.desk, path, page.state("document", common, all=int(tokens)))

        return sheet.filled(make)

    sheet.runs(looked, [*page.common, page.pdf, budget], sheet.outputs, **MODEL, **PRIVATE)
