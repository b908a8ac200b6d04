"""`attach` on a stock model: everything a user does with `generate` and `forward` goes on working, for fewer tokens."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import GREEDY, ROWS, new_part, picture, prompt, save_stock, tiny_model
from transformers import Qwen3VLForConditionalGeneration

from arr_coc import InputError, Options, Relevance, attach, detach
from arr_coc.attending.allocate import allocate
from arr_coc.packing.prices.tables import tokens_for


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("rows", [1, 3])
def test_keeping_everything_generates_the_same_text(processor: Any, attention: str, rows: int) -> None:
    model, inputs = tiny_model(attention=attention), prompt(processor, ROWS[:rows])
    expected = model.generate(**inputs, **GREEDY)
    with torch.no_grad():
        logits = model(**inputs).logits
    with attach(model, processor, budget=1.0):
        assert torch.equal(model.generate(**inputs, **GREEDY), expected)
        with torch.no_grad():
            assert torch.equal(model(**inputs).logits, logits)


def test_budget_holds_and_the_prompt_stays_in_front(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    with attach(model, processor, budget=16) as foveation:
        output = model.generate(**inputs, **GREEDY)
        assert model.arr_coc is foveation
        assert [item.tokens for item in foveation.last] == [16, 4, 15, 16]
        announced = [tokens_for((item.height, item.width), min(16, item.full)) for item in foveation.last]
        assert announced == [16, 4, 15, 16]
    assert torch.equal(output[:, : inputs["input_ids"].shape[1]], inputs["input_ids"])
    assert new_part(output, inputs).shape == (3, 6)


def test_detach_leaves_no_trace(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    before, weights = dict(model.__dict__), copy.deepcopy(model.state_dict())
    expected = model.generate(**inputs, **GREEDY)
    attach(model, processor, budget=8)
    changed = model.generate(**inputs, **GREEDY)
    assert not torch.equal(changed, expected), "a budget of 8 should be felt by random weights"
    detach(model)
    assert dict(model.__dict__).keys() == before.keys()
    assert all(model.__dict__[name] is value for name, value in before.items())
    assert not model._forward_pre_hooks
    assert not model._forward_pre_hooks_with_kwargs
    assert not any(module._forward_pre_hooks or module._forward_hooks for module in model.model.visual.modules())
    assert model.model.rope_deltas is not None, "set by the stock calls around"
    assert all(torch.equal(value, weights[name]) for name, value in model.state_dict().items())
    assert torch.equal(model.generate(**inputs, **GREEDY), expected)
    detach(model)  # quiet


def test_two_models_do_not_touch_each_other(processor: Any, inputs: dict[str, Any]) -> None:
    first, second = tiny_model(), tiny_model()
    expected = second.generate(**inputs, **GREEDY)
    attach(first, processor, budget=8)
    first.generate(**inputs, **GREEDY)
    assert torch.equal(second.generate(**inputs, **GREEDY), expected)
    assert not hasattr(second, "arr_coc")
    assert "generate" not in type(first).__dict__
    attach(second, processor, budget=20)
    second.generate(**inputs, **GREEDY)
    assert (first.arr_coc.last[0].tokens, second.arr_coc.last[0].tokens) == (8, 20)


def test_a_copy_of_an_attached_model_is_attached_to_itself(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    attach(model, processor, budget=8)
    twin = copy.deepcopy(model)
    assert twin.arr_coc.model is twin
    assert torch.equal(twin.generate(**inputs, **GREEDY), model.generate(**inputs, **GREEDY))
    detach(model)
    assert twin.generate(**inputs, **GREEDY) is not None
    assert twin.arr_coc.last[0].tokens == 8


@pytest.mark.parametrize(
    "how",
    [
        {"num_beams": 3},
        {"num_beams": 2, "num_return_sequences": 2},
        {"do_sample": True, "num_return_sequences": 3},
        {"cache_implementation": "static"},
        {"use_cache": False},
    ],
    ids=lambda how: "-".join(how),
)
def test_ways_of_generating_agree_with_the_stock_model_on_the_short_prompt(
    model: Any, processor: Any, inputs: dict[str, Any], how: dict[str, Any]
) -> None:
    with attach(model, processor, budget=13) as foveation:
        torch.manual_seed(0)
        ours = model.generate(**inputs, **{**GREEDY, **how})
        torch.manual_seed(0)
        twice = model.generate(**inputs, **{**GREEDY, **how})
        short = foveation.prepare(inputs).inputs
    torch.manual_seed(0)
    stock = model.generate(**short, **{**GREEDY, **how})
    assert torch.equal(ours, twice), "features are expanded in place; every call must build its own"
    assert torch.equal(new_part(ours, inputs), stock[:, short["input_ids"].shape[1] :])
    assert len(ours) == 3 * how.get("num_return_sequences", 1)


def test_lengths_that_count_the_prompt_count_the_long_one(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    length = inputs["input_ids"].shape[1]
    with attach(model, processor, budget=8):
        assert model.generate(**inputs, max_length=length + 4, do_sample=False).shape[1] == length + 4
        config = copy.deepcopy(model.generation_config)
        config.max_length, config.eos_token_id = length + 3, None
        assert model.generate(**inputs, generation_config=config, do_sample=False).shape[1] == length + 3
        assert config.max_length == length + 3
        assert model.generate(**inputs, generation_config=config, max_new_tokens=5).shape[1] == length + 5


def test_per_call_overrides(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    with attach(model, processor, budget=16) as foveation:
        model.generate(**inputs, **GREEDY, budget=[31, 1, 4, 5])
        assert [item.tokens for item in foveation.last] == [31, 1, 4, 5]
        model.generate(**inputs, **GREEDY, budget=0.5)
        assert [item.tokens for item in foveation.last] == [32, 2, 7, 12]
        corner = np.zeros((8, 8))
        corner[7, 7] = 1
        mine = [
            allocate(corner, max(1, item.full // 4), image_size=(item.height, item.width)) for item in foveation.last
        ]
        model.generate(**inputs, **GREEDY, allocation=mine)
        assert foveation.last == mine
        seen: list[tuple[tuple[int, ...], str]] = []

        def scorer(view: torch.Tensor, query: str) -> Relevance:
            seen.append((tuple(view.shape), query))
            assert 0 <= float(view.min()) < 0.3 < 0.7 < float(view.max()) <= 1
            return Relevance(corner)

        model.generate(**inputs, **GREEDY, relevance=scorer)
        assert seen == [
            ((3, 256, 256), "what colour is the square"),
            ((3, 64, 64), "where is the red square on the left"),
            ((3, 160, 96), "where is the red square on the left"),
            ((3, 128, 192), "how many"),
        ]
        level = foveation.last[0].level_map()
        assert level[7, 7] == 0 < level[0, 0]
        seen.clear()
        with torch.no_grad():
            model(**inputs, relevance=scorer, query="the other one")
        assert {query for _, query in seen} == {"the other one"}
        model.generate(**inputs, **GREEDY)
        assert foveation.last[0].tokens == 16, "an override ends with its call"


def test_training_with_labels(model: Any, processor: Any, inputs: dict[str, Any]) -> None:
    model.train()
    labels = inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100)
    with attach(model, processor, budget=8) as foveation:
        output = model(**inputs, labels=labels)
        output.loss.backward()
        assert output.logits.shape[1] < labels.shape[1]
        unmasked = {name: value for name, value in prompt(processor, ROWS[:1]).items() if name != "attention_mask"}
        # Without a mask and without a cache, gaps in the positions must not cut the prompt into pieces.
        bare = model(**unmasked, use_cache=False).logits
        masked = model(**prompt(processor, ROWS[:1]), use_cache=True).logits
        assert foveation.last[0].tokens == 8
    assert model.model.visual.patch_embed.proj.weight.grad.abs().max() > 0
    torch.testing.assert_close(bare, masked, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("dtype", "rows", "tokens"),
    [(torch.float32, ROWS, 16), (torch.bfloat16, [([picture(128, 128)], "where")], 4)],  # which has slow kernels here
)
def test_a_folder_saved_by_the_stock_class(
    tmp_path: Path, processor: Any, dtype: torch.dtype, rows: Any, tokens: int
) -> None:
    model = Qwen3VLForConditionalGeneration.from_pretrained(save_stock(tmp_path, dtype), dtype="auto").eval()
    assert model.dtype == dtype
    inputs = prompt(processor, rows)
    expected = model.generate(**inputs, **GREEDY)
    with attach(model, processor, budget=1.0):
        assert torch.equal(model.generate(**inputs, **GREEDY), expected)
    with attach(model, processor, budget=0.25) as foveation:
        assert model.generate(**inputs, **GREEDY).shape[1] <= expected.shape[1]
        assert foveation.last[0].tokens == tokens
        model.save_pretrained(tmp_path / "again")
    again = Qwen3VLForConditionalGeneration.from_pretrained(tmp_path / "again", dtype="auto")
    assert all(torch.equal(value, again.state_dict()[name]) for name, value in model.state_dict().items())


def test_text_only_prompts_pass_untouched(model: Any, processor: Any) -> None:
    text = prompt(processor, [([], "how many")])
    expected = model.generate(**text, **GREEDY)
    with attach(model, processor):
        assert torch.equal(model.generate(**text, **GREEDY), expected)
        assert torch.equal(model.generate(text["input_ids"], attention_mask=text["attention_mask"], **GREEDY), expected)
        for how in ({"budget": 8}, {"query": "what"}):
            with pytest.raises(InputError, match="holds no picture"):
                model.generate(**text, **GREEDY, **how)
            with pytest.raises(InputError, match="holds no picture"):
                model(**text, **how)


def test_wrong_use_is_one_clear_line(
    model: Any, processor: Any, inputs: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach(model, processor)
    with pytest.raises(InputError, match="attached already"):
        attach(model, processor)
    for how, message in (
        ({"budget": 0}, "at least 1"),
        ({"budget": 1.5}, "whole number"),
        ({"relevance": "guess"}, "use 'auto', 'look', 'scorer', 'glance', 'words', 'photos', 'detail'"),
        ({"relevance": np.ones((2, 2))}, "1 maps for 4 pictures"),
        ({"budget": [1, 2]}, "2 budgets for 4 pictures"),
        ({"query": ["a", "b"]}, "2 queries for a batch of 3"),
        ({"strategy": "guess"}, "unknown strategy"),
        ({"strategy": "classic", "budget": 64}, "starts at 64"),
    ):
        with pytest.raises(InputError, match=message):
            model.generate(**inputs, **GREEDY, **how)
    with pytest.raises(InputError, match="inputs_embeds"):
        model(inputs_embeds=torch.ones(1, 3, 64), pixel_values=inputs["pixel_values"])
    detach(model)
    for how, message in (
        ({"processor": None}, "processor"),
        ({"relevance": "scoer"}, "did you mean scorer"),
        ({"strategy": "oracle", "options": Options(strategy_options={"boxs": []})}, "did you mean boxes"),
    ):
        with pytest.raises(InputError, match=message):
            attach(**{"model": model, "processor": processor, **how})
    assert not hasattr(model, "arr_coc"), "a refused attach leaves nothing behind"
    unknown = torch.nn.Linear(1, 1)
    with pytest.raises(InputError, match="qwen3_vl, qwen3_vl_moe"):
        attach(unknown, processor)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="no language head"):
        attach(model.model, processor)
    # transformers replaces itself in sys.modules on first use, so the name imported above may be its former self.
    monkeypatch.setattr(sys.modules["transformers"], "__version__", "5.17.0")
    with pytest.raises(InputError, match=r"needs transformers >= 5.18.0, found 5.17.0"):
        attach(model, processor)
    assert not hasattr(model, "arr_coc")
