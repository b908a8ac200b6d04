"""The one loop of passes: look, answer, look again where it pays, for a batch of pictures of one size.

`pass_loop` decides where to look and when to stop. A reader answers: `MemoryReader` encodes only what a look added and
keeps what was seen (Qwen3-VL); `AskingReader` asks any `Eye` again with more leaves. `Esper` runs the loop for one
picture, the bench for hundreds; both see the same numbers. Works from transformers 5.17 on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..attending.overlay import overlay
from ..attending.tree import Tree
from ..balancing.arousal import arousal_of, modulate
from ..balancing.tempering import temper
from ..core.clock import timed
from ..core.errors import InputError
from ..core.kept import PictureStore
from ..core.values import Answer
from ..realizing.attention_reader import reading_attention
from ..realizing.query import PLACE, tokenize_prompt
from ..realizing.qwen3_vl.encode import VisualTokens, encode_leaves, own_attention
from ..realizing.tokens.patches import LeafBatch, PatchPyramid, gather_leaf_patches, match_leaves, mip_pyramid
from ..realizing.tokens.positions import language_positions
from .decoding import Generated, Prefilled, StockSpeaker, end_tokens, greedy_steps, read_on
from .pass_settings import SURE_UP_TO, UNSURE_ABOVE, EsperSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .eye import Eye
    from .tiles import TileBoard


# ----------------------------------------------------------------------------------------------------------------------
# The vision tower's memory: new leaves see the leaves of earlier looks, and none of those is encoded again.
#
# Keys and values of every layer are kept. What was seen first was encoded without what came later, as in a language
# model with a cache; a leaf that was encoded alone, without the rest of the picture around it, is read much worse.

LOOKING_AGAIN = "arr_coc_looking_again"


@dataclass
class TowerMemory:
    """there: (B, P) bool, which patches of all looks are not padding. seen: keys and values (B, heads, P, head size) of
    each layer's attention."""

    there: Tensor | None = None
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def copy(self) -> TowerMemory:
        """As it is now; what is added to one does not change the other."""
        return TowerMemory(self.there, dict(self.seen))


class Rows(NamedTuple):
    """How packed patches are laid out for attention: `number` rows of `length`. place: (P,) int64, each patch's place
    among number · length; None where the rows are full."""

    number: int
    length: int
    place: Tensor | None

    @classmethod
    def of(cls, there: Tensor) -> Rows:
        """there: (number, length) bool, the places with a patch."""
        place = None if bool(there.all()) else there.flatten().nonzero()[:, 0]
        return cls(there.shape[0], there.shape[1], place)

    def spread(self, packed: Tensor) -> Tensor:
        """(P, …) → (number, length, …), zero where there is no patch."""
        if self.place is not None:
            padded = packed.new_zeros(self.number * self.length, *packed.shape[1:])
            packed = padded.index_copy(0, self.place, packed)
        return packed.unflatten(0, (self.number, self.length))

    def pack(self, spread: Tensor) -> Tensor:
        """The inverse."""
        flat = spread.flatten(0, 1)
        return flat if self.place is None else flat.index_select(0, self.place)


@dataclass(frozen=True)
class LookBlock:
    """One look on its way through the tower. mask: (B, 1, 1, P) bool over all patches that may be attended; None where
    all may."""

    memory: TowerMemory
    rows: Rows
    mask: Tensor | None

    @classmethod
    def of(cls, memory: TowerMemory, there: Tensor, patches: int) -> LookBlock:
        """there: (B, N) bool, the leaves that are not padding; patches: of one leaf. The memory then knows of them."""
        mask = there.repeat_interleave(patches, 1)
        rows = Rows.of(mask)
        memory.there = mask if memory.there is None else torch.cat([memory.there, mask], 1)
        everything = rows.place is None and bool(memory.there.all())
        return cls(memory, rows, None if everything else memory.there[:, None, None])

    def spread(self, packed: Tensor) -> Tensor:
        """(1, heads, M, head size) → (B, heads, N, head size), zeros where there is padding."""
        return self.rows.spread(packed[0].transpose(0, 1)).transpose(1, 2)

    def pack(self, spread: Tensor) -> Tensor:
        """(B, heads, N, head size) → (1, M, heads, head size), as a layer of the tower wants it."""
        return self.rows.pack(spread.transpose(1, 2))[None]


