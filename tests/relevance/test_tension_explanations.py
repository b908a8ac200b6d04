"""Tensions read, plotted and explained: the words say what the formula does."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from arr_coc.balancing.explain import POLES, explain_tensions

from arr_coc.balancing.tensions import TENSION_NAMES, balance
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


def test_the_poles_are_on_the_side_where_the_formula_has_them():
    assert tuple(POLES) == TENSION_NAMES
    assert ["_".join((zero, one)) for (zero, _), (one, _) in POLES.values()] == list(TENSION_NAMES)
    readable, asked, nothing = torch.zeros(3, 1, 4, 4)
    readable, asked = readable.clone(), asked.clone()
    readable[0, 0, 0], asked[0, 3, 3] = 1, 1
    tensions = {"compress_particularize": 0.9, "exploit_explore": 0.0, "focus_diversify": 0.0}
    assert "leans to particularize (90%): more weight on what this question couples to" in explain_tensions(tensions)[0]
    assert balance(readable, nothing, asked, tensions)[0].argmax() == 15


def test_tensions_that_differ_from_place_to_place_are_said_to():
    places = torch.full((1, 4, 4, 3), 0.5)
    places[:, :, 2:, 0] = 0.9
    first, second, _ = explain_tensions(places)
    assert "differs from place to place (0.50 to 0.90, 50% of them towards particularize)" in first
    assert "differs" not in second


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
