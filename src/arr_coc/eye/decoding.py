"""Greedy decoding, step by step, and how sure a model is of what it generated.

`greedy_steps` is the only loop: the stock language model, its own cache, one token after the other for a whole batch.
It does what `generate` does with the same settings, without what `generate` must do to serve all others. `Eye`, `Esper`
and the benches prefill in their own ways and share it. `Generated` is the result, from whichever loop: `ask`,
calibration and the bench read the same confidence off it.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..models.base import Realized, backbone_for
from ..models.qwen3_vl.encode import VisualTokens, run_language_model
from ..models.qwen3_vl.graph import Graphs, padded_length

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

# The longest answer, in tokens, unless a caller wants another.
LONGEST_ANSWER = 64
# Settings that leave greedy decoding as it is; any other would change the words.
HARMLESS = {"bos_token_id", "eos_token_id", "pad_token_id", "use_cache", "transformers_version", "max_length"}
HARMLESS |= {"do_sample", "temperature", "top_k", "top_p", "max_new_tokens", "output_attentions"}
HARMLESS |= {"output_hidden_states", "_from_model_config"}


@dataclass(frozen=True)
class Generated:
    """ids: (B, T) int64. logits: (B, T, vocabulary) float32, of which each was the greatest. within: (B, T) bool: the
    tokens of each answer, the one that ends it included; what follows it is padding."""

    ids: Tensor
    logits: Tensor
    within: Tensor

    def log_probabilities(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B, T) float32: log-probability of every token, 0 behind the end."""
        logs = (self.logits / temperature).log_softmax(-1).gather(-1, self.ids[..., None])[..., 0]
        return logs.masked_fill(~self.within, 0)

    def confidence(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) in [0, 1]: the probability that the model gives to this very text."""
        return self.log_probabilities(temperature).sum(1).exp().clamp(0, 1)

    def entropy(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) nats: how spread the choice was, mean over the answer's tokens."""
        logs = (self.logits / temperature).log_softmax(-1)
        spread = -(logs.exp() * logs).sum(-1).masked_fill(~self.within, 0)
        return spread.sum(1) / self.within.sum(1).clamp_min(1)

    def margin(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) in [0, 1]: how far the best was ahead of the second best, where it was least."""
        best = (self.logits / temperature).softmax(-1).topk(2, dim=-1).values
        return (best[..., 0] - best[..., 1]).masked_fill(~self.within, 1).amin(1)

    @classmethod
    def of_steps(cls, steps: Iterable[tuple[Tensor, Tensor]], ends: Sequence[int]) -> Generated:
        """All steps of a loop, run to its end."""
        ids, logits = (torch.stack(part, dim=1) for part in zip(*steps, strict=True))
        return cls(ids, logits, until_end(ids, ends))

    @classmethod
    def of_generate(cls, output: Any, length: int, ends: Sequence[int]) -> Generated:
        """From `generate(…, return_dict_in_generate=True, output_logits=True)`; length: tokens of the prompt."""
        ids = output.sequences[:, length:]
        return cls(ids, torch.stack(output.logits, dim=1).float(), until_end(ids, ends))


class DecodingStep(NamedTuple):
    """One token of every row. ids: (B,) int64. logits: (B, vocabulary) float32, of which each is the greatest."""

    ids: Tensor
    logits: Tensor


class Sureness:
    """What `Generated` tells of all steps at once, kept while they are made: no logits are held.

    within, as in `Generated`: a row's tokens count up to the one that ends it, or until its consumer ends it."""

    def __init__(self, rows: int, temperature: float = 1.0, device: Any = None) -> None:
        self.temperature = temperature
        self.logs, self.spread, self.count = torch.zeros(3, rows, device=device)
        self.least = torch.ones(rows, device=device)

    def add(self, ids: Tensor, logits: Tensor, within: Tensor | None = None) -> None:
        """One step. ids, within: (B,). logits: (B, vocabulary)."""
        within = torch.ones_like(ids, dtype=torch.bool) if within is None else within
        said = Generated(ids[:, None], logits[:, None], within[:, None])
        self.logs = self.logs + said.log_probabilities(self.temperature)[:, 0]
        self.spread = self.spread + said.entropy(self.temperature)
        self.least = self.least.minimum(said.margin(self.temperature))
        self.count = self.count + within

    def row(self, number: int) -> dict[str, float]:
        """confidence, entropy and margin of one row, as in `Generated`."""
        confidence = float(self.logs[number].exp().clamp(0, 1))
        spread = float(self.spread[number] / self.count[number].clamp_min(1))
        return {"confidence": confidence, "entropy": spread, "margin": float(self.least[number])}