def look_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    look: LookBlock,
    scaling: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attention of a look's patches over themselves and all that was seen before; query: (1, heads, M, head size)."""
    asked, keys, values = (look.spread(item) for item in (query, key, value))
    if module in look.memory.seen:
        before = look.memory.seen[module]
        keys, values = (torch.cat(pair, 2) for pair in zip(before, (keys, values), strict=True))
    look.memory.seen[module] = keys, values
    mixed = F.scaled_dot_product_attention(asked, keys, values, attn_mask=look.mask, scale=scaling)
    return look.pack(mixed), None


def encode_look(model: PreTrainedModel, patches: Tensor, batch: LeafBatch, look: LookBlock) -> VisualTokens:
    """`encode_leaves` of a batch whose patches attend in the rows of `look`, and to what its memory holds."""
    with own_attention(model.model.visual, LOOKING_AGAIN, look_attention):
        return encode_leaves(model, patches, batch, look=look)


def picture_pyramid(model: PreTrainedModel, pictures: Tensor, levels: int) -> PatchPyramid:
    """Pictures (B, C, H, W), normalised as the processor does it → mip levels up to `levels`, once for all looks."""
    vision = model.config.vision_config
    cell = vision.spatial_merge_size * vision.patch_size
    return mip_pyramid(pictures, levels + 1, cell=cell, patch_size=vision.patch_size)


def encode_block(
    model: PreTrainedModel,
    pyramid: PatchPyramid,
    leaves: Tensor,
    grid: tuple[int, int],
    tower: TowerMemory | None = None,
) -> VisualTokens:
    """A block of leaves (B, N, 3), -1 for padding → visual tokens, packed picture after picture.

    tower: with it, the leaves see each other and those of all earlier blocks, which it remembers; without, a block is
    encoded on its own.
    """
    vision = model.config.vision_config
    merge = vision.spatial_merge_size
    batch = LeafBatch.equal(leaves, grid, pyramid.levels)
    there = leaves[..., 2] >= 0
    if not bool(there.all()):
        batch = batch.select(there.flatten())
    patches = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=merge, temporal=vision.temporal_patch_size)
    return encode_look(model, patches, batch, LookBlock.of(tower or TowerMemory(), there, merge**2))


def interleave(blocks: tuple[VisualTokens, ...], there: tuple[Tensor, ...]) -> VisualTokens:
    """Blocks, each packed picture after picture, → one, picture after picture. there: (B, N) bool of each block."""
    if len(blocks) == 1:
        return blocks[0]
    # Sorting by picture is stable, so within a picture the blocks keep their order.
    owner = torch.cat([mask.nonzero()[:, 0] for mask in there])
    return VisualTokens.joined(blocks).select(owner.argsort(stable=True))


# ----------------------------------------------------------------------------------------------------------------------
# From what was seen and said to where to look next.
#
# A pass leaves two traces: how finely every place has been seen, and which places the tokens of the answer looked at,
# and how sure they were. The next map is relevance, plus these places, sharpened by arousal, blended with ground that
# nobody examined, without the ground that is already seen in full detail, and gathered around one place.

# Outside the fovea the map keeps this much, so that tokens left over go to the next best place and not just anywhere.
OUTSIDE = 1e-3
# The map is smoothed by this share of the fovea before its best place is taken.
FINDING = 1 / 3


@dataclass(frozen=True)
class Traces:
    """What the answers of B pictures tell about places, each (B, rows, cols).

    uncertainty: in [0, 1], how unsure the answer's tokens were that looked there, 0 where none did. doubt: the
    attention of unsure tokens beyond what any token spends there. asked: the same for the question's tokens.
    """

    uncertainty: Tensor
    doubt: Tensor
    asked: Tensor


