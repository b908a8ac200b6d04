"""The print world: the same pictures by the same numbers, letters where their boxes say, answers that can be read."""

from __future__ import annotations

import math

import pytest
import torch

from arr_coc.core.alphabet import IDS, SPACE
from arr_coc_lab.train.print_world import PrintWorld
from arr_coc_lab.train.reader_examples import QUESTIONS, TAIL
from arr_coc_lab.worlds.needle import atlas as needle
from arr_coc_lab.worlds.needle.batch import decode
from arr_coc_lab.worlds.print import layouts
from arr_coc_lab.worlds.print.bank import refilled
from arr_coc_lab.worlds.print.paint import paint_runs
from arr_coc_lab.worlds.print.setting import NARROWEST, Runs, painted_areas
from arr_coc_lab.worlds.print.wear import NAMES, NOTHING, PrintWear, blurred, compressed, worn

SIZE = (256, 320)


@pytest.fixture(scope="module")
def world() -> PrintWorld:
    return PrintWorld(None, "cpu", seed=5, layouts=288)


@pytest.fixture(scope="module")
def held() -> PrintWorld:
    return PrintWorld(None, "cpu", seed=5, split="val", layouts=48)


def only(world: PrintWorld, family: str) -> PrintWorld:
    """The same world with pictures of one family."""
    other = object.__new__(PrintWorld)
    other.__dict__.update(world.__dict__, shares={family: 1.0})
    return other


def darkness(pixels: torch.Tensor) -> torch.Tensor:
    """(B, H, W) float: how much darker each pixel is than the picture's paper, its commonest brightness."""
    level = pixels.float().mean(1)
    paper = level.flatten(1).round().mode(1).values
    return (paper[:, None, None] - level).clamp_min(0)


def inside(boxes: torch.Tensor, there: torch.Tensor, size: tuple[int, int], margin: float = 0.0) -> torch.Tensor:
    """(B, H, W) bool: the pixels whose middles lie in a box (B, G, 4) that is there."""
    y, x = torch.arange(size[0]) + 0.5, torch.arange(size[1]) + 0.5
    x0, y0, x1, y1 = torch.where(there[..., None], boxes, -99).unbind(-1)
    rows = (y >= y0[..., None] - margin) & (y < y1[..., None] + margin)
    cols = (x >= x0[..., None] - margin) & (x < x1[..., None] + margin)
    return torch.bmm(rows.transpose(1, 2).float(), cols.float()) > 0


# ---- The atlas and the bank ------------------------------------------------------------------------------------------


def test_held_out_faces_are_never_for_training(world: PrintWorld, held: PrintWorld) -> None:
    train, val = set(world.faces.tolist()), set(held.faces.tolist())
    assert train
    assert val
    assert not train & val
    assert {world.atlas.names[face] for face in val} == set(needle.typefaces("test"))
    for own, faces in ((world, train), (held, val)):
        _, printed = own.printed(8, SIZE, 0)
        assert set(printed.runs.face[printed.runs.there].tolist()) <= faces


@pytest.mark.parametrize(
    ("text", "kept"),
    [("$1,234.56", "$1,###.##"), ("USD 80", "USD 8#"), ("12.03.2019", "12.03.2019"), ("12:45", "12:45")],
)
def test_only_the_figures_of_numbers_are_drawn_again(text: str, kept: str) -> None:
    assert refilled(text).replace(chr(200), "#") == kept


# ---- Pictures --------------------------------------------------------------------------------------------------------


def test_a_picture_is_the_same_in_every_batch(world: PrintWorld) -> None:
    whole, parts = world.render(6, SIZE, 40), [world.render(2, SIZE, start) for start in (40, 42, 44)]
    for name in ("pictures", "tails", "said", "targets", "copied", "fine", "coarse"):
        joined = torch.cat([getattr(part, name) for part in parts])
        difference = (getattr(whole, name).float() - joined.float()).abs()
        assert difference.max() <= (1 if name == "pictures" else 0), name
    assert not torch.equal(whole.pictures, world.render(6, SIZE, 46).pictures)
    assert not torch.equal(whole.pictures, PrintWorld(None, "cpu", seed=6, layouts=4).render(6, SIZE, 40).pictures)


