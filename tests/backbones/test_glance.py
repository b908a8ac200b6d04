"""The glance: the attention it reads is the model's own, and what it encoded is not encoded again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import picture, prompt, tiny_model, tiny_processor

from arr_coc import InputError, attach
from arr_coc.backbones import Glance, backbone_for, glance_relevance
from arr_coc.backbones.attention_reader import reading_attention
from arr_coc.backbones.base import VisualGrid
from arr_coc.backbones.glance import askers, coarse_allocation, glance_level, paint
from arr_coc.backbones.query import question_mask
from arr_coc.backbones.qwen3_vl import run_language_model
from arr_coc.realizing import leaves_of

ROWS = [
    ([picture(256, 256)], "what colour is the square"),
    ([picture(128, 192, 1), picture(160, 96, 2)], "where is the red square on the left"),
]


@pytest.fixture(scope="module")
def processor() -> Any:
    return tiny_processor()


@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
@torch.no_grad()
def test_the_attention_is_that_of_the_eager_model(processor: Any, moe: bool) -> None:
    model = tiny_model(attention="eager", moe=moe)
    inputs, backbone = prompt(processor, ROWS), backbone_for(model)
    coarse = [coarse_allocation(grid, 1) for grid in backbone.grids(model, inputs)]
    realized = backbone.realize(model, inputs, coarse)
    short, tokens = realized.inputs, realized.notes["tokens"]
    ids, mask, positions = short["input_ids"], short["attention_mask"], short["position_ids"]
    columns = torch.arange(ids.shape[1])
    asked = torch.tensor([[ids.shape[1] - 4 + k for k in range(4)], [ids.shape[1] - 1 - k for k in range(4)]])
    output = run_language_model(model, ids, tokens, positions, mask, output_attentions=True, use_cache=False)
    for layers in ([0], [2, 3], None):
        with reading_attention(model, columns, layers, by_head=True) as record:
            assert model.config.get_text_config()._attn_implementation != "eager"
            record.queries = asked
            run_language_model(model, ids, tokens, positions, mask, use_cache=False)
        stock = torch.stack([output.attentions[layer] for layer in layers or range(4)], 1)
        expected = torch.stack([stock[row][:, :, asked[row]] for row in range(2)])
        torch.testing.assert_close(record.weights(), expected, atol=1e-5, rtol=0)
    assert model.config.get_text_config()._attn_implementation == "eager"


def test_a_glance_is_about_the_question_and_costs_a_quarter(processor: Any) -> None:
    model = tiny_model()
    inputs, backbone = prompt(processor, ROWS), backbone_for(model)
    question = question_mask(backbone, processor, inputs)
    seen: list[int] = []
    handle = model.model.visual.register_forward_pre_hook(lambda _, args: seen.append(len(args[0]) // 4))
    first = glance_relevance(backbone, model, inputs, question, [32, 12, 8], ["a", "b"])
    handle.remove()
    assert first.levels == [2, 2, 2]
    assert seen == [4 + 2 + 2]
    assert [item.map.shape for item in first.relevance] == [(8, 8), (4, 6), (5, 3)]
    assert [item.query for item in first.relevance] == ["a", "b", "b"]
    assert all(0 <= item.map.min() < item.map.max() == 1 for item in first.relevance)
    assert first.relevance[0].participatory is first.relevance[0].map or np.array_equal(
        first.relevance[0].participatory, first.relevance[0].map
    )
    other = prompt(processor, [(ROWS[0][0], "how many on the left"), ROWS[1]])
    second = glance_relevance(backbone, model, other, question_mask(backbone, processor, other), [32, 12, 8], ["", ""])
    assert not np.allclose(first.relevance[0].map, second.relevance[0].map), "another question looks elsewhere"
    np.testing.assert_allclose(first.relevance[1].map, second.relevance[1].map, atol=1e-5)


def test_generate_with_a_glance_reuses_coarse_leaves(processor: Any) -> None:
    model, inputs = tiny_model(), prompt(processor, ROWS[:1])
    patches: list[int] = []
    handle = model.model.visual.register_forward_pre_hook(lambda _, args: patches.append(len(args[0])))
    how = {"max_new_tokens": 4, "do_sample": False}
    with attach(model, processor, budget=40, relevance=Glance(share=0.5)) as foveation:
        model.generate(**inputs, **how)
        chosen = foveation.last[0]
        assert (chosen.tokens, chosen.tokens_by_level()) == (40, {0: 32, 1: 8})
        assert patches == [4 * 16, 4 * 32], "the eight coarse leaves that stay are not encoded again"
        patches.clear()
        model.generate(**inputs, **how, relevance=Glance(share=0.5, reuse=False))
        assert patches == [4 * 16, 4 * 40]
        assert foveation.last[0] == chosen
        with torch.no_grad():
            reused, together = (
                model(**inputs, relevance=Glance(share=0.5, reuse=flag)).logits[:, -1] for flag in (True, False)
            )
    handle.remove()
    # Leaves that were encoded apart did not see each other in the tower: near, and not the same.
    distance = (reused - together).norm() / together.norm()
    assert 1e-3 < distance < 1


def test_relevance_goes_where_the_attention_is(processor: Any) -> None:
    """The sign: a model made to attend to one coarse token must get its detail there."""
    model, inputs = tiny_model(), prompt(processor, ROWS[:1])
    backbone = backbone_for(model)
    wanted = 13  # of 16 coarse tokens: row 3, column 1

    def brighten(_: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Make one visual token's key point along every query, by putting the questions' own state in its place."""
        embeds = kwargs["inputs_embeds"].clone()
        visual = kwargs["visual_pos_masks"][0].nonzero()[:, 0]
        embeds[0, visual[wanted]] = 30 * embeds[0, -12:].mean(0)
        return args, {**kwargs, "inputs_embeds": embeds, "deepstack_visual_embeds": None}

    question = question_mask(backbone, processor, inputs)
    plain = glance_relevance(backbone, model, inputs, question, [64], [""], Glance(layers=(0, 0.25), contrast=False))
    handle = model.model.language_model.register_forward_pre_hook(brighten, with_kwargs=True)
    raised = glance_relevance(backbone, model, inputs, question, [64], [""], Glance(layers=(0, 0.25), contrast=False))
    handle.remove()
    assert raised.levels == [1]
    place = (2 * (wanted // 4), 2 * (wanted % 4))
    change = (
        raised.relevance[0].map / raised.relevance[0].map.sum() - plain.relevance[0].map / plain.relevance[0].map.sum()
    )
    assert np.unravel_index(change.argmax(), change.shape) == place


def test_levels_and_coarse_views() -> None:
    grid = VisualGrid(8, 6, 256, 192)
    assert [glance_level(grid, tokens) for tokens in (48, 47, 12, 11, 4, 3, 1)] == [0, 1, 1, 2, 2, 3, 3]
    view = coarse_allocation(grid, 2)
    assert leaves_of(view).tolist() == [[0, 0, 2], [0, 4, 2], [4, 0, 2], [4, 4, 2]]
    assert view.boxes[:, 2:].tolist() == [[128, 128], [128, 64]] * 2
    painted = paint(np.array([1.0, 2, 3, 4]), leaves_of(view), 8, 6)
    assert painted[[0, 0, 7, 7], [0, 5, 3, 4]].tolist() == [1, 2, 3, 4]


def test_askers_are_question_tokens_that_can_see() -> None:
    valid = torch.ones(2, 5, dtype=torch.bool)
    visual = torch.tensor([[0, 1, 1, 0, 0], [0, 0, 1, 1, 0]]).bool()
    question = torch.tensor([[1, 0, 0, 1, 0], [1, 1, 0, 0, 0]]).bool()
    assert askers(question, visual, valid).tolist() == [
        [False, False, False, True, False],
        [False, False, False, False, True],
    ]


def test_wrong_use_is_one_clear_line() -> None:
    with pytest.raises(InputError, match="0 < share"):
        Glance(share=0)
    with pytest.raises(InputError, match="layers"):
        Glance(layers=(0.6, 0.5))


def test_by_default_the_model_glances_unless_there_is_nothing_to_choose(processor: Any) -> None:
    model = tiny_model()
    inputs = prompt(processor, ROWS[:1])
    with attach(model, processor, budget=24) as attachment:
        chosen = attachment.plan(inputs)
        assert "known" in chosen.options, "the coarse leaves of the glance are handed on"
        same = attachment.plan(inputs, relevance="glance")
        assert chosen.allocations == same.allocations
        assert "known" not in attachment.plan(inputs, budget=64).options, "everything is kept: no glance"
