"""The tree in the README: every room with the first sentence that it says about itself.

python scripts/map_house.py           print it
python scripts/map_house.py --write   put it into README.md, between its markers
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
BEGIN, END = "<!-- tree: begin -->", "<!-- tree: end -->"
# Along the path of a question.
ROOMS = ("core", "pictures", "texture", "knowing", "balancing", "attending", "realizing", "answering", "video")
ROOMS += ("packing", "draw", "app")
FACES = ("looking.py", "asking.py", "texturing.py")


def summary(path: Path) -> str:
    """The first sentence of a file's docstring, without its full stop."""
    paragraph = (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0]
    return re.split(r"(?<=\w\w)\. (?=[A-Z`])", " ".join(paragraph.split()), maxsplit=1)[0].rstrip(".")


def tree() -> str:
    """Faces and rooms of the product, then the rooms of the laboratory."""
    product, lab = ROOT / "src" / "arr_coc", ROOT / "lab" / "arr_coc_lab"
    rows = [("src/arr_coc/", "the product")]
    rows += [(f"  {name}", summary(product / name)) for name in FACES]
    for room in ROOMS:
        rows.append((f"  {room}/", summary(product / room / "__init__.py")))
        if room == "app":
            rooms = sorted(path.parent for path in (product / room).glob("*/__init__.py"))
            rows += [(f"    {path.name}/", summary(path / "__init__.py")) for path in rooms]
    rows.append(("lab/arr_coc_lab/", "the laboratory"))
    rows += [(f"  {path.parent.name}/", summary(path)) for path in sorted(lab.glob("*/__init__.py"))]
    return "\n".join(f"{name.ljust(20)} {says}".rstrip() for name, says in rows)


def main() -> None:
    if "--write" not in sys.argv:
        print(tree())
        return
    text = README.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    README.write_text(f"{before}{BEGIN}\n```text\n{tree()}\n```\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
