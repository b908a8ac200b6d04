"""How large the house is and how it hangs together; the table and the drawing of docs/architecture.md come from here.

    python scripts/measure_house.py            a table
    python scripts/measure_house.py --json     the same for machines
    python scripts/measure_house.py --write    put table and drawing into docs/architecture.md

It counts what a reader meets: lines and files by room; what each door can reach by imports, wherever in a file they
stand; imports that climb; circles, with deferred imports and without; class names that stand for several classes;
functions longer than 100 lines or with more than 8 parameters; lines with `Any`.
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
# Where each package lies.
SOURCES = {"arr_coc": ROOT / "src", "arr_coc_lab": ROOT / "lab"}
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- house: begin -->", "<!-- house: end -->"
# Where a user comes in: door → the modules that open it.
DOORS = {
    "allocate": ("arr_coc.attending.allocate",),
    "look": ("arr_coc.looking",),
    "attach": ("arr_coc.realizing.attachment",),
    "ask": ("arr_coc.asking",),
    "Eye": ("arr_coc.answering.eye",),
    "Esper": ("arr_coc.answering.esper",),
    "watch": ("arr_coc.video.watching",),
}
LONGEST_FUNCTION, MOST_PARAMETERS = 100, 8


class ImportEdge(NamedTuple):
    """One import. at_once: it runs while the module is imported. named: only as "module:name" in a string."""

    target: str
    line: int
    at_once: bool
    named: bool = False


Edges = Mapping[str, frozenset[ImportEdge]]


def modules(sources: Mapping[str, Path] = SOURCES) -> dict[str, Path]:
    """Dotted name → file, of every module of the packages."""
    result = {}
    for package, source in sources.items():
        for path in sorted((source / package).rglob("*.py")):
            parts = path.relative_to(source).with_suffix("").parts
            result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def room_of(module: str) -> str:
    """The room of a module: "core", "app.cli", "lab.train"; "faces" for what stands at the top."""
    package, *parts = module.split(".")
    if package == "arr_coc_lab":
        return f"lab.{parts[0]}" if parts else "lab"
    if not parts or parts[0] in ("__main__", "asking", "looking", "texturing"):
        return "faces"
    return ".".join(parts[:2]) if parts[0] == "app" and len(parts) > 1 else parts[0]


def storey_of(module: str) -> str:
    room = room_of(module)
    return "lab" if room.startswith("lab") else "app" if room.startswith("app") else "library"


def imports_of(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[ImportEdge]:
    """Every import of our packages in a file, also those named by strings.

    A string counts where it is the argument of `import_module`, the value of a table of lazily resolved names, or says
    "arr_coc.module:name": the literal parts before anything computed say at least which room is meant.
    """
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    for node, at_once in _walk(parsed(path)):
        if isinstance(node, ast.ImportFrom):
            base = _absolute(node.level, node.module or "", package)
            if base.split(".")[0] in SOURCES:
                for alias in node.names:
                    target = f"{base}.{alias.name}"
                    yield ImportEdge(target if target in known else base, node.lineno, at_once)
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in SOURCES:
                    yield ImportEdge(alias.name, node.lineno, at_once)
        elif isinstance(node, ast.Call) and _called(node) == "import_module" and node.args:
            target = _literal(node.args[0])
            level = len(target) - len(target.lstrip("."))
            name = _absolute(level, target.lstrip("."), package) if level else target
            if name.split(".")[0] in SOURCES:
                yield ImportEdge(name.rstrip("."), node.lineno, at_once)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and ":" in node.value:
            named = node.value.partition(":")[0]
            if named in known:
                yield ImportEdge(named, node.lineno, False, True)
        elif isinstance(node, ast.Call) and _called(node) == "resolve_lazily":
            for text in ast.walk(node):
                if isinstance(text, ast.Constant) and f"{package}.{text.value}" in known:
                    yield ImportEdge(f"{package}.{text.value}", text.lineno, False)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def _walk(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Every node but what only a type checker reads, and whether it runs at import: not inside a function."""
    waiting = [(tree, True)]
    while waiting:
        node, at_once = waiting.pop()
        yield node, at_once
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        waiting += [(child, at_once and not later) for child in ast.iter_child_nodes(node)]


