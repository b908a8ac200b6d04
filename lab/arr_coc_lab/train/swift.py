"""`mini`'s forward pass for training: the same mathematics as the stock class, with fewer and larger operations.

The stock class serves every model and length; its many small launches leave a fast device idle for most of a small
model's step. Here all pictures of a batch have the same number of leaves and the prompt one fixed layout, so nothing
has to be looked up on the device, rotations are done in place, and projections of the same input are one product. The
parameters are the stock model's own; a test holds values and gradients equal to it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from arr_coc.models.tokens.patches import gather_leaf_patches, mip_pyramid
from arr_coc.models.tokens.positions import language_positions, position_taps, vision_positions

from .mini_model import VISION_END
from .prompts import HEAD


class Seen(NamedTuple):
    """What the tower made of B pictures of N leaves. embeds: (B, N, D). planes: DeepStack's, each (B, N, D).
    patches: (B, 4·N, D), the tower's last features before they are merged."""

    embeds: Tensor
    planes: list[Tensor]
    patches: Tensor


def together(looks: list[Seen]) -> Seen:
    """Several looks at the same pictures, one behind the other."""
    planes = [torch.cat(parts, 1) for parts in zip(*(look.planes for look in looks), strict=True)]
    return Seen(torch.cat([look.embeds for look in looks], 1), planes, torch.cat([look.patches for look in looks], 1))