class Spelling:
    """The text of one answer while its tokens arrive, trimmed; `add` and `rest` give what is new.

    stop: texts that end the answer and are no part of it. ended: by a token of `ends` or by a stop."""

    def __init__(self, tokenizer: Any, ends: Sequence[int], stop: Sequence[str] = ()) -> None:
        self.tokenizer, self.ends, self.stop = tokenizer, frozenset(ends), tuple(stop)
        self.ids: list[int] = []
        self.text, self.ended = "", False

    def add(self, token: int) -> str:
        """What can no longer change: not half a character, not a space that may be the last, not half a stop."""
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
        """What was held back, once nothing follows."""
        whole = self._whole()
        cut = min((place for stop in self.stop if (place := whole.find(stop)) >= 0), default=len(whole))
        return self._new(whole[:cut].rstrip())

    def _whole(self) -> str:
        return self.tokenizer.decode(self.ids, skip_special_tokens=True).lstrip()

    def _new(self, text: str) -> str:
        piece, self.text = text[len(self.text) :], max(self.text, text, key=len)
        return piece


@dataclass(frozen=True)
class Prefilled:
    """A prompt that the language model has read.

    cache: its keys and values. hidden: (B, 1, D), the last layer at the last token of each row. mask: (B, L) over the
    columns of the cache, 0 for padding; None where there is none. positions: (4, B, 1) or (B, 1), of the first token
    of the answer.
    """

    cache: Any
    hidden: Tensor
    mask: Tensor | None
    positions: Tensor


def until_end(ids: Tensor, ends: Sequence[int]) -> Tensor:
    """(B, T) bool: every token up to the first of `ends`, that one included."""
    ended = torch.isin(ids, torch.tensor(ends, dtype=torch.int64, device=ids.device)).cumsum(1)
    return torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1) == 0


def end_tokens(model: PreTrainedModel) -> list[int]:
    """The tokens that end an answer."""
    config: Any = model.generation_config
    ends = config.eos_token_id
    if ends is None:
        ends = getattr(model.config.get_text_config(), "eos_token_id", None)
    if ends is None:
        return []
    return list(ends) if isinstance(ends, Sequence) else [int(ends)]


def is_plain(config: GenerationConfig) -> bool:
    """Is greedy decoding under these settings nothing but taking the likeliest token?"""
    return all(
        name in HARMLESS or value in (None, False, 1, 1.0, 0, []) for name, value in config.to_diff_dict().items()
    )


def token_logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """(B, 1, D) → (B, vocabulary) float32, also where a caller lets everything else run in half precision: confidence
    hangs on them."""
    with torch.autocast(hidden.device.type, enabled=False):
        return model.lm_head(hidden.to(model.lm_head.weight.dtype)).float()[:, 0]


@torch.no_grad()
def greedy_steps(
    model: PreTrainedModel, prefilled: Prefilled, most: int = LONGEST_ANSWER, check_every: int = 1
) -> Generator[DecodingStep, Tensor | None]:
    """The likeliest token of every row, one step after the other, until all rows have ended or `most` steps are made.

    A consumer may `send` (B,) bool: rows that it wants no more of. check_every: whether all have ended is asked only
    every so many steps, because a GPU has to be waited for to tell; what follows the end of a row is padding.
    """
    language, embed = model.model.language_model, model.get_input_embeddings()
    mask, hidden = prefilled.mask, prefilled.hidden
    ending = torch.tensor(end_tokens(model), dtype=torch.int64, device=hidden.device)
    over = torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device)
    for number in range(most):
        logits = token_logits(model, hidden)
        ids = logits.argmax(-1)
        dropped = yield DecodingStep(ids, logits)
        over = over | torch.isin(ids, ending)
        if dropped is not None:
            over = over | dropped
        if number + 1 == most or ((number + 1) % check_every == 0 and bool(over.all())):
            return
        if mask is not None:
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        output = language(
            inputs_embeds=embed(ids[:, None]),
            attention_mask=mask,
            position_ids=prefilled.positions + number,
            past_key_values=prefilled.cache,
            use_cache=True,
        )
        hidden = output.last_hidden_state