def traces(spoken: LookAnswer, temperature: float, grid: tuple[int, int]) -> Traces:
    """Per-place uncertainty and attention, from the answer's and the question's attention over the visual tokens."""
    unsure = (1 - spoken.generated.log_probabilities(temperature).exp()) * spoken.generated.within  # (B, T)
    length = spoken.generated.within.sum(1, keepdim=True).clamp_min(1)
    looked = spoken.looked.sum(1) / length
    doubted = (spoken.looked * unsure[..., None]).sum(1) / length
    there = spoken.leaves[..., 2] >= 0
    # What draws attention whatever is asked or said: where the token that ends the picture looks.
    plain = spoken.plain * there

    def beyond(values: Tensor) -> Tensor:
        values = values * there
        scale = values.sum(1, keepdim=True) / plain.sum(1, keepdim=True).clamp_min(1e-9)
        return (values - scale * plain).clamp_min(0)

    ground = paint(looked * there, spoken.leaves, grid)
    uncertainty = paint(doubted * there, spoken.leaves, grid) / ground.clamp_min(1e-12)
    doubt, asked = (paint(beyond(values), spoken.leaves, grid) for values in (doubted, spoken.asked))
    return Traces(uncertainty.clamp(0, 1), doubt, asked)


def paint(values: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Tensor:
    """Values (B, V) of leaves (B, V, 3), spread evenly over their cells and summed → (B, rows, cols)."""
    result = values.new_zeros(len(values), *grid)
    for depth in range(int(leaves[..., 2].max()) + 1):
        result = result + on_cells(values / 4**depth, leaves, depth, grid)
    return result


def on_cells(values: Tensor, leaves: Tensor, depth: int, grid: tuple[int, int]) -> Tensor:
    """(B, rows, cols): the values (B, V) of those leaves (B, V, 3) that have this level, on every cell they cover."""
    (rows, cols), side = grid, 1 << depth
    high, wide = -(-rows >> depth), -(-cols >> depth)
    row, col, level = leaves.unbind(-1)
    place = torch.where(level == depth, (row >> depth) * wide + (col >> depth), 0)
    board = values.new_zeros(len(values), high * wide)
    board.scatter_add_(1, place, torch.where(level == depth, values, 0))
    spread = board.view(-1, high, wide).repeat_interleave(side, 1).repeat_interleave(side, 2)
    return spread[:, :rows, :cols]


def examined(levels: Tensor) -> Tensor:
    """(B, rows, cols) finest levels → how far each cell was examined: 1 at full detail, a quarter a level above."""
    return torch.exp2(-2.0 * levels)


def peak(values: Tensor) -> Tensor:
    """Each map (B, rows, cols) scaled so that its highest place is 1; a map of zeros stays one."""
    return values / values.amax((1, 2), keepdim=True).clamp_min(1e-12)


def next_map(
    relevance: Tensor,
    levels: Tensor,
    found: Traces,
    exploration: Tensor,
    arousal: Tensor,
    fixated: Tensor,
    settings: EsperSettings,
) -> tuple[Tensor, Tensor]:
    """Where the next look goes: (B, rows, cols) and the point (B, 2) it is gathered around, -1 where it is spread.

    relevance, levels, fixated: (B, rows, cols); fixated: how well earlier fixations have covered each place, in [0, 1].
    exploration, arousal: (B,).
    """
    open_ground = (levels > 0).to(relevance)
    weights = settings.attention, settings.question
    mixed = relevance + sum(
        weight * peak(part * open_ground) for weight, part in zip(weights, (found.doubt, found.asked), strict=True)
    )
    mixed = mixed / (1 + sum(weights))
    factor = torch.where(found.uncertainty > UNSURE_ABOVE, settings.more, 1.0)
    factor = torch.where(found.uncertainty <= SURE_UP_TO, settings.less, factor)
    mixed = (mixed * factor).clamp(0, 1)
    if settings.aroused:
        mixed = modulate(mixed, arousal)
    # Ground that is seen in full detail cannot be seen better; among the rest, the fresh counts for exploration.
    mixed = temper(mixed, examined(levels), exploration) * open_ground
    mixed = mixed * (1 - settings.inhibition * fixated)
    if settings.fovea is None:
        return mixed, torch.full((len(mixed), 2), -1, device=mixed.device)
    return gather_around(mixed, settings.fovea)


def gather_around(maps: Tensor, fovea: float) -> tuple[Tensor, Tensor]:
    """The same maps around their best place, and that place (B, 2) row, col; ties go to the earlier one.

    The best place is found on a map smoothed by a third of the fovea: one hot cell does not outweigh a warm spot, and
    wide even ground, which is what exploration looks like, does not outweigh either.
    """
    rows, cols = maps.shape[1:]
    within = smooth(maps, fovea * FINDING)
    place = within.flatten(1).argmax(1)
    point = torch.stack([place // cols, place % cols], dim=1)
    return maps * (OUTSIDE + glimpse(point, (rows, cols), fovea)), point


def smooth(maps: Tensor, sigma: float) -> Tensor:
    """(B, h, w) blurred by a Gaussian of `sigma` cells; beyond the edge lies what lies on it."""
    reach = max(1, round(3 * sigma))
    offset = torch.arange(-reach, reach + 1, device=maps.device)
    kernel = torch.exp(-((offset / sigma) ** 2) / 2).to(maps)
    kernel = kernel / kernel.sum()
    padded = F.pad(maps[:, None], (reach, reach, reach, reach), mode="replicate")
    return F.conv2d(F.conv2d(padded, kernel.view(1, 1, -1, 1)), kernel.view(1, 1, 1, -1))[:, 0]


def glimpse(point: Tensor, grid: tuple[int, int], fovea: float) -> Tensor:
    """(B, 2) fixated cells → (B, rows, cols) in [0, 1]: a Gaussian of `fovea` cells."""
    y = torch.arange(grid[0], device=point.device)[:, None] - point[:, 0, None, None]
    x = torch.arange(grid[1], device=point.device)[None, :] - point[:, 1, None, None]
    return torch.exp(-(y**2 + x**2) / (2 * fovea**2))


# ----------------------------------------------------------------------------------------------------------------------
# A prompt with blocks of visual tokens: the text before the picture, what each look added, the text after it.
#
#     head │ first look │ second look │ … │ tail: the question, and where the answer begins
#
# All blocks stand inside one picture: leaves keep their true places, and the text goes on where it would after the
# whole picture, however few tokens it has. The blocks are in the order in which they were seen, so with causal
# attention what was computed for the earlier ones holds when a later one is added.

IMAGE_TOKEN = "<|image_pad|>"  # of every Qwen3-VL


@dataclass(frozen=True)
class Prompts:
    """The text around the picture of B prompts. head: (B, H) int64. tail: (B, T) int64, padded on the right; there:
    (B, T) bool."""

    head: Tensor
    tail: Tensor
    there: Tensor

    @classmethod
    def of(cls, processor: Any, questions: Sequence[str], device: torch.device | str = "cpu") -> Prompts:
        """The chat of one picture and one question, in the template of a processor, or of a tokenizer alone."""
        token, tokenizer = getattr(processor, "image_token", IMAGE_TOKEN), getattr(processor, "tokenizer", processor)
        chat = processor.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PLACE}]}],
            add_generation_prompt=True,
            tokenize=False,
        )
        before, found, after = chat.partition(token)
        if not found or PLACE not in after:
            raise InputError("the chat template must show one picture, and the question after it")
        head = tokenizer([before], return_tensors="pt").input_ids
        tails = [torch.tensor(tokenize_prompt(tokenizer, after, question)).long() for question in questions]
        tail = torch.nn.utils.rnn.pad_sequence(tails, batch_first=True)
        lengths = torch.tensor([len(row) for row in tails])
        there = torch.arange(tail.shape[1]) < lengths[:, None]
        return cls(head.expand(len(tail), -1).to(device), tail.to(device), there.to(device))

    def __len__(self) -> int:
        return len(self.tail)

    def select(self, chosen: Tensor | slice) -> Prompts:
        return Prompts(self.head[chosen], self.tail[chosen], self.there[chosen])


