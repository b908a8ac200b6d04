"""The house keeps its order: rooms import downwards, the product never imports the lab, nothing heavy at the door."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import measure_house as house

# What the house may be at most. The aims of the plan stand in docs/architecture.md; these only ever go down, but for
# what a new feature adds: documents, packing and the proxy, the reading distance, hints, asking again,
# tiles in ask, regions, weighing, words by OCR, presets, the timing of a card.
MOST = {
    "library": {"lines": 33_700, "files": 204},
    "together": {"lines": 85_400, "files": 493},
    "doors": {"allocate": 2_500, "look": 15_900, "attach": 17_700, "ask": 24_500, "Esper": 23_600},
    "long_functions": 0,
    "wide_functions": 13,
    "lines_with_any": 449,
    "class_names_twice": 0,
    "circles": 0,
}


# Imports against the order of the stages that are still to be turned round.
UPWARDS = {
    *(("answering", "draw"), ("knowing", "balancing"), ("packing", "draw"), ("packing", "faces")),
    *(("texture", "knowing"), ("texture", "video"), ("video", "draw")),
}


@pytest.fixture(scope="module")
def measured() -> dict:
    return house.measure()


def wrong_imports(edges: house.Edges) -> list[str]:
    """Imports from a lower room into an upper one. The table of relevance may name rooms above it, in strings."""
    order = house.ORDER
    return sorted(
        f"{name}:{edge.line} imports {edge.target}"
        for name, found in edges.items()
        for edge in found
        if not edge.named
        and house.room_of(name) in order
        and house.room_of(edge.target) in order
        and order.index(house.room_of(edge.target)) > order.index(house.room_of(name))
        and name not in ("arr_coc", "arr_coc.__main__")
        and (house.room_of(name), house.room_of(edge.target)) not in UPWARDS
    )


def test_every_room_has_its_place(measured):
    rooms = {room for room in measured["rooms"] if not room.startswith("lab")}
    assert rooms <= set(house.ORDER), f"give these a place in the order: {sorted(rooms - set(house.ORDER))}"


def test_lower_rooms_never_import_upper_ones():
    wrong = wrong_imports(house.graph(house.modules()))
    assert not wrong, "\n".join(wrong)


def test_the_product_never_imports_the_lab(measured):
    assert not measured["into_the_lab"], "\n".join(measured["into_the_lab"])


def test_no_modules_import_each_other_while_they_are_imported(measured):
    assert not measured["circles_at_import"]


def test_the_house_does_not_grow(measured):
    assert measured["storeys"]["library"]["lines"] <= MOST["library"]["lines"]
    assert measured["storeys"]["library"]["files"] <= MOST["library"]["files"]
    assert measured["lines"] <= MOST["together"]["lines"]
    assert measured["files"] <= MOST["together"]["files"]
    for door, most in MOST["doors"].items():
        assert measured["doors"][door]["lines"] <= most, f"{door} reaches {measured['doors'][door]['lines']} lines"
    for name in ("long_functions", "wide_functions", "class_names_twice", "circles"):
        assert len(measured[name]) <= MOST[name], measured[name]
    assert measured["lines_with_any"] <= MOST["lines_with_any"]


def test_the_meter_sees_what_it_counts(tmp_path, monkeypatch):
    folder = tmp_path / "src"
    for room in ("core", "texture", "draw", "app/cli"):
        (folder / "arr_coc" / room).mkdir(parents=True)
        (folder / "arr_coc" / room / "__init__.py").write_text("")
    bad = (
        "def f():\n    from arr_coc_lab.worlds import x\n    import arr_coc.draw\n"
        '    import_module("..app.cli", __package__)\n    import_module("arr_coc.core.late")\n'
    )
    (folder / "arr_coc" / "texture" / "bad.py").write_text(bad)
    (folder / "arr_coc" / "core" / "late.py").write_text("class Twin: pass\ndef g():\n    from ..core import early\n")
    wide = ", ".join(f"p{number}" for number in range(9))
    (folder / "arr_coc" / "core" / "early.py").write_text(
        f"from typing import Any\nfrom . import late\nclass Twin: pass\ndef wide({wide}):\n" + "    1\n" * 101
    )
    sources = {"arr_coc": folder, "arr_coc_lab": folder}
    monkeypatch.setattr(house, "SOURCES", sources)
    found = house.measure(sources)
    edges = house.graph(house.modules(sources))
    assert [line.split(" ")[0] for line in wrong_imports(edges)] == [f"arr_coc.texture.bad:{line}" for line in (3, 4)]
    assert len(found["into_the_lab"]) == 1
    assert found["circles"] == [["arr_coc.core.early", "arr_coc.core.late"]]
    assert not found["circles_at_import"]
    assert list(found["class_names_twice"]) == ["Twin"]
    assert len(found["long_functions"]) == len(found["wide_functions"]) == 1
    assert found["lines_with_any"] == 1
    assert house.closure(edges, ("arr_coc.core.early",)) >= {"arr_coc.core.early", "arr_coc.core.late"}


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'torch', 'transformers', 'cv2', 'scipy', 'numpy', 'PIL', 'gradio', 'rich'}"
    code = f"import arr_coc, sys; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
