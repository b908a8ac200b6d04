"""Rooms open without their heavy furniture, and a name means the same thing whoever asked first."""

from __future__ import annotations

import subprocess
import sys

import pytest

import arr_coc


def python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_every_public_name_is_there_and_no_other():
    for name in arr_coc.__all__:
        assert getattr(arr_coc, name) is not None
        assert name in dir(arr_coc)
    with pytest.raises(AttributeError, match="no_such_thing"):
        _ = arr_coc.no_such_thing


def test_one_picture_needs_no_torch():
    code = (
        "import sys, numpy as np; sys.modules['torch'] = None;"
        "from arr_coc.attending.allocate import allocate; from arr_coc.packing.prices.tables import tokens_for;"
        "from arr_coc.balancing.tensions import balance;"
        "maps = [np.random.default_rng(n).random((1, 20, 30), dtype=np.float32) for n in range(3)];"
        "print(allocate(balance(*maps), 200).tokens == tokens_for((640, 960), 200) == 200)"
    )
    assert python(code) == "True"
