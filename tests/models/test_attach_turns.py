"""`attach` over several turns, on a cache, and from several threads."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import GREEDY, ROWS, picture, prompt
from transformers import DynamicCache

from arr_coc import InputError, attach


def test_every_turn_allocates_anew(model: Any, processor: Any) -> None:
    asked: list[str] = []

    def scorer(view: torch.Tensor, query: str) -> np.ndarray:
        asked.append(query)
        field = np.zeros((8, 8))
        field[(0, 0) if "left" in query else (7, 7)] = 1
        return field

    def chat(*turns: tuple[str, str]) -> dict[str, Any]:
        messages: list[dict[str, Any]] = [
            {"role": role, "content": [*([{"type": "image"}] if not number else []), {"type": "text", "text": text}]}
            for number, (role, text) in enumerate(turns)
        ]
        text = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        return dict(processor(text=[text], images=[picture(256, 256)], return_tensors="pt"))

    with attach(model, processor, budget=16, relevance=scorer) as foveation:
        model.generate(**chat(("user", "what is on the left")), **GREEDY)
        first = foveation.last[0].level_map()
        model.generate(**chat(("user", "what is on the left"), ("assistant", "a square"), ("user", "where")), **GREEDY)
        second = foveation.last[0].level_map()
    assert asked == ["what is on the left", "where"]
    assert first[0, 0] == 0 < first[7, 7]
    assert second[7, 7] == 0 < second[0, 0]


@torch.no_grad()
def test_what_goes_on_from_the_cache_of_a_short_prompt_needs_its_positions(model: Any, processor: Any) -> None:
    inputs, cache = prompt(processor, ROWS[:1]), DynamicCache()
    with attach(model, processor, budget=16, relevance="detail") as foveation:
        first = model.generate(**inputs, **GREEDY, past_key_values=cache)
        assert cache.get_seq_length() < inputs["input_ids"].shape[1]
        again = {**inputs, "input_ids": torch.cat([first, torch.tensor([[30, 31]])], 1), "attention_mask": None}
        with pytest.raises(InputError, match="pass the whole chat"):
            model.generate(**again, **GREEDY, past_key_values=cache)
        output, word = model(**inputs), torch.tensor([[30]])
        with pytest.raises(InputError, match="or position_ids"):
            model(input_ids=word, past_key_values=output.past_key_values)
        realized = foveation.prepare(inputs, allocation=foveation.last)
        short = realized.inputs["attention_mask"].sum(1)
        positions = torch.stack([short, *[realized.next_position] * 3])[..., None].float()
        found = model(input_ids=word, past_key_values=output.past_key_values, position_ids=positions).logits
        longer = {
            name: torch.cat([inputs[name], one], 1) for name, one in (("input_ids", word), ("attention_mask", word > 0))
        }
        once = model(**{**inputs, **longer, "mm_token_type_ids": None}, allocation=foveation.last).logits
    torch.testing.assert_close(found, once[:, -1:], atol=1e-4, rtol=0)


def test_threads_share_one_model(model: Any, processor: Any) -> None:
    prompts = [prompt(processor, [row]) for row in ROWS] + [prompt(processor, ROWS[:2])]
    with attach(model, processor, budget=12):
        expected = [model.generate(**item, **GREEDY) for item in prompts]
        results: dict[tuple[int, int], torch.Tensor] = {}
        start = threading.Barrier(len(prompts))

        def work(number: int) -> None:
            start.wait()
            for turn in range(2):
                results[number, turn] = model.generate(**prompts[number], **GREEDY)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(len(prompts))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(results) == 8
    assert all(torch.equal(output, expected[number]) for (number, _), output in results.items())
    assert model.model.rope_deltas is None, "positions travel with the call, not in the module"
