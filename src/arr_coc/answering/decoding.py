"""Greedy decoding, step by step, and how sure a model is of what it generated.

`greedy_steps` is the only loop. What speaks is a `Speaker`: a stock model with its cache (`StockSpeaker`), the same by
recorded graphs, or the torch-free engine (`realizing.qwen3_vl.onnx`). The loop does what `generate` does with the same
settings, without what `generate` must do to serve all others. Nothing here imports torch unless a stock model speaks.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ..core.arrays import Array, count, like, log_softmax, namespace, take
from ..realizing.base import DecodingStep, Inputs, LeafPrompt, backbone_for

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import GenerationConfig, PreTrainedModel

    from ..realizing.base import Realized
    from ..realizing.qwen3_vl.graph import Graphs

# The longest answer, in tokens, unless a caller wants another.
LONGEST_ANSWER = 64
# Settings that leave greedy decoding as it is; any other would change the words.
HARMLESS = {"bos_token_id", "eos_token_id", "pad_token_id", "use_cache", "transformers_version", "max_length"}
HARMLESS |= {"do_sample", "temperature", "top_k", "top_p", "max_new_tokens", "output_attentions"}
HARMLESS |= {"output_hidden_states", "_from_model_config"}


class Speaker(Protocol):
    """A model that has read a prompt, or several in rows: `begin` gives the first token of every row, `go_on` the token
    after those (B,) of the step before."""

    def begin(self) -> DecodingStep: ...
    def go_on(self, ids: Array) -> DecodingStep: ...


class Sureness:
    """How sure a model is of what it says, kept step by step: no logits are held. For numpy as for torch.
    temperature: divides the logits."""

    def __init__(self, temperature: float = 1.0) -> None:
        self.temperature = temperature
        self.logs: Array = 0.0
        self.spread: Array = 0.0
        self.count: Array = 0
        self.least: Array = 1.0

    def add(self, ids: Array, logits: Array, within: Array | None = None) -> None:
        """Add one step. ids: (B,), each the likeliest token. logits: (B, vocabulary). within: (B,) bool, rows whose
        answer has not ended before; all by default."""
        library, within = namespace(logits), ids == ids if within is None else within
        logs = log_softmax(logits / self.temperature)
        others = library.where(count(logs.shape[-1], logs) == ids[:, None], 0, library.exp(logs))
        margin = library.where(within, library.exp(take(logs, ids[:, None])[:, 0]) - library.amax(others, axis=-1), 1)
        self.logs = self.logs + library.where(within, take(logs, ids[:, None])[:, 0], 0)
        self.spread = self.spread + library.where(within, -(library.exp(logs) * logs).sum(-1), 0)
        self.least = library.where(margin < self.least, margin, self.least)
        self.count = self.count + within

    def row(self, number: int) -> dict[str, float]:
        """Return a row: confidence, the probability of its text; entropy in nats, mean over its tokens; margin, how far
        the best token was ahead of the second best, where it was least."""
        confidence = min(1.0, float(namespace(self.logs).exp(self.logs[number])))
        spread = float(self.spread[number]) / max(1, int(self.count[number]))
        return {"confidence": confidence, "entropy": spread, "margin": float(self.least[number])}


class Spelling:
    """The text of one answer while its tokens arrive, trimmed; `add` and `rest` give what is new.

    stop: texts that end the answer and are no part of it. ended: by a token of `ends` or by a stop."""

    def __init__(self, tokenizer: Any, ends: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.ends, self.stop = tokenizer, frozenset(ends), tuple(stop)
        self.ids: list[int] = []
        self.text, self.ended = "", False

    def add(self, token: int) -> str:
        """Return the text that can no longer change: no half character, no possibly last space, no half stop string."""
        self.ids.append(token)
        whole = self._whole()
        self.ended = token in self.ends or any(stop in whole for stop in self.stop)
        if self.ended:
            return self.rest()
        whole = whole.rstrip().rstrip("\ufffd")
        starts = [stop[:length] for stop in self.stop for length in range(1, len(stop))]
        held = max((len(start) for start in starts if whole.endswith(start)), default=0)
        return self._new(whole[: len(whole) - held].rstrip())

    def rest(self) -> str:
        """Return the text held back, once nothing follows."""
        whole = self._whole()
        cut = min((place for stop in self.stop if (place := whole.find(stop)) >= 0), default=len(whole))
        return self._new(whole[:cut].rstrip())

    def _whole(self) -> str:
        return self.tokenizer.decode(self.ids, skip_special_tokens=True).lstrip()

    def _new(self, text: str) -> str:
        piece, self.text = text[len(self.text) :], max(self.text, text, key=len)
        return piece


def greedy_steps(
    speaker: Speaker, ends: Sequence[int], most: int = LONGEST_ANSWER
) -> Generator[DecodingStep, Array | None]:
    """Yield the likeliest token of every row, step by step, until all rows have ended or `most` steps are made.

    A consumer may `send` (B,) bool: rows that it wants no more of.
    """
    step = speaker.begin()
    ending = like(np.array(ends, dtype=np.int64), step.ids)
    library, over = namespace(step.ids), step.ids != step.ids
    for number in range(most):
        dropped = yield step
        over = over | library.isin(step.ids, ending)
        if dropped is not None:
            over = over | dropped
        if number + 1 == most or bool(over.all()):
            return
        step = speaker.go_on(step.ids)


def end_tokens(model: PreTrainedModel) -> list[int]:
    """Return the tokens that end an answer."""
    ends = model.generation_config.eos_token_id
    if ends is None:
        ends = getattr(model.config.get_text_config(), "eos_token_id", None) or []
    return list(ends) if isinstance(ends, Sequence) else [int(ends)]


def is_plain(config: GenerationConfig) -> bool:
    """Tell whether greedy decoding under these settings just takes the likeliest token."""
    return all(
        name in HARMLESS or value in (None, False, 1, 1.0, 0, []) for name, value in config.to_diff_dict().items()
    )


@contextmanager
def speaking(model: PreTrainedModel, prompt: LeafPrompt, most: int, graphs: Graphs | None = None) -> Generator[Speaker]:
    """Read prompts, and give what answers them. graphs: of this model; a single prompt is read and answered by them
    where no other thread does so."""
    if graphs is None or len(prompt.input_ids) > 1 or not graphs.decoding.acquire(blocking=False):
        from ..realizing.qwen3_vl.graph import StockSpeaker

        yield StockSpeaker(model, prompt)
        return
    try:
        yield graphs.speaker(prompt, most)
    finally:
        graphs.decoding.release()


def is_lean(model: PreTrainedModel) -> bool:
    """Tell whether `greedy_steps` gives the words of the model's own `generate`."""
    return backbone_for(model).before_encoder and is_plain(model.generation_config)