def _absolute(level: int, name: str, package: str) -> str:
    if not level:
        return name
    base = package.split(".")[: len(package.split(".")) - level + 1]
    return ".".join([*base, name] if name else base)


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _literal(node: ast.expr) -> str:
    """The text of a string, or of an f-string up to its first computed part."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr) and node.values and isinstance(node.values[0], ast.Constant):
        return str(node.values[0].value)
    return ""


def graph(known: Mapping[str, Path]) -> dict[str, frozenset[ImportEdge]]:
    """Module → its imports."""
    return {
        name: frozenset(edge for edge in imports_of(name, path, known) if edge.target != name)
        for name, path in known.items()
    }


def into_the_lab(edges: Edges) -> list[str]:
    """Imports of the laboratory by the product."""
    return sorted(
        f"{name}:{edge.line} imports {edge.target}"
        for name, found in edges.items()
        for edge in found
        if storey_of(edge.target) == "lab" and storey_of(name) != "lab"
    )


def circles(edges: Edges, deferred: bool = True) -> list[list[str]]:
    """Groups of modules that import each other (Tarjan). deferred: count imports inside functions too.

    Names in strings are not followed: a table that names what it loads on demand is a registry, not an import.
    """
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        followed = (e for e in edges.get(node, ()) if e.target in edges and not e.named and (deferred or e.at_once))
        for target in {edge.target for edge in followed}:
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            group = [stack.pop()]
            while group[-1] != node:
                group.append(stack.pop())
            if len(group) > 1:
                result.append(sorted(group))

    for name in edges:
        if name not in index:
            visit(name)
    # The package's own face names everything lazily: it is no part of a circle.
    return [group for group in result if not {"arr_coc", "arr_coc_lab"} & set(group)]


def closure(edges: Edges, doors: tuple[str, ...]) -> set[str]:
    """Every module that the doors can reach, at import or later, also by names in strings.

    The package itself is not followed: it names everything, and whoever asks it for a name says which.
    """
    waiting, reached = list(doors), set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [
                edge.target for edge in edges.get(name, ()) if edge.target in edges and edge.target != "arr_coc"
            ]
            parent = name.rpartition(".")[0]
            if parent and parent not in SOURCES:
                waiting.append(parent)
    return reached & set(edges)


def functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def is_kernel(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Is it compiled by Triton, which knows pointers and numbers only?"""
    return any(ast.unparse(one).startswith("triton.jit") for one in function.decorator_list)


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many parameters a reader meets, without self and cls."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")]) + bool(given.vararg) + bool(given.kwarg)


def command_doors(known: Mapping[str, Path]) -> dict[str, tuple[str, ...]]:
    """Every command of `arr-coc`: the modules of `app.cli` and of the laboratory's `cli`."""
    rooms = ("arr_coc.app.cli.", "arr_coc_lab.cli.")
    helpers = ("config", "console", "documents", "inputs", "looks")
    return {
        f"arr-coc {name.rpartition('.')[2]}": (name,)
        for name in known
        if name.startswith(rooms) and name.rpartition(".")[2] not in helpers and "_" not in name.rpartition(".")[2]
    }


def measure(sources: Mapping[str, Path] = SOURCES) -> dict:
    """Everything that is counted, as JSON."""
    known = modules(sources)
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    edges = graph(known)
    rooms: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in lines.items():
        rooms[room_of(name)].update(files=1, lines=count)
    storeys: dict[str, Counter[str]] = defaultdict(Counter)
    for name, count in lines.items():
        storeys[storey_of(name)].update(files=1, lines=count)
    doors = {**DOORS, **command_doors(known)}
    reached = {door: closure(edges, entered) for door, entered in doors.items() if entered[0] in known}
    classes = defaultdict(list)
    long, wide, kernels, any_lines = [], [], [], 0
    for name, path in known.items():
        tree = parsed(path)
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(name)
        for function in functions(tree):
            length = (function.end_lineno or function.lineno) - function.lineno + 1
            if length > LONGEST_FUNCTION:
                long.append(f"{name}.{function.name} ({length})")
            if parameters(function) > MOST_PARAMETERS:
                several = kernels if is_kernel(function) else wide
                several.append(f"{name}.{function.name} ({parameters(function)})")
        any_lines += sum(bool(re.search(r"\bAny\b", line)) for line in path.read_text(encoding="utf-8").splitlines())
    return {
        "files": len(known),
        "lines": sum(lines.values()),
        "storeys": {name: dict(counts) for name, counts in sorted(storeys.items())},
        "rooms": {name: dict(counts) for name, counts in sorted(rooms.items())},
        "doors": {
            door: {"files": len(found), "lines": sum(lines[name] for name in found)} for door, found in reached.items()
        },
        "into_the_lab": into_the_lab(edges),
        "circles": circles(edges),
        "circles_at_import": circles(edges, deferred=False),
        "class_names_twice": {name: homes for name, homes in sorted(classes.items()) if len(homes) > 1},
        "long_functions": long,
        "wide_functions": wide,
        "wide_kernels": kernels,
        "lines_with_any": any_lines,
    }


