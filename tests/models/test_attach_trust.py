"""`attach` as users misuse it: wrapped models work, what cannot be used is one line at `attach`, not at `generate`."""

from __future__ import annotations

import pickle
from copy import copy
from typing import Any

import pytest
import torch
from tiny_models import GREEDY, ROWS, picture, prompt, tiny_model, tiny_processor

from arr_coc import Eye, InputError, attach, detach
from arr_coc.options import Options


class Wrapper(torch.nn.Module):
    """What peft's wrapper for causal models does: it shows the configuration, and calls `forward` of what it wraps,
    past its hooks."""

    def __init__(self, wrapped: Any) -> None:
        super().__init__()
        self.wrapped, self.peft_config, self.config = wrapped, {}, wrapped.config

    def get_base_model(self) -> Any:
        return self.wrapped

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.wrapped.forward(*args, **kwargs)

    def generate(self, *args: Any, **kwargs: Any) -> Any:
        return self.wrapped.generate(*args, **kwargs)


def test_a_model_that_was_compiled_is_attached_inside(processor: Any) -> None:
    plain, model = tiny_model(), tiny_model()
    inputs = prompt(processor, ROWS[:1])
    with attach(plain, processor, budget=8, relevance="detail"):
        wanted = plain.generate(**inputs, **GREEDY)
    compiled: Any = torch.compile(model, backend="eager")
    attachment = attach(compiled, processor, budget=8, relevance="detail")
    assert attachment.model is model
    assert torch.equal(compiled.generate(**inputs, **GREEDY), wanted)
    assert attachment.last[0].tokens == 8
    detach(compiled)
    assert "generate" not in model.__dict__
    assert not model._forward_pre_hooks
    assert compiled.generate(**inputs, **GREEDY).shape == wanted.shape


def test_a_wrapper_with_adapters_is_attached_inside(processor: Any) -> None:
    model, inputs = tiny_model(), prompt(processor, ROWS[:1])
    with attach(model, processor, budget=8, relevance="detail") as attachment, torch.no_grad():
        wanted, logits = model.generate(**inputs, **GREEDY), model(**inputs).logits
        short = logits.shape[1]
    wrapper = Wrapper(model)
    with attach(wrapper, processor, budget=8, relevance="detail") as attachment, torch.no_grad():  # type: ignore[arg-type]
        assert torch.equal(wrapper.generate(**inputs, **GREEDY), wanted)
        found = wrapper(**inputs).logits
        assert found.shape[1] == short < inputs["input_ids"].shape[1]
        assert torch.equal(found, logits)
        assert attachment.last[0].tokens == 8
    assert not wrapper._forward_pre_hooks
    assert not model._forward_pre_hooks


def test_peft_itself_is_attached_inside(processor: Any) -> None:
    peft = pytest.importorskip("peft")
    how = {"target_modules": ["q_proj"], "r": 2, "init_lora_weights": False}
    for task in (None, "CAUSAL_LM"):
        torch.manual_seed(0)
        adapted = peft.get_peft_model(tiny_model(), peft.LoraConfig(task_type=task, **how)).eval()
        inputs = prompt(processor, ROWS[:1])
        with attach(adapted.get_base_model(), processor, budget=8, relevance="detail"), torch.no_grad():
            wanted = adapted.get_base_model()(**inputs).logits
        with attach(adapted, processor, budget=8, relevance="detail") as attachment, torch.no_grad():
            assert torch.equal(adapted(**inputs).logits, wanted)
            assert adapted.generate(**inputs, **GREEDY).shape[0] == 1
            assert attachment.last[0].tokens == 8
        assert Eye(adapted, processor, relevance="detail").model is adapted.get_base_model()


def test_detaching_twice_is_quiet(processor: Any) -> None:
    model = tiny_model()
    attach(model, processor, budget=8)
    detach(model)
    detach(model)
    with pytest.raises(InputError, match="takes the attached model"):
        detach("Qwen/Qwen3-VL-2B-Instruct")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("how", "part"),
    [
        ({"options": [1]}, "options must be"),
        ({"options": {"levels": 2}}, "options must be"),
        ({"videos": "yes"}, "videos"),
        ({"budget": "zzz"}, "budget"),
        ({"strategy": "zzz"}, "zzz"),
        ({"relevance": "zzz"}, "zzz"),
    ],
)
def test_what_cannot_be_used_is_told_at_attach(processor: Any, how: dict[str, Any], part: str) -> None:
    model = tiny_model()
    with pytest.raises(InputError, match=part) as raised:
        attach(model, processor, **how)
    assert "\n" not in str(raised.value)
    assert not hasattr(model, "arr_coc")


def test_the_wrong_things_in_the_wrong_places_are_told(processor: Any) -> None:
    model: Any = tiny_model()
    for given, part in (
        ((model, processor.tokenizer), "no image_processor"),
        ((processor, model), "swapped"),
        (("Qwen/Qwen3-VL-2B-Instruct", processor), "load it first"),
        ((model, None), "processor"),
        ((model, "mini"), "processor"),
        ((5, processor), "not supported"),
    ):
        with pytest.raises(InputError, match=part) as raised:
            attach(*given)
        assert "\n" not in str(raised.value)
    with pytest.raises(InputError, match="no image_processor"):
        Eye(model, processor.tokenizer)


def test_an_eye_can_be_pickled_and_copied() -> None:
    eye = Eye(tiny_model(), tiny_processor(), relevance="detail").set_image(picture(128, 192))
    wanted = eye.ask("what", budget=8, options=Options(max_new_tokens=3))
    found: Eye = pickle.loads(pickle.dumps(eye))
    said = found.ask("what", budget=8, options=Options(max_new_tokens=3))
    assert (said.text, said.allocation) == (wanted.text, wanted.allocation)
    assert copy(eye).ask("what", budget=8, options=Options(max_new_tokens=3)).text == wanted.text


def test_a_processor_without_videos_can_be_pickled(processor: Any) -> None:
    again = pickle.loads(pickle.dumps(processor))
    assert type(again) is type(processor)
    assert again.chat_template == processor.chat_template
