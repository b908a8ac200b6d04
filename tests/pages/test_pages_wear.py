"""Worn pages: seeded by their names, of every kind, and boxes stay on their ink; blur and JPEG do what they say."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from PIL import Image

from arr_coc_lab.worlds.pages.export import wear_page
from arr_coc_lab.worlds.pages.pack import DrawnPage, DrawnQuestion, picture_of
from arr_coc_lab.worlds.print import wear
from arr_coc_lab.worlds.print.wear import NAMES, blurred, compressed

BOXES = np.array([[20, 16, 70, 40], [150, 20, 200, 44], [30, 110, 90, 134], [140, 120, 190, 140]], np.uint16)


def page(name: str) -> DrawnPage:
    """A white page with black blocks at BOXES."""
    pixels, held = np.full((160, 224, 3), 255, np.uint8), io.BytesIO()
    for x0, y0, x1, y1 in BOXES.tolist():
        pixels[y0:y1, x0:x1] = 0
    Image.fromarray(pixels).save(held, "WEBP", lossless=True)
    asked = [DrawnQuestion("field", "What?", "a", BOXES[:1], BOXES[1:2])]
    return DrawnPage(name, "forms", "boxed", "train", 224, 160, held.getvalue(), list("abcd"), BOXES, BOXES, asked)


@pytest.mark.parametrize("kind", NAMES)
def test_boxes_stay_on_their_ink(kind, monkeypatch):
    monkeypatch.setattr(wear, "SHARES", {kind: 1.0})
    for number in range(4):
        worn = wear_page(page(f"page {number}"))
        grey = picture_of(worn).astype(float).mean(2)
        grey = 255 - grey if kind == "dark" else grey
        for x0, y0, x1, y1 in worn.word_boxes.astype(int).tolist():
            wide = grey[max(0, y0 - 9) : y1 + 9, max(0, x0 - 9) : x1 + 9]
            near = grey[max(0, y0 - 3) : y1 + 3, max(0, x0 - 3) : x1 + 3]
            ground = (wide.sum() - near.sum()) / (wide.size - near.size)
            assert ground - grey[y0 + 2 : y1 - 2, x0 + 2 : x1 - 2].mean() > 12
        assert worn.questions[0].boxes.tolist() == worn.word_boxes[:1].tolist()


def test_the_name_decides():
    first, again, other = (wear_page(page(name)).picture for name in ("a", "a", "b"))
    assert first == again != other


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
    noisy = torch.rand(1, 3, 20, 28, generator=torch.Generator().manual_seed(0))
    lost = [(compressed(noisy, torch.tensor([quality])) - noisy).abs().mean() for quality in (0.0, 95.0, 50.0, 20.0)]
    assert lost[0] == 0
    assert lost == sorted(lost)
