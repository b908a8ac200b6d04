"""Answering again and again from a prompt whose picture grows: the cache of what was seen is kept.

The language model's keys and values of head and visual tokens stay in `Memory`. Every pass runs the new visual tokens
and the question through it, answers greedily, and then forgets question and answer, because they must come after the
next look. Attention is causal, so this gives the very numbers of one long prompt with all looks in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..models.attention_reader import reading_attention
from ..models.qwen3_vl.encode import VisualTokens, run_language_model
from .decoding import Generated, Prefilled, StockSpeaker, end_tokens, greedy_steps
from .pass_prompt import Prompts, leaf_row, text_row

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class Memory:
    """What the language model remembers of B pictures; one question or any number may be asked of it.

    cache: keys and values of the prompt up to the last visual token. there: (B, P) bool, which of its places are not
    padding. blocks: the leaves of each look, (B, N, 3), -1 for padding. columns: their places in the cache.
    """

    grid: tuple[int, int]
    cache: Any = None
    there: Tensor | None = None
    blocks: list[Tensor] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)

    @property
    def leaves(self) -> Tensor:
        """(B, V, 3): of all looks, in the order of the visual tokens."""
        return torch.cat(self.blocks, dim=1)


@dataclass(frozen=True)
class LookAnswer:
    """generated: the answers. leaves: (B, V, 3) of all visual tokens, -1 for padding. looked: (B, T, V) float32,
    attention of the place where each answer token was chosen over the visual tokens, mean of heads and layers. asked:
    (B, V) the same for the question's tokens, averaged. plain: (B, V) for the token that ends the picture, which has
    read nothing of the question."""

    generated: Generated
    leaves: Tensor
    looked: Tensor
    asked: Tensor
    plain: Tensor


def attention_layers(model: PreTrainedModel, share: tuple[float, float]) -> range:
    """Language layers from one share of the depth to another, at least one."""
    depth = model.config.get_text_config().num_hidden_layers
    first = min(int(depth * share[0]), depth - 1)
    return range(first, max(int(depth * share[1]), first + 1))


@torch.no_grad()
def answer_look(
    model: PreTrainedModel,
    memory: Memory,
    leaves: Tensor,
    tokens: VisualTokens,
    prompts: Prompts,
    *,
    most: int = 64,
    layers: Sequence[int] = (0,),
) -> LookAnswer:
    """Add a look to the memory, leaves (B, N, 3) and their tokens packed picture after picture; answer greedily."""
    from transformers import DynamicCache

    start = prompts.head.shape[1]
    seen = leaf_row(leaves, memory.grid, float(start), model.config.image_token_id)
    if memory.cache is None or memory.there is None:
        memory.cache = DynamicCache(config=model.config.get_text_config())
        memory.there = prompts.head.new_zeros(len(prompts), 0, dtype=torch.bool)
        seen = text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0) + seen
    end = memory.there.shape[1] + seen.ids.shape[1]
    memory.blocks.append(leaves)
    memory.columns += range(end - leaves.shape[1], end)
    before, known = memory.there.sum(1), torch.cat([memory.there, seen.there], 1)
    row = seen + text_row(prompts.tail, prompts.there, float(start + max(memory.grid)))
    length, last = prompts.there.shape[1], prompts.there.sum(1) - 1
    rows = torch.arange(len(last), device=last.device)
    with reading_attention(model, torch.tensor(memory.columns, device=leaves.device), layers) as record:
        record.queries = torch.arange(row.ids.shape[1] - length, row.ids.shape[1], device=last.device).expand(
            len(last), -1
        )
        mask = torch.cat([memory.there, row.there], 1).long()
        arguments: dict[str, Any] = {"past_key_values": memory.cache, "use_cache": True}
        output = run_language_model(model, row.ids, tokens, row.positions(before), mask, **arguments)
        record.queries = None
        hidden = output.last_hidden_state[:, -length:][rows, last][:, None]
        places = row.places[:, :, -length:][:, rows, last] + 1
        positions = torch.stack([mask.sum(1).to(places), *places])[..., None]
        speaker = StockSpeaker(model, Prefilled(memory.cache, hidden, mask, positions))
        generated = Generated.of_steps(greedy_steps(speaker, end_tokens(model), most), end_tokens(model))
    attention = record.weights().mean((1, 2))  # (B, question and answer, V)
    asking, answering = attention[:, :length], attention[:, length:]
    # The first answer token was chosen at the last token of the question, each further one at the one before it.
    looked = torch.cat([asking[rows, last][:, None], answering], 1)
    weight = prompts.there.float()[..., None]
    asked = (asking * weight).sum(1) / weight.sum(1)
    memory.there = known
    memory.cache.crop(end - memory.cache.get_seq_length())  # negative: so many tokens fewer
    return LookAnswer(generated, memory.leaves, looked * generated.within[..., None], asked, asking[:, 0])
