"""Answering again and again from a prompt whose picture grows: the cache of what was seen is kept.

The language model's keys and values of head and visual tokens stay in `Memory`. Every pass runs the new visual tokens
and the question through it, speaks greedily, and then forgets question and answer, because they must come after the
next look. Attention is causal, so this gives the very numbers of one long prompt with all looks in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ..backbones.qwen3_vl_encode import VisualTokens, run_language_model
from ..saying import Said, end_tokens, spoken_until
from .looks import outdated
from .prompt import Prompts, Row, leaf_row, text_row

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass
class Memory:
    """What the language model remembers of B pictures; one question or any number may be asked of it.

    cache: keys and values of the prompt up to the last visual token. there: (B, P) bool, which of its places are not
    padding and not hidden. blocks: the leaves of each look, (B, N, 3), -1 for padding. columns: their places in the
    cache. apart: whether a coarse leaf stays in sight of the looks that split it.
    """

    grid: tuple[int, int]
    apart: bool = False
    cache: Any = None
    there: Tensor | None = None
    blocks: list[Tensor] = field(default_factory=list)
    columns: list[int] = field(default_factory=list)

    @property
    def leaves(self) -> Tensor:
        """(B, V, 3): of all looks, in the order of the visual tokens."""
        return torch.cat(self.blocks, dim=1)

    def hide(self, added: Tensor) -> None:
        """What leaves (B, N, 3) show more finely is hidden from them, and from all that is read after them."""
        if self.apart or self.there is None:
            return
        columns = torch.tensor(self.columns, device=added.device)
        old = outdated(self.leaves, added)
        self.there = self.there.index_copy(1, columns, self.there[:, columns] & ~old)


@dataclass(frozen=True)
class Spoken:
    """said: the answers. leaves: (B, V, 3) of all visual tokens, -1 for padding. looked: (B, T, V) float32, attention
    of the place where each answer token was chosen over the visual tokens, mean of heads and layers. asked: (B, V) the
    same for the question's tokens, averaged. plain: (B, V) for the token that ends the picture, which has read nothing
    of the question."""

    said: Said
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
def speak(
    model: PreTrainedModel,
    memory: Memory,
    leaves: Tensor,
    tokens: VisualTokens,
    prompts: Prompts,
    *,
    most: int = 64,
    layers: Sequence[int] = (0,),
) -> Spoken:
    """Add a look to the memory, leaves (B, N, 3) and their tokens packed picture after picture; answer greedily."""
    from transformers import DynamicCache

    start = prompts.head.shape[1]
    seen = leaf_row(leaves, memory.grid, float(start), model.config.image_token_id)
    if memory.cache is None or memory.there is None:
        memory.cache = DynamicCache(config=model.config.get_text_config())
        memory.there = prompts.head.new_zeros(len(prompts), 0, dtype=torch.bool)
        seen = text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0) + seen
    else:
        memory.hide(leaves)
    end = memory.there.shape[1] + seen.ids.shape[1]
    memory.blocks.append(leaves)
    memory.columns += range(end - leaves.shape[1], end)
    before, known = memory.there.sum(1), torch.cat([memory.there, seen.there], 1)
    question = text_row(prompts.tail, prompts.there, float(start + max(memory.grid)))
    row = seen + question
    output = run_language_model(
        model,
        row.ids,
        tokens,
        row.positions(before),
        torch.cat([memory.there, row.there], 1).long(),
        past_key_values=memory.cache,
        use_cache=True,
        output_hidden_states=True,
    )
    said, states = _decode(model, memory.cache, output, row, known, prompts, most, layers)
    columns = torch.tensor(memory.columns, device=leaves.device)
    valid = torch.cat([known, prompts.there, said.spoken[:, :-1]], 1)
    # The first answer token was chosen at the last token of the question, each further one at the one before it.
    last = end + prompts.there.sum(1, keepdim=True) - 1
    steps = end + prompts.there.shape[1] + torch.arange(said.ids.shape[1] - 1, device=last.device)
    at = torch.cat([last, steps.expand(len(last), -1)], 1)
    first = question.places.gather(2, (last - end).expand(3, -1, -1))
    places = torch.cat([first, first + 1 + torch.arange(at.shape[1] - 1, device=last.device)], 2)
    looked = _attention(model, memory.cache, states["answer"], places, at, valid, columns)
    at = end + torch.arange(prompts.there.shape[1], device=last.device).expand_as(prompts.there)
    asking = _attention(model, memory.cache, states["question"], question.places, at, valid, columns)
    weight = prompts.there.float()[..., None]
    asked = (asking * weight).sum(1) / weight.sum(1)
    memory.there = known
    memory.cache.crop(end - memory.cache.get_seq_length())  # negative: so many tokens fewer
    return Spoken(said, memory.leaves, looked * said.spoken[..., None], asked, asking[:, 0])


def _decode(
    model: PreTrainedModel,
    cache: Any,
    output: Any,
    row: Row,
    known: Tensor,
    prompts: Prompts,
    most: int,
    layers: Sequence[int],
) -> tuple[Said, dict[str, dict[int, Tensor]]]:
    """Greedy decoding after the prompt; also the states that enter the chosen layers, of question and answer."""
    length = prompts.there.shape[1]
    last = prompts.there.sum(1) - 1
    rows = torch.arange(len(last), device=last.device)
    hidden = output.last_hidden_state[:, -length:][rows, last][:, None]
    question = {layer: output.hidden_states[layer][:, -length:] for layer in layers}
    answer = {layer: [state[rows, last]] for layer, state in question.items()}
    mask = torch.cat([known, prompts.there], 1).long()
    place = torch.stack([mask.sum(1).float(), *(row.places[:, :, -length:][:, rows, last] + 1)])[..., None]
    ends = end_tokens(model)
    ending = torch.tensor(ends, device=mask.device)
    over = torch.zeros(len(mask), dtype=torch.bool, device=mask.device)
    ids: list[Tensor] = []
    logits: list[Tensor] = []
    for step in range(most):
        logits.append(_logits(model, hidden)[:, 0])
        ids.append(logits[-1].argmax(-1))
        over = over | torch.isin(ids[-1], ending)
        if step + 1 == most or bool(over.all()):
            break
        mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
        output = model.model.language_model(
            inputs_embeds=model.get_input_embeddings()(ids[-1][:, None]),
            attention_mask=mask,
            position_ids=place + step,
            past_key_values=cache,
            use_cache=True,
            output_hidden_states=True,
        )
        hidden = output.last_hidden_state
        for layer, states in answer.items():
            states.append(output.hidden_states[layer][:, 0])
    said = torch.stack(ids, dim=1)
    spoken = Said(said, torch.stack(logits, dim=1), spoken_until(said, ends))
    return spoken, {"question": question, "answer": {layer: torch.stack(item, 1) for layer, item in answer.items()}}


def _logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """In full precision, also where a caller lets the rest run in half: when to stop hangs on them."""
    with torch.autocast(hidden.device.type, enabled=False):
        return model.lm_head(hidden.to(model.lm_head.weight.dtype)).float()


def _attention(
    model: PreTrainedModel,
    cache: Any,
    states: dict[int, Tensor],
    places: Tensor,
    at: Tensor,
    valid: Tensor,
    columns: Tensor,
) -> Tensor:
    """(B, A, V) float32: attention over the visual columns, mean of heads and layers.

    states: (B, A, D) of the askers before each layer; places: (3, B, A) their positions; at: (B, A) their columns in
    the cache; valid: (B, L) columns that are not padding. The keys are those in the cache.
    """
    language = model.model.language_model
    rotate = import_module(type(language).__module__).apply_rotary_pos_emb
    total = None
    for number, state in states.items():
        layer = language.layers[number]
        attend = layer.self_attn
        cos, sin = language.rotary_emb(state, places)
        shape = (*state.shape[:2], -1, attend.head_dim)
        query = attend.q_norm(attend.q_proj(layer.input_layernorm(state)).view(shape)).transpose(1, 2)
        query, _ = rotate(query, query, cos, sin)
        key = cache.layers[number].keys.repeat_interleave(attend.num_key_value_groups, dim=1)
        scores = (query @ key.transpose(2, 3).to(query.dtype)).float() * attend.scaling
        later = torch.arange(key.shape[2], device=at.device) > at[..., None]
        hidden = later | ~torch.nn.functional.pad(valid, (0, key.shape[2] - valid.shape[1]), value=True)[:, None]
        weights = scores.masked_fill(hidden[:, None], float("-inf")).softmax(-1)[..., columns].mean(1)
        total = weights if total is None else total + weights
    assert total is not None
    return total / len(states)
