"""`arr-coc cost`: tokens and money before anything is sent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from arr_coc.app.cli import main


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as end:
        main(["cost", *arguments])
    out, err = capsys.readouterr()
    return int(end.value.code or 0), out, err


@pytest.fixture
def page(tmp_path: Path) -> Path:
    path = tmp_path / "page.png"
    Image.new("RGB", (2048, 4096)).save(path)
    return path


def test_tokens_and_money(page: Path, capsys: Any) -> None:
    code, out, _ = told(capsys, str(page), "1024x1024", "--for", "gpt-4o", "--price", "2.5", "--json")
    found = json.loads(out)
    assert code == 0
    assert [row["tokens"] for row in found["pictures"]] == [1105, 765]
    assert found["cost"]["gpt-4o"] == pytest.approx(1870 * 2.5e-6)
    assert found["tables"]["gpt-4o"]["told"].startswith("as documented on 20")


def test_a_turned_photograph_is_counted_upright(tmp_path: Path, capsys: Any) -> None:
    image, exif = Image.new("RGB", (640, 64)), Image.Exif()
    exif[0x0112] = 6
    image.save(tmp_path / "turned.jpg", exif=exif)
    found = json.loads(told(capsys, str(tmp_path / "turned.jpg"), "--for", "mini", "--json")[1])
    assert (found["pictures"][0]["height"], found["pictures"][0]["width"]) == (640, 64)


def test_lists(capsys: Any) -> None:
    assert {"qwen3-vl", "gpt-4o"} <= {one["name"] for one in json.loads(told(capsys, "--list", "--json")[1])}
    assert "as documented" in told(capsys, "--list")[1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("{page}",), "name pictures and a model"),
        (("{page}", "--for", "bert"), "no table says how"),
        (("{page}", "--for", "gpt-4o", "--price", "-1"), "--price must be a number above 0"),
        (("missing.png", "--for", "gpt-4o"), "does not exist"),
        (("{page}", "--for", "gpt-4o", "--table", "{page}"), "cannot be read"),
    ],
)
def test_one_line_for_what_will_not_do(arguments: tuple[str, ...], line: str, page: Path, capsys: Any) -> None:
    code, _, err = told(capsys, *(one.format(page=page) for one in arguments))
    assert code == 2
    assert line in err
    assert len(err.strip().splitlines()) == 1
