"""The scorer: what it sees, that every place and every question can get its own score, and that its sign is right."""

from __future__ import annotations

import pytest
import torch

from arr_coc.core.alphabet import text_row
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.scorer import Scorer, ScorerConfig


def ids(*texts: str) -> torch.Tensor:
    length = max(map(len, texts))
    return torch.tensor([text_row(text, length) for text in texts])


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    torch.manual_seed(0)
    return Scorer(ScorerConfig(width=32, query_width=24, blocks=1)).eval()


def test_two_places_and_two_questions_get_different_scores(scorer):
    pictures = torch.randint(0, 256, (1, 3, 128, 160), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, second = (scorer.score(pictures, ids(query)) for query in ("the red circle", "what is the total?"))
    assert first.shape == (1, 4, 5)
    assert first.std() > 1e-5
    assert not torch.allclose(first, second, atol=1e-6)
    assert ((first > 0) & (first < 1)).all()


def test_the_default_is_under_two_million_parameters_and_survives_saving(tmp_path):
    scorer = Scorer()
    assert sum(value.numel() for value in scorer.parameters()) < 2e6
    scorer.half().save_pretrained(tmp_path)
    again = Scorer.from_pretrained(tmp_path)
    assert again.config == scorer.config
    assert all(value.dtype == torch.float32 for value in again.parameters())
    assert torch.allclose(again.head.weight, scorer.head.weight.float())
    with pytest.raises(InputError, match="Scorer"):
        Scorer.from_pretrained(tmp_path / "nowhere")
