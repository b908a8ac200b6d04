"""The command line called as a user calls it, only within this process."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_pictures import Outcome, street
from PIL import Image

from arr_coc.app.cli import main


@pytest.fixture
def arr_coc(capsys: pytest.CaptureFixture[str]) -> Callable[..., Outcome]:
    """Run `arr-coc` with arguments; gives the exit code and what was printed."""

    def run(*arguments: object) -> Outcome:
        capsys.readouterr()
        before = dict(os.environ)
        try:
            with pytest.raises(SystemExit) as stopped:
                main([str(argument) for argument in arguments])
        finally:  # a command is the last thing that its process does, and may tell libraries by variables
            os.environ.clear()
            os.environ.update(before)
        printed = capsys.readouterr()
        return Outcome(int(stopped.value.code or 0), printed.out, printed.err)

    return run


@pytest.fixture
def photo(tmp_path: Path) -> Path:
    path = tmp_path / "street.png"
    Image.fromarray(street()).save(path)
    return path
