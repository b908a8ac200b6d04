"""What the API will see: the picture packed for a model that nobody can touch, and a button to save it."""

from __future__ import annotations

import io
import json
import zipfile

from PIL import Image

from ...looking import check_request
from ...packing.pack import LAYOUTS, pack
from ...packing.packed import FORMATS, Packed, format_of, side_by_side
from ...packing.prices.tables import own_tables, table_for
from . import kit
from .desk import Desk
from .kit import MicroscopePage, SheetContent, TabSheet, gradio
from .linking import PageState
from .markup import Figure, figures, notes, sentence, table

APIS = tuple(one.name for one in own_tables())


def show_packed(desk: Desk, path: str | None, state: PageState) -> SheetContent:
    check_request([state.q])
    whole = desk.whole(path)
    found = table_for(state.api)
    packed = pack(whole, state.q, f"{state.keep:g}%", model=found, layout=state.drawn)
    shown = []
    for number, one in enumerate(packed.pictures, 1):
        parts = ", ".join(f"area {pane.letter}" if pane.letter else "the whole" for pane in one.panes)
        size = f"{one.size[1]}×{one.size[0]} pixels, {one.tokens} tokens"
        shown.append(Figure(one.pixels, f"Picture {number}: {parts}", size))
    rows = [
        {"what": "tokens sent", "value": f"{packed.tokens} of {packed.full}"},
        {"what": "counted", "value": found.as_told},
        {"what": "layout", "value": packed.layout},
        *({"what": name.replace("_", " "), "value": str(value)} for name, value in packed.left_out.items()),
    ]
    told = sentence(packed.text) if packed.text else sentence("The picture costs no more than the budget: it is sent.")
    html = (
        figures(shown)
        + told
        + table({"what": f"For {state.api}", "value": ""}, rows, "What it costs, and what is left out")
        + notes([*packed.notes, *([found.notes] if found.notes else []), f"Source: {found.source}"])
    )
    sheet = side_by_side([one.pixels for one in packed.pictures])
    name = getattr(whole, "name", None) or str(path).rpartition("/")[2]
    return SheetContent(
        "api", html, lambda: Image.fromarray(sheet), packed.to_json, packed_lines(state, name), state.link(), packed
    )


def packed_lines(state: PageState, file_name: str) -> str:
    imports, lines = kit.picture_lines(state.picture, file_name)
    drawn = "" if state.drawn == "auto" else f", layout={state.drawn!r}"
    lines += [
        f"packed = arr_coc.pack(picture, {kit.literal(state.q)}, budget='{state.keep:g}%', model={state.api!r}{drawn})",
        "print(packed)",
        "print(packed.text)",
        "packed.save('packed')",
    ]
    return kit.program([*imports, "import arr_coc"], lines)


def zip_file(shown: SheetContent | None) -> str:
    """The pictures and pack.json, as `arr-coc pack` writes them, in one file."""
    packed: Packed = kit.something(shown).kept
    kind, memory = format_of("auto", packed.jpeg), io.BytesIO()
    names = [f"picture-{number}.{'jpg' if kind == 'jpeg' else kind}" for number in range(1, len(packed.pictures) + 1)]
    with zipfile.ZipFile(memory, "w") as archive:
        for name, (data, media) in zip(names, packed.encoded(kind), strict=True):
            assert media == FORMATS[kind]
            archive.writestr(name, data)
        archive.writestr("pack.json", json.dumps(packed.to_json(names), indent=1, ensure_ascii=False))
    return kit.file_message("packed.zip", "application/zip", memory.getvalue())


def api_tab(page: MicroscopePage) -> None:
    gr = gradio()
    gr.HTML(
        '<p class="note">For models that nobody can touch, the allocation is drawn: a small picture of the whole and '
        "the places that the question needs, at the budget on the left, as that model counts it. Nothing is sent.</p>",
        padding=False,
    )
    with gr.Row():
        api = gr.Dropdown(list(APIS), value="gpt-4o", label="Who will see it", elem_id="api", min_width=160)
        layout = gr.Radio(list(LAYOUTS), value="auto", label="Layout", elem_id="drawn", min_width=240)
    sheet = TabSheet(page, "api")
    with gr.Row(elem_classes="export-row"):
        save = gr.Button("Save pictures", size="sm", elem_id="save-pictures-api", min_width=120)
    message, trouble = gr.Textbox(visible="hidden", elem_id="file-pictures-api"), gr.HTML(padding=False)
    save.click(kit.exporting(zip_file), [sheet.shown], [message, trouble], **kit.HIDDEN).then(
        None, [message], None, js=kit.DOWNLOAD
    )
    sheet.exports()

    controls = {"api": api, "drawn": layout}
    sheet.shows(lambda path, state, _: show_packed(page.desk, path, state), controls)
