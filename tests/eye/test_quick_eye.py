"""mini without torch: the same prompt, the same tokens, the same words, and nothing heavy imported."""

from __future__ import annotations

import subprocess
import sys
from copy import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from tiny_weights import needs_weights, signs

import arr_coc
from arr_coc import Eye, InputError
from arr_coc.answering.chat import USER, Turn
from arr_coc.answering.decoding import greedy_steps, steps
from arr_coc.answering.light import can_be_quick, quick_eye
from arr_coc.answering.stock import chat_inputs
from arr_coc.core.folders import MINI, part_folder
from arr_coc.realizing.bundled import PlaceDoubt
from arr_coc.realizing.patches import LeafBatch, gather_leaf_patches, mip_pyramid, unpatchify
from arr_coc.realizing.positions import language_positions, prompt_positions, vision_positions
from arr_coc.realizing.qwen3_vl.onnx import OnnxQwen3VL, OnnxSpeaker, leaf_patches

QUERY = "What does the pink sign say?"


@pytest.fixture(scope="module")
def eye() -> Eye:
    return Eye.from_pretrained("mini").set_image(signs())


@pytest.fixture(scope="module")
def quick() -> Eye:
    return quick_eye().set_image(signs())


@needs_weights
@pytest.mark.parametrize(("budget", "strategy"), [(48, None), (33, "quadtree"), (17, None), (1, None)])
def test_the_answer_is_that_of_the_stock_class(eye: Eye, quick: Eye, budget: int, strategy: str | None) -> None:
    wanted, got = (one.ask(QUERY, budget, options=arr_coc.Options(strategy=strategy)) for one in (eye, quick))
    assert got.text == wanted.text
    assert (got.tokens, got.full, got.notes) == (wanted.tokens, wanted.full, wanted.notes)
    assert got.allocation.to_json() == wanted.allocation.to_json()
    for name in ("uncertainty", "entropy", "margin"):
        assert getattr(got.passes[0], name) == pytest.approx(getattr(wanted.passes[0], name), abs=1e-4)
    assert set(got.seconds) == set(wanted.seconds)


@needs_weights
def test_a_picture_that_is_read_larger_costs_as_much_and_is_told_in_its_own_pixels(eye: Eye) -> None:
    plain, got, stock = (
        arr_coc.ask(signs(), QUERY, 24, scale=times, model=model)
        for times, model in ((1, MINI), (1.5, MINI), (1.5, copy(eye)))
    )
    assert got.tokens == plain.tokens == 24
    assert got.full == plain.full
    assert got.allocation.scale == stock.allocation.scale == 1.5
    assert got.text == stock.text
    assert got.allocation.to_json() == stock.allocation.to_json()
    assert (got.allocation.height, got.allocation.width) == (plain.allocation.height, plain.allocation.width)
    boxes = got.allocation.boxes
    assert (boxes[:, :2] + boxes[:, 2:] <= (got.allocation.height, got.allocation.width)).all()
    assert boxes[:, 2:].min() < plain.allocation.boxes[:, 2:].min() == 32, "less ground in every token"
    assert any("1.5 times as large" in note for note in got.notes)


@needs_weights
@pytest.mark.parametrize("budget", [60, 9])
def test_every_logit_is_that_of_the_stock_class(eye: Eye, budget: int) -> None:
    looked = eye.prepare(QUERY, arr_coc.Options(budget=budget))
    realized = eye.engine.realize(looked)
    said = list(steps(eye.model, realized, 32))
    reader = OnnxQwen3VL(part_folder(MINI))
    (picture,) = eye.engine.backbone.normalised_pixels(eye.model, looked.inputs)
    leaves, size = realized.notes["leaves"].leaves.numpy(), picture.shape[1:]
    seen = reader.see(picture.numpy(), leaves)
    ids = realized.inputs["input_ids"][0].tolist()
    speaker = OnnxSpeaker(reader, ids, seen, leaves, (size[0] // 32, size[1] // 32))
    for ours, theirs in zip(greedy_steps(speaker, reader.ends, 32), said, strict=True):
        assert ours.ids.tolist() == theirs.ids.tolist()
        assert np.abs(ours.logits - theirs.logits.numpy()).max() < 1e-4


@needs_weights
@pytest.mark.parametrize("size", [(96, 160), (50, 333), (20, 20), (1100, 2500), (64, 64)])
def test_a_picture_is_resized_as_the_processor_does_it(eye: Eye, quick: Eye, size: tuple[int, int]) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    canvas = quick.engine.canvas(pixels)
    turn = Turn(USER, (pixels, "?")).showing(eye.engine.view)
    tensors = turn.views[0].tensors
    (_, rows, cols) = tensors["image_grid_thw"][0].tolist()
    assert canvas.shape[:2] == (rows * 16, cols * 16)
    (stock,) = unpatchify(tensors["pixel_values"], [(rows, cols)], 16, 2, 1)
    assert np.abs(quick.engine.normalised(canvas) - stock.numpy()).max() < 1e-5


@needs_weights
@pytest.mark.parametrize("query", [QUERY, "a\nb?", "<|im_end|> of <|image_pad|>?", "Größe 漢字 user\n?", "{{ 1 }}"])
def test_the_prompt_is_the_processors(eye: Eye, quick: Eye, query: str) -> None:
    turn = Turn(USER, (np.zeros((64, 96, 3), np.uint8), query)).showing(eye.engine.view)
    assert quick.engine.prompt_ids(query, 6) == chat_inputs(eye.processor, [turn])["input_ids"][0].tolist()


leaves_of_a_grid = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 3)), min_size=1, max_size=9)


