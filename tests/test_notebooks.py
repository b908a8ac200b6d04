"""The notebooks of examples/ run offline, from the first cell to the last."""

from __future__ import annotations

import io
import json
import re
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from arr_coc.knowing.registry import remove_source

NOTEBOOKS = sorted((Path(__file__).parents[1] / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_says_what_it_shows(notebook: Path) -> None:
    cells = [cell for cell in json.loads(notebook.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    names: dict[str, object] = {}
    try:
        for cell in cells:
            printed = io.StringIO()
            with redirect_stdout(printed):
                exec(compile("".join(cell["source"]), notebook.name, "exec"), names)
            kept = "".join("".join(one["text"]) for one in cell["outputs"] if one["output_type"] == "stream")
            # How unsure it is may differ in the last digit from one kind of processor to another.
            assert re.sub(r"unsure [\d.]+", "", printed.getvalue()) == re.sub(r"unsure [\d.]+", "", kept)
    finally:
        remove_source("top")
    pictures = sum("image/png" in one.get("data", {}) for cell in cells for one in cell["outputs"])
    assert pictures >= 1, "a notebook has pictures"


def test_there_are_three() -> None:
    assert [path.stem for path in NOTEBOOKS] == ["chart", "clip", "page"]
