"""Every merged family through `attach`: ordinary processor outputs in, stock `generate` and `forward` around them."""

from __future__ import annotations

from functools import wraps
from typing import Any

import pytest
import torch
from merging_families import FAMILIES, FIRST_WORD, IMAGE, PAD, build_model, build_prompts
from tests.goldens.golden_models import processor

from arr_coc.core.errors import InputError
from arr_coc.realizing.attachment import attach
from arr_coc.realizing.base import adapter
from arr_coc.realizing.query import find_questions, with_questions

NAMES = list(FAMILIES)
GREEDY: dict[str, Any] = {"max_new_tokens": 5, "do_sample": False, "suppress_tokens": list(range(FIRST_WORD))}


@pytest.fixture(autouse=True)
def _no_gradients():
    with torch.no_grad():
        yield


@pytest.mark.parametrize("name", NAMES)
def test_attached_and_keeping_all_is_the_stock_model(name: str):
    model, inputs = build_model(name), build_prompts(name, 3)
    valid = inputs["attention_mask"].bool()
    stock_text, stock = model.generate(**inputs, **GREEDY), model(**inputs).logits
    with attach(model, processor(), budget=1.0):
        assert torch.equal(model.generate(**inputs, **GREEDY), stock_text)
        assert torch.allclose(model(**inputs).logits[valid], stock[valid], atol=1e-4)
    assert torch.equal(model.generate(**inputs, **GREEDY), stock_text)


@pytest.mark.parametrize("name", NAMES)
def test_attached_at_a_quarter_says_what_realize_says(name: str):
    model, inputs = build_model(name), build_prompts(name, 3)
    length = inputs["input_ids"].shape[1]
    with attach(model, processor(), budget=0.25, relevance="detail") as attachment:
        text = model.generate(**inputs, **GREEDY)
        allocations = attachment.last
    backbone = adapter(name)
    grids = backbone.grids(model, inputs)
    assert [a.grid for a in allocations] == [(grid.rows, grid.cols) for grid in grids]
    assert sum(a.tokens for a in allocations) <= 0.25 * sum(grid.tokens for grid in grids) + len(grids)
    short = backbone.realize(model, inputs, allocations).inputs
    alone = model.generate(**short, **GREEDY)
    assert torch.equal(text[:, length:], alone[:, short["input_ids"].shape[1] :])
    assert torch.equal(text[:, :length], inputs["input_ids"])


@pytest.mark.parametrize("name", ["llava_onevision", "internvl", "qwen2_5_vl", "gemma3"])
def test_attached_samples_beams_and_cacheless_runs(name: str):
    model, inputs = build_model(name), build_prompts(name, 1)
    with attach(model, processor(), budget=0.25, strategy="top_k"):
        text = model.generate(**inputs, **GREEDY)
        assert torch.equal(model.generate(**inputs, **GREEDY, use_cache=False), text)
        assert torch.equal(model.generate(**inputs, **GREEDY, cache_implementation="static"), text)
        beams = model.generate(**inputs, **GREEDY, num_beams=2, num_return_sequences=2)
        assert torch.equal(beams[0], model.generate(**inputs, **GREEDY, num_beams=2)[0])


def test_tiles_share_the_budget_of_their_prompt():
    model, inputs = build_model("internvl"), build_prompts("internvl", 1)
    with attach(model, processor(), budget=15) as attachment:
        model.generate(**inputs, **GREEDY)
        assert len(attachment.last) == 3
        assert sum(a.tokens for a in attachment.last) <= 15


@pytest.mark.parametrize("name", NAMES)
def test_two_questions_are_two_allocations(name: str, monkeypatch: pytest.MonkeyPatch):
    """By default the model itself is asked where to look, and its encoder runs once for the glance and the answer."""
    model, inputs = build_model(name), build_prompts(name, 1)
    other = {**inputs, "input_ids": inputs["input_ids"].clone()}
    words = (other["input_ids"] != IMAGE) & inputs["attention_mask"].bool() & (other["input_ids"] >= FIRST_WORD)
    other["input_ids"][words] = FIRST_WORD + (other["input_ids"][words] - FIRST_WORD + 5) % 40
    encoded, stock = [], type(model.model).get_image_features
    with attach(model, processor(), budget=0.25) as attachment:
        plans = [attachment.plan(one) for one in (inputs, other)]
        monkeypatch.setattr(
            type(model.model),
            "get_image_features",
            wraps(stock)(lambda *how, **more: encoded.append(1) or stock(*how, **more)),
        )
        model.generate(**inputs, **GREEDY)
    assert plans[0].allocations != plans[1].allocations
    assert len(encoded) == 1