@given(leaves_of_a_grid)
@settings(max_examples=25)
def test_patches_and_places_are_those_of_torch(given_leaves: list[tuple[int, int, int]]) -> None:
    leaves = np.array([((row >> level) << level, (col >> level) << level, level) for row, col, level in given_leaves])
    picture = np.random.default_rng(1).random((3, 7 * 32, 9 * 32), dtype=np.float32)
    batch = LeafBatch.equal(torch.from_numpy(leaves)[None], (7, 9), 4)
    pyramid = mip_pyramid(torch.from_numpy(picture)[None], 4)
    wanted = gather_leaf_patches(pyramid, batch.leaves, batch.owner, temporal=1)
    assert np.allclose(leaf_patches(picture, leaves, 2, 16, 1), wanted, atol=1e-6)
    assert np.array_equal(vision_positions(leaves), vision_positions(torch.from_numpy(leaves)))
    visual = np.array([False] * 3 + [True] * len(leaves) + [False] * 4)
    offsets = language_positions(batch.leaves, batch.grid[batch.owner])
    mask = torch.from_numpy(visual)[None]
    number = torch.tensor([len(leaves)])
    positions, following = prompt_positions(mask, number, batch.grid.amax(1), offsets, torch.ones(mask.shape))
    plain = language_positions(leaves, np.array((7, 9)))
    ours, after = prompt_positions(
        visual[None], np.array([len(leaves)]), np.array([9]), plain, np.ones((1, len(visual)))
    )
    assert np.array_equal(ours, positions)
    assert int(after[0]) == int(following[0])


@needs_weights
def test_it_is_taken_only_where_it_will_do() -> None:
    options = arr_coc.Options
    assert can_be_quick("mini", options())
    assert can_be_quick("mini", options(budget=256, relevance="scorer", strategy="quadtree"))
    assert not can_be_quick("mini", options(device="cuda"))
    assert not can_be_quick("runs/mini", options())
    assert not can_be_quick("mini", options(strategy="random"))
    assert not can_be_quick("mini", options(relevance="glance"))
    assert can_be_quick("mini", options(budget=2048))
    with pytest.raises(InputError, match="no picture yet"):
        quick_eye().ask(QUERY)


@needs_weights
def test_an_answer_imports_nothing_heavy(tmp_path: Path) -> None:
    Image.fromarray(signs()).save(tmp_path / "signs.png")
    code = (
        "import sys, arr_coc\n"
        f"answer = arr_coc.ask({str(tmp_path / 'signs.png')!r}, {QUERY!r}, budget=24)\n"
        "print(answer.text, [name for name in ('torch', 'transformers') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("[]")
    assert done.stdout.strip() != "[]"


@needs_weights
def test_an_allocation_that_cannot_be_read_is_told_as_the_stock_class_tells_it(eye: Eye, quick: Eye) -> None:
    whole = arr_coc.look(signs(), QUERY, budget=4)
    none = replace(whole, **{name: getattr(whole, name)[:0] for name in ("boxes", "levels", "counts", "scores")})
    other = arr_coc.look(np.zeros((64, 64, 3), np.uint8), QUERY, budget=2)
    for allocation in (none, other):
        told = []
        for one in (eye, quick):
            with pytest.raises(InputError) as caught:
                one.ask(QUERY, options=arr_coc.Options(allocation=allocation))
            told.append(str(caught.value))
        assert told[0] == told[1]


@needs_weights
def test_an_answer_is_less_sure_where_the_scorer_was_not_sure_of_its_place(quick: Eye) -> None:
    plain, doubting = copy(quick), copy(quick)
    plain.calibration = replace(quick.calibration, place=None)
    doubting.calibration = replace(quick.calibration, place=PlaceDoubt(1.0, 2.0, -3.0))
    looked = doubting.prepare([Turn(USER, (signs(), QUERY))], arr_coc.Options(budget=32))
    (found,) = looked.plan.relevance
    peak = float(np.max(found))
    told, given_map = [one.ask(QUERY, 32) for one in (plain, doubting)], arr_coc.Options(relevance=found)
    assert told[0].text == told[1].text
    wanted = PlaceDoubt(1.0, 2.0, -3.0).sureness(1 - told[0].uncertainty, peak)
    assert 1 - told[1].uncertainty == pytest.approx(wanted, abs=1e-5)
    assert told[1].uncertainty > told[0].uncertainty
    same = [one.ask(QUERY, 32, given_map).uncertainty for one in (plain, doubting)]
    assert same[0] == same[1], "nobody knows how sure a map is that the caller gives"
