"""Rooms open without their heavy furniture, and a name means the same thing whoever asked first."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module

import pytest

ROOMS = ("arr_coc", "arr_coc.app.serve")


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("room", ROOMS)
def test_every_public_name_is_there_and_no_other(room: str):
    module = import_module(room)
    for name in module.__all__:
        assert getattr(module, name) is not None
        assert name in dir(module)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = module.no_such_thing


def test_a_function_named_like_its_file_stays_the_function(run):
    code = (
        "import arr_coc.app.serve.api, arr_coc.app.serve as room; first = room.serve;"
        "from arr_coc.app.serve import serve; from arr_coc.app.serve.api import serve as inner;"
        "print(first is serve is inner, callable(inner))"
    )
    assert run(code, call="zygote:execute").out == "True True\n"


def test_one_picture_needs_no_torch():
    code = (
        "import sys, numpy as np; sys.modules['torch'] = None;"
        "from arr_coc.attending.allocate import allocate; from arr_coc.packing.prices.tables import tokens_for;"
        "from arr_coc.balancing.tensions import balance;"
        "maps = [np.random.default_rng(n).random((1, 20, 30), dtype=np.float32) for n in range(3)];"
        "print(allocate(balance(*maps), 200).tokens == tokens_for((640, 960), 200) == 200)"
    )
    assert python(code) == "True"
