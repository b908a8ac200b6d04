"""Keep a fast device busy: a swift forward pass of `mini`, rendering in the background, a bfloat16 twin, Muon.

The stock class supports every model and length; its many small launches leave a fast device idle for most of a small
model's step. Here all pictures of a batch have the same number of leaves and the prompt has a fixed layout, so nothing
must be read back from the device, projections of the same input are one product, and everything between two attentions
is a `CompiledPiece`: compiled once for all canvases, since the weights of all layers are its arguments. The parameters
are the stock model's own; a test holds values and gradients equal to it, compiled or not.
"""

from __future__ import annotations

import copy
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from typing import Any, Generic, NamedTuple, ParamSpec, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.attention.bias import causal_lower_right

from arr_coc.realizing.patches import gather_leaf_patches, mip_pyramid
from arr_coc.realizing.positions import language_positions, position_taps, vision_positions

from .mini_model import HEAD, VISION_END


class Seen(NamedTuple):
    """The tower's output for B pictures of N leaves. embeds: (B, N, D). planes: DeepStack's, each (B, N, D).
    patches: (B, 4·N, D), the tower's last features before they are merged."""

    embeds: Tensor
    planes: list[Tensor]
    patches: Tensor


def together(looks: list[Seen]) -> Seen:
    """Join several looks at the same pictures, in order."""
    planes = [torch.cat(parts, 1) for parts in zip(*(look.planes for look in looks), strict=True)]
    return Seen(torch.cat([look.embeds for look in looks], 1), planes, torch.cat([look.patches for look in looks], 1))


Given = ParamSpec("Given")
Made = TypeVar("Made")
PIECES: list[Any] = []


class CompiledPiece(Generic[Given, Made]):
    """A part of the pass; compiled after `compile_pieces`, else eager."""

    def __init__(self, work: Callable[Given, Made]) -> None:
        self.work = self.run = work
        PIECES.append(self)

    def __call__(self, *given: Given.args, **named: Given.kwargs) -> Made:
        return self.run(*given, **named)


def compile_pieces(wanted: bool = True, backend: str = "inductor") -> None:
    """Compile every piece in this process, once for all lengths and numbers of pictures; False: run them eagerly."""
    setattr(torch._dynamo.config, "recompile_limit", 64)  # noqa: B010  # its type is that of its default
    for piece in PIECES:
        piece.run = torch.compile(piece.work, dynamic=True, fullgraph=True, backend=backend) if wanted else piece.work


def pair(first: int, second: int, device: torch.device) -> Tensor:
    """Make (2,) int64 on the device: copying it there would make the processor wait."""
    return first + torch.arange(2, device=device) * (second - first)


def cut_patches(pictures: Tensor, leaves: Tensor, levels: int, dtype: torch.dtype) -> Tensor:
    """Cut leaves (B, N, 3) of uint8 pictures (B, 3, H, W) → (B·N·4, 768), normalised like `mini`'s processor."""
    pixels = pictures.to(dtype).div_(127.5).sub_(1)
    pyramid = mip_pyramid(pixels, levels, cell=32, patch_size=16)
    return gather_leaf_patches(pyramid, leaves, merge=2, temporal=1)


def run_tower(tower: Any, patches: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Seen:
    """Run the vision tower on leaves (B, N, 3) of pictures with a grid of (rows, cols) level-0 cells; (1, N, 3) if all
    pictures have the same."""
    number = leaves.shape[1]
    batch = len(patches) // (4 * number)
    width, heads = tower.config.hidden_size, tower.config.num_heads
    dtype = tower.patch_embed.proj.weight.dtype
    positions = vision_positions(leaves, 2).view(len(leaves), -1, 2)
    size = pair(2 * grid[0], 2 * grid[1], leaves.device)
    indices, weights = position_taps(positions.view(-1, 2), size, tower.num_grid_per_side)
    # As one product: the gradient of a table lookup with thousands of indices would have to be sorted first.
    taps = weights.new_zeros(len(indices), tower.num_grid_per_side**2).scatter_add_(1, indices, weights).to(dtype)
    placed = (taps @ tower.pos_embed.weight).view(len(leaves), -1, width)
    projection = tower.patch_embed.proj
    hidden = F.linear(patches.to(dtype), projection.weight.view(width, -1), projection.bias)
    hidden = (hidden.view(batch, -1, width) + placed).view(-1, width)
    # (B, 4·N, 2, frequencies) → a row for every patch: rows first, then columns
    angles = (positions[..., None] * tower.rotary_pos_emb.inv_freq).flatten(2)
    turn = [each_row(one, batch) for one in turns(angles, dtype)]
    planes = []
    for index, block in enumerate(tower.blocks):
        parts = mixed(block, hidden).view(len(hidden), 3, heads, -1)
        query, key, value = (laid_out(one, batch) for one in turned(parts, *turn))
        hidden = after_seeing(block, hidden, in_rows(F.scaled_dot_product_attention(query, key, value)))
        if index in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(index)]
            planes.append(merged(merger, hidden).view(batch, number, -1))
    return Seen(merged(tower.merger, hidden).view(batch, number, -1), planes, hidden.view(batch, -1, width))


