"""The scorer: what it sees, that every place and every question can get its own score, and that its sign is right."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from arr_coc.core.alphabet import encode
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.scorer import RGB, Scorer, ScorerConfig, coarse_texture, position_waves


def ids(*texts: str) -> torch.Tensor:
    length = max(map(len, texts))
    return torch.tensor([encode(text) + [0] * (length - len(text)) for text in texts])


@pytest.fixture(scope="module")
def scorer() -> Scorer:
    torch.manual_seed(0)
    return Scorer(ScorerConfig(width=32, query_width=24, blocks=1)).eval()


def test_the_view_is_coarse_and_named():
    pictures = torch.zeros(2, 3, 64, 96, dtype=torch.uint8)
    pictures[:, 0] = 255
    pictures[:, :, :, 48:] = 0
    texture = coarse_texture(pictures, ("red", "blue", "sobel_x", "sobel_y", "y", "x"))
    assert texture.shape == (2, 6, 32, 48)
    red, blue, across, down, y, x = texture[0]
    assert red[0, 0] == 1
    assert blue.max() == 0
    assert across[:, 23:25].min() > 0.1 > down.max(), "one edge, and it is upright"
    assert float(y[0, 0]) == pytest.approx(0.5 / 32)
    assert float(x[0, -1]) == pytest.approx(47.5 / 48)
    with pytest.raises(InputError, match="gaze"):
        coarse_texture(pictures, ("red", "gaze"))


def test_detail_too_fine_for_the_view_still_shows_as_energy():
    """One-pixel stripes vanish in the averaged colours; that there is something to read must not."""
    stripes = torch.zeros(1, 3, 64, 64)
    stripes[:, :, :, 1::4] = 1
    stripes[:, :, :, 2::4] = 1
    flat = torch.full((1, 3, 64, 64), 0.5)
    energy = coarse_texture(torch.cat([stripes, flat]), ("sobel_x",))
    assert energy[0].mean() > 0.3
    assert energy[1].max() == 0


def test_two_places_and_two_questions_get_different_scores(scorer):
    pictures = torch.randint(0, 256, (1, 3, 128, 160), dtype=torch.uint8, generator=torch.Generator().manual_seed(1))
    first, second = (scorer.score(pictures, ids(query)) for query in ("the red circle", "what is the total?"))
    assert first.shape == (1, 4, 5)
    assert first.std() > 1e-5
    assert not torch.allclose(first, second, atol=1e-6)
    assert ((first > 0) & (first < 1)).all()


def test_padding_of_the_question_and_the_batch_do_not_matter(scorer):
    pictures = torch.randint(0, 256, (2, 3, 64, 64), dtype=torch.uint8, generator=torch.Generator().manual_seed(2))
    together = scorer.score(pictures, ids("red?", "a much longer question"))
    alone = scorer.score(pictures[:1], ids("red?"))
    assert torch.allclose(together[:1], alone, atol=1e-5)


def test_sizes_that_are_no_multiple_of_the_cell_are_padded(scorer):
    assert scorer.score(torch.zeros(1, 3, 65, 100), ids("x")).shape == (1, 3, 4)


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


def test_every_part_of_the_scorer_takes_part():
    torch.manual_seed(0)
    scorer = Scorer()
    scorer(torch.rand(2, 3, 64, 96), torch.randint(1, 97, (2, 12))).square().sum().backward()
    idle = [name for name, value in scorer.named_parameters() if value.grad is None or not value.grad.any()]
    assert not idle


def test_products_of_waves_tell_how_far_apart_two_cells_are():
    waves = position_waves(6, 9, 8)
    assert waves.shape == (32, 6, 9)

    def alike(first: tuple[int, int], second: tuple[int, int]) -> float:
        return float(waves[:, *first] @ waves[:, *second])

    assert alike((0, 1), (2, 4)) == pytest.approx(alike((3, 5), (5, 8)), abs=1e-4), "wherever the pair stands"
    assert alike((2, 3), (2, 3)) > alike((2, 3), (2, 4)) > alike((2, 3), (2, 6))
    assert alike((2, 3), (3, 3)) == pytest.approx(alike((2, 3), (2, 4)), abs=1e-4), "rows and columns count the same"


def test_without_teaching_the_waves_change_nothing():
    torch.manual_seed(0)
    config = ScorerConfig(width=32, query_width=24, blocks=1)
    with_waves, without = Scorer(config), Scorer(ScorerConfig(width=32, query_width=24, blocks=1, waves=0))
    without.load_state_dict({name: value for name, value in with_waves.state_dict().items() if "place." not in name})
    pictures, question = torch.rand(1, 3, 64, 96), ids("where?")
    assert torch.equal(with_waves.score(pictures, question), without.score(pictures, question))
    torch.nn.init.normal_(with_waves.place.weight)
    assert not torch.allclose(with_waves.score(pictures, question), without.score(pictures, question), atol=1e-4)