@dataclass(frozen=True)
class Row:
    """A stretch of B prompts. ids: (B, L) int64. there: (B, L) bool, False for padding. places: (3, B, L) float32, the
    positions of M-RoPE."""

    ids: Tensor
    there: Tensor
    places: Tensor

    def __add__(self, other: Row) -> Row:
        return Row(
            torch.cat([self.ids, other.ids], 1),
            torch.cat([self.there, other.there], 1),
            torch.cat([self.places, other.places], 2),
        )

    def positions(self, before: Tensor | int = 0) -> Tensor:
        """(4, B, L): the three places, and first a plain count of the tokens that are there; before: those already
        in the cache, (B,)."""
        start = before[:, None] if isinstance(before, Tensor) else before
        counting = (start + self.there.cumsum(1) - 1).clamp_min(0)
        return torch.cat([counting[None].to(self.places), self.places]).masked_fill(~self.there, 0)


def text_row(ids: Tensor, there: Tensor, start: Tensor | float) -> Row:
    """Text that begins at position `start`, one number or (B,)."""
    first = start[:, None] if isinstance(start, Tensor) else start
    places = (there.cumsum(1) - 1).clamp_min(0).float() + first
    return Row(ids, there, places.expand(3, -1, -1))


def leaf_row(leaves: Tensor, grid: tuple[int, int], start: float, image_token: int) -> Row:
    """A block of leaves (B, N, 3), -1 for padding, of a picture that begins at position `start`."""
    there = leaves[..., 2] >= 0
    places = start + language_positions(leaves.clamp_min(0), torch.tensor(grid, device=leaves.device))
    ids = torch.where(there, image_token, 0)
    return Row(ids, there, places)


