"""The scorer: what it sees, that every place and every question can get its own score, and that its sign is right."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from arr_coc.core.alphabet import text_row
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig


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


def test_it_learns_the_sign_of_a_question():
    """Red on one side, blue on the other; the question says which one counts."""
    torch.manual_seed(0)
    scorer = Scorer(ScorerConfig(channels=RGB, width=32, query_width=24, blocks=1))
    optimizer = torch.optim.AdamW(scorer.parameters(), lr=3e-3)
    questions = ids("the red one", "the blue one")

    def batch(number: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        places = torch.stack([torch.randperm(4)[:2] for _ in range(number)])
        pictures, truth = torch.full((number, 3, 64, 64), 0.5), torch.zeros(number, 2, 2)
        asked = torch.randint(0, 2, (number,))
        for index in range(number):
            for channel, place in zip((0, 2), places[index].tolist(), strict=True):
                row, col = divmod(place, 2)
                pictures[index, :, row * 32 : row * 32 + 32, col * 32 : col * 32 + 32] = 0
                pictures[index, channel, row * 32 : row * 32 + 32, col * 32 : col * 32 + 32] = 1
        truth.view(number, -1)[torch.arange(number), places[torch.arange(number), asked]] = 1
        return pictures, questions[asked], truth

    for _ in range(100):
        pictures, asked, truth = batch(8)
        loss = F.binary_cross_entropy_with_logits(scorer(pictures, asked), truth)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    pictures, asked, truth = batch(64)
    found = scorer.eval().score(pictures, asked).flatten(1).argmax(1)
    assert (found == truth.flatten(1).argmax(1)).float().mean() > 0.9


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
