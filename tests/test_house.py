"""The house keeps its order: lower rooms never import upper ones, and nothing heavy is imported at the door."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "src" / "arr_coc"

# Ground floor first. A room may import itself and what stands before it.
ORDER = (
    "errors",
    "lazy",
    "files",
    "arrays",
    "values",
    "pretrained",
    "pictures",
    "needle",
    "sensing",
    "knowing",
    "balancing",
    "attending",
    "draw",
    "realizing",
    "backbones",
    "bundled",
    "looking",
    "saying",
    "asking",
    "esper",
    "video",
    "learning",
    "bench",
    "microscope",
    "cli",
)


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0].removesuffix(".py")


def imported_rooms(path: Path) -> set[tuple[str, int]]:
    """(room, line) of every import of this package in a file, wherever in the file it stands."""
    depth = len(path.relative_to(PACKAGE).parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level == depth:
                names = [module] if module else [alias.name for alias in node.names]
            elif node.level == 0 and module.startswith("arr_coc"):
                rest = module.removeprefix("arr_coc").lstrip(".")
                names = [rest] if rest else [alias.name for alias in node.names]
            else:
                continue
            found |= {(name.split(".")[0], node.lineno) for name in names}
        elif isinstance(node, ast.Import):
            found |= {
                (alias.name.split(".")[1], node.lineno) for alias in node.names if alias.name.startswith("arr_coc.")
            }
    return found


def test_every_room_has_its_place():
    rooms = {room_of(path) for path in PACKAGE.rglob("*.py")} - {"__init__", "__main__"}
    assert rooms <= set(ORDER), f"give these a place in the order: {sorted(rooms - set(ORDER))}"


def test_lower_rooms_never_import_upper_ones():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = room_of(path)
        if room in ("__init__", "__main__"):
            continue
        for other, line in imported_rooms(path):
            if other in ORDER and ORDER.index(other) > ORDER.index(room):
                wrong.append(f"{path.relative_to(PACKAGE)}:{line} ({room}) imports {other}")
    assert not wrong, "\n".join(wrong)


def test_the_direction_test_can_see_a_violation(tmp_path, monkeypatch):
    (tmp_path / "sensing").mkdir()
    file = tmp_path / "sensing" / "bad.py"
    file.write_text("def f():\n    from ..cli import main\n    import arr_coc.draw\n")
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", tmp_path)
    assert imported_rooms(file) == {("cli", 2), ("draw", 3)}


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
