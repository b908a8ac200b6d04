"""`mini`'s forward pass with hooks to read attention and to drop tokens, shared by every way of reducing tokens.

It uses the stock model's parameters unchanged; a test holds the states equal to the stock class's. All pictures of a
batch have the same number of visual tokens. A token left after drops and merges keeps its true position (M-RoPE)
and its DeepStack planes.

Ways decide from picture and question only: `PeerScene.prompt` marks the tokens they may look at.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.realizing.patches import PatchPyramid, gather_leaf_patches, mip_pyramid
from arr_coc.realizing.positions import language_positions
from arr_coc.realizing.qwen3_vl.encode import PatchPlaces

from ...classic.walks import LanguageWalk, TowerWalk, own_attention
from ...train.mini_model import HEAD, TURN_LENGTH, VISION_END, chat_tail
from ...train.swift import pair
from ...worlds.needle.batch import NeedleBatch
from .maths import bipartite, gather, pool

CELL, LEVELS, BEFORE = 32, 3, len(HEAD)
Made = TypeVar("Made")


@dataclass
class Visual:
    """Visual tokens of B pictures. embeds: (B, N, D). planes: DeepStack's, each (B, N, D). places: (B, N, 2), row and
    column on the level-0 grid, fractional if a token represents several cells."""

    embeds: Tensor
    planes: list[Tensor]
    places: Tensor

    def __len__(self) -> int:
        return self.embeds.shape[1]

    def map(self, change: Callable[[Tensor], Tensor]) -> Visual:
        return Visual(change(self.embeds), [change(plane) for plane in self.planes], change(self.places))

    def take(self, index: Tensor) -> Visual:
        """Return the tokens of an index (B, K), in raster order."""
        return self.map(partial(gather, index=index.sort(1).values))

    def pool(self, slot: Tensor, count: int, weight: Tensor | None = None) -> Visual:
        """Merge tokens by slot (B, N), the output token of each, into (weighted) means."""
        return self.map(partial(pool, slot=slot, count=count, weight=weight))

    def at(self, places: Tensor) -> Visual:
        return Visual(self.embeds, self.planes, places)

    def beside(self, other: Visual) -> Visual:
        """Join the tokens of both, in raster order of their places."""
        places = torch.cat([self.places, other.places], 1)
        order = (places[..., 0] * 4096 + places[..., 1]).argsort(dim=1, stable=True)
        planes = [torch.cat(two, 1) for two in zip(self.planes, other.planes, strict=True)]
        both = Visual(torch.cat([self.embeds, other.embeds], 1), planes, places)
        return both.map(partial(gather, index=order))


class PeerScene:
    """A batch of pictures with their questions, and shared intermediate results, computed once.

    seed: of everything random about these pictures, so that a way's result does not depend on which others ran before.
    answers: False makes the prompt alone, without answers.
    """

    def __init__(self, batch: NeedleBatch, dtype: torch.dtype, seed: int = 0, answers: bool = True) -> None:
        self.batch, self.dtype, self.seed = batch, dtype, seed
        self.grid = batch.pictures.shape[2] // CELL, batch.pictures.shape[3] // CELL
        self.tails, self.said = chat_tail(batch.question_ids, batch.answer_ids)
        length = (batch.question_ids > 0).sum(1)
        if not answers:
            self.tails = self.tails[:, : int(length.max()) + TURN_LENGTH]
        place = torch.arange(self.tails.shape[1], device=self.tails.device)
        self.asked = place < length[:, None]  # (B, T): the question's characters
        self.last = length + TURN_LENGTH - 1  # (B,): the token after which the answer begins
        self.prompt = place <= self.last[:, None]
        self._made: dict[Hashable, Any] = {}

    def __len__(self) -> int:
        return len(self.batch)

    @property
    def device(self) -> torch.device:
        return self.tails.device

    @property
    def full(self) -> int:
        return self.grid[0] * self.grid[1]

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        if name not in self._made:
            self._made[name] = make()
        return self._made[name]

    def pyramid(self) -> PatchPyramid:
        def make() -> PatchPyramid:
            pixels = self.batch.pictures.to(torch.float32).div_(127.5).sub_(1).to(self.dtype)
            return mip_pyramid(pixels, LEVELS + 1, cell=CELL, patch_size=CELL // 2)

        return self.once("pyramid", make)

    def level(self, level: int) -> Tensor:
        """Return the whole picture in leaves of one level, (B, N, 3)."""
        rows, cols = (side >> level for side in self.grid)
        cell = torch.arange(rows * cols, device=self.device)
        leaves = torch.stack([cell // cols << level, cell % cols << level, torch.full_like(cell, level)], -1)
        return leaves.expand(len(self), -1, -1)

    def generator(self, purpose: int) -> torch.Generator:
        """Return a generator on the CPU, so that every device draws the same."""
        return torch.Generator().manual_seed(self.seed * 1009 + purpose)

    def last_row(self) -> tuple[Tensor, Tensor]:
        """Return the prompt's last token as (rows (B, 1), weights (B, 1)) for `Flow.attention`."""
        return self.last[:, None], torch.ones_like(self.last[:, None], dtype=torch.float32)


