"""Hooks of the documentation site (`mkdocs.yml`): pages that are made of what lies elsewhere, none of it written twice.

The README is the first page; CONTRIBUTING, CHANGELOG and SECURITY are pages; every package of the library gets a page
of its API from its docstrings; the page of the commands is what the program prints.
"""

from __future__ import annotations

import os
import re
import subprocess
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
PAGES = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md",
         "SECURITY.md": "security.md"}  # fmt: skip
# What a user calls, first; then the packages by their path through a question.
PACKAGES = ("looking", "asking", "core", "pictures", "texture", "knowing", "balancing", "attending", "realizing")
PACKAGES += ("answering", "video", "packing", "draw")
PROGRAM = ROOT / ".venv" / "bin" / "arr-coc"
LINK = re.compile(r"(!?\[[^\]]*\])\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def on_config(config: Any) -> Any:
    """Return the API's pages in the navigation."""
    reference = next(entry["Reference"] for entry in config.nav if "Reference" in entry)
    for entry in reference:
        if "API" in entry:
            entry["API"] = [
                {"arr_coc": "api/index.md"},
                *({f"arr_coc.{package}": f"api/{package}.md"} for package in PACKAGES),
            ]
    return config


def on_files(files: Any, config: Any) -> Any:
    made = import_module("mkdocs.structure.files").File.generated
    for source, page in PAGES.items():
        files.append(made(config, page, content=inside((ROOT / source).read_text(encoding="utf-8"))))
    files.append(made(config, "api/index.md", content=entry_points()))
    files.append(made(config, "reference/commands.md", content=commands_page()))
    for package in PACKAGES:
        content = f"::: arr_coc.{package}\n    options:\n      heading_level: 1\n"
        files.append(made(config, f"api/{package}.md", content=content))
    return files


def inside(text: str) -> str:
    """A page of the repository's root as a page of the site: the map of files is left out; what the site does not hold
    is named."""
    text = re.sub(r"<details>.*?</details>\n*", "", text, flags=re.DOTALL)

    def moved(link: re.Match[str]) -> str:
        words, path, anchor = link[1], link[2], link[3] or ""
        target = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        return f"{words}({target}{anchor})" if target else words.strip("[]")

    return LINK.sub(moved, text)


def commands_page() -> str:
    """Return every command, as the program itself tells it."""
    whole = output("--help")
    names = re.findall(r"^  (\w+)  +\S", whole.partition("Commands:")[2], flags=re.MULTILINE)
    assert names, "the program names no commands"
    pages = [f"## arr-coc {name}\n\n```text\n{output(name, '--help')}\n```\n" for name in names]
    return "\n".join(["# Commands", "", f"```text\n{whole}\n```", "", *pages])


def output(*arguments: str) -> str:
    """What `arr-coc` prints."""
    environment = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}
    return subprocess.run(
        [PROGRAM, *arguments], capture_output=True, text=True, check=True, env=environment
    ).stdout.strip()


def entry_points() -> str:
    """What `import arr_coc` gives, each from the module where it lives."""
    text = (ROOT / "src" / "arr_coc" / "__init__.py").read_text(encoding="utf-8")
    names = re.findall(r"^    from \.([\w.]+) import (\w+) as \2$", text, flags=re.MULTILINE)
    rows = [f"| `arr_coc.{name}` | [`arr_coc.{room}`]({room.split('.')[0]}.md) |" for room, name in names]
    assert rows, "arr_coc/__init__.py names nothing"
    shown = "".join(f"\n::: {home(room, name)}.{name}\n" for room, name in names if name[0].islower())
    return "\n".join(["# arr_coc", "", "| name | lives in |", "|---|---|", *rows, "", shown])


def home(room: str, name: str) -> str:
    """Return the module that defines a function."""
    package = ROOT / "src" / "arr_coc"
    inside_it = sorted((package / room.replace(".", "/")).glob("*.py")) or [package / f"{room.replace('.', '/')}.py"]
    file = next(one for one in inside_it if re.search(rf"^def {name}\(", one.read_text("utf-8"), flags=re.MULTILINE))
    return ".".join(file.relative_to(package.parent).with_suffix("").parts)
