"""How large the house is and how it hangs together; every figure of docs/architecture.md comes from here.

    python scripts/measure_house.py            a table
    python scripts/measure_house.py --json     the same for machines

Files and lines of every storey; what `look`, `ask`, `attach`, passes and `video` can reach by imports, wherever in a
file they stand (the product's closure); imports that climb a storey and circles between modules (none is allowed);
modules with one importer, and those under 60 lines among them.
"""

from __future__ import annotations

import argparse
import ast
import json
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).parents[1] / "src"
PACKAGE = "arr_coc"
STOREYS = ("library", "lab", "app")
# Where a user comes in: the library's rooms, and the three commands that stand for them.
DOORS = ("looking", "asking", "quick", "backbones", "esper", "video", "attending", "draw")
DOORS += ("app.cli.look", "app.cli.ask", "app.cli.video")
SMALL = 60


def storey_of(module: str) -> str:
    parts = module.split(".")
    return parts[1] if len(parts) > 1 and parts[1] in STOREYS else "library"


def modules(source: Path = SOURCE) -> dict[str, Path]:
    """Dotted name → file, of every module of the package."""
    result = {}
    for path in sorted((source / PACKAGE).rglob("*.py")):
        parts = path.relative_to(source).with_suffix("").parts
        result[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return result


def package_of(module: str, path: Path) -> str:
    return module if path.name == "__init__.py" else module.rpartition(".")[0]


def imports_of(module: str, path: Path, known: Mapping[str, Path]) -> Iterator[tuple[str, int, bool]]:
    """(module, line, whether it runs at import) of every import of the package in a file, also those of strings.

    A string counts where it is the argument of `import_module`, the value of a table of lazily resolved names, or says
    "arr_coc.module:name": the literal parts that come before anything computed say at least which room is meant.
    """
    package = package_of(module, path)
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node, at_once in _walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = _absolute(node.level, node.module or "", package)
            for alias in node.names:
                target = f"{base}.{alias.name}"
                if base.split(".")[0] == PACKAGE:
                    yield (target if target in known else base), node.lineno, at_once
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == PACKAGE:
                    yield alias.name, node.lineno, at_once
        elif isinstance(node, ast.Call) and _called(node) == "import_module" and node.args:
            target = _literal(node.args[0])
            level = len(target) - len(target.lstrip("."))
            name = _absolute(level, target.lstrip("."), package) if level else target
            if name.split(".")[0] == PACKAGE:
                yield name.rstrip("."), node.lineno, at_once
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith(f"{PACKAGE}."):
            module_named, colon, _ = node.value.partition(":")
            if colon and module_named in known:
                yield module_named, node.lineno, False
        elif isinstance(node, ast.Call) and _called(node) == "resolve_lazily":
            for text in ast.walk(node):
                if isinstance(text, ast.Constant) and isinstance(text.value, str):
                    name = f"{package}.{text.value}"
                    if name in known:
                        yield name, text.lineno, False


def _walk(tree: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it runs at import: not inside a function, nor only for a type checker."""
    waiting = [(tree, True)]
    while waiting:
        node, at_once = waiting.pop()
        yield node, at_once
        later = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        later |= isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
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


def graph(known: Mapping[str, Path]) -> dict[str, set[tuple[str, int, bool]]]:
    return {
        name: {found for found in imports_of(name, path, known) if found[0] != name} for name, path in known.items()
    }


@lru_cache
def graph_of(source: Path) -> dict[str, set[tuple[str, int, bool]]]:
    """`graph` of what a folder holds, read once."""
    return graph(modules(source))


def upward(edges: Mapping[str, set[tuple[str, int, bool]]]) -> list[str]:
    """Imports from a lower storey into an upper one."""
    return sorted(
        f"{name}:{line} imports {target}"
        for name, found in edges.items()
        for target, line, _ in found
        if STOREYS.index(storey_of(target)) > STOREYS.index(storey_of(name)) and name != f"{PACKAGE}.__main__"
    )


def circles(edges: Mapping[str, set[tuple[str, int, bool]]]) -> list[list[str]]:
    """Groups of modules that import each other while being imported (Tarjan's strongly connected components)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    result: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in {target for target, _, at_once in edges.get(node, ()) if at_once and target in edges}:
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
    return result


def closure(edges: Mapping[str, set[tuple[str, int, bool]]], doors: tuple[str, ...] = DOORS) -> set[str]:
    """Every module that the doors can reach, at import or later."""
    waiting = [f"{PACKAGE}.{door}" for door in doors]
    waiting = [name for name in edges if any(name == door or name.startswith(f"{door}.") for door in waiting)]
    reached: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in reached:
            reached.add(name)
            waiting += [target for target, _, _ in edges.get(name, ()) if target in edges]
    return reached


def measure(source: Path = SOURCE) -> dict[str, Any]:
    known = modules(source)
    lines = {name: len(path.read_text(encoding="utf-8").splitlines()) for name, path in known.items()}
    edges = graph_of(source)
    importers: dict[str, set[str]] = {name: set() for name in known}
    for name, found in edges.items():
        for target, _, _ in found:
            if target in importers:
                importers[target].add(name)
    alone = [name for name, by in importers.items() if len(by) == 1 and known[name].name != "__init__.py"]
    reached = closure(edges)
    return {
        "files": len(known),
        "lines": sum(lines.values()),
        "storeys": {
            storey: {
                "files": sum(storey_of(name) == storey for name in known),
                "lines": sum(count for name, count in lines.items() if storey_of(name) == storey),
            }
            for storey in STOREYS
        },
        "product": {"files": len(reached), "lines": sum(lines[name] for name in reached)},
        "upward": upward(edges),
        "circles": circles(edges),
        "one_importer": len(alone),
        "small_with_one_importer": sorted(name for name in alone if lines[name] < SMALL),
        "over_400_lines": sorted(name for name, count in lines.items() if count > 400),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("--source", type=Path, default=SOURCE, help="the folder that holds the package")
    given = parser.parse_args()
    found = measure(given.source)
    if given.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'files':>32} {'lines':>8}")
    for storey, counts in found["storeys"].items():
        print(f"{storey:<24}{counts['files']:>8} {counts['lines']:>8}")
    print(f"{'together':<24}{found['files']:>8} {found['lines']:>8}")
    print(f"{'reached by the product':<24}{found['product']['files']:>8} {found['product']['lines']:>8}")
    print(f"imports that climb a storey: {len(found['upward'])}", *found["upward"], sep="\n  ")
    print(f"circles: {len(found['circles'])}", *map(", ".join, found["circles"]), sep="\n  ")
    small = found["small_with_one_importer"]
    print(
        f"modules with one importer: {found['one_importer']}; under {SMALL} lines of them: {len(small)}",
        *small,
        sep="\n  ",
    )
    print(f"over 400 lines: {len(found['over_400_lines'])}", *found["over_400_lines"], sep="\n  ")


if __name__ == "__main__":
    main()