class Rotate(torch.autograd.Function):
    """Rotary embedding with the angles' cosine and sine (…, half): backward is the rotation the other way."""

    @staticmethod
    def forward(ctx: Any, vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
        ctx.save_for_backward(cosine, sine)
        return _rotate(vectors, cosine, sine, 1)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        cosine, sine = ctx.saved_tensors
        return _rotate(gradients[0], cosine, sine, -1), None, None


def _rotate(vectors: Tensor, cosine: Tensor, sine: Tensor, direction: int) -> Tensor:
    turned = torch.empty(vectors.shape, dtype=vectors.dtype, device=vectors.device)
    (first, second), (left, right) = vectors.chunk(2, -1), turned.chunk(2, -1)
    torch.mul(first, cosine, out=left).addcmul_(second, sine, value=-direction)
    torch.mul(second, cosine, out=right).addcmul_(first, sine, value=direction)
    return turned


def pair(first: int, second: int, device: torch.device) -> Tensor:
    """(2,) int64 made on the device: copying it there would make the processor wait."""
    return first + torch.arange(2, device=device) * (second - first)


def cut_patches(pictures: Tensor, leaves: Tensor, levels: int, dtype: torch.dtype) -> Tensor:
    """uint8 pictures (B, 3, H, W) and leaves (B, N, 3) → (B·N·4, 768), normalised as `mini`'s processor does it."""
    pixels = pictures.to(dtype).div_(127.5).sub_(1)
    pyramid = mip_pyramid(pixels, levels, cell=32, patch_size=16)
    return gather_leaf_patches(pyramid, leaves, merge=2, temporal=1)


def run_tower(tower: Any, patches: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Seen:
    """The vision tower on the leaves (B, N, 3) of pictures of grid (rows, cols) level-0 cells."""
    batch, number = leaves.shape[:2]
    width, heads = tower.config.hidden_size, tower.config.num_heads
    dtype = tower.patch_embed.proj.weight.dtype
    positions = vision_positions(leaves, 2).view(batch, -1, 2)
    size = pair(2 * grid[0], 2 * grid[1], leaves.device)
    indices, weights = position_taps(positions.view(-1, 2), size, tower.num_grid_per_side)
    placed = (F.embedding(indices, tower.pos_embed.weight) * weights[..., None].to(dtype)).sum(1)
    projection = tower.patch_embed.proj
    hidden = F.linear(patches.to(dtype), projection.weight.view(width, -1), projection.bias) + placed
    hidden = hidden.view(batch, -1, width)
    # (B, 4·N, 2, frequencies) → (B, 4·N, 1, 1, half a head): rows first, then columns
    angles = (positions[..., None] * tower.rotary_pos_emb.inv_freq).flatten(2)[:, :, None, None]
    cosine, sine = angles.cos().to(dtype), angles.sin().to(dtype)
    planes = []
    for index, block in enumerate(tower.blocks):
        mixed = block.attn.qkv(block.norm1(hidden)).view(batch, 4 * number, 3, heads, -1)
        turned = Rotate.apply(mixed[:, :, :2], cosine, sine)
        query, key = turned.transpose(1, 3).unbind(2)
        attended = F.scaled_dot_product_attention(query, key, mixed[:, :, 2].transpose(1, 2))
        hidden = hidden + block.attn.proj(attended.transpose(1, 2).flatten(2))
        hidden = hidden + block.mlp(block.norm2(hidden))
        if index in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(index)]
            planes.append(merger(hidden.view(-1, width)).view(batch, number, -1))
    return Seen(tower.merger(hidden.view(-1, width)).view(batch, number, -1), planes, hidden)


class Thought(NamedTuple):
    """What the language model made of B pictures with K questions each. said: (B·K, T, D), its last states of question
    and answer. half_way: those half-way up; before: (B, P, D), half-way up too, of what stands before the questions."""

    said: Tensor
    half_way: Tensor
    before: Tensor


def each_question(item: Tensor, questions: int) -> Tensor:
    """(B, …) → (B·K, …): the same picture for each of its questions."""
    return item[:, None].expand(-1, questions, *item.shape[1:]).flatten(0, 1)


def run_language(core: Any, seen: Seen, tails: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Thought:
    """The language model on prompts head + picture + tail. tails: (B, K, T) tokens, K prompts for each picture.

    What stands before a question does not depend on it: it is thought through once for all K of them.
    """
    language = core.language_model
    batch, questions, length = tails.shape
    device = leaves.device
    embedding = language.embed_tokens.weight
    dtype = embedding.dtype
    head = torch.stack([embedding[token] for token in HEAD]).expand(batch, -1, -1)
    end = embedding[VISION_END].expand(batch, 1, -1)
    before = torch.cat([head, seen.embeds.to(dtype), end], 1)  # (B, P, D)
    after = F.embedding(tails.view(batch * questions, length).long(), embedding)  # (B·K, T, D)
    offsets = language_positions(leaves, pair(*grid, device)) + len(HEAD)  # (3, B, N)
    count = torch.arange(len(HEAD), device=device).float()
    follow = len(HEAD) + max(grid) + torch.arange(length + 1, device=device).float()
    positions = torch.cat([count.expand(3, batch, -1), offsets, follow[:1].expand(3, batch, -1)], 2)  # (3, B, P)
    turns = [rotation_of(language.rotary_emb, each, dtype) for each in (positions, follow[1:].expand(3, 1, -1))]
    last = len(language.layers) - 1
    half_way = before, after
    mask = causal_lower_right(length, before.shape[1] + length)
    for index, layer in enumerate(language.layers):
        joined = joined_weights(layer)
        first, second = (projected(layer, joined, *one) for one in zip((before, after), turns, strict=True))
        keys, values = (torch.cat([each_question(first[part], questions), second[part]], 2) for part in (1, 2))
        attended = F.scaled_dot_product_attention(second[0], keys, values, attn_mask=mask)
        after = after_attention(layer, joined, after, attended)
        # Nobody reads what the last layer thinks about the picture.
        if index < last:
            attended = F.scaled_dot_product_attention(*first, is_causal=True)
            before = after_attention(layer, joined, before, attended)
        if index < len(seen.planes) and index != last:
            before = before + F.pad(seen.planes[index].to(dtype), (0, 0, len(HEAD), 1))
        if index == last // 2:
            half_way = before, after
    return Thought(rms_norm(after, language.norm), half_way[1], half_way[0])


def rotation_of(rotary: Any, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Positions (3, B, L), time, row and column → cosine and sine (B, L, 1, half a head)."""
    frequencies = positions[..., None] * rotary.inv_freq
    angles = frequencies[0].clone()
    for axis, section in enumerate(rotary.mrope_section[1:], start=1):
        angles[..., axis : 3 * section : 3] = frequencies[axis, ..., axis : 3 * section : 3]
    return angles.cos().to(dtype)[:, :, None], angles.sin().to(dtype)[:, :, None]


class Joined(NamedTuple):
    """Weights of one layer that meet the same input: of queries, keys and values, and of the MLP's gate and rise."""

    mixing: Tensor
    rising: Tensor


def joined_weights(layer: Any) -> Joined:
    attention, mlp = layer.self_attn, layer.mlp
    return Joined(
        torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight]),
        torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight]),
    )


def projected(layer: Any, joined: Joined, hidden: Tensor, turn: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
    """(B, L, D) → queries, keys and values, (B, heads, L, size) each, turned to their place."""
    attention = layer.self_attn
    normed = rms_norm(hidden, layer.input_layernorm)
    query, key, value = F.linear(normed, joined.mixing).unflatten(-1, (-1, attention.head_dim)).chunk(3, 2)
    query = Rotate.apply(rms_norm(query, attention.q_norm), *turn)
    key = Rotate.apply(rms_norm(key, attention.k_norm), *turn)
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def after_attention(layer: Any, joined: Joined, hidden: Tensor, attended: Tensor) -> Tensor:
    """(B, L, D) and (B, heads, L, size) → (B, L, D): the rest of the layer."""
    hidden = hidden + layer.self_attn.o_proj(attended.transpose(1, 2).flatten(2))
    gate, up = F.linear(rms_norm(hidden, layer.post_attention_layernorm), joined.rising).chunk(2, -1)
    return hidden + layer.mlp.down_proj(F.silu(gate) * up)


def rms_norm(hidden: Tensor, norm: Any) -> Tensor:
    return F.rms_norm(hidden, (hidden.shape[-1],), norm.weight, norm.variance_epsilon)