@torch.no_grad()
def prefill(
    model: PreTrainedModel,
    input_ids: Tensor,
    tokens: VisualTokens,
    position_ids: Tensor,
    next_position: Tensor,
    attention_mask: Tensor | None = None,
) -> Prefilled:
    """Read prompts with one placeholder per visual token.

    input_ids, attention_mask: (B, L), padded on the left. position_ids: (4, B, L) and next_position: (B,), from
    `leaf_positions`.
    """
    from transformers import DynamicCache

    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    cache = DynamicCache(config=model.config.get_text_config())
    output = run_language_model(model, input_ids, tokens, position_ids, mask, past_key_values=cache, use_cache=True)
    # Row 0 counts tokens, the other three say where they are.
    positions = torch.stack([mask.sum(1).to(next_position), *[next_position] * 3])[..., None]
    # Where no row is padded, a single new token sees all there is: nothing needs to be masked while decoding.
    return Prefilled(cache, output.last_hidden_state[:, -1:], None if bool(mask.all()) else mask, positions)


@torch.inference_mode()
def generate_greedily(
    model: PreTrainedModel,
    input_ids: Tensor,
    tokens: VisualTokens,
    position_ids: Tensor,
    next_position: Tensor,
    attention_mask: Tensor | None = None,
    most: int = LONGEST_ANSWER,
    graphs: Graphs | None = None,
) -> Generated:
    """The greedy answers to prompts as in `prefill`. most: the longest answer, in tokens. graphs: of this model; with
    them a single prompt is read and answered by captured graphs, the words are the same."""
    if graphs is not None and len(input_ids) == 1:
        decoder = graphs.decoder(padded_length(input_ids.shape[1]) + most)
        prompt = (input_ids, tokens, position_ids, next_position)
        return Generated.of_steps(decoder.steps(*prompt, most, end_tokens(model)), end_tokens(model))
    prefilled = prefill(model, input_ids, tokens, position_ids, next_position, attention_mask)
    return Generated.of_steps(greedy_steps(model, prefilled, most), end_tokens(model))


def is_lean(model: PreTrainedModel) -> bool:
    """Does `greedy_steps` give the words of the model's own `generate`?"""
    return backbone_for(model).before_encoder and is_plain(model.generation_config)


def lean_prompt(realized: Realized) -> tuple[Any, ...]:
    """What `prefill` reads."""
    inputs = realized.inputs
    assert realized.next_position is not None
    prompt = (inputs["input_ids"], realized.notes["tokens"], inputs["position_ids"], realized.next_position)
    return (*prompt, inputs["attention_mask"])


def generate(model: PreTrainedModel, realized: Realized, most: int, graphs: Graphs | None = None) -> Generated:
    """The greedy answer and the logits it came from; by the lean loop where that gives the same words."""
    if is_lean(model):
        return generate_greedily(model, *lean_prompt(realized), most, graphs)
    how: dict[str, Any] = {"max_new_tokens": most, "do_sample": False, "output_logits": True}
    with torch.inference_mode():
        speak: Any = model.generate
        output = speak(**realized.inputs, **how, return_dict_in_generate=True)
    return Generated.of_generate(output, realized.inputs["input_ids"].shape[1], end_tokens(model))


def steps(model: PreTrainedModel, realized: Realized, most: int) -> Generator[DecodingStep, Tensor | None]:
    """As `greedy_steps`; where that does not give the model's words, all is said before the first step, and to end a
    row saves nothing."""
    if is_lean(model):
        yield from greedy_steps(model, prefill(model, *lean_prompt(realized)), most)
        return
    said = generate(model, realized, most)
    for ids, logits in zip(said.ids.unbind(1), said.logits.unbind(1), strict=True):
        yield DecodingStep(ids, logits)