def test_letters_have_ink_and_ink_has_letters(world: PrintWorld) -> None:
    _, printed = only(world, "dense").printed(12, SIZE, 0, worn=False)
    there, boxes = printed.glyphs.character > 0, printed.boxes(world.atlas)
    ink = darkness(printed.pixels)
    covered = inside(boxes, there | printed.runs.letters().flatten(1), SIZE, margin=1.0)
    # Rules and ornaments are few on these pages: what is dark is text.
    assert float((ink * covered).sum() / ink.sum()) > 0.85
    found = []
    for picture, number in there.nonzero().tolist():
        x0, y0, x1, y1 = boxes[picture, number].clamp_min(0).tolist()
        piece = ink[picture, int(y0) : math.ceil(y1), int(x0) : math.ceil(x1)]
        found.append(bool(piece.numel()) and float(piece.max()) > 25)
    assert len(found) > 500
    assert sum(found) / len(found) > 0.97


@pytest.mark.parametrize("family", list(layouts.FAMILIES))
def test_answers_stand_in_their_boxes(world: PrintWorld, family: str) -> None:
    own = only(world, family)
    number, size = 10, (384, 384)
    batch = own.render(number, size, 100)
    draws, printed = own.printed(number, size, 100)
    asked = own.asked(draws, printed, size)
    assert batch.tails.shape == (number, QUESTIONS, TAIL)
    whole = 0
    for k in range(QUESTIONS):
        letters = (asked[k].answer_ids > 0) & (asked[k].answer_ids != SPACE)
        copied = (batch.copied[:, k] >= 0).sum(1)
        # Every letter of the answer is copied from a letter of the picture: the box holds exactly these.
        whole += int((copied == letters.sum(1)).sum())
        assert (batch.said[:, k].sum(1) == (asked[k].answer_ids > 0).sum(1) + 1).all()
        assert (asked[k].boxes[asked[k].box_mask] <= 1).all()
    assert whole >= 0.9 * number * QUESTIONS, whole
    assert batch.targets.flatten(2).any(2).float().mean() >= 0.9


def test_questions_are_those_of_office_world(world: PrintWorld) -> None:
    own = only(world, "office")
    draws, printed = own.printed(24, (512, 512), 0, worn=False)
    said = {}
    for one in own.asked(draws, printed, (512, 512)):
        said |= {decode(q).lower(): decode(a) for q, a in zip(one.question_ids, one.answer_ids, strict=True)}
    assert len(said) > 50
    assert 0.3 < sum(any(letter.isdigit() for letter in answer) for answer in said.values()) / len(said) < 0.9
    asked, read = zip(*((*question.split(" read: "), "")[:2] for question in said), strict=True)
    answers = [answer.lower() for answer in said.values()]
    assert not any(answer in question for question, answer in zip(asked, answers, strict=True) if len(answer) > 5)
    # Some are told what OCR read there, and not always the truth.
    told = [(text, answer) for text, answer in zip(read, answers, strict=True) if text]
    assert 0.25 < len(told) / len(said) < 0.6
    assert 0.5 < sum(text == answer for text, answer in told) / len(told) < 0.95


def set_line(world: PrintWorld, text: str, em: float, x: float, baseline: float) -> Runs:
    """One line of one picture."""
    atlas, one = world.atlas, torch.ones(1, 1)
    ids = torch.nn.functional.pad(torch.tensor([[[IDS[c] for c in text]]]), (0, 96 - len(text)))
    face = torch.full((1, 1), 5)
    advance = atlas.advance[face[..., None], ids] * em * (ids > 0)
    start = x + advance.cumsum(-1) - advance
    return Runs(ids, start, advance, one.long() * len(text), baseline * one, em * one, face, one.bool(), ink(0.0))


def ink(level: float) -> torch.Tensor:
    return torch.full((1, 1, 3), level)


def test_small_letters_are_large_ones_seen_from_afar(world: PrintWorld) -> None:
    """Type of 5 pixels is type of 40, every eight by eight pixels as one: nothing falls between the pixels."""
    drawn = []
    for times in (1, 8):
        runs = set_line(world, "Reading", 5.0 * times, 3.25 * times, 12.5 * times)
        areas = painted_areas(runs.extent(world.atlas))
        canvas = torch.ones(1, 3, 24 * times, 48 * times)
        drawn.append(paint_runs(canvas, runs, areas, world.atlas, torch.ones(1))[:, 0])
        assert bool((canvas == 1).all())
    small, large = drawn[0], torch.nn.functional.avg_pool2d(drawn[1], 8)
    assert float((1 - small).sum()) > 10
    assert float((small - large).abs().max()) < 0.02


# ---- wear -----------------------------------------------------------------------------------------------------------