# ----------------------------------------------------------------------------------------------------------------------
# Answering again and again from a prompt whose picture grows: the cache of what was seen is kept.
#
# The language model's keys and values of head and visual tokens stay in `Memory`. Every pass runs the new visual tokens
# and the question through it, answers greedily, and then forgets question and answer, because they must come after the
# next look. Attention is causal, so this gives the very numbers of one long prompt with all looks in their order.


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
        output, _ = read_on(model, row.ids, tokens, row.positions(before), mask, memory.cache)
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


# ----------------------------------------------------------------------------------------------------------------------
# Look, and look again: leaves that are laid on top of those before, never one twice.
#
# The first look is an overlay: an overview, and finer leaves on top of it. Every later one adds single cells at full
# resolution where they were not seen before. What was seen stays in sight as it was, so no leaf is encoded twice and
# each costs its one token.


@dataclass(frozen=True)
class Looks:
    """What B pictures have been looked at with, look by look.

    tree: the geometry of all of them. blocks: the leaves that each look added, (B, N, 3) int64 row, col, level in
    raster order; rows beyond a picture's own count are -1. overview: how many of the first block stand before its
    others, the same whatever is asked.
    """

    tree: Tree
    blocks: tuple[Tensor, ...]
    overview: int = 0

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def counts(self) -> Tensor:
        """(B, looks) int64: tokens that each look added."""
        return torch.stack([(block[..., 2] >= 0).sum(1) for block in self.blocks], dim=1)

    def levels(self) -> Tensor:
        """(B, rows, cols) int64: the finest level at which each cell has been seen, the coarsest where it was not."""
        tree, leaves = self.tree, torch.cat(self.blocks, 1)
        grid, ones = (tree.rows, tree.cols), torch.ones_like(leaves[..., 2])
        result = leaves.new_full((len(leaves), *grid), tree.levels)
        for depth in range(tree.levels - 1, -1, -1):
            result = torch.where(on_cells(ones, leaves, depth, grid) > 0, depth, result)
        return result

    def leaves(self) -> Tensor:
        """(B, N, 3) int64: those of all looks, raster order, coarse before fine, -1 beyond a picture's own count."""
        return in_raster_order(torch.cat(self.blocks, 1), self.tree)


def first_look(relevance: Tensor, tree: Tree, budget: int | Tensor, order: str | None = None) -> Looks:
    """(B, rows, cols) relevance → the overlay of this budget, one number or (B,). order: as for `overlay`."""
    _check(relevance, tree)
    budgets = torch.as_tensor(budget).expand(len(relevance)).tolist()
    found = overlay(relevance, budgets, levels=tree.levels, order=order)
    same = len(set(found.overviews)) == 1
    return Looks(tree, (found.cells,), found.overviews[0] if same else 0)


