"""The tree in the README: every file of the library and of the app with the first sentence that it says about itself.

python scripts/map_house.py           print it
python scripts/map_house.py --write   put it into README.md, between its markers
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "arr_coc"
README = ROOT / "README.md"
BEGIN, END = "<!-- tree: begin -->", "<!-- tree: end -->"
# Along the path of a question; rooms that are not named come after them, by name.
ROOMS = (
    "pictures.py",
    "sensing",
    "knowing",
    "balancing",
    "attending",
    "realizing",
    "backbones",
    "bundled.py",
    "looking.py",
)
ROOMS += ("decoding.py", "chatting.py", "sight.py", "asking.py", "quick.py", "esper", "video", "draw", "lab", "app")


def summary(path: Path) -> str:
    """The first sentence of a file's docstring, without its full stop."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return re.split(r"(?<=\w\w)\. (?=[A-Z`])", " ".join(paragraph.split()), maxsplit=1)[0].rstrip(".")


def order(path: Path) -> tuple[bool, int, str]:
    """The plain values first, then rooms along the path; inside a room by name."""
    place = ROOMS.index(path.name) if path.parent == PACKAGE and path.name in ROOMS else -1
    return path.is_dir() or place >= 0, place, path.name


def entries(folder: Path) -> list[tuple[int, str, str]]:
    """(depth, name, what it says) of a folder's files and rooms, by name; lab is told by its rooms only."""
    rows: list[tuple[int, str, str]] = []
    for path in sorted(folder.iterdir(), key=order):
        depth = len(path.relative_to(PACKAGE).parts) - 1
        if path.is_dir() and (path / "__init__.py").exists():
            rows.append((depth, f"{path.name}/", summary(path / "__init__.py")))
            rows += [] if path.parent.name == "lab" else entries(path)
        elif path.suffix == ".py" and path.name not in ("__init__.py", "__main__.py"):
            rows.append((depth, path.name, summary(path)))
    return rows


def tree() -> str:
    lines = ["src/arr_coc/"]
    for depth, name, says in entries(PACKAGE):
        start = f"{'  ' * (depth + 1)}{name}".ljust(26)
        lines.append(f"{start} {says}".rstrip())
    return "\n".join(lines)


def main() -> None:
    if "--write" not in sys.argv:
        print(tree())
        return
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    README.write_text(f"{before}{BEGIN}\n```text\n{tree()}\n```\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
