"""The documentation is true: links lead somewhere, Python runs and prints what it says, commands are accepted."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from typer.main import get_command

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
TAUGHT = [page for folder in ("tutorial", "how-to", "concepts") for page in sorted((DOCS / folder).glob("*.md"))]
STOCK = "Qwen/Qwen3-VL-2B-Instruct"
HOCR = """<html><body><div class="ocr_page" title="bbox 0 0 768 1024">
<span class="ocrx_word" title="bbox 60 700 160 730">TOTAL</span>
<span class="ocrx_word" title="bbox 420 700 520 730">48.20</span></div></body></html>"""
# Options of pip, vLLM and trainings, which read their own arguments.
OTHER_PROGRAMS = {"--from", "--mix", "--reader", "--trust-request-mm-kwargs"}
# Commands that end by themselves within seconds on the sample files.
SHORT = ("look", "ask", "doctor", "sense", "cost", "pack")


def blocks(page: Path, *languages: str) -> list[str]:
    return re.findall(rf"^```(?:{'|'.join(languages)})\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)


def named(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands(page: Path) -> list[str]:
    """Every line of a shell block that calls the program, comments cut off."""
    lines = "\n".join(blocks(page, "sh", "bash", "console")).replace("\\\n", " ").splitlines()
    lines = [line.removeprefix("$ ").strip() for line in lines]
    return [line for line in lines if line.startswith("arr-coc ")]


PYTHON = [
    pytest.param(block, id=f"{named(page)}-{number}")
    for page in TAUGHT
    for number, block in enumerate(blocks(page, "python"))
]
LINES = [pytest.param(line, id=f"{named(page)}: {line}") for page in PAGES for line in commands(page)]
SHORT_LINES = [
    pytest.param(line, id=f"{named(page)}: {line}")
    for page in TAUGHT
    for line in commands(page)
    if line.split()[1] in SHORT and "&&" not in line and not any(part in line for part in ("|", "my-", "=photos"))
]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", page.read_text("utf-8"))
    assert not [target for target in targets if not (page.parent / target).exists()]


@pytest.mark.parametrize("page", PAGES, ids=named)
def test_links_to_headings_find_them(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|mailto:)([^)#\s]*)#([^)\s]+)\)", page.read_text("utf-8"))
    missing = [f"{target}#{place}" for target, place in links if place not in headings(page.parent / target, page)]
    assert not missing


def headings(target: Path, page: Path) -> set[str]:
    """The names by which links find a page's headings; of this page where the target is its folder."""
    text = (page if target.is_dir() else target).read_text("utf-8")
    titles = [title.lower() for title in re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)]
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip()) for title in titles}


def navigation() -> dict[str, list[str]]:
    """The site's sections with their pages, as mkdocs.yml names them."""
    sections: dict[str, list[str]] = {}
    section = ""
    for line in (ROOT / "mkdocs.yml").read_text("utf-8").partition("\nnav:\n")[2].splitlines():
        title, _, page = line.strip(" -").partition(": ")
        if line.startswith("  - "):
            section = title.rstrip(":")
        sections.setdefault(section, []).extend([page] if page else [])
    return sections


def test_pages_are_short() -> None:
    taught = {*TAUGHT, *(DOCS / page for page in navigation()["How to"])}
    assert len(PAGES[0].read_text("utf-8").splitlines()) <= 200
    assert not [named(page) for page in sorted(taught) if len(page.read_text("utf-8").splitlines()) > 150]


def test_every_page_stands_once_in_the_navigation() -> None:
    told = [page for pages in navigation().values() for page in pages]
    made = {"index.md", "reference/commands.md", "api/", "contributing.md", "changelog.md", "security.md"}
    assert len(told) == len(set(told))
    assert set(told) - made == {page.relative_to(DOCS).as_posix() for page in PAGES[1:]}


def test_text_speaks_of_bars() -> None:
    """What was to be reached is a bar, in a table."""
    assert not [named(page) for page in PAGES if "wished for" in page.read_text("utf-8").lower()]