def look_again(looks: Looks, relevance: Tensor, budget: int | Tensor) -> Looks:
    """The cells where (B, rows, cols) relevance is highest among those not yet seen at full resolution, at most
    `budget` of them, one number or (B,)."""
    tree = looks.tree
    _check(relevance, tree)
    budgets = torch.as_tensor(budget, device=relevance.device).expand(len(relevance))
    unseen = (looks.levels() > 0).flatten(1)
    most = int(torch.minimum(budgets, unseen.sum(1)).max())
    wanted = relevance.flatten(1).masked_fill(~unseen, float("-inf"))
    best = wanted.argsort(dim=1, descending=True, stable=True)[:, :most]
    taken = unseen.gather(1, best) & (torch.arange(most, device=best.device) < budgets[:, None])
    cells = torch.stack([best // tree.cols, best % tree.cols, torch.zeros_like(best)], dim=-1)
    block = in_raster_order(cells.masked_fill(~taken[..., None], -1), tree)
    return replace(looks, blocks=(*looks.blocks, block))


def in_raster_order(leaves: Tensor, tree: Tree) -> Tensor:
    """Leaves (B, N, 3) sorted by row, column and then coarse before fine; padding goes to the end and is cut off."""
    row, col, level = leaves.unbind(-1)
    there = level >= 0
    key = (row * tree.cols + col) * (tree.levels + 1) + tree.levels - level
    order = key.masked_fill(~there, torch.iinfo(key.dtype).max).argsort(dim=1, stable=True)
    order = order[:, : int(there.sum(1).max())]
    return leaves.gather(1, order[..., None].expand(-1, -1, 3))


def _check(relevance: Tensor, tree: Tree) -> None:
    if relevance.ndim != 3 or relevance.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"relevance must be (batch, {tree.rows}, {tree.cols}), got {tuple(relevance.shape)}")


# ----------------------------------------------------------------------------------------------------------------------

# (number of the pass, from 1; uncertainty after the pass before; its change) → exploration, each (B,)
Explore = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class PassMaps:
    """Where B pictures of one size may be looked at.

    relevance: (B, rows, cols) in [0, 1]. glance: the map of the first look where it is another one, for example one
    that has not read the question. stakes: (B,), or None where nobody is to be alarmed. failures: recent wrong answers.
    order: of the first look's leaves, as for `overlay`.
    """

    relevance: Tensor
    tree: Tree
    glance: Tensor | None = None
    stakes: Tensor | None = None
    failures: int = 0
    order: str | None = None


@dataclass(frozen=True, kw_only=True)
class PassJob(PassMaps):
    """B pictures of one size, each with its question. pyramid: of the pictures, normalised as the processor does it.
    kept: of a single picture, where what is made of its overview is found by the next question."""

    pyramid: PatchPyramid
    prompts: Prompts
    kept: PictureStore | None = None

    @classmethod
    def of(cls, model: PreTrainedModel, pictures: Tensor, prompts: Prompts, relevance: Tensor, tree: Tree) -> PassJob:
        """pictures: (B, C, H, W), normalised."""
        pyramid = picture_pyramid(model, pictures, tree.levels)
        return cls(pyramid=pyramid, prompts=prompts, relevance=relevance, tree=tree)


@dataclass(frozen=True)
class LookReading:
    """What came of one look at B pictures. uncertainty, tokens: (B,), tokens being those that were read for it.
    generated: from which the words are decoded; answer: where an `Eye` was asked instead."""

    uncertainty: Tensor
    traces: Traces
    tokens: Tensor
    generated: Generated | None = None
    answer: Answer | None = None


class LookReader(Protocol):
    """Answers from all that was seen so far, and remembers what it needs for the next look."""

    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """The reading of the latest look; the seconds of its stages are written into `seconds`."""
        ...


@dataclass(frozen=True)
class PassRecord:
    """One pass of B pictures.

    looks: all that has been seen by then. exploration, arousal: (B,). steered: (B, rows, cols), the map that the look
    followed. point: (B, 2), the cell it was gathered around, -1 where it was not. reading: what came out. seconds: by
    stage.
    """

    looks: Looks
    exploration: Tensor
    arousal: Tensor
    steered: Tensor
    point: Tensor
    reading: LookReading
    seconds: dict[str, float]

    @property
    def generated(self) -> Generated:
        """The answers; only of a reader that decodes them itself."""
        assert self.reading.generated is not None
        return self.reading.generated

    @property
    def uncertainty(self) -> Tensor:
        return self.reading.uncertainty

    @property
    def tokens(self) -> Tensor:
        return self.reading.tokens


def pass_loop(
    reader: LookReader,
    job: PassMaps,
    budgets: tuple[int | Tensor, int],
    settings: EsperSettings,
    explore: Explore,
    stop_early: bool = True,
) -> list[PassRecord]:
    """All passes of a batch. budgets: tokens of the first look (one number or (B,)), and of each later one.

    stop_early: a picture that is sure enough gets no more tokens; without, all go through all passes, and what early
    stopping would have done can be read off the records.
    """
    tree, grid = job.tree, (job.tree.rows, job.tree.cols)
    batch, device = len(job.relevance), job.relevance.device
    uncertainty, trend = torch.ones(batch, device=device), torch.zeros(batch, device=device)
    fixated = torch.zeros_like(job.relevance)
    going = torch.ones(batch, dtype=torch.bool, device=device)
    records: list[PassRecord] = []
    for number in range(1, settings.passes + 1):
        started = perf_counter()
        with torch.no_grad():
            exploration = explore(torch.full((batch,), float(number), device=device), uncertainty, trend)
        # Before the first answer nobody is unsure: what alarms is the question alone.
        last = uncertainty if records else torch.zeros_like(uncertainty)
        arousal = (
            torch.zeros_like(last) if job.stakes is None else arousal_of(job.stakes, last, job.failures + 0 * last)
        )
        if not records:
            steered = job.relevance if job.glance is None else job.glance
            steered = modulate(steered, arousal) if settings.aroused else steered
            point = torch.full((batch, 2), -1, device=device)
            looks = first_look(steered, tree, budgets[0], job.order)
        else:
            looks = records[-1].looks
            steered, point = next_map(
                job.relevance, looks.levels(), records[-1].reading.traces, exploration, arousal, fixated, settings
            )
            looks = look_again(looks, steered, budgets[1] * going.long())
            if looks.blocks[-1].shape[1] == 0:
                break
            if settings.fovea is not None:
                fixated = torch.maximum(fixated, glimpse(point, grid, settings.fovea) * going[:, None, None])
        seconds = {"look": perf_counter() - started}
        reading = reader.read(looks, seconds)
        trend, uncertainty = (reading.uncertainty - uncertainty if records else trend), reading.uncertainty
        records.append(PassRecord(looks, exploration, arousal, steered, point, reading, seconds))
        if stop_early:
            going = going & ~enough(torch.stack([record.uncertainty for record in records], 1), settings)[:, -1]
            if not bool(going.any()):
                break
    return records


class MemoryReader:
    """Encodes what a look added and lets the model answer, in one of the layouts. State of one run only."""

    def __init__(
        self, model: PreTrainedModel, job: PassJob, settings: EsperSettings, temperature: float, most: int
    ) -> None:
        self.model, self.job, self.layout = model, job, settings.layout
        self.layers = attention_layers(model, settings.layers)
        self.temperature, self.most = temperature, most
        self.grid = job.tree.rows, job.tree.cols
        self.memory = Memory(self.grid)
        self.tower = TowerMemory()
        self.encoded: list[VisualTokens] = []

    @torch.no_grad()
    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """The answers, from the visual tokens that the layout lets the language model read anew."""
        with timed(seconds, "encode"):
            if self.layout in ("append", "apart"):
                leaves = shown = looks.blocks[-1]
                if len(looks) == 1 and 0 < looks.overview < leaves.shape[1]:
                    self._begin(leaves[:, : looks.overview])
                    leaves = leaves[:, looks.overview :]
                tokens = self._encode(leaves)
            else:
                leaves = shown = looks.leaves()
                tokens = self._whole_tree(looks, leaves)
                self.memory = Memory(self.grid)
        with timed(seconds, "answer"):
            how = {"most": self.most, "layers": self.layers}
            spoken = answer_look(self.model, self.memory, leaves, tokens, self.job.prompts, **how)
        return LookReading(
            1 - spoken.generated.confidence(self.temperature),
            traces(spoken, self.temperature, self.grid),
            (shown[..., 2] >= 0).sum(1),
            spoken.generated,
        )

    def _begin(self, overview: Tensor) -> None:
        """Remember the overview (B, N, 3) as the first block: encoded and read once a picture, where that is kept."""
        from transformers import DynamicCache

        head, kept, grid = self.job.prompts.head, self.job.kept, self.grid

        def make() -> tuple[TowerMemory, tuple[tuple[Tensor, Tensor], ...]]:
            self.tower = TowerMemory()
            tokens = self._encode(overview)
            row = text_row(head, torch.ones_like(head, dtype=torch.bool), 0.0)
            row += leaf_row(overview, grid, float(head.shape[1]), self.model.config.image_token_id)
            _, cache = read_on(self.model, row.ids, tokens, row.positions(), row.there.long())
            return self.tower, tuple((layer.keys, layer.values) for layer in cache.layers)

        changed = sum(one._version for one in self.model.parameters())
        said = tuple(head[0].tolist()), overview.cpu().numpy().tobytes()
        name = ("passes", self.model, changed, self.layout, str(head.device), self.job.pyramid.levels, grid, *said)
        tower, keys = make() if kept is None or len(head) > 1 else kept.made(name, make)
        self.tower = tower.copy()
        cache = DynamicCache(config=self.model.config.get_text_config())
        for number, both in enumerate(keys):
            cache.update(*both, number)
        end = head.shape[1] + overview.shape[1]
        there = torch.ones(len(head), end, dtype=torch.bool, device=head.device)
        self.memory = Memory(grid, cache, there, [overview], list(range(head.shape[1], end)))

    def _encode(self, leaves: Tensor) -> VisualTokens:
        """New leaves, seeing those of earlier looks where the layout lets them."""
        tower = self.tower if self.layout in ("append", "rebuild") else None
        return encode_block(self.model, self.job.pyramid, leaves, self.grid, tower)

    def _whole_tree(self, looks: Looks, leaves: Tensor) -> VisualTokens:
        """The tokens of all leaves: encoded together, or looked up among what each look encoded."""
        if self.layout == "fresh":
            return self._encode(leaves)
        self.encoded.append(self._encode(looks.blocks[-1]))
        there = tuple(block[..., 2] >= 0 for block in looks.blocks)
        known = interleave(tuple(self.encoded), there)
        levels = self.job.pyramid.levels
        batches = [
            LeafBatch.equal(item, self.grid, levels).select((item[..., 2] >= 0).flatten())
            for item in (leaves, torch.cat(looks.blocks, 1))
        ]
        _, where = match_leaves(*batches)
        return known.select(where)


class AskingReader:
    """Asks an `Eye` again with all leaves seen so far: for models that cannot keep what they have seen.

    Their attention is not shown here, so the next look goes by relevance, by the uncertainty of the whole answer and by
    ground not examined. Every pass counts in full.
    """

    def __init__(self, eye: Eye, board: TileBoard, query: str, most: int) -> None:
        self.eye, self.board, self.query, self.most = eye, board, query, most

    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """One question about one picture, through `Eye.ask`."""
        allocations = self.board.allocations(looks.leaves()[0].numpy())
        answer = self.eye.ask(self.query, allocation=allocations, max_new_tokens=self.most)
        seconds.update(answer.seconds)
        # No place is known to be unsure or sure; halfway leaves the map as it is.
        nothing = torch.zeros(1, *self.board.grid)
        unsure = torch.tensor([answer.uncertainty])
        unknown = Traces(nothing + 0.35, nothing, nothing)
        return LookReading(unsure, unknown, torch.tensor([answer.tokens]), answer=answer)


def enough(uncertainty: Tensor, settings: EsperSettings) -> Tensor:
    """Uncertainties (B, P) after each pass → (B, P) bool: whether a picture needs no further pass after this one."""
    done = uncertainty < settings.stop
    if settings.gain is not None:
        # Not after the second: where the first look was misled, one more try in vain is no reason to give up.
        done[:, 2:] |= uncertainty[:, 1:-1] - uncertainty[:, 2:] < settings.gain
    done[:, : settings.least - 1] = False
    return done