# Between two attentions it does not matter which picture a row belongs to: pieces take rows (R, D), so that what is
# compiled has one length that changes, the first, and never divides by it.


def each_row(values: Tensor, batch: int) -> Tensor:
    """Reshape (B or 1, L, size) → (B·L, 1, size), the same for every head."""
    return values.expand(batch, -1, -1).reshape(-1, 1, values.shape[-1])


def laid_out(rows: Tensor, batch: int) -> Tensor:
    """Reshape (B·L, heads, size) → (B, heads, L, size) for attention."""
    return rows.view(batch, -1, *rows.shape[1:]).transpose(1, 2)


def in_rows(attended: Tensor) -> Tensor:
    """Reshape (B, heads, L, size) → (B·L, heads·size)."""
    return attended.transpose(1, 2).reshape(-1, attended.shape[1] * attended.shape[3])


def turns(angles: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and signed sine (…, size) of angles (…, half), for `rotated`."""
    cosine, sine = angles.cos(), angles.sin()
    return torch.cat([cosine, cosine], -1).to(dtype), torch.cat([-sine, sine], -1).to(dtype)


def rotated(vectors: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Apply the rotary embedding `turns` to (…, size), in the precision of the vectors."""
    first, second = vectors.chunk(2, -1)
    return (vectors * cosine + torch.cat([second, first], -1) * sine).to(vectors.dtype)


@CompiledPiece
def turned(mixed: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split (R, 3, heads, size) into queries, keys, values (R, heads, size). cosine, sine: (R, 1, size) of `turns`."""
    query, key, value = mixed.unbind(1)
    return rotated(query, cosine, sine), rotated(key, cosine, sine), value


@CompiledPiece
def mixed(block: Any, hidden: Tensor) -> Tensor:
    """Project (R, D) → (R, 3·D): queries, keys and values."""
    return block.attn.qkv(block.norm1(hidden))


@CompiledPiece
def after_seeing(block: Any, hidden: Tensor, attended: Tensor) -> Tensor:
    """Run the rest of the block after attention: (R, D) twice → (R, D)."""
    hidden = hidden + block.attn.proj(attended)
    return hidden + block.mlp(block.norm2(hidden))


@CompiledPiece
def merged(merger: Any, hidden: Tensor) -> Tensor:
    """Merge four patches to a token: (4·R, D) → (R, D)."""
    return merger(hidden)


class Thought(NamedTuple):
    """The language model's output for B pictures with K questions each. said: (B·K, T, D), last states of question and
    answer. half_way: those half-way up; before: (B, P, D), half-way up too, of everything before the questions."""

    said: Tensor
    half_way: Tensor
    before: Tensor


def each_question(item: Tensor, questions: int) -> Tensor:
    """Repeat pictures for each of their questions: (B, …) → (B·K, …)."""
    return item[:, None].expand(-1, questions, *item.shape[1:]).flatten(0, 1)


def run_language(core: Any, seen: Seen, tails: Tensor, leaves: Tensor, grid: tuple[int, int]) -> Thought:
    """Run the language model on prompts head + picture + tail. tails: (B, K, T) tokens, K prompts for each picture.

    States before a question do not depend on it: they are computed once for all K.
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
    places = len(leaves)  # B, or 1 where all pictures have the same leaves
    positions = torch.cat([count.expand(3, places, -1), offsets, follow[:1].expand(3, places, -1)], 2)  # (3, B, P)
    before_turn = [each_row(one, batch) for one in rotation_of(language.rotary_emb, positions, dtype)]
    after_turn = [
        each_row(one, batch * questions) for one in rotation_of(language.rotary_emb, follow[1:].expand(3, 1, -1), dtype)
    ]
    last = len(language.layers) - 1
    half_way = before, after
    mask = causal_lower_right(length, before.shape[1] + length)
    for index, layer in enumerate(language.layers):
        first = [laid_out(one, batch) for one in projected(layer, before.flatten(0, 1), *before_turn)]
        second = [laid_out(one, len(after)) for one in projected(layer, after.flatten(0, 1), *after_turn)]
        keys, values = (behind(first[part], second[part], questions) for part in (1, 2))
        attended = F.scaled_dot_product_attention(second[0], keys, values, attn_mask=mask)
        after = after_thinking(layer, after.flatten(0, 1), in_rows(attended)).view_as(after)
        # The last layer's states of the picture are not used.
        if index < last:
            attended = F.scaled_dot_product_attention(first[0], first[1], first[2], is_causal=True)
            before = after_thinking(layer, before.flatten(0, 1), in_rows(attended)).view_as(before)
        if index < len(seen.planes) and index != last:
            before = before + F.pad(seen.planes[index].to(dtype), (0, 0, len(HEAD), 1))
        if index == last // 2:
            half_way = before, after
    return Thought(rms_norm(after, language.norm), half_way[1], half_way[0])


def behind(first: Tensor, second: Tensor, questions: int) -> Tensor:
    """Join states (B, heads, P, size) of pictures and (B·K, heads, T, size) of questions: (B·K, heads, P + T, size)."""
    own = second.unflatten(0, (-1, questions))
    return torch.cat([first[:, None].expand(-1, questions, -1, -1, -1), own], 3).flatten(0, 1)


def rotation_of(rotary: Any, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Return cosine and sine (B, L, size), as from `turns`, of positions (3, B, L): time, row and column."""
    frequencies = positions[..., None] * rotary.inv_freq
    angles = frequencies[0].clone()
    for axis, section in enumerate(rotary.mrope_section[1:], start=1):
        angles[..., axis : 3 * section : 3] = frequencies[axis, ..., axis : 3 * section : 3]
    return turns(angles, dtype)


@CompiledPiece
def projected(layer: Any, hidden: Tensor, cosine: Tensor, sine: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Project (R, D) → queries, keys and values, (R, heads, size) each, with rotary embedding."""
    attention = layer.self_attn
    # Weights with the same input are joined.
    weight = torch.cat([attention.q_proj.weight, attention.k_proj.weight, attention.v_proj.weight])
    joined = F.linear(rms_norm(hidden, layer.input_layernorm), weight)
    query, key, value = joined.unflatten(-1, (3, -1, attention.head_dim)).unbind(1)
    query = rotated(rms_norm(query, attention.q_norm), cosine, sine)
    key = rotated(rms_norm(key, attention.k_norm), cosine, sine)
    # Norms are in single precision if the weights are; attention needs one precision.
    return query.to(value.dtype), key.to(value.dtype), value


@CompiledPiece
def after_thinking(layer: Any, hidden: Tensor, attended: Tensor) -> Tensor:
    """Run the rest of the layer after attention: (R, D) twice → (R, D)."""
    mlp = layer.mlp
    hidden = hidden + layer.self_attn.o_proj(attended)
    weight = torch.cat([mlp.gate_proj.weight, mlp.up_proj.weight])
    gate, up = F.linear(rms_norm(hidden, layer.post_attention_layernorm), weight).chunk(2, -1)
    return hidden + mlp.down_proj(F.silu(gate) * up)


def rms_norm(hidden: Tensor, norm: Any) -> Tensor:
    return F.rms_norm(hidden, (hidden.shape[-1],), norm.weight, norm.variance_epsilon)


# ---- Rendering in the background: the next batches are painted while the present one is read -------------------------
# Painting is many small launches; reading is few large ones, and its backward pass leaves Python idle. So a thread with
# a CUDA stream of its own hides the one behind the other. On a CPU there is nothing to hide, and batches are made on
# demand, which also keeps runs there repeatable.

Item = TypeVar("Item")
AHEAD = 3


def each_tensor(value: object, do: Callable[[torch.Tensor], object]) -> None:
    """Visit every tensor of a nest of dataclasses and tuples."""
    if isinstance(value, torch.Tensor):
        do(value)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            each_tensor(getattr(value, item.name), do)
    elif isinstance(value, tuple | list):
        for item in value:
            each_tensor(item, do)


class Prefetcher(Generic[Item]):
    """Iterate over results of `make()`, on a CUDA device a few items ahead. A context manager that ends its thread."""

    def __init__(self, make: Callable[[], Item], device: torch.device) -> None:
        self.make, self.device = make, device
        self.pool: ThreadPoolExecutor | None = None
        self.waiting: deque[Future[tuple[Item, torch.cuda.Event]]] = deque()

    def __enter__(self) -> Prefetcher[Item]:
        if self.device.type == "cuda":
            self.pool, self.stream = ThreadPoolExecutor(1, "prefetch"), torch.cuda.Stream(self.device)
            self.waiting.extend(self.pool.submit(self._work) for _ in range(AHEAD))
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def _work(self) -> tuple[Item, torch.cuda.Event]:
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            item, done = self.make(), torch.cuda.Event()
            done.record(self.stream)
            return item, done

    @property
    def ready(self) -> bool:
        """Tell whether `next()` would return at once, or nothing runs in the background."""
        return self.pool is None or self.waiting[0].done()

    def next(self) -> Item:
        if self.pool is None:
            return self.make()
        item, done = self.waiting.popleft().result()
        self.waiting.append(self.pool.submit(self._work))
        present = torch.cuda.current_stream(self.device)
        present.wait_event(done)
        # The memory belongs to the other stream: it must not be reused while this one still reads it.
        each_tensor(item, lambda tensor: tensor.record_stream(present))
        return item


# ----------------------------------------------------------------------------------------------------------------------
# A bfloat16 copy that does the work of a float32 module: half the memory traffic, full-precision updates.

Worker = TypeVar("Worker", bound=nn.Module)


class Twin(Generic[Worker]):
    """`worker` runs forward and backward in bfloat16; `master` keeps the weights and is what optimizers see. Buffers
    stay in float32: the rotary frequencies among them cannot be held in bfloat16."""

    def __init__(self, master: Worker, dtype: torch.dtype = torch.bfloat16) -> None:
        self.master = master
        self.worker = copy.deepcopy(master)
        for parameter in self.worker.parameters():
            parameter.data = parameter.data.to(dtype)
        self._pairs = list(zip(master.parameters(), self.worker.parameters(), strict=True))

    def pull_gradients(self) -> None:
        """Copy the worker's gradients, after backward, in the master's precision; none for unused weights."""
        for mine, theirs in self._pairs:
            mine.grad = None if theirs.grad is None else theirs.grad.to(mine.dtype)
            theirs.grad = None

    @torch.no_grad()
    def push_weights(self) -> None:
        """Copy the master's weights to the worker, after the update."""
        torch._foreach_copy_([theirs for _, theirs in self._pairs], [mine for mine, _ in self._pairs])


# ---- Which optimizer moves which weights, and torch's Muon for all matrices of one shape at once ---------------------
# The stock optimizer orthogonalises matrix after matrix; on a small model its launches cost a tenth of the training. A
# test holds this one equal to it.


class BatchedMuon(torch.optim.Muon):
    """Muon with Nesterov's momentum and AdamW's scale, like the stock class, with a few launches for each shape instead
    of dozens for each matrix."""

    @torch.no_grad()
    def step(self, closure: Callable[[], object] | None = None) -> Any:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                states = [self.state[parameter] for parameter in parameters]
                for state, parameter in zip(states, parameters, strict=True):
                    state.setdefault("momentum_buffer", torch.zeros_like(parameter))
                buffers = [state["momentum_buffer"] for state in states]
                gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                wanted = torch.stack(list(torch._foreach_lerp(gradients, buffers, group["momentum"])))
                update = orthogonalise(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                rate = group["lr"] * 0.2 * math.sqrt(max(shape))
                torch._foreach_add_(parameters, list(update.to(parameters[0].dtype).unbind(0)), alpha=-rate)


def orthogonalise(gradients: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """Return the nearest semi-orthogonal matrices of (n, rows, cols), by the quintic Newton–Schulz iteration: in
    bfloat16 on a GPU; CPUs without its instructions are many times slower with it, and not repeatable to the bit."""
    a, b, c = coefficients
    matrices = gradients.bfloat16() if gradients.is_cuda else gradients.float()
    tall = matrices.shape[1] > matrices.shape[2]
    if tall:
        matrices = matrices.mT
    matrices = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = matrices @ matrices.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        matrices = torch.baddbmm(matrices, polynomial, matrices, beta=a)
    return matrices.mT if tall else matrices


def make_optimizers(
    module: nn.Module, outside: Sequence[str], more: Iterable[nn.Parameter], rate: float, decay: float
) -> list[torch.optim.Optimizer]:
    """Return Muon for the matrices of a module whose names have no part in `outside`, AdamW for all other weights."""
    matrices = [
        value
        for name, value in module.named_parameters()
        if value.requires_grad and value.ndim == 2 and not any(part in name for part in outside)
    ]
    known = {id(value) for value in matrices}
    rest = [value for value in [*module.parameters(), *more] if value.requires_grad and id(value) not in known]
    fused = rest[0].device.type == "cuda"
    return [
        BatchedMuon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, weight_decay=decay, betas=(0.9, 0.98), fused=fused),
    ]