@pytest.fixture(scope="module")
def stock(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with a tiny random Qwen3-VL, which stands where pages name one of the hub."""
    from tiny_weights import tiny_weights

    return str(tiny_weights(tmp_path_factory.mktemp("stock")) / "mini")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that pages name."""
    folder = tmp_path_factory.mktemp("samples")
    examples = ROOT / "src" / "arr_coc" / "examples"
    for name, source in {"street": "street", "form": "form", "page": "form", "scan": "receipt", "a": "form"}.items():
        shutil.copy(examples / f"{source}.png", folder / f"{name}.png")
    shutil.copy(examples / "chart.png", folder / "b.png")
    Image.open(examples / "street.png").convert("RGB").save(folder / "plan.jpg")
    Image.open(examples / "street.png").convert("RGB").save(folder / "street.jpg")
    (folder / "scan.hocr").write_text(HOCR)
    sheets = [Image.open(examples / f"{name}.png").convert("RGB").reduce(2) for name in ("form", "receipt", "chart")]
    for name in ("report", "invoice"):
        sheets[0].save(folder / f"{name}.pdf", save_all=True, append_images=sheets[1:])
    (folder / "scans").mkdir()
    shutil.copy(examples / "receipt.png", folder / "scans" / "one.png")
    return folder


@pytest.fixture
def beside_samples(samples: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(samples, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("block", PYTHON)
def test_python_runs_and_prints_what_it_says(block: str, beside_samples: Path, stock: str) -> None:
    names: dict[str, Any] = {}
    if "attach(" in block:
        from test_readme import stock_model

        names = stock_model()
    if "relevance_source" in block:
        from arr_coc.knowing.registry import remove_source

        remove_source("centre")
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block.replace(STOCK, stock), "page", "exec"), names)
    promised = re.findall(r"^ *print\(.*\)  +# (.*)$", block, flags=re.MULTILINE)
    assert printed.getvalue().splitlines() == promised


@pytest.mark.parametrize("line", LINES)
def test_commands_are_accepted(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, options and their values are right; nothing is run."""
    from arr_coc.app.cli import build

    monkeypatch.chdir(tmp_path)
    words = shlex.split(line.split(" && ")[0].split(" | ")[0], comments=True)[1:]
    words = words or ["--help"]
    group: Any = get_command(build(words))
    if words[0].startswith("-"):
        return
    command = group.commands[words[0]]
    rest = words[1:]
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        command, rest = command.commands[rest[0]], rest[1:]
    if not hasattr(command, "commands"):
        command.make_context("arr-coc", rest, resilient_parsing=False)


@pytest.mark.parametrize("page", [*TAUGHT, *sorted((DOCS / "reference").glob("*.md"))], ids=named)
def test_options_in_running_text_exist(page: Path) -> None:
    from arr_coc.app.cli import build, summaries

    known = {"--help", "--version"}
    for name in summaries():
        waiting: list[Any] = [get_command(build([name]))]
        while waiting:
            waiting += getattr(command := waiting.pop(), "commands", {}).values()
            known |= {option for one in command.params for option in one.opts}
    used = set(re.findall(r"`(?:arr-coc )?(?:\w+ )?(--[a-z-]+)", page.read_text("utf-8")))
    assert not used - known - OTHER_PROGRAMS


@pytest.mark.parametrize("line", SHORT_LINES)
def test_commands_run(line: str, run: Any, samples: Path, tmp_path: Path, stock: str) -> None:
    shutil.copytree(samples, tmp_path, dirs_exist_ok=True)
    ended = run(*shlex.split(line.replace(STOCK, stock), comments=True)[1:])
    assert ended.code == 0, ended.err


def test_pages_tell_what_was_measured() -> None:
    """The tables of the README and of docs/data/tables.json stand in their pages, each under its name."""
    import fill_figures

    tables = json.loads((DOCS / "data" / "tables.json").read_text("utf-8"))
    assert not [name for name, one in tables.items() if not one["version"].startswith(("0.3.0", "1.0.0"))], "older"
    found = list(fill_figures.blocks())
    assert len(found) > 10
    for page, name, text in found:
        block = page.read_text("utf-8").partition(f"<!-- {name}: begin -->\n")[2].partition(f"<!-- {name}: end -->")[0]
        assert block == f"{text}\n", f"{named(page)}, {name}: run python scripts/fill_figures.py"


def public_names() -> list[str]:
    """Every function and class of `arr_coc`, and the methods that these classes define."""
    import inspect

    import arr_coc

    found = []
    for name in arr_coc.__all__:
        one = getattr(arr_coc, name)
        if inspect.isclass(one):
            methods = {key: getattr(value, "__func__", value) for key, value in vars(one).items() if key[0] != "_"}
            found += [f"{name}.{key}" for key, method in methods.items() if inspect.isfunction(method)]
        found += [name] if callable(one) else []
    return found


@pytest.mark.parametrize("name", public_names())
def test_public_names_tell_every_argument_and_what_comes_back(name: str) -> None:
    """Functions and classes also show an example. A method may say all in one line."""
    import inspect
    from functools import reduce

    import arr_coc

    one = reduce(getattr, name.split("."), arr_coc)
    told = inspect.getdoc(one) or ""
    is_class = inspect.isclass(one)
    if "." in name and told and "\n" not in told:
        return
    # Exceptions hide their signature behind their parent's.
    signature = inspect.signature(one.__init__ if is_class and issubclass(one, Exception) else one)
    arguments = told.partition("Args:")[2] or told.partition("Attributes:")[2]  # the latter of named tuples
    for heading in ("Returns:", "Yields:", "Raises:", "Example:"):
        arguments = arguments.partition(heading)[0]
    named = set(re.findall(r"^ {4}\**(\w+): ", arguments, flags=re.MULTILINE))
    assert named == set(signature.parameters) - {"self", "cls"}
    assert is_class or signature.return_annotation in ("None", None) or "Returns:" in told or "Yields:" in told
    assert "." in name or "Example:" in told
