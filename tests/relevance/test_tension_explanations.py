"""Tensions read, plotted and explained: the words say what the formula does."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from arr_coc.balancing.explain import explain_tensions
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.balancers import TensionBalancer


def test_every_tension_has_its_sentence_by_name_by_array_and_by_tensor():
    values = {"compress_particularize": 0.72, "exploit_explore": 0.2, "focus_diversify": 0.52}
    sentences = explain_tensions(values)
    assert sentences[0].startswith(
        "compress ↔ particularize at 0.72 leans to particularize (72%): more weight on what this"
    )
    assert "leans to exploit" in sentences[1]
    assert "80%" in sentences[1]
    assert "is even" in sentences[2]
    assert explain_tensions(np.array(list(values.values()))) == sentences
    assert explain_tensions(torch.tensor(list(values.values())).requires_grad_()) == sentences
    assert all("is even" in sentence for sentence in explain_tensions(TensionBalancer().tensions))


def test_bad_input_is_named():
    with pytest.raises(InputError, match="after the sigmoid"):
        explain_tensions(np.array([1.7, 0, 0]))
    with pytest.raises(InputError, match="no tension is named"):
        explain_tensions({"compress": 0.5})
    with pytest.raises(InputError, match="must be"):
        explain_tensions(np.zeros(4))


def test_explaining_and_modulating_need_neither_torch_nor_matplotlib():
    code = (
        "import sys, numpy as np; from arr_coc.balancing.explain import explain_tensions; "
        "from arr_coc.balancing.arousal import keyword_stakes, modulate; "
        "explain_tensions(np.full(3, .5)); modulate(np.ones((1, 2, 2), np.float32), .5); keyword_stakes('total'); "
        "print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
