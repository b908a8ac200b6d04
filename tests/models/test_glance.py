"""The glance: the attention it reads is the model's own, and what it encoded is not encoded again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import picture, prompt, tiny_model
from torch.nn.functional import interpolate

from arr_coc import InputError, Relevance, attach
from arr_coc.core.folders import measured_path
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.glance import (
    Glance,
    coarse_allocation,
    find_glance,
    glance_relevance,
    read_view,
    reading_attention,
    spread_over_cells,
    view_levels,
    weigh_by_detail,
)
from arr_coc.realizing.qwen3_vl.encode import run_language_model

ROWS = [
    ([picture(256, 256)], "what colour is the square"),
    ([picture(128, 192, 1), picture(160, 96, 2)], "where is the red square on the left"),
]


@pytest.mark.parametrize("moe", [False, True], ids=["dense", "moe"])
@torch.no_grad()
def test_the_attention_is_that_of_the_eager_model(processor: Any, moe: bool) -> None:
    model = tiny_model(attention="eager", moe=moe)
    inputs, backbone = prompt(processor, ROWS), backbone_for(model)
    coarse = [coarse_allocation(grid, 1) for grid in backbone.grids(model, inputs)]
    realized = backbone.realize(model, inputs, coarse)
    short, tokens = realized.inputs, realized.notes["tokens"]
    ids, mask, positions = short["input_ids"], short["attention_mask"], short["position_ids"]
    columns = torch.arange(ids.shape[1]).expand(2, -1)
    asked = torch.tensor([[ids.shape[1] - 4 + k for k in range(4)], [ids.shape[1] - 1 - k for k in range(4)]])
    output = run_language_model(model, ids, tokens, positions, mask, output_attentions=True, use_cache=False)
    for layers in ([0], [2, 3], None):
        with reading_attention(model, asked, columns, layers) as record:
            assert model.config.get_text_config()._attn_implementation != "eager"
            run_language_model(model, ids, tokens, positions, mask, use_cache=False)
        stock = torch.stack([output.attentions[layer] for layer in layers or range(4)], 1)
        expected = torch.stack([stock[row][:, :, asked[row]] for row in range(2)])
        found = torch.stack([record[layer] for layer in layers or range(4)], 1)
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)
    assert model.config.get_text_config()._attn_implementation == "eager"


def test_a_glance_is_about_the_question_and_costs_a_coarse_view(processor: Any) -> None:
    model = tiny_model()
    inputs, backbone = prompt(processor, ROWS), backbone_for(model)
    seen: list[int] = []
    handle = model.model.visual.register_forward_pre_hook(lambda _, args: seen.append(len(args[0]) // 4))
    glance = Glance(least=5)
    first, _ = glance_relevance(backbone, model, inputs, ["a", "b"], glance)
    handle.remove()
    assert seen == [16 + 6 + 6]
    assert [item.map.shape for item in first] == [(8, 8), (4, 6), (5, 3)]
    assert [item.query for item in first] == ["a", "b", "b"]
    assert all(0 <= item.map.min() < item.map.max() == 1 for item in first)
    assert np.array_equal(first[0].participatory, first[0].map)
    other = prompt(processor, [(ROWS[0][0], "how many on the left"), ROWS[1]])
    second, _ = glance_relevance(backbone, model, other, ["", ""], glance)
    assert not np.allclose(first[0].map, second[0].map), "another question looks elsewhere"
    np.testing.assert_allclose(first[1].map, second[1].map, atol=1e-5)


def test_generate_with_a_glance_encodes_coarsely_then_all_leaves_together(processor: Any) -> None:
    model, inputs = tiny_model(), prompt(processor, ROWS[:1])
    patches: list[int] = []
    handle = model.model.visual.register_forward_pre_hook(lambda _, args: patches.append(len(args[0])))
    with attach(model, processor, budget=40, relevance="glance") as foveation:
        with torch.no_grad():
            glanced = model(**inputs).logits[:, -1]
        chosen = foveation.last[0]
        assert chosen.tokens == 40
        assert patches == [4 * 16, 4 * 40]
        with torch.no_grad():
            given = model(**inputs, allocation=chosen).logits[:, -1]
    handle.remove()
    torch.testing.assert_close(glanced, given)


@torch.no_grad()
def test_relevance_goes_where_the_attention_is(processor: Any) -> None:
    """The sign, by the eager model's own output: cells under an attended token are relevant, in proportion."""
    model, inputs = tiny_model(attention="eager"), prompt(processor, ROWS[:1])
    backbone = backbone_for(model)
    found, _ = glance_relevance(backbone, model, inputs, [""], Glance(least=16))
    realized = backbone.realize(model, inputs, [coarse_allocation(backbone.grids(model, inputs)[0], 1)])
    short = realized.inputs
    ids = short["input_ids"]
    output = run_language_model(
        model, ids, realized.notes["tokens"], short["position_ids"], output_attentions=True, use_cache=False
    )
    own = torch.stack(output.attentions[1:])[:, 0, :, -1, ids[0] == model.config.image_token_id].view(3, -1, 4, 4)
    wanted = interpolate(own.mean((0, 1))[None, None], scale_factor=2, mode="bilinear")[0, 0]
    np.testing.assert_allclose(found[0].map, wanted / wanted.max(), atol=1e-5)


