"""Report how large the code is and how it hangs together.

    python scripts/code_size.py            a table
    python scripts/code_size.py --write    put the table into docs/architecture.md

Counted: lines (blank ones too) and files by package; what each entry point can reach by imports, wherever they stand in
a file, types included; modules that import each other; class names that stand for several classes; long and wide
functions; lines with `Any`; public names, extras, commands and options; stops of a picture on its way through `ask`.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

import grimp

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- size: begin -->", "<!-- size: end -->"
SOURCES = {"arr_coc": ROOT / "src", "arr_coc_lab": ROOT / "lab"}
ENTRY_POINTS = {
    "look": "arr_coc.looking",
    "attach": "arr_coc.realizing.attachment",
    "ask": "arr_coc.asking",
    "Esper": "arr_coc.answering.esper",
    "watch": "arr_coc.video.watching",
    "pack": "arr_coc.packing.pack",
}
LONGEST_FUNCTION, MOST_PARAMETERS = 100, 10
PRODUCT_COMMANDS = ("look", "ask", "batch", "serve", "proxy", "mcp", "pack", "video", "microscope", "doctor")


def files_of(place: str) -> list[Path]:
    return sorted((ROOT / place).rglob("*.py"))


def lines_of(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def part_of(path: Path) -> str:
    """Name the part that a file is counted with: "library core", "app cli", "lab train"."""
    inside = path.relative_to(ROOT).parts
    if inside[0] == "lab":
        return f"lab {inside[2]}" if len(inside) > 3 else "lab"
    if inside[2] == "app":
        return f"app {inside[3]}" if len(inside) > 4 else "app"
    return f"library {inside[2]}" if len(inside) > 3 else "library"


def sizes() -> dict[str, dict[str, int]]:
    """Count lines and files of every part, of the wholes, and of scripts and tests."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for place in ("src/arr_coc", "lab/arr_coc_lab"):
        for path in files_of(place):
            part = part_of(path)
            for name in {part, part.split()[0]}:
                counts[name].update(lines=lines_of(path), files=1)
    for name, places in {"scripts, benchmarks": ("scripts", "benchmarks"), "tests": ("tests",)}.items():
        for path in (path for place in places for path in files_of(place)):
            counts[name].update(lines=lines_of(path), files=1)
    return {name: dict(count) for name, count in sorted(counts.items())}


def import_graph() -> grimp.ImportGraph:
    """Build the graph of all imports, also those inside functions and those that only type checkers read.

    Tables that name what they load on demand ("arr_coc.module:name") count as imports of the entry points' closures.
    """
    for place in SOURCES.values():
        sys.path.insert(0, str(place))
    return grimp.build_graph("arr_coc", "arr_coc_lab", cache_dir=None)


def named_imports(path: Path) -> set[str]:
    """Find the modules that a file names in strings such as "arr_coc.module:name"."""
    return set(re.findall(r"\"(arr_coc(?:\.\w+)+):\w+\"", path.read_text(encoding="utf-8")))


def path_of(module: str) -> Path:
    place = SOURCES[module.split(".")[0]].joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


def closure(graph: grimp.ImportGraph, start: str) -> set[str]:
    """Collect every module that an entry point can reach. The package's own face, which names all, is not followed."""
    waiting, reached = [start], set()
    while waiting:
        module = waiting.pop()
        if module in reached or module == "arr_coc" or module not in graph.modules:
            continue
        reached.add(module)
        waiting += [*graph.find_modules_directly_imported_by(module), *named_imports(path_of(module))]
    return reached


def circles(graph: grimp.ImportGraph) -> list[list[str]]:
    """Find modules that import each other: the first circle, or none."""
    faces = {"arr_coc", "arr_coc_lab"}
    try:
        list(
            TopologicalSorter(
                {one: graph.find_modules_directly_imported_by(one) - faces for one in graph.modules - faces}
            ).static_order()
        )
    except CycleError as error:
        return [error.args[1]]
    return []


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Count the parameters of a function, without self and cls."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)


def syntax() -> dict[str, object]:
    """Read what the syntax trees say: class names, long and wide functions, `Any`."""
    classes: dict[str, list[str]] = defaultdict(list)
    long, wide, any_lines = [], [], 0
    for path in (*files_of("src/arr_coc"), *files_of("lab/arr_coc_lab")):
        text, name = path.read_text(encoding="utf-8"), str(path.relative_to(ROOT))
        tree = ast.parse(text)
        any_lines += sum(bool(re.search(r"\bAny\b", line)) for line in text.splitlines())
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
        for function in functions(tree):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > LONGEST_FUNCTION:
                long.append(f"{name}:{function.name} ({length})")
            if parameters(function) > MOST_PARAMETERS and not function.name.startswith("_"):
                wide.append(f"{name}:{function.name} ({parameters(function)})")
    twice = {name: homes for name, homes in sorted(classes.items()) if len(homes) > 1}
    return {"class_names_twice": twice, "long_functions": long, "wide_functions": wide, "lines_with_any": any_lines}


