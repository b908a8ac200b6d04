"""A dense Qwen3-VL without torch: one picture, one question, straight from its safetensors.

Importing torch and transformers takes longer than `mini` takes to answer. This is the same arithmetic in single
precision, on leaves, as two ONNX graphs, the tower and the language model, written from the weights when they are
loaded; tests hold it equal to the stock class. One picture in a prompt, greedy, on a processor: for anything else there
is the stock class. All products are the runtime's: numpy's own library has threads too, and both would wait for the
other's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ...core.errors import InputError
from ...core.onnx import MICROSOFT, Graph, Session
from ..base import DecodingStep
from ..tokens.positions import (
    axial_angles,
    interleaved_angles,
    language_positions,
    position_taps,
    prompt_positions,
    rotary_speeds,
    vision_positions,
)

TANH_GELU = "FastGelu"  # the runtime's name for GELU by the hyperbolic tangent, as the tower's blocks have it


@dataclass(frozen=True, eq=False)
class VisualFeatures:
    """What the tower made of N leaves. embeds: (N, D). planes: the DeepStack planes, each (N, D)."""

    embeds: np.ndarray
    planes: tuple[np.ndarray, ...]


class OnnxQwen3VL:
    """The weights of a folder, and the two halves of a forward pass: `see`, and `OnnxSpeaker`."""

    def __init__(self, config: dict[str, Any], weights: dict[str, np.ndarray]) -> None:
        self.config = config
        self.vision, self.text = config["vision_config"], config["text_config"]
        if config.get("model_type") != "qwen3_vl" or self.vision["rope_parameters"]["rope_type"] != "axial":
            raise InputError("only a dense Qwen3-VL can be read without torch; load it with Eye.from_pretrained")
        rope = self.text["rope_parameters"]
        if rope["rope_type"] != "default" or self.text["hidden_act"] != "silu" or self.text.get("attention_bias"):
            raise InputError("only the stock class knows all parts of this Qwen3-VL; load it with Eye.from_pretrained")
        self.positions = weights["model.visual.pos_embed.weight"]
        self.embeddings = weights["model.language_model.embed_tokens.weight"]
        self.tower, self.speaker = tower_of(self.vision, weights), speaker_of(config, weights)

    @classmethod
    def from_folder(cls, folder: Path) -> OnnxQwen3VL:
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

    def see(self, picture: np.ndarray, leaves: np.ndarray) -> VisualFeatures:
        """picture: (3, H, W) float32 as the processor normalises it, sides multiples of a cell. leaves: (N, 3) row, col
        and level, in the order of the tokens."""
        size = self.vision["patch_size"]
        places = vision_positions(leaves, self.merge).reshape(-1, 2)
        base = self.vision["rope_parameters"]["rope_theta"]
        angles = axial_angles(places, rotary_speeds(base, self.vision["hidden_size"] // self.vision["num_heads"] // 2))
        feed = {
            "patches": leaf_patches(picture, leaves, self.merge, size, self.vision["temporal_patch_size"]),
            "places": position_rows(self.positions, places, np.array(picture.shape[1:]) // size),
            "cosine": np.cos(angles),
            "sine": np.sin(angles),
        }
        embeds, *planes = self.tower.run(None, feed)
        return VisualFeatures(embeds, tuple(planes))

    @property
    def ends(self) -> list[int]:
        """The tokens that end an answer."""
        ends = self.text.get("eos_token_id")
        return list(ends) if isinstance(ends, list) else [ends]


class OnnxSpeaker:
    """A prompt that `OnnxQwen3VL` answers, for `eye.decoding.greedy_steps`. ids: with one placeholder for each leaf.
    seen: what the tower made of the leaves (N, 3). grid: level-0 tokens of the picture, rows and cols."""

    def __init__(
        self,
        reader: OnnxQwen3VL,
        ids: Sequence[int],
        seen: VisualFeatures,
        leaves: np.ndarray,
        grid: tuple[int, int],
    ) -> None:
        self.reader, tokens, text = reader, np.array(ids), reader.text
        visual = tokens == reader.config["image_token_id"]
        if int(visual.sum()) != len(seen.embeds):
            raise InputError(f"the prompt holds {int(visual.sum())} placeholders for {len(seen.embeds)} visual tokens")
        self.states = reader.embeddings[tokens]
        self.states[visual] = seen.embeds
        self.planes = [np.zeros_like(self.states) for _ in seen.planes]
        for plane, values in zip(self.planes, seen.planes, strict=True):
            plane[visual] = values
        offsets = language_positions(leaves, np.array(grid))
        counts, spans = np.array([len(leaves)]), np.array([max(grid)])
        positions, (self.following,) = prompt_positions(visual[None], counts, spans, offsets, np.ones((1, len(tokens))))
        self.positions = positions[1:, 0]
        self.speeds = rotary_speeds(text["rope_parameters"]["rope_theta"], text["head_dim"])
        nothing = np.zeros((1, text["num_attention_heads"], 0, text["head_dim"]), np.float32)
        self.cache = [nothing] * (2 * text["num_hidden_layers"])

    def begin(self) -> DecodingStep:
        angles = interleaved_angles(self.positions, self.speeds, self.reader.text["rope_parameters"]["mrope_section"])
        feed = {"states": self.states, "cosine": np.cos(angles), "sine": np.sin(angles)}
        feed |= {f"plane{index}": plane for index, plane in enumerate(self.planes)}
        feed |= {f"past{index}": past for index, past in enumerate(self.cache)}
        logits, *self.cache = self.reader.speaker.run(None, feed)
        return DecodingStep(logits.argmax(-1), logits)

    def go_on(self, ids: np.ndarray) -> DecodingStep:
        self.states = self.reader.embeddings[ids]
        self.planes = [np.zeros_like(self.states)] * len(self.planes)
        self.positions = np.full((3, 1), self.following, np.float32)
        self.following += 1
        return self.begin()


# ---- the graphs ------------------------------------------------------------------------------------------------------


def turned(graph: Graph, states: str, width: int, cosine: str = "cosine", sine: str = "sine") -> str:
    """(L, width), every pair (i, i + half a head) of every head turned by its angle → (1, L, width)."""
    start = graph.weight([0], "int64")
    return graph.add("RotaryEmbedding", graph.shaped(states, 1, -1, width), start, cosine, sine, domain=MICROSOFT)


def tower_of(vision: dict[str, Any], weights: dict[str, np.ndarray]) -> Session:
    """patches (N, ·), places (N, D) and the angles of the patches → embeds (N / merge², D'), and the planes."""
    graph, heads, width = Graph(), vision["num_heads"], vision["hidden_size"]
    joined = width * vision["spatial_merge_size"] ** 2

    def of(part: str) -> tuple[np.ndarray, np.ndarray]:
        return weights[f"model.visual.{part}.weight"], weights[f"model.visual.{part}.bias"]

    def merged(states: str, part: str, norm_after: bool) -> str:
        states = graph.shaped(states, -1, joined) if norm_after else states
        states = graph.shaped(graph.norm(states, *of(f"{part}.norm")), -1, joined)
        hidden = graph.add("Gelu", graph.linear(states, *of(f"{part}.linear_fc1")))
        return graph.linear(hidden, *of(f"{part}.linear_fc2"))

    weight, bias = of("patch_embed.proj")
    weight = weight.reshape(len(weight), -1)
    patches, places = graph.input("patches", "N", weight.shape[1]), graph.input("places", "N", width)
    for name in ("cosine", "sine"):
        graph.input(name, "N", width // heads // 2)
    states = graph.add("Add", graph.linear(patches, weight, bias), places)
    planes = []
    for number in range(vision["depth"]):
        block = f"blocks.{number}"
        normed = graph.norm(states, *of(f"{block}.norm1"))
        parts = zip(*(np.split(one, 3) for one in of(f"{block}.attn.qkv")), strict=True)
        queries, keys, values = (graph.linear(normed, *one) for one in parts)
        given = turned(graph, queries, width), turned(graph, keys, width), graph.shaped(values, 1, -1, width)
        attended = graph.add("MultiHeadAttention", *given, domain=MICROSOFT, num_heads=heads)
        attended = graph.linear(graph.shaped(attended, -1, width), *of(f"{block}.attn.proj"))
        states = graph.add("Add", states, attended)
        inner = graph.linear(graph.norm(states, *of(f"{block}.norm2")), *of(f"{block}.mlp.linear_fc1"))
        inner = graph.add(TANH_GELU, inner, domain=MICROSOFT)
        states = graph.add("Add", states, graph.linear(inner, *of(f"{block}.mlp.linear_fc2")))
        if number in vision["deepstack_visual_indexes"]:
            which = vision["deepstack_visual_indexes"].index(number)
            planes.append(merged(states, f"deepstack_merger_list.{which}", norm_after=True))
    return graph.session(merged(states, "merger", norm_after=False), *planes)


def speaker_of(config: dict[str, Any], weights: dict[str, np.ndarray]) -> Session:
    """states (L, D), the planes (L, D) to add behind the first layers, the angles of the tokens, and keys and values so
    far → logits (1, vocabulary) of the last token, and keys and values for the next call."""
    graph, text, root = Graph(), config["text_config"], "model.language_model"
    heads, shared, size, width = (
        text[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
    )

    def of(part: str) -> np.ndarray:
        return weights[f"{root}.{part}.weight"]

    def spread(weight: np.ndarray) -> np.ndarray:
        """Keys and values that several heads share, for each of them."""
        return np.repeat(weight.reshape(shared, size, -1), heads // shared, 0).reshape(heads * size, -1)

    def normed(states: str, part: str) -> str:
        return graph.root_norm(states, of(part), text["rms_norm_eps"])

    states = graph.input("states", "L", width)
    for name in ("cosine", "sine"):
        graph.input(name, "L", size // 2)
    planes = [
        graph.input(f"plane{number}", "L", width)
        for number in range(len(config["vision_config"]["deepstack_visual_indexes"]))
    ]
    ends = [graph.weight([value], "int64") for value in (-1, 1 << 62)]
    angles, cache = ["cosine", "sine"], []
    for number in range(text["num_hidden_layers"]):
        layer, last = f"layers.{number}", number == text["num_hidden_layers"] - 1
        entered = normed(states, f"{layer}.input_layernorm")
        asking, laid = entered, planes[number : number + 1]
        if last:  # of what it makes, nothing but the last token is read
            states, asking, *angles = (graph.add("Slice", one, *ends) for one in (states, entered, *angles))
            laid = [graph.add("Slice", one, *ends) for one in laid]
        projected = [of(f"{layer}.self_attn.{name}_proj") for name in "qkv"]
        queries = graph.linear(asking, projected[0])
        keys, values = (graph.linear(entered, spread(one)) for one in projected[1:])
        queries, keys = (
            turned(
                graph, normed(graph.shaped(one, -1, heads, size), f"{layer}.self_attn.{name}_norm"), heads * size, *by
            )
            for name, one, by in (("q", queries, angles), ("k", keys, ["cosine", "sine"]))
        )
        past = [graph.input(f"past{2 * number + part}", 1, heads, "P", size) for part in range(2)]
        given = (queries, keys, graph.shaped(values, 1, -1, heads * size), "", "", "", *past)
        attended, *present = graph.several(
            3, "MultiHeadAttention", *given, domain=MICROSOFT, num_heads=heads, unidirectional=int(not last)
        )
        cache += present
        attended = graph.linear(graph.shaped(attended, -1, heads * size), of(f"{layer}.self_attn.o_proj"))
        states = graph.add("Add", states, attended)
        entered = normed(states, f"{layer}.post_attention_layernorm")
        gate, up = (graph.linear(entered, of(f"{layer}.mlp.{name}_proj")) for name in ("gate", "up"))
        inner = graph.add("Mul", graph.add("QuickGelu", gate, domain=MICROSOFT, alpha=1.0), up)
        states = graph.add("Add", states, graph.linear(inner, of(f"{layer}.mlp.down_proj")))
        for plane in laid:
            states = graph.add("Add", states, plane)
    head = of("embed_tokens") if config.get("tie_word_embeddings", True) else weights["lm_head.weight"]
    return graph.session(graph.linear(normed(states, "norm"), head), *cache)


# ---- the patches of one picture --------------------------------------------------------------------------------------


def leaf_patches(picture: np.ndarray, leaves: np.ndarray, merge: int, size: int, temporal: int) -> np.ndarray:
    """(3, H, W), (N, 3) → (N · merge², 3 · temporal · size²): each leaf's pixels at its own resolution."""
    import cv2

    cell, plane = merge * size, picture
    result = np.empty((len(leaves), merge, merge, len(picture), temporal, size, size), dtype=np.float32)
    for level in range(int(leaves[:, 2].max()) + 1):
        if level:
            plane = _padded(plane, 2)
            half = plane.shape[2] // 2, plane.shape[1] // 2
            plane = np.stack([cv2.resize(one, half, interpolation=cv2.INTER_AREA) for one in plane])
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


def position_rows(table: np.ndarray, places: np.ndarray, size: np.ndarray) -> np.ndarray:
    """(S², D) learned positions, read bilinearly at (N, 2) places of a picture of `size` patches: (N, D)."""
    indices, weights = position_taps(places, size, round(len(table) ** 0.5))
    total = np.zeros((len(places), table.shape[1]), dtype=np.float32)
    for tap in range(4):
        total += table[indices[:, tap]] * weights[:, tap, None]
    return total
