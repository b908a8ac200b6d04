"""Wear: seeded, of every kind, and boxes stay on their ink."""

from __future__ import annotations

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.worlds.pages.wear import KINDS, apply_wear, blurred, compressed, draw_wear, move_boxes

HEIGHT, WIDTH = 160, 224
BOXES = torch.tensor([[20, 16, 70, 30], [150, 20, 200, 44], [30, 110, 90, 124], [140, 120, 190, 140]])


def page(n: int) -> torch.Tensor:
    """White pages with black blocks at BOXES."""
    pictures = torch.full((n, 3, HEIGHT, WIDTH), 255, dtype=torch.uint8)
    for x0, y0, x1, y1 in BOXES.tolist():
        pictures[:, :, y0:y1, x0:x1] = 0
    return pictures


@pytest.mark.parametrize("kind", KINDS)
def test_boxes_stay_on_their_ink(kind):
    n = 6
    wear = draw_wear(n, HEIGHT, WIDTH, 11, (kind,))
    grey = apply_wear(page(n), wear).float().mean(1)
    ink = grey < (grey.amin((1, 2)) + grey.amax((1, 2)))[:, None, None] / 2
    ink = ~ink if kind == "dark" else ink
    there = move_boxes(BOXES.expand(n, -1, -1), wear, HEIGHT, WIDTH)
    assert there.shape == (n, 4, 4)
    xs, ys = torch.arange(WIDTH) + 0.5, torch.arange(HEIGHT) + 0.5
    for row in range(n):
        covered = torch.zeros(HEIGHT, WIDTH, dtype=torch.bool)
        for x0, y0, x1, y1 in there[row].tolist():
            inside = ((xs > x0 - 1.5) & (xs < x1 + 1.5))[None] & ((ys > y0 - 1.5) & (ys < y1 + 1.5))[:, None]
            covered |= inside
            assert ink[row][inside].float().mean() > 0.6
        assert ink[row][covered].sum() > 0.94 * ink[row].sum()


def test_a_box_off_its_place_would_be_seen():
    wear = draw_wear(1, HEIGHT, WIDTH, 11, ("turned",))
    assert (move_boxes(BOXES[None], wear, HEIGHT, WIDTH)[0] - BOXES).abs().max() > 2


def test_clean_pages_stay_as_they_are():
    pictures = torch.randint(0, 255, (2, 3, 40, 56), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    wear = draw_wear(2, 40, 56, 1, ("clean",))
    assert (apply_wear(pictures, wear).int() - pictures.int()).abs().max() <= 1
    boxes = torch.tensor([[[3.0, 4.0, 20.0, 30.0]]]).expand(2, 1, 4)
    torch.testing.assert_close(move_boxes(boxes, wear, 40, 56), boxes, atol=1e-3, rtol=0)


def test_the_seed_decides():
    pictures = page(4)
    first, again, other = (apply_wear(pictures, draw_wear(4, HEIGHT, WIDTH, seed)) for seed in (5, 5, 6))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_each_kind_does_what_it_says():
    pictures = page(3)
    faxed = apply_wear(pictures, draw_wear(3, HEIGHT, WIDTH, 2, ("faxed",)))
    assert set(faxed.unique().tolist()) == {0, 255}
    dark = apply_wear(pictures, draw_wear(3, HEIGHT, WIDTH, 2, ("dark",)))
    assert dark.float().mean() < 100
    packed = apply_wear(pictures, draw_wear(3, HEIGHT, WIDTH, 2, ("compressed",)))
    assert 0.2 < (packed.float() - pictures.float()).abs().mean() < 20
    with pytest.raises(InputError, match="no wear is called 'wet'"):
        draw_wear(1, 8, 8, 0, ("wet",))


def test_all_kinds_occur():
    assert set(draw_wear(500, 8, 8, 0).kind.tolist()) == set(range(len(KINDS)))


def test_blur_is_a_gaussian_of_five_pixels():
    pictures, sigma = torch.rand(2, 3, 9, 12), torch.tensor([0.4, 1.1])
    at = torch.arange(-2, 3).float()
    for row, wide in enumerate(sigma.tolist()):
        kernel = torch.exp(-(at**2) / (2 * wide**2))
        kernel = (kernel / kernel.sum()).outer(kernel / kernel.sum())[None, None]
        padded = torch.nn.functional.pad(pictures[row][:, None], (2, 2, 2, 2), mode="replicate")
        wanted = torch.nn.functional.conv2d(padded, kernel)[:, 0]
        torch.testing.assert_close(blurred(pictures, sigma)[row], wanted, rtol=1e-4, atol=1e-5)


def test_compression_spares_what_is_plain_and_costs_detail_by_quality():
    plain = torch.full((1, 3, 20, 28), 0.6)
    assert (compressed(plain, torch.tensor([30.0])) - plain).abs().max() < 0.03
    torch.manual_seed(0)
    noisy = torch.rand(1, 3, 20, 28)
    lost = [(compressed(noisy, torch.tensor([quality])) - noisy).abs().mean() for quality in (0.0, 95.0, 50.0, 20.0)]
    assert lost[0] == 0
    assert lost == sorted(lost)
