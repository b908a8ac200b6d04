"""The README's Python runs as it stands, and prints what it says it prints."""

from __future__ import annotations

import io
import os
import pkgutil
import re
import shlex
import subprocess
from contextlib import nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE)

SHELL = "".join(re.findall(r"^```sh\n(.*?)^```$", README, flags=re.DOTALL | re.MULTILINE))
COMMANDS = re.findall(r"^arr-coc .*$", SHELL, flags=re.MULTILINE)


def promised(block: str) -> list[str]:
    """What the comments behind a block's print calls say."""
    return re.findall(r"^ *print\(.*\)  # (.*)$", block, flags=re.MULTILINE)


def stock_model() -> dict[str, Any]:
    """model, processor and inputs for blocks about attaching: the stock classes, tiny, with random weights."""
    from PIL import Image
    from tiny_models import prompt, tiny_model, tiny_processor

    processor = tiny_processor()
    picture = Image.open(ROOT / "src" / "arr_coc" / "examples" / "street.png").convert("RGB")
    inputs = prompt(processor, [([picture], "What is on the red sign?")])
    return {"model": tiny_model(), "processor": processor, "inputs": inputs}


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_prints_what_it_promises(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert promised(block), "a snippet ends with the value it prints"
    assert block.count("print(") == len(promised(block)), "every print says what it prints"
    if '"mini"' in block and not (ROOT / "src" / "arr_coc" / "weights" / "mini" / "config.json").exists():
        pytest.skip("the bundled weights are not in src/arr_coc/weights")
    monkeypatch.chdir(ROOT)
    printed = io.StringIO()
    with redirect_stdout(printed):
        exec(compile(block, "README.md", "exec"), stock_model() if "attach" in block else {})
    assert printed.getvalue().splitlines() == promised(block)


def test_the_first_block_is_five_lines() -> None:
    assert len(BLOCKS) >= 2
    assert len(BLOCKS[0].strip().splitlines()) == 5


@pytest.mark.skipif("ARR_COC_README" not in os.environ, reason="needs the environment of make test-readme")
@pytest.mark.parametrize("line", COMMANDS)
def test_a_command_runs_with_the_extras_that_are_named(line: str, tmp_path: Path) -> None:
    """Or says in one line what README names elsewhere: the laboratory, the page's extra, what it trained."""
    from PIL import Image

    (tmp_path / "scans").mkdir()
    street = Image.open(ROOT / "src" / "arr_coc" / "examples" / "street.png").convert("RGB")
    for name in ("street.jpg", "page.png", "invoice.pdf", "scans/letter.pdf"):
        street.save(tmp_path / name)
    words, outside = shlex.split(line, comments=True), {**os.environ, "PYTHONPATH": ""}
    serves, missing = words[1] in ("serve", "proxy"), words[1] in ("train", "microscope") or "my-scorer" in line
    words[0] = str(Path(os.environ["ARR_COC_README"]).resolve() / words[0])
    words += ["--bind", "127.0.0.1:0"] * serves
    with subprocess.Popen(words, cwd=tmp_path, env=outside, stderr=subprocess.PIPE, text=True) as process:
        with pytest.raises(subprocess.TimeoutExpired) if serves else nullcontext():
            process.wait(30 if serves else 300)
        process.terminate()
        err = process.communicate()[1]
    assert not re.search("Traceback|nanobind", err)
    assert serves or process.returncode == 2 * missing, err
    assert not missing or len(err.strip().splitlines()) == 1, err


def test_files_and_commands_named_exist() -> None:
    from arr_coc.app.cli import summaries

    targets = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    missing = [target for target in targets if not (ROOT / target).exists()]
    assert not missing
    commands = set(summaries())
    assert {"look", "demo", "bench"} <= commands
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"\barr-coc (\w+)", README)) <= commands
    assert all(f"\n{target}:" in makefile for target in re.findall(r"(?:`|^)make (\w+)", README, flags=re.MULTILINE))


def source_map_names() -> list[str]:
    text = (ROOT / "docs" / "source-map.md").read_text(encoding="utf-8")
    return sorted(set(re.findall(r"`(arr_coc(?:_lab)?(?:\.\w+)+)`", text)))


def test_every_name_of_the_source_map_exists() -> None:
    names = source_map_names()
    assert len(names) > 60
    missing = []
    for name in names:
        try:
            pkgutil.resolve_name(name)
        except (AttributeError, ImportError):
            missing.append(name)
    assert not missing
