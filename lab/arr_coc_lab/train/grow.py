"""A narrower `mini` inside a wider one: the same answers on the first day, and room to learn.

Nothing that the narrow one knows is lost. Its channels, heads and units come first in the wide one; what is new writes
nothing yet and reads at random, so that gradients reach it from the first steps on:

- New channels of the tower's stream carry the mean of the old ones. A LayerNorm then finds the same mean as before, and
  nothing in the new channels; its gains make up for the spread, which is smaller over more channels.
- New channels of the language model's stream are zero, which an RMSNorm takes the same way.
- New heads and new units of an MLP look and work, and nobody listens to them yet.

One place is not exact: DeepStack's mergers take the spread over four patches at once, to which the new channels add how
much the four means differ.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .checkpoints import load_shipped
from .mini_model import MiniConfig, build_mini

MERGED = 4  # patches that become one token


class Axis(NamedTuple):
    """One axis of a weight: the old entries of each of `parts` equal parts come first in the wide one's part."""

    parts: int = 1


PLAIN, MIXED, PATCHES = Axis(), Axis(3), Axis(MERGED)


class Role(NamedTuple):
    """What a weight does. new: what its new outputs are: "random", the "mean" of the old ones, "zero", or a "norm".
    outputs, inputs: its axes. heard: whether anybody listens to its new inputs on the first day."""

    new: str
    outputs: Axis = PLAIN
    inputs: Axis = PLAIN
    heard: bool = True


# By the end of the name, the first that fits.
READS, NORM = Role("random"), Role("norm")
WRITES_SEEN, WRITES_SAID = Role("mean", heard=False), Role("zero", heard=False)
ROLES = {
    "deepstack_merger_list.norm": Role("norm", PATCHES),
    "deepstack_merger_list.linear_fc1": Role("random", inputs=PATCHES, heard=False),
    "deepstack_merger_list.linear_fc2": WRITES_SAID,
    "merger.linear_fc1": Role("random", inputs=PATCHES),
    "merger.linear_fc2": WRITES_SAID,
    "patch_embed.proj": WRITES_SEEN,
    "pos_embed": WRITES_SEEN,
    "attn.qkv": Role("random", MIXED),
    "attn.proj": WRITES_SEEN,
    "mlp.linear_fc1": READS,
    "mlp.linear_fc2": WRITES_SEEN,
    "embed_tokens": WRITES_SAID,
    "lm_head": WRITES_SAID,
    **dict.fromkeys(("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj"), READS),
    **dict.fromkeys(("o_proj", "down_proj"), WRITES_SAID),
    **dict.fromkeys(("norm1", "norm2", "layernorm", "norm"), NORM),
}
# Their rows are what goes in.
TABLES = ("pos_embed", "embed_tokens", "lm_head")


def kept(axis: Axis, old: int, new: int) -> Tensor:
    """(old,) where the old entries of an axis lie among the new."""
    if old == new:
        return torch.arange(old)
    part = torch.arange(old // axis.parts)
    return torch.cat([part + number * (new // axis.parts) for number in range(axis.parts)])


def widened(name: str, value: Tensor, shape: Sequence[int], ratio: float, generator: torch.Generator) -> Tensor:
    """One parameter in its wide shape. ratio: the old width over the new one."""
    module, _, kind = name.rpartition(".")
    module = re.sub(r"\.\d+\.", ".", module)
    role = next(role for end, role in ROLES.items() if module.endswith(end))
    table = module.endswith(TABLES)
    # Everything is a matrix of outputs and inputs; a bias or a gain has one input.
    matrix = value.mT if table else value.flatten(1) if value.ndim > 1 else value[:, None]
    outputs = shape[1] if table else shape[0]
    inputs = math.prod(shape) // outputs
    rows, cols = kept(role.outputs, len(matrix), outputs), kept(role.inputs, matrix.shape[1], inputs)
    made = torch.zeros(outputs, inputs)
    if role.new == "norm" and kind == "weight" and outputs > len(matrix):
        matrix = matrix * math.sqrt(ratio)
        made += matrix.mean()
    elif role.new == "random" and kind == "weight":
        made.normal_(0, float(matrix.std()), generator=generator)
        if not role.heard:
            made[:] = made.index_fill(1, torch.tensor(sorted(set(range(inputs)) - set(cols.tolist()))), 0.0)
    elif role.new == "mean":
        made[:, cols] = matrix.mean(0)
    made[rows[:, None], cols] = matrix
    return (made.mT if table else made).reshape(tuple(shape))


def wider(config: MiniConfig, width: int) -> MiniConfig:
    """The same shape with more or fewer heads of the same size."""
    return replace(config, width=width, heads=width // config.head_size)


@torch.no_grad()
def grow(narrow: Any, wide: Any, seed: int = 0) -> None:
    """Write what a narrow `mini` knows into a wide one, which then answers as it does."""
    generator = torch.Generator().manual_seed(seed)
    ratio = narrow.config.text_config.hidden_size / wide.config.text_config.hidden_size
    own = dict(narrow.named_parameters())
    for name, parameter in wide.named_parameters():
        value = own[name].detach().float()
        parameter.copy_(widened(name, value, parameter.shape, ratio, generator))


def load_grown(folder: Path, modules: Mapping[str, Any], config: MiniConfig, seed: int = 0) -> None:
    """`load_shipped`, where a narrower `mini` is grown into the one of `modules`; its heads then begin afresh."""
    told = folder / "mini" / "config.json"
    width = json.loads(told.read_text(encoding="utf-8"))["text_config"]["hidden_size"] if told.is_file() else 0
    if not 0 < width < config.width:
        load_shipped(folder, modules)
        return
    narrow = build_mini(wider(config, width))
    load_shipped(folder, {"mini": narrow})
    grow(narrow, modules["mini"], seed)
