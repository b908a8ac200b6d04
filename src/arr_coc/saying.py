"""What a model says, greedily, and how sure it is of it.

`say` is the loop: the stock language model of a Qwen3-VL, its own cache, one character or word after the other, for a
whole batch. It does what `generate` does with the same settings, without what `generate` must do to serve all others.
`Said` is the result, from whichever loop: `ask`, calibration and the bench read the same confidence off it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .backbones.qwen3_vl_encode import VisualTokens, run_language_model

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel

# The longest answer, in tokens, unless a caller wants another.
LONGEST_ANSWER = 64
# Settings that leave greedy decoding as it is; any other would change the words.
HARMLESS = {"bos_token_id", "eos_token_id", "pad_token_id", "use_cache", "transformers_version", "max_length"}
HARMLESS |= {"do_sample", "temperature", "top_k", "top_p", "max_new_tokens", "output_attentions"}
HARMLESS |= {"output_hidden_states", "_from_model_config"}


@dataclass(frozen=True)
class Said:
    """ids: (B, T) int64. logits: (B, T, vocabulary) float32, of which each was the greatest. spoken: (B, T) bool: the
    tokens of each answer, the one that ends it included; what follows it is padding."""

    ids: Tensor
    logits: Tensor
    spoken: Tensor

    def chances(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B, T) float32: log-probability of every token, 0 behind the end."""
        logs = (self.logits / temperature).log_softmax(-1).gather(-1, self.ids[..., None])[..., 0]
        return logs.masked_fill(~self.spoken, 0)

    def confidence(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) in [0, 1]: the probability that the model gives to this very text."""
        return self.chances(temperature).sum(1).exp().clamp(0, 1)

    def entropy(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) nats: how spread the choice was, mean over the answer's tokens."""
        logs = (self.logits / temperature).log_softmax(-1)
        spread = -(logs.exp() * logs).sum(-1).masked_fill(~self.spoken, 0)
        return spread.sum(1) / self.spoken.sum(1).clamp_min(1)

    def margin(self, temperature: float | Tensor = 1.0) -> Tensor:
        """(B,) in [0, 1]: how far the best was ahead of the second best, where it was least."""
        best = (self.logits / temperature).softmax(-1).topk(2, dim=-1).values
        return (best[..., 0] - best[..., 1]).masked_fill(~self.spoken, 1).amin(1)

    @classmethod
    def of_generate(cls, output: Any, length: int, ends: Sequence[int]) -> Said:
        """From `generate(…, return_dict_in_generate=True, output_logits=True)`; length: tokens of the prompt."""
        ids = output.sequences[:, length:]
        return cls(ids, torch.stack(output.logits, dim=1).float(), spoken_until(ids, ends))


def spoken_until(ids: Tensor, ends: Sequence[int]) -> Tensor:
    """(B, T) bool: every token up to the first of `ends`, that one included."""
    ended = torch.isin(ids, torch.tensor(ends, device=ids.device)).cumsum(1)
    return torch.cat([torch.zeros_like(ended[:, :1]), ended[:, :-1]], dim=1) == 0


def end_tokens(model: PreTrainedModel) -> list[int]:
    """The tokens that end an answer."""
    config: Any = model.generation_config
    ends = config.eos_token_id if config.eos_token_id is not None else model.config.get_text_config().eos_token_id
    if ends is None:
        return []
    return list(ends) if isinstance(ends, Sequence) else [int(ends)]


def is_plain(config: GenerationConfig) -> bool:
    """Is greedy decoding under these settings nothing but taking the likeliest token?"""
    return all(
        name in HARMLESS or value in (None, False, 1, 1.0, 0, []) for name, value in config.to_diff_dict().items()
    )


def _logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """float32 logits, also where a caller lets everything else run in half precision: confidence hangs on them."""
    with torch.autocast(hidden.device.type, enabled=False):
        return model.lm_head(hidden.to(model.lm_head.weight.dtype)).float()


@torch.inference_mode()
def say(
    model: PreTrainedModel,
    input_ids: Tensor,
    tokens: VisualTokens,
    position_ids: Tensor,
    next_position: Tensor,
    attention_mask: Tensor | None = None,
    most: int = LONGEST_ANSWER,
) -> Said:
    """The greedy answers to prompts with one placeholder per visual token.

    input_ids, attention_mask: (B, L), padded on the left. position_ids: (4, B, L) and next_position: (B,), from
    `leaf_positions`. most: the longest answer, in tokens.
    """
    from transformers import DynamicCache

    language, ends = model.model.language_model, end_tokens(model)
    ending = torch.tensor(ends, device=input_ids.device)
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    cache = DynamicCache(config=model.config.get_text_config())
    output = run_language_model(model, input_ids, tokens, position_ids, mask, past_key_values=cache, use_cache=True)
    # Where no row is padded, a single new token sees all there is: nothing needs to be masked while decoding.
    padded = not bool(mask.all())
    # Row 0 counts tokens, the other three say where they are.
    place = torch.stack([mask.sum(1).to(next_position), *[next_position] * 3])[..., None]
    said, logits = [], []
    over = torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)
    hidden = output.last_hidden_state[:, -1:]
    for step in range(most):
        logits.append(_logits(model, hidden)[:, 0])
        said.append(logits[-1].argmax(-1))
        over = over | torch.isin(said[-1], ending)
        if step + 1 == most or bool(over.all()):
            break
        if padded:
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        output = language(
            inputs_embeds=model.get_input_embeddings()(said[-1][:, None]),
            attention_mask=mask if padded else None,
            position_ids=place + step,
            past_key_values=cache,
            use_cache=True,
        )
        hidden = output.last_hidden_state
    ids = torch.stack(said, dim=1)
    return Said(ids, torch.stack(logits, dim=1), spoken_until(ids, ends))