def steps(
    model: PreTrainedModel, realized: Realized, most: int, graphs: Graphs | None = None
) -> Generator[DecodingStep, Tensor | None]:
    """Decode like `greedy_steps`. If that does not give the model's words, all are generated before the first step, and
    ending a row early saves nothing. graphs: as for `speaking`."""
    inputs, ends = realized.inputs, end_tokens(model)
    if is_lean(model):
        tokens, after = realized.notes["tokens"], realized.next_position
        prompt = LeafPrompt(inputs["input_ids"], tokens, inputs["position_ids"], after, inputs["attention_mask"])
        with speaking(model, prompt, most, graphs) as speaker:
            yield from greedy_steps(speaker, ends, most)
        return
    yield from generated(model, inputs, most)


def generated(model: Any, inputs: Inputs, most: int) -> Generator[DecodingStep, Any]:
    """Yield the steps of the model's own `generate`, greedy, once all of them are made."""
    import torch

    with torch.inference_mode():
        output = model.generate(
            **inputs, max_new_tokens=most, do_sample=False, return_dict_in_generate=True, output_logits=True
        )
    said = output.sequences[:, inputs["input_ids"].shape[1] :]
    for ids, logits in zip(said.unbind(1), output.logits, strict=True):
        yield DecodingStep(ids, logits.float())