def rows_of(mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the places (B, R) of the true values of (B, T) over the tail, padded, and their weights (B, R)."""
    most = int(mask.sum(1).max())
    order = mask.to(torch.uint8).argsort(dim=1, descending=True, stable=True)[:, :most]
    return order, mask.gather(1, order).float()


class Inside:
    """Hooks of a way while the language model reads."""

    def before(self, index: int, flow: Flow) -> None:
        """Run at the input of layer `index`."""

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        """Run after it, with the DeepStack plane added. query, key: of the layer, (B, heads, L, d), before any drop."""


@dataclass
class PrunedInput:
    """The input of the language model."""

    visual: Visual
    inside: Inside | None = None


class Flow(LanguageWalk):
    """The language model between two layers. planes: (B, N, D), of the visual tokens left.

    query, key: of the last layer, (B, heads, L, d), before any drop."""

    def __init__(self, language: Any, given: PrunedInput, scene: PeerScene) -> None:
        self.scene, self.inside = scene, given.inside or Inside()
        self.counts: list[int] = []
        self.query = self.key = torch.empty(0)
        visual, table = given.visual, language.embed_tokens.weight
        batch, device = len(scene), scene.device
        head = torch.stack([table[token] for token in HEAD]).expand(batch, -1, -1)
        text = F.embedding(scene.tails, table)
        end = table[VISION_END].expand(batch, 1, -1)
        hidden = torch.cat([head, visual.embeds.to(table.dtype), end, text], 1)
        planes, self.count = [plane.to(table.dtype) for plane in visual.planes], len(visual)
        start = torch.arange(BEFORE, device=device).float().expand(3, batch, -1)
        seen = F.pad(visual.places.float(), (1, 0)).permute(2, 0, 1) + BEFORE  # one time in a picture
        follow = BEFORE + max(scene.grid) + torch.arange(1 + scene.tails.shape[1], device=device).float()
        positions = torch.cat([start, seen, follow.expand(3, batch, -1)], 2)
        super().__init__(language, hidden, positions, planes, flow=self)

    def attend(self, module: Any, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Run the attention of a layer, and keep its query and key."""
        key, value = (part.repeat_interleave(module.num_key_value_groups, 1) for part in (key, value))
        self.query, self.key = query, key
        return F.scaled_dot_product_attention(query, key, value, is_causal=True)

    def before(self, number: int) -> None:
        self.inside.before(number, self)
        self.counts.append(self.count)

    def inject(self, number: int) -> None:
        behind = self.hidden.shape[1] - BEFORE - self.count
        self.hidden = self.hidden + F.pad(self.planes[number], (0, 0, BEFORE, behind))

    def after(self, number: int) -> None:
        self.inside.after(number, self, self.query, self.key)

    @property
    def seen(self) -> slice:
        return slice(BEFORE, BEFORE + self.count)

    @property
    def tail(self) -> int:
        """Return the position of the tail's first token."""
        return BEFORE + self.count + 1

    def visual(self) -> Visual:
        """Return the current visual tokens; places (B, N, 3), time first."""
        return Visual(self.hidden[:, self.seen], self.planes, self.positions[:, :, self.seen].permute(1, 2, 0))

    def exchange(self, visual: Visual) -> None:
        """Replace the visual tokens."""
        old = self.seen
        hidden = torch.cat([self.hidden[:, : old.start], visual.embeds, self.hidden[:, old.stop :]], 1)
        parts = self.positions[:, :, : old.start], visual.places.permute(2, 0, 1), self.positions[:, :, old.stop :]
        self.planes, self.count = visual.planes, len(visual)
        self.place(hidden, torch.cat(parts, 2))

    def keep(self, index: Tensor) -> None:
        """Keep the visual tokens of an index (B, K) at their places; drop the others."""
        if index.shape[1] < self.count:
            self.exchange(self.visual().take(index))

    def project(self, layer: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Return query, key, value (B, heads, L, d) of the current states in a layer that has not run yet."""
        from transformers.models.qwen3_vl.modeling_qwen3_vl import apply_rotary_pos_emb

        attention, normed = layer.self_attn, layer.input_layernorm(self.hidden)
        query, key, value = (
            part(normed).unflatten(-1, (-1, attention.head_dim))
            for part in (attention.q_proj, attention.k_proj, attention.v_proj)
        )
        query, key = (one.transpose(1, 2) for one in (attention.q_norm(query), attention.k_norm(key)))
        query, key = apply_rotary_pos_emb(query, key, *self.turn)
        groups = attention.num_key_value_groups
        return query, key.repeat_interleave(groups, 1), value.transpose(1, 2).repeat_interleave(groups, 1)

    def attention(self, query: Tensor, key: Tensor, rows: Tensor, weight: Tensor) -> Tensor:
        """Return the attention of tokens to the visual ones, (B, N) float32, mean over heads and (weighted) tokens.

        rows: (B, R) places in the tail. weight: (B, R).
        """
        shares = self.attention_by_head(query, key, rows).mean(1)
        return (shares * weight[..., None]).sum(1) / weight.sum(1, keepdim=True).clamp_min(1)

    def attention_by_head(self, query: Tensor, key: Tensor, rows: Tensor) -> Tensor:
        """Return attention (B, heads, R, N) float32. The softmax runs over everything that a token may see."""
        rows = rows + self.tail
        query = query.gather(2, rows[:, None, :, None].expand(-1, query.shape[1], -1, query.shape[3]))
        scores = (query @ key.transpose(2, 3)).float() * key.shape[-1] ** -0.5
        later = torch.arange(key.shape[2], device=key.device) > rows[..., None]  # (B, R, L)
        return scores.masked_fill(later[:, None], float("-inf")).softmax(-1)[..., self.seen]


def flow_attention(
    module: object, query: Tensor, key: Tensor, value: Tensor, *_: object, flow: Flow, **__: object
) -> object:
    """Call `Flow.attend` with the signature of transformers."""
    return flow.attend(module, query, key, value).transpose(1, 2), None


def merging_attention(
    module: object, query: Tensor, key: Tensor, value: Tensor, *_: object, walk: MergingWalk, **__: object
) -> object:
    """Call `MergingWalk.attend` with the signature of transformers."""
    return walk.attend(query, key, value), None


class MergingWalk(TowerWalk):
    """The tower on B pictures of M leaves, which blocks may merge (ToMe), with the values of its last block.

    merges: number of tokens that each block merges away. query, key: (B, heads, 4·M, d), with rotary embedding. plain:
    (B, 4·M, heads, d), the key without it.
    """

    halves = True

    def __init__(self, mini: PrunableMini, scene: PeerScene, leaves: Tensor, merges: Sequence[int] = ()) -> None:
        tower, self.batch, self.merges = mini.core.visual, len(scene), merges
        grid = pair(*scene.grid, scene.device)
        places = PatchPlaces.of(tower, leaves, grid)
        pixels = gather_leaf_patches(scene.pyramid(), leaves, merge=2, temporal=tower.config.temporal_patch_size)
        super().__init__(tower, pixels, places, [len(pixels)], walk=self)
        self.positions = places.positions.view(self.batch, -1, 2)
        self.places = language_positions(leaves, grid)[1:].permute(1, 2, 0)
        self.mass = torch.ones(leaves.shape[:2], device=scene.device)  # cells in each token
        self.planes, self.block = list[Tensor](), 0
        self.query = self.key = self.plain = self.hidden

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Attend: (1, heads, B·M, d) → (1, B·M, heads, d). A token merged of several counts as several (ToMe's
        proportional attention)."""
        self.query, self.key, value = (
            item[0].unflatten(1, (self.batch, -1)).transpose(0, 1) for item in (query, key, value)
        )
        bias = self.mass.log().repeat_interleave(4, 1)[:, None, None] if any(self.merges[: self.block]) else None
        bias = bias if bias is None else bias.to(query.dtype)
        mixed = F.scaled_dot_product_attention(self.query, self.key, value, attn_mask=bias)
        return mixed.transpose(1, 2).flatten(0, 1)[None]

    def keep_plain(self, _: object, __: object, projected: Tensor) -> None:
        """Keep the key of a block's projection, before the rotary embedding."""
        heads = self.tower.config.num_heads
        self.plain = projected.view(self.batch, -1, 3, heads, projected.shape[-1] // 3 // heads)[:, :, 1]

    def between(self, number: int, block: object) -> None:
        if not self.merges or not self.merges[number]:
            return
        width, units = self.hidden.shape[1], len(self.hidden) // self.batch // 4
        left = units - self.merges[number]
        slot = bipartite(self.plain.mean(2).reshape(self.batch, units, -1).float(), self.merges[number])
        mean = partial(pool, slot=slot, count=left, weight=self.mass)
        self.hidden = mean(self.hidden.reshape(self.batch, units, -1)).view(-1, width)
        self.positions = mean(self.positions.reshape(self.batch, units, -1)).view(self.batch, 4 * left, 2)
        self.places, self.planes = mean(self.places), [mean(plane) for plane in self.planes]
        self.mass = torch.zeros(self.batch, left, device=slot.device).scatter_add(1, slot, self.mass)
        self.lengths = [len(self.hidden)]
        self.turn = self.tower.rotary_pos_emb(self.hidden, self.positions.view(-1, 2))

    def after(self, number: int) -> bool:
        self.block = number + 1
        return False

    def plane(self, made: Tensor) -> Tensor:
        self.planes.append(made.unflatten(0, (self.batch, -1)))
        return made

    def seen(self) -> Visual:
        """Run the tower."""
        handles = [block.attn.qkv.register_forward_hook(self.keep_plain) for block in self.tower.blocks]
        try:
            with own_attention(self.tower, "arr_coc_merging", merging_attention):
                embeds = self.run().embeds.unflatten(0, (self.batch, -1))
        finally:
            for handle in handles:
                handle.remove()
        return Visual(embeds, self.planes, self.places)


@dataclass(frozen=True)
class Recorded:
    """The values of the tower's last block for all tokens. visual: its result. query, key: (B, heads, 4·N, d), with
    rotary embedding. metric: (B, N, 4·d) float32, the keys without it, mean over heads, four patches to a token."""

    visual: Visual
    query: Tensor
    key: Tensor
    metric: Tensor


class PrunableMini:
    """The frozen model, and the scorer whose map ours use. scorer: anything with `score(pictures, question_ids)`."""

    def __init__(self, model: Any, scorer: Any = None) -> None:
        self.model, self.core, self.scorer = model, model.model, scorer

    @property
    def dtype(self) -> torch.dtype:
        return self.core.visual.patch_embed.proj.weight.dtype

    @property
    def depth(self) -> int:
        return len(self.core.language_model.layers)

    def tower(self, scene: PeerScene, leaves: Tensor, merges: Sequence[int] = ()) -> Visual:
        """Run the vision tower on leaves (B, N, 3). merges: number of tokens that each block merges away (ToMe)."""
        return MergingWalk(self, scene, leaves, merges).seen()

    def full(self, scene: PeerScene) -> Visual:
        """Encode all tokens at level 0, once for all ways that reduce afterwards."""
        return self.recorded(scene).visual

    def recorded(self, scene: PeerScene) -> Recorded:
        def make() -> Recorded:
            walk = MergingWalk(self, scene, scene.level(0))
            visual = walk.seen()
            metric = walk.plain.mean(2).reshape(len(scene), scene.full, -1).float()
            return Recorded(visual, walk.query, walk.key, metric)

        return scene.once("recorded", make)

    def received(self, scene: PeerScene, at_once: int = 32) -> Tensor:
        """Return the attention that each token's patches receive in the tower's last block, (B, N) float32, mean over
        heads and queries; it sums to one. The tower has no class token whose attention could be used instead."""

        def make() -> Tensor:
            last, parts = self.recorded(scene), []
            for query, key in zip(last.query.split(at_once), last.key.split(at_once), strict=True):
                scores = (query @ key.transpose(2, 3)).float() * key.shape[-1] ** -0.5
                parts.append(scores.softmax(-1).mean((1, 2)))
            return torch.cat(parts).view(len(scene), -1, 4).sum(2)

        return scene.once("received", make)

    def relevance(self, scene: PeerScene) -> Tensor:
        """Return the scorer's map, (B, rows, cols) in [0, 1]."""

        def make() -> Tensor:
            with torch.autocast(scene.device.type, torch.bfloat16, enabled=scene.device.type == "cuda"):
                return self.scorer.score(scene.batch.pictures, scene.batch.question_ids).float()

        return scene.once("relevance", make)

    def language(self, scene: PeerScene, given: PrunedInput) -> tuple[Tensor, list[int]]:
        """Return the last states of the tails (B, T, D), and the number of visual tokens in every layer."""
        flow = Flow(self.core.language_model, given, scene)
        with own_attention(flow.language, "arr_coc_flow", flow_attention):
            return flow.run()[:, -scene.tails.shape[1] :], flow.counts

    def right(self, scene: PeerScene, given: PrunedInput) -> tuple[Tensor, list[int]]:
        """Tell whether every character of the right answer is the likeliest one, (B,), which equals an exact match by
        greedy decoding; and return the visual tokens in every layer."""
        hidden, counts = self.language(scene, given)
        likeliest = self.model.lm_head(hidden[:, :-1]).argmax(-1)
        return ((likeliest == scene.tails[:, 1:]) | ~scene.said[:, 1:]).all(1), counts


# ---- a way of spending fewer visual tokens ---------------------------------------------------------------------------

Make = Callable[[PrunableMini, PeerScene, int], PrunedInput]
# before: the tower reads fewer tokens. tower: it merges tokens block by block. after: tokens are dropped after it.
# inside: dropped in the language model. Only the first two reduce the tower's work.
Where = Literal["before", "tower", "after", "inside"]


@dataclass(frozen=True)
class Way:
    """A way. make: (mini, scene, tokens) → the input of the language model, with that number of visual tokens in its
    last layer. more: also measure larger budgets, for the comparison at equal compute with ways that run the whole
    tower."""

    name: str
    where: Where
    make: Make
    more: bool = False
