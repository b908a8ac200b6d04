"""An answer that is probably wrong says so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from arr_coc.app.cli.ask import print_answer
from arr_coc.attending.allocate import allocate
from arr_coc.core.answer import Answer, Pass, is_unsure, sureness_words


def answered(text: str, uncertainty: float) -> Answer:
    grid = np.zeros((6, 8), np.float32)
    grid[2, 3] = 1
    allocation = allocate(grid, 12, image_size=(192, 256))
    return Answer(
        text,
        uncertainty,
        (Pass(allocation, 12, text=text, uncertainty=uncertainty, entropy=0.1, margin=0.5),),
        {"answer": 0.1},
        48,
    )


@pytest.mark.parametrize(("uncertainty", "told"), [(1.0, True), (0.5, True), (0.3, False), (0.02, False)])
def test_an_unsure_answer_warns_in_words(uncertainty: float, told: bool, capsys: Any) -> None:
    print_answer("a.png", "Who wrote it?", answered("C. Korneliz", uncertainty), {})
    out = capsys.readouterr().out
    assert ("probably wrong" in out) is told
    assert is_unsure(uncertainty) is told
    assert sureness_words(uncertainty).partition(",")[0] in out
