"""A dense Qwen3-VL in numpy: one picture, one question, straight from its safetensors.

Importing torch and transformers takes longer than `mini` takes to answer. This is the same arithmetic in single
precision, on leaves, with nothing imported but numpy; tests hold it equal to the stock class. One picture in a prompt,
greedy, on a processor: for anything else there is the stock class.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError

EPSILON = 1e-6  # of every LayerNorm of the tower


@dataclass(frozen=True, eq=False)
class Seen:
    """What the tower made of N leaves. embeds: (N, D). planes: the DeepStack planes, each (N, D)."""

    embeds: np.ndarray
    planes: tuple[np.ndarray, ...]


class NumpyQwen3VL:
    """The weights of a folder, and the two halves of a forward pass: `see` and `speak`."""

    def __init__(self, config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
        self.config, self.weights = config, weights
        self.vision, self.text = config["vision_config"], config["text_config"]
        if config.get("model_type") != "qwen3_vl" or self.vision["rope_parameters"]["rope_type"] != "axial":
            raise InputError("only a dense Qwen3-VL can be read without torch; load it with Eye.from_pretrained")
        rope = self.text["rope_parameters"]
        if rope["rope_type"] != "default" or self.text["hidden_act"] != "silu" or self.text.get("attention_bias"):
            raise InputError("only the stock class knows all parts of this Qwen3-VL; load it with Eye.from_pretrained")

    @classmethod
    def from_folder(cls, folder: Path) -> NumpyQwen3VL:
        """All safetensors of a folder, in single precision."""
        from safetensors import SafetensorError, safe_open

        weights: dict[str, np.ndarray] = {}
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            for path in sorted(folder.glob("*.safetensors")):
                with safe_open(path, framework="np") as file:
                    weights |= {name: file.get_tensor(name).astype(np.float32) for name in file.keys()}  # noqa: SIM118
            return cls(config, weights)
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            raise InputError(f"{folder} cannot be read ({error}); install arr-coc again, or train it again") from error

    @property
    def merge(self) -> int:
        return self.vision["spatial_merge_size"]

    @property
    def cell(self) -> int:
        """Pixels on the side of a token of level 0."""
        return self.merge * self.vision["patch_size"]

    # ---- the tower ---------------------------------------------------------------------------------------------------

    def see(self, picture: np.ndarray, leaves: np.ndarray) -> Seen:
        """picture: (3, H, W) float32 as the processor normalises it, sides multiples of a cell. leaves: (N, 3) row, col
        and level, in the order of the tokens."""
        size, heads = self.vision["patch_size"], self.vision["num_heads"]
        patches = leaf_patches(picture, leaves, self.merge, size, self.vision["temporal_patch_size"])
        places = patch_places(leaves, self.merge)
        grid = np.array(picture.shape[1:]) // size
        table = self._weight("visual.pos_embed.weight")
        states = patches @ self._weight("visual.patch_embed.proj.weight").reshape(-1, patches.shape[1]).T
        states += self._weight("visual.patch_embed.proj.bias")
        states += position_rows(table, places, grid)
        rotation = rotations(places @ _axes(heads, states.shape[1], self.vision["rope_parameters"]["rope_theta"]))
        planes = []
        for number in range(self.vision["depth"]):
            block = f"visual.blocks.{number}."
            queries, keys, values = (
                self._linear(self._norm(states, block + "norm1"), block + "attn.qkv")
                .reshape(len(states), 3, heads, -1)
                .transpose(1, 2, 0, 3)
            )
            attended = attention(rotate(queries, rotation), rotate(keys, rotation), values)
            states += self._linear(attended, block + "attn.proj")
            inner = self._linear(self._norm(states, block + "norm2"), block + "mlp.linear_fc1")
            states += self._linear(soft_gelu(inner), block + "mlp.linear_fc2")
            if number in self.vision["deepstack_visual_indexes"]:
                which = self.vision["deepstack_visual_indexes"].index(number)
                planes.append(self._merged(states, f"visual.deepstack_merger_list.{which}.", norm_after=True))
        return Seen(self._merged(states, "visual.merger.", norm_after=False), tuple(planes))

    def _merged(self, states: np.ndarray, part: str, norm_after: bool) -> np.ndarray:
        """(N · merge², D) → (N, D')."""
        width = states.shape[1] * self.merge**2
        states = states.reshape(-1, width) if norm_after else states
        states = self._norm(states, part + "norm").reshape(-1, width)
        return self._linear(exact_gelu(self._linear(states, part + "linear_fc1")), part + "linear_fc2")

    # ---- the language model ------------------------------------------------------------------------------------------

    def speak(
        self, ids: Sequence[int], seen: Seen, leaves: np.ndarray, grid: tuple[int, int], most: int
    ) -> Iterator[tuple[int, np.ndarray]]:
        """Greedy tokens with the logits (vocabulary,) of each, up to the one that ends, or `most`.

        ids: a prompt with one placeholder for each leaf. grid: level-0 tokens of the picture, rows and cols.
        """
        tokens = np.array(ids)
        visual = tokens == self.config["image_token_id"]
        if int(visual.sum()) != len(seen.embeds):
            raise InputError(f"the prompt holds {int(visual.sum())} placeholders for {len(seen.embeds)} visual tokens")
        table = self._weight("language_model.embed_tokens.weight")
        states = table[tokens]
        states[visual] = seen.embeds
        places, following = prompt_places(visual, leaves, grid)
        cache: list[tuple[np.ndarray, np.ndarray]] = []
        head = table if self.config.get("tie_word_embeddings", True) else self.weights["lm_head.weight"]
        ends = self.text.get("eos_token_id")
        ending = set(ends) if isinstance(ends, list) else {ends}
        states = self._layers(states, places, cache, visual, seen.planes)
        for number in range(most):
            logits = head @ states[-1]
            token = int(logits.argmax())
            yield token, logits
            if token in ending or number + 1 == most:
                return
            place = np.full((3, 1), following + number, dtype=np.float32)
            states = self._layers(table[[token]], place, cache)

    def _layers(
        self,
        states: np.ndarray,
        places: np.ndarray,
        cache: list[tuple[np.ndarray, np.ndarray]],
        visual: np.ndarray | None = None,
        planes: Sequence[np.ndarray] = (),
    ) -> np.ndarray:
        """(L, D) → (L, D) after the last norm. places: (3, L). cache: keys and values so far, added to."""
        text, length = self.text, len(states)
        heads, shared, size = text["num_attention_heads"], text["num_key_value_heads"], text["head_dim"]
        rotation = rotations(self._angles(places))
        first = not cache
        for number in range(text["num_hidden_layers"]):
            layer = f"language_model.layers.{number}."
            normed = self._root_norm(states, layer + "input_layernorm")
            queries, keys, values = (
                (normed @ self._weight(f"{layer}self_attn.{name}_proj.weight").T).reshape(length, count, size)
                for name, count in (("q", heads), ("k", shared), ("v", shared))
            )
            queries, keys = (
                rotate(self._root_norm(part, f"{layer}self_attn.{name}_norm").transpose(1, 0, 2), rotation)
                for name, part in (("q", queries), ("k", keys))
            )
            values = values.transpose(1, 0, 2)
            if first:
                cache.append((keys, values))
            else:
                keys, values = (np.concatenate(pair, 1) for pair in zip(cache[number], (keys, values), strict=True))
                cache[number] = keys, values
            keys, values = (np.repeat(part, heads // shared, 0) for part in (keys, values))
            attended = attention(queries, keys, values, causal=first)
            states = states + attended @ self._weight(layer + "self_attn.o_proj.weight").T
            normed = self._root_norm(states, layer + "post_attention_layernorm")
            gate, up = (normed @ self._weight(f"{layer}mlp.{name}_proj.weight").T for name in ("gate", "up"))
            states = states + (gate / (1 + np.exp(-gate)) * up) @ self._weight(layer + "mlp.down_proj.weight").T
            if visual is not None and number < len(planes):
                states[visual] += planes[number]
        return self._root_norm(states[-1:], "language_model.norm")

    def _angles(self, places: np.ndarray) -> np.ndarray:
        """(3, L) places in time, row and column → (L, head size / 2): which of them turns each pair is interleaved."""
        rope, half = self.text["rope_parameters"], self.text["head_dim"] // 2
        turned = np.zeros(half, dtype=np.int64)
        for axis in (1, 2):
            turned[axis : rope["mrope_section"][axis] * 3 : 3] = axis
        frequencies = rope["rope_theta"] ** -(np.arange(half, dtype=np.float32) / half)
        return (places[turned] * frequencies[:, None]).T.astype(np.float32)

    # ---- weights -----------------------------------------------------------------------------------------------------

    def _weight(self, name: str) -> np.ndarray:
        return self.weights["model." + name]

    def _linear(self, states: np.ndarray, part: str) -> np.ndarray:
        return states @ self._weight(part + ".weight").T + self._weight(part + ".bias")

    def _norm(self, states: np.ndarray, part: str) -> np.ndarray:
        centred = states - states.mean(-1, keepdims=True)
        spread = np.sqrt((centred * centred).mean(-1, keepdims=True) + EPSILON)
        return centred / spread * self._weight(part + ".weight") + self._weight(part + ".bias")

    def _root_norm(self, states: np.ndarray, part: str) -> np.ndarray:
        size = np.sqrt((states * states).mean(-1, keepdims=True) + self.text["rms_norm_eps"])
        return states / size * self._weight(part + ".weight")


# ---- where leaves are: `realizing.positions` and `realizing.patches` for one picture ---------------------------------


def leaf_patches(picture: np.ndarray, leaves: np.ndarray, merge: int, size: int, temporal: int) -> np.ndarray:
    """(3, H, W), (N, 3) → (N · merge², 3 · temporal · size²): each leaf's pixels at its own resolution."""
    cell, plane = merge * size, picture
    result = np.empty((len(leaves), merge, merge, len(picture), temporal, size, size), dtype=np.float32)
    for level in range(int(leaves[:, 2].max()) + 1):
        if level:
            plane = _padded(plane, 2)
            plane = (plane[:, ::2, ::2] + plane[:, 1::2, ::2] + plane[:, ::2, 1::2] + plane[:, 1::2, 1::2]) / 4
        here = leaves[:, 2] == level
        if not here.any():
            continue
        whole = _padded(plane, cell)
        rows, cols = whole.shape[1] // cell, whole.shape[2] // cell
        blocks = whole.reshape(-1, rows, merge, size, cols, merge, size).transpose(1, 4, 2, 5, 0, 3, 6)
        result[here] = blocks[leaves[here, 0] >> level, leaves[here, 1] >> level][:, :, :, :, None]
    return result.reshape(len(leaves) * merge**2, -1)


def _padded(plane: np.ndarray, multiple: int) -> np.ndarray:
    """(C, H, W) with its right and bottom edge repeated up to a multiple."""
    below, right = -plane.shape[1] % multiple, -plane.shape[2] % multiple
    return np.pad(plane, ((0, 0), (0, below), (0, right)), mode="edge") if below or right else plane


def patch_places(leaves: np.ndarray, merge: int) -> np.ndarray:
    """(N, 3) → (N · merge², 2) float32: centres of the patches, in patches of level 0."""
    inside = np.stack(np.meshgrid(np.arange(merge), np.arange(merge), indexing="ij"), -1).reshape(-1, 2)
    scale = np.exp2(leaves[:, 2].astype(np.float32))[:, None, None]
    places = merge * leaves[:, None, :2] + (inside + 0.5) * scale - 0.5
    return places.reshape(-1, 2).astype(np.float32)


def position_rows(table: np.ndarray, places: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(S², D) learned positions, read bilinearly at (N, 2) places of a picture of `size` patches: (N, D)."""
    side = round(len(table) ** 0.5)
    source = np.clip(places * (side - 1) / np.maximum(size - 1, 1), 0, side - 1).astype(np.float32)
    low = np.floor(source)
    share, low = source - low, low.astype(np.int64)
    high = np.minimum(low + 1, side - 1)
    total = np.zeros((len(places), table.shape[1]), dtype=np.float32)
    for row, row_share in ((low[:, 0], 1 - share[:, 0]), (high[:, 0], share[:, 0])):
        for col, col_share in ((low[:, 1], 1 - share[:, 1]), (high[:, 1], share[:, 1])):
            total += table[row * side + col] * (row_share * col_share)[:, None]
    return total


def prompt_places(visual: np.ndarray, leaves: np.ndarray, grid: tuple[int, int]) -> tuple[np.ndarray, int]:
    """(L,) bool → (3, L) float32 time, row, column of every token, and the place of the next one.

    Text counts on; a picture takes the longer side of its grid, however few tokens it has."""
    places = np.cumsum(~visual) - (~visual)
    span = max(grid)
    first = int(visual.argmax())
    places = (places + span * (np.arange(len(visual)) > first) * ~visual).astype(np.float32)
    last = np.minimum(leaves[:, :2] + (1 << leaves[:, 2:3]), grid) - 1
    centres = (leaves[:, :2] + last).astype(np.float32) / 2
    result = np.repeat(places[None], 3, 0)
    result[:, visual] = first
    result[1:, visual] += centres.T
    return result, int((~visual).sum()) + span


# ---- arithmetic ------------------------------------------------------------------------------------------------------


def _axes(heads: int, width: int, theta: float) -> np.ndarray:
    """(2, head size / 2): row and column each turn half of the pairs."""
    quarter = width // heads // 4
    frequencies = theta ** -(np.arange(quarter, dtype=np.float32) / quarter)
    nothing = np.zeros_like(frequencies)
    return np.stack([np.concatenate([frequencies, nothing]), np.concatenate([nothing, frequencies])]).astype(np.float32)


def rotations(angles: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(L, half) → cosine and sine, each (L, half)."""
    return np.cos(angles), np.sin(angles)


def rotate(states: np.ndarray, rotation: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """(heads, L, size), every pair (i, i + size / 2) turned by its angle."""
    cosine, sine = rotation
    first, second = np.split(states, 2, axis=-1)
    return np.concatenate([first * cosine - second * sine, second * cosine + first * sine], axis=-1)


def attention(queries: np.ndarray, keys: np.ndarray, values: np.ndarray, causal: bool = False) -> np.ndarray:
    """(heads, L, size), (heads, L', size) twice → (L, heads · size)."""
    scores = (queries * np.float32(queries.shape[-1] ** -0.5)) @ keys.transpose(0, 2, 1)
    if causal:
        scores += np.triu(np.full(scores.shape[1:], -np.inf, dtype=np.float32), 1)
    scores -= scores.max(-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(-1, keepdims=True)
    return (scores @ values).transpose(1, 0, 2).reshape(queries.shape[1], -1)


def soft_gelu(states: np.ndarray) -> np.ndarray:
    """GELU by the hyperbolic tangent, as the tower's blocks have it."""
    inner = states * (np.float32(0.7978845608028654) * (1 + np.float32(0.044715) * states * states))
    return 0.5 * states * (1 + np.tanh(inner))


def exact_gelu(states: np.ndarray) -> np.ndarray:
    """GELU as it is defined; the error function by Abramowitz and Stegun's 7.1.26, to 1.5e-7."""
    size = np.abs(states) * np.float32(0.7071067811865476)
    step = 1 / (1 + np.float32(0.3275911) * size)
    series = np.float32(1.061405429)
    for term in (-1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = series * step + np.float32(term)
    error = np.sign(states) * (1 - series * step * np.exp(-size * size))
    return 0.5 * states * (1 + error)