def surface() -> dict[str, int]:
    """Count what a user sees: public names, extras, commands and options of the product."""
    import typer
    from typer.main import get_command

    import arr_coc
    from arr_coc.app import cli

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    options, commands = 0, []
    for name in PRODUCT_COMMANDS:
        if name in cli.COMMANDS:
            commands.append(name)
            group: Any = get_command(cli.build([name]))
            command = group.get_command(typer.Context(group), name)
            options += sum(one.param_type_name == "option" and one.name != "help" for one in command.params)
    extras = [name for name in project["optional-dependencies"] if name not in ("all", "dev", "docs")]
    return {
        "public_names": len([name for name in arr_coc.__all__ if name != "__version__"]),
        "extras": len(extras),
        "commands": len(commands),
        "options": options,
    }


def stops() -> dict[str, int]:
    """Follow a picture through `ask` with mini: how many functions, in how many files, are given the picture.

    Counted: functions of the library, outside core and draw, that are called with an argument of the class `Picture`,
    with an array or PIL image of the same pixels, or with a value that has one of these as a field.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    import arr_coc

    image = Image.new("RGB", (211, 173), "white")
    ImageDraw.Draw(image).text((20, 20), "TOTAL 42", "black", font_size=30)
    home, found = str(ROOT / "src" / "arr_coc"), set()

    def carries(value: object, deep: bool = True) -> bool:
        if isinstance(value, Image.Image | np.ndarray):
            return getattr(value, "size", None) == image.size or getattr(value, "shape", ())[:2] == image.size[::-1]
        if type(value).__name__ == "Picture":
            return True
        held = vars(value).values() if deep and hasattr(value, "__dict__") and not isinstance(value, type) else ()
        return any(carries(one, False) for one in list(held))

    def watch(frame: Any, event: str, _: object) -> None:
        place = frame.f_code.co_filename
        inside = place.startswith(home) and not place.startswith((f"{home}/core", f"{home}/draw"))
        if event == "call" and inside and not frame.f_code.co_name.startswith("<"):
            given = frame.f_code.co_varnames[: frame.f_code.co_argcount + frame.f_code.co_kwonlyargcount]
            if any(carries(frame.f_locals[name]) for name in given if name in frame.f_locals):
                found.add((place, frame.f_code.co_qualname))

    sys.setprofile(watch)
    try:
        arr_coc.ask(image, "What is the total?", 16)
    finally:
        sys.setprofile(None)
    return {"stops": len(found), "stop_files": len({place for place, _ in found})}


def measure() -> dict:
    """Count everything."""
    graph = import_graph()
    reached = {name: closure(graph, module) for name, module in ENTRY_POINTS.items()}
    return {
        "sizes": sizes(),
        "closures": {name: sum(lines_of(path_of(one)) for one in found) for name, found in reached.items()},
        "circles": circles(graph),
        **syntax(),
        **surface(),
        **stops(),
    }


def table(found: dict) -> str:
    """Write what was counted as Markdown."""
    rows = ["| part | files | lines |", "|---|--:|--:|"]
    rows += [f"| {name} | {one['files']} | {one['lines']} |" for name, one in found["sizes"].items()]
    rows += ["", "| entry point | lines it can reach |", "|---|--:|"]
    rows += [f"| `{name}` | {lines} |" for name, lines in found["closures"].items()]
    rows += ["", "| | |", "|---|--:|"]
    counts = {
        "groups of modules that import each other": len(found["circles"]),
        "class names that stand for several classes": len(found["class_names_twice"]),
        f"functions longer than {LONGEST_FUNCTION} lines": len(found["long_functions"]),
        f"public functions with more than {MOST_PARAMETERS} parameters": len(found["wide_functions"]),
        "lines with `Any`": found["lines_with_any"],
        "public names": found["public_names"],
        "extras": found["extras"],
        "commands of the product": found["commands"],
        "their options": found["options"],
        "functions that a picture passes in `ask`": found["stops"],
        "their files": found["stop_files"],
    }
    return "\n".join([*rows, *(f"| {what} | {count} |" for what, count in counts.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put the table into docs/architecture.md")
    given = parser.parse_args()
    found = measure()
    if given.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        PAGE.write_text(f"{before}{BEGIN}\n{table(found)}\n{END}{rest.split(END, 1)[1]}", encoding="utf-8")
    else:
        print(table(found))
        for name in ("circles", "long_functions", "wide_functions", "class_names_twice"):
            print(f"\n{name}:", *(f"  {one}" for one in found[name]), sep="\n")


if __name__ == "__main__":
    main()