def test_flat_ground_gets_less_than_detail_under_the_same_attention() -> None:
    picture = torch.full((3, 64, 64), 0.5)
    picture[:, :32, 32:] = (torch.arange(32) % 2).float()  # stripes in the cell at the top right
    even = Relevance(np.full((2, 2), 0.5, np.float32), participatory=np.full((2, 2), 0.5, np.float32))
    weighed = weigh_by_detail(even, picture)
    assert weighed.map[0, 1] == 1
    np.testing.assert_allclose(weighed.map[[0, 1, 1], [0, 0, 1]], (0.05 / 1.05) ** 0.5, rtol=1e-3)
    assert np.array_equal(weighed.participatory, even.participatory)


def test_by_default_the_model_glances_unless_there_is_nothing_to_choose(processor: Any) -> None:
    model = tiny_model()
    inputs = prompt(processor, ROWS[:1])
    with attach(model, processor, budget=24) as attachment:
        chosen = attachment.plan(inputs)
        same = attachment.plan(inputs, relevance="glance")
        assert chosen.allocations == same.allocations
        notes = attachment.plan(inputs, budget=64).notes
        assert not any("glance" in note for note in notes), "everything is kept: no glance"


def test_heads_are_found_by_the_models_name(processor: Any, tmp_path: Any, monkeypatch: Any) -> None:
    model, inputs = tiny_model(), prompt(processor, ROWS[:1])
    backbone = backbone_for(model)
    assert find_glance(model) == Glance()
    monkeypatch.setenv("ARR_COC_HOME", str(tmp_path))
    monkeypatch.setattr(model.config, "_name_or_path", "somebody/model-2B")
    path = measured_path("somebody/model-2B", "glance")
    path.parent.mkdir()
    path.write_text(json.dumps({"heads": [[2, 1], [3, 0]]}))
    found = find_glance(model)
    assert found == Glance.load(path)
    assert found.heads == ((2, 1), (3, 0))
    by_name, _ = glance_relevance(backbone, model, inputs, [""])
    levels = view_levels(backbone.grids(model, inputs), found)
    view = read_view(backbone, model, inputs, levels)
    heads = [view.weights[0, layer, head, 0] for layer, head in found.heads]
    wanted = spread_over_cells(sum(heads), view.cells, [(8, 8)], levels)[0]
    np.testing.assert_allclose(by_name[0].map, wanted / wanted.max(), atol=1e-5)
    # Beside the weights, too; and heads of another model are refused.
    monkeypatch.setattr(model.config, "_name_or_path", str(tmp_path))
    (tmp_path / "glance.json").write_text(json.dumps({"heads": [[40, 0]]}))
    with pytest.raises(InputError, match="calibrate"):
        glance_relevance(backbone, model, inputs, [""])
    (tmp_path / "glance.json").write_text("{}")
    with pytest.raises(InputError, match="holds no heads"):
        find_glance(model)