def test_patches_of_the_classic_scale_are_compressed_after_the_encoder():
    from arr_coc_lab.classic.compressor import CompressorConfig, MultiResolutionCompressor, compress

    name = "qwen2_5_vl"
    model, inputs = build_model(name), large_prompt(name)
    grid = adapter(name).grids(model, inputs)[0]
    assert (grid.rows, grid.cols) == (20, 20)
    width = model.get_input_embeddings().weight.shape[1]
    how: dict[str, Any] = {"strategy": "classic", "budget": 105, "relevance": "detail"}
    made = []
    trained = MultiResolutionCompressor(CompressorConfig(width, width))
    with torch.no_grad():
        for path in trained.paths:
            path.refine[2].bias.fill_(3.0)
    for own in ((), (None,), (trained,)):
        with attach(model, processor(), **how) as attachment:
            realized = (compress(attachment, *own) if own else attachment).prepare(inputs)
        assert attachment.last[0].counts.tolist() == [100, *[1] * 5]
        assert int((realized.inputs["input_ids"] == IMAGE).sum()) == 105, "the budget is exact after the encoder too"
        made.append(realized.inputs["mm_encoder_outputs"]["image"].pooler_output[0])
    average, untrained, moved = made
    assert torch.allclose(untrained, average, atol=1e-5), "20×20 cells by 10×10 tokens: untrained, it averages"
    changed = (moved - average).abs().amax(1) > 1
    assert int(changed.sum()) == 100, "every token of the patch passes the compressor, single cells do not"
    other = attach(model, processor(), **how)
    with pytest.raises(InputError, match="the model has"), other:
        compress(other, MultiResolutionCompressor(CompressorConfig(3, 3))).prepare(inputs)


def large_prompt(name: str) -> dict[str, Any]:
    """One picture of 20×20 tokens."""
    cell = adapter(name).grids(build_model(name), build_prompts(name, 1))[0].cell
    return build_prompts(name, 1, shown=[[(20 * cell, 20 * cell)]])


@pytest.mark.parametrize("name", NAMES)
def test_two_questions_get_two_allocations_on_every_family(name: str):
    """By default, and whether the chat asks them or `query=` names them."""
    model, inputs = build_model(name), build_prompts(name, 1)
    asked = dict(inputs)
    asked["input_ids"] = inputs["input_ids"].clone()
    asked["input_ids"][:, -4:] = torch.tensor([FIRST_WORD + 20, FIRST_WORD + 21, FIRST_WORD + 22, FIRST_WORD + 23])
    with attach(model, processor(), budget=0.3) as attachment:
        first, second = attachment.plan(inputs), attachment.plan(asked)
        assert first.allocations != second.allocations
        assert "glance" in first.notes[0]
        named = [attachment.plan(inputs, query=query).allocations for query in ("w70 w71 w72", "w80 w81")]
        assert named[0] != named[1]
        said = attachment.plan(inputs, query=find_questions(adapter(name), processor(), inputs))
        assert said.allocations == first.allocations


def test_a_question_takes_the_place_of_the_words_and_of_nothing_else():
    name = "internvl"
    inputs = build_prompts(name, 3)
    backbone = adapter(name)
    queries = ["w70", "w71 w72 w73 w74 w75 w76 w77 w78 w79 w80", "w9 w8"]
    other = with_questions(backbone, processor(), inputs, queries, IMAGE)
    for row, query in enumerate(queries):
        ids, more = inputs["input_ids"][row], other["input_ids"][row]
        wanted = [int(word[1:]) for word in query.split()]
        assert more[-len(wanted) :].tolist() == wanted
        last = int((ids == IMAGE).nonzero().max())
        kept = ids[: last + 1][ids[: last + 1] != PAD]
        assert torch.equal(more[: -len(wanted)][more[: -len(wanted)] != PAD], kept)
        assert int(other["attention_mask"][row].sum()) == len(kept) + len(wanted)
    same = find_questions(backbone, processor(), inputs)
    assert with_questions(backbone, processor(), inputs, same, IMAGE) is inputs
