"""Drawings: measured before they are drawn, and drawn by a process that can be ended."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest

from arr_coc import InputError
from arr_coc.core.stopping import Stopped, stopping
from arr_coc.pictures import svg
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.svg import svg_png, svg_size

HEAD = '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '


def drawing(attributes: str, inside: str = '<rect width="40" height="40" fill="red"/>') -> bytes:
    return f"{HEAD}{attributes}>{inside}</svg>".encode()


def bomb() -> bytes:
    """Ten groups, each of which shows the one before it ten times."""
    groups = ['<g id="g0"><rect width="1" height="1"/></g>']
    for number in range(1, 11):
        uses = f'<use xlink:href="#g{number - 1}"/>' * 10
        groups.append(f'<g id="g{number}">{uses}</g>')
    return drawing('width="64" height="64"', "".join(groups))


@pytest.mark.parametrize(
    ("attributes", "size"),
    [
        ('width="96" height="64"', (64, 96)),
        ('width="96px" height="1in"', (96, 96)),
        ('viewBox="0 0 30 20"', (20, 30)),
        ('viewBox="0,0,30,20" width="60"', (20, 60)),
        ('width="100%" height="100%" viewBox="0 0 30000 20000"', (20000, 30000)),
        ('width="1e9" height="10mm"', (pytest.approx(37.795, abs=0.01), 1e9)),
        ("", None),
        ('width="nan" height="inf"', None),
    ],
)
def test_the_size_is_read_from_the_first_element(attributes: str, size: Any) -> None:
    assert svg_size(drawing(attributes)) == size
    assert svg_size(b"<?xml version='1.0'?><!-- a note -->" + drawing(attributes)) == size


def test_a_drawing_that_is_too_large_is_refused_before_it_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """150 bytes took 85 s and 3.6 GB to be refused."""

    def started(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is being drawn")

    monkeypatch.setattr(subprocess, "Popen", started)
    for attributes in ('width="30000" height="30000"', 'viewBox="0 0 30000 30000"', 'width="40000" height="1"', ""):
        with pytest.raises(InputError) as raised:
            svg_png(drawing(attributes), "a.svg", 20_000_000)
        assert "\n" not in str(raised.value)


def test_a_drawing_is_drawn_and_one_without_an_end_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cairosvg")
    picture = load_picture(drawing('width="96" height="64"'))
    assert (picture.size, picture.pixels[10, 10].tolist()) == ((64, 96), [255, 0, 0])
    with pytest.raises(InputError, match="cannot be read"):
        load_picture(drawing('width="96" height="64"', "<rect"))
    monkeypatch.setattr(svg, "SECONDS", 1.0)
    with pytest.raises(InputError, match="takes more than 1 s"):
        load_picture(bomb())


def test_a_drawing_that_nobody_waits_for_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cairosvg")
    started: list[Any] = []
    true = subprocess.Popen

    def watched(*arguments: Any, **how: Any) -> Any:
        started.append(true(*arguments, **how))
        return started[-1]

    monkeypatch.setattr(subprocess, "Popen", watched)
    with stopping(lambda: True), pytest.raises(Stopped):
        load_picture(bomb())
    assert started[0].returncode is not None