def wear_of(size: tuple[int, int], **strengths: float) -> PrintWear:
    kept = {name: torch.full((1, 1, 1, 1), strengths.get(name, limits[0])) for name, limits in NOTHING.items()}
    return PrintWear(torch.zeros(1, dtype=torch.int64), kept, torch.full((1, 3), 0.37), size)


def test_boxes_move_with_the_ink() -> None:
    size = (256, 256)
    for strengths in ({"angle": 3.0}, {"scale": 0.9}, {"angle": -2.0, "scale": 0.95}):
        wear = wear_of(size, **strengths)
        moved = []
        for x, y in ((40.0, 50.0), (200.0, 60.0), (120.0, 210.0)):
            picture = torch.ones(1, 3, *size)
            picture[:, :, int(y) - 4 : int(y) + 4, int(x) - 4 : int(x) + 4] = 0
            ink = 1 - worn(picture, wear, torch.ones(1, 3))[0, 0]
            rows, cols = torch.arange(256) + 0.5, torch.arange(256) + 0.5
            found = float((ink * cols).sum() / ink.sum()), float((ink * rows[:, None]).sum() / ink.sum())
            there = [float(value) for value in wear.moved(torch.tensor([[x]]), torch.tensor([[y]]))]
            assert found == pytest.approx(there, abs=0.6), strengths
            moved.append(math.dist(there, (x, y)))
            back = wear.sheet_places(torch.tensor([[there[0]]]), torch.tensor([[there[1]]]))
            assert [float(value) for value in back] == pytest.approx([x, y], abs=0.01)
        assert max(moved) > 2, strengths


@pytest.mark.parametrize("kind", NAMES)
def test_every_wear_keeps_the_letters(world: PrintWorld, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("arr_coc_lab.worlds.print.wear.SHARES", {kind: 1.0})
    own = only(world, "office")
    _, printed = own.printed(10, SIZE, 0)
    assert (printed.wear.kind == NAMES.index(kind)).all()
    there, boxes = (printed.glyphs.character > 0) & (printed.glyphs.size >= 9), printed.boxes(world.atlas)
    inked = inside(boxes, there, SIZE)
    around = inside(boxes, there, SIZE, margin=3.0) & ~inside(boxes, there, SIZE, margin=1.0)
    level = printed.pixels.float().mean(1)
    text = torch.stack([level[i][inked[i]].mean() for i in range(10) if inked[i].any()])
    ground = torch.stack([level[i][around[i]].mean() for i in range(10) if inked[i].any()])
    contrast = ground - text
    assert (contrast > 0).all(), contrast
    assert float(contrast.mean()) > 20, contrast


def test_blur_is_a_gaussian_and_compression_costs_detail_by_quality() -> None:
    pictures, sigma = torch.rand(2, 3, 9, 12), torch.tensor([0.4, 1.1])
    at = torch.arange(-2, 3).float()
    for row, wide in enumerate(sigma.tolist()):
        kernel = torch.exp(-(at**2) / (2 * wide**2))
        kernel = (kernel / kernel.sum()).outer(kernel / kernel.sum())[None, None]
        padded = torch.nn.functional.pad(pictures[row][:, None], (2, 2, 2, 2), mode="replicate")
        wanted = torch.nn.functional.conv2d(padded, kernel)[:, 0]
        torch.testing.assert_close(blurred(pictures, sigma)[row], wanted, rtol=1e-4, atol=1e-5)
    noisy = torch.rand(1, 3, 20, 28, generator=torch.Generator().manual_seed(0))
    lost = [(compressed(noisy, torch.tensor([quality])) - noisy).abs().mean() for quality in (0.0, 95.0, 50.0, 20.0)]
    assert lost[0] == 0
    assert lost == sorted(lost)


# ---- Letters and their judge -----------------------------------------------------------------------------------------


def test_nothing_is_set_below_the_smallest_type() -> None:
    _, printed = PrintWorld(None, "cpu", seed=5, smallest=14.0, layouts=48).printed(6, SIZE, 0)
    assert float(printed.runs.em[printed.runs.there].min()) >= 12 * NARROWEST


@pytest.mark.parametrize("size", [(256, 256), (768, 1024)])
def test_every_canvas_is_drawn(world: PrintWorld, size: tuple[int, int]) -> None:
    batch = world.render(2, size, 7)
    assert batch.pictures.shape == (2, 3, *size)
    assert batch.pictures.dtype == torch.uint8
    assert batch.grid == (size[0] // 32, size[1] // 32)
