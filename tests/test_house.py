"""The house keeps its order: lower rooms never import upper ones, and nothing heavy is imported at the door."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import measure_house as house

PACKAGE = Path(__file__).parents[1] / "src" / "arr_coc"

# Ground floor first, storey by storey. A room may import itself and what stands before it.
ORDER = {
    "library": (
        *(
            "errors",
            "lazy",
            "files",
            "manifest",
            "records",
            "arrays",
            "checks",
            "notebook",
            "alphabet",
            "values",
            "pretrained",
            "pictures",
        ),
        *("sensing", "knowing", "balancing", "attending", "request", "feedback"),
        *("draw", "realizing", "backbones", "bundled"),
        *("looking", "decoding", "chatting", "sight", "asking", "quick", "esper", "video", "texturing"),
    ),
    "lab": ("statistics", "needle", "pages", "train", "bench", "classic"),
    "app": ("web", "microscope", "serve", "batch", "vllm", "cli"),
}
ROOMS = [("library", room) for room in ORDER["library"]]
ROOMS += [(storey, room) for storey in ("lab", "app") for room in ORDER[storey]]


def place_of(module: str) -> tuple[str, str] | None:
    """(storey, room) of a module; None for the package itself, the front door and the storeys' own files."""
    parts = module.split(".")[1:]
    storey = house.storey_of(module)
    parts = parts if storey == "library" else parts[1:]
    return (storey, parts[0]) if parts and parts[0] != "__main__" else None


# The one table of relevance names the rooms that know each source, above it too; it imports none of them, and none of
# another storey.
TABLES = {"arr_coc.relevance.registry"}


def wrong_imports(source: Path) -> list[str]:
    wrong = []
    for name, edges in house.graph_of(source).items():
        here = place_of(name)
        for target, line, _ in edges:
            there = place_of(target)
            allowed = name in TABLES and here is not None and there is not None and here[0] == there[0]
            if here in ROOMS and there in ROOMS and ROOMS.index(there) > ROOMS.index(here) and not allowed:
                wrong.append(f"{name}:{line} imports {target}")
    return wrong


def test_every_room_has_its_place():
    rooms = {place_of(name) for name in house.modules()} - {None}
    assert rooms <= set(ROOMS), f"give these a place in the order: {sorted(rooms - set(ROOMS))}"


def test_lower_rooms_never_import_upper_ones():
    wrong = wrong_imports(PACKAGE.parent)
    assert not wrong, "\n".join(wrong)


def test_no_storey_imports_the_one_above_and_no_modules_import_each_other():
    found = house.measure()
    assert not found["upward"], "\n".join(found["upward"])
    assert not found["circles"], found["circles"]


def test_the_direction_test_can_see_a_violation(tmp_path):
    for folder in ("sensing", "lab/needle", "app/cli"):
        (tmp_path / "arr_coc" / folder).mkdir(parents=True)
        (tmp_path / "arr_coc" / folder / "__init__.py").write_text("")
    bad = (
        'def f():\n    from ..lab.needle import x\n    import arr_coc.draw\n    import_module(f".app.{x}", "arr_coc")\n'
    )
    bad += '    import_module("arr_coc.looking")\n    import_module("..app.cli", __package__)\n'
    bad += '    f("arr_coc.app.cli:main")\n'
    (tmp_path / "arr_coc" / "sensing" / "bad.py").write_text(bad)
    (tmp_path / "arr_coc" / "lab" / "needle" / "bad.py").write_text("from ...app import cli\n")
    wrong = wrong_imports(tmp_path)
    assert [line.partition(" ")[0] for line in sorted(wrong)] == [
        "arr_coc_lab.worlds.needle.bad:1",
        *(f"arr_coc.sensing.bad:{line}" for line in (2, 3, 5, 6, 7)),
    ]
    assert len(house.measure(tmp_path)["upward"]) == 4


def test_importing_the_package_imports_nothing_heavy():
    heavy = "{'torch', 'transformers', 'cv2', 'scipy', 'numpy', 'PIL', 'gradio', 'rich'}"
    code = f"import arr_coc, sys; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_no_file_grew_past_four_hundred_lines():
    long = {
        str(path.relative_to(PACKAGE)): len(path.read_text(encoding="utf-8").splitlines())
        for path in PACKAGE.rglob("*.py")
        if len(path.read_text(encoding="utf-8").splitlines()) > 400
    }
    assert not long, f"split these: {long}"