# ---- the page -------------------------------------------------------------------------------------------------------

# Rooms from the ground up; an arrow may only point to what stands before.
ORDER = (
    *("core", "pictures", "texture", "knowing", "balancing", "attending", "realizing", "answering", "video", "packing"),
    *("draw", "faces"),
    *("app", "app.web", "app.media", "app.door", "app.microscope", "app.serve", "app.proxy"),
    *("app.batch", "app.vllm", "app.cli"),
)


def arrows(edges: Edges) -> dict[tuple[str, str], int]:
    """(room, room it imports) → how many modules do so, of the library."""
    result: Counter[tuple[str, str]] = Counter()
    for name, found in edges.items():
        here = room_of(name)
        for there in {room_of(edge.target) for edge in found if not edge.named}:
            if here != there and storey_of(name) == "library" and here != "faces" and there in ORDER:
                result[here, there] += 1
    return dict(result)


def drawing(edges: Edges) -> str:
    """The library's rooms and their imports as a Mermaid diagram."""
    lines = ["```mermaid", "flowchart BT"]
    lines += [f"  {here} -->|{count}| {there}" for (here, there), count in sorted(arrows(edges).items())]
    return "\n".join([*lines, "```"])


def table(found: dict) -> str:
    """What was counted, as Markdown."""
    rows = ["| room | files | lines |", "|---|--:|--:|"]
    rows += [f"| {name} | {one['files']} | {one['lines']} |" for name, one in found["rooms"].items()]
    rows += [f"| **{name}** | {one['files']} | {one['lines']} |" for name, one in found["storeys"].items()]
    rows += [f"| **together** | {found['files']} | {found['lines']} |", "", "| door | reaches files | lines |"]
    rows += ["|---|--:|--:|"]
    rows += [f"| `{name}` | {one['files']} | {one['lines']} |" for name, one in found["doors"].items()]
    rows += ["", "| | |", "|---|--:|"]
    counts = {
        "imports of the lab by the product": len(found["into_the_lab"]),
        "circles, deferred imports counted": len(found["circles"]),
        "circles at import": len(found["circles_at_import"]),
        "class names that stand for several classes": len(found["class_names_twice"]),
        f"functions longer than {LONGEST_FUNCTION} lines": len(found["long_functions"]),
        f"functions with more than {MOST_PARAMETERS} parameters": len(found["wide_functions"]),
        "the same, kernels of Triton, which take no values": len(found["wide_kernels"]),
        "lines with `Any`": found["lines_with_any"],
    }
    return "\n".join([*rows, *(f"| {what} | {count} |" for what, count in counts.items())])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--write", action="store_true", help="put table and drawing into docs/architecture.md")
    given = parser.parse_args()
    found = measure()
    if given.json:
        print(json.dumps(found, indent=2))
    elif given.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN, 1)
        inside = f"{BEGIN}\n{drawing(graph(modules()))}\n\n{table(found)}\n{END}"
        PAGE.write_text(f"{before}{inside}{rest.split(END, 1)[1]}", encoding="utf-8")
    else:
        print(table(found))
        for name in ("into_the_lab", "circles", "long_functions", "wide_functions", "class_names_twice"):
            print(f"\n{name}:", *(f"  {one}" for one in found[name]), sep="\n")


if __name__ == "__main__":
    main()
