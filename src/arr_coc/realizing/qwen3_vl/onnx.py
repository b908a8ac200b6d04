"""A dense Qwen3-VL without torch: one picture, one question, from two ONNX graphs beside its safetensors.

Importing torch and transformers takes longer than `mini` takes to answer. `tower.onnx` sees leaves, `speaker.onnx` is
the language model; both run in single precision, and tests hold them equal to the stock class. One picture in a prompt,
greedy, on a processor: for anything else there is the stock class. All products are the runtime's: numpy's own library
has threads too, and both would wait for the other's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ...core.errors import InputError
from ...core.folders import Session, stored
from ..base import DecodingStep, VisualTokens
from ..positions import (
    axial_angles,
    interleaved_angles,
    language_positions,
    position_taps,
    prompt_positions,
    rotary_speeds,
    vision_positions,
)


class OnnxQwen3VL:
    """The weights of a folder, and the two halves of a forward pass: `see`, and `OnnxSpeaker`."""

    def __init__(self, folder: Path) -> None:
        try:
            config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
            self.config, self.vision, self.text = config, config["vision_config"], config["text_config"]
            names = ("model.visual.pos_embed.weight", "model.language_model.embed_tokens.weight")
            self.positions, self.embeddings = stored(folder, *names)
            self.tower, self.speaker = (Session(folder / name) for name in ("tower.onnx", "speaker.onnx"))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InputError(f"{folder} cannot be read ({error}); install arr-coc again, or train it again") from error

    def see(self, picture: np.ndarray, leaves: np.ndarray) -> VisualTokens:
        """picture: (3, H, W) float32 as the processor normalises it, sides multiples of a cell. leaves: (N, 3) row, col
        and level, in the order of the tokens."""
        size, merge = self.vision["patch_size"], self.vision["spatial_merge_size"]
        places = vision_positions(leaves, merge).reshape(-1, 2)
        indices, weights = position_taps(places, np.array(picture.shape[1:]) // size, round(len(self.positions) ** 0.5))
        base = self.vision["rope_parameters"]["rope_theta"]
        angles = axial_angles(places, rotary_speeds(base, self.vision["hidden_size"] // self.vision["num_heads"] // 2))
        feed = {
            "patches": leaf_patches(picture, leaves, merge, size, self.vision["temporal_patch_size"]),
            "places": (self.positions[indices] * weights[:, :, None]).sum(1),
            "cosine": np.cos(angles),
            "sine": np.sin(angles),
        }
        embeds, *planes = self.tower.run(None, feed)
        return VisualTokens(embeds, tuple(planes))

    @property
    def ends(self) -> list[int]:
        """The tokens that end an answer."""
        ends = self.text.get("eos_token_id")
        return list(ends) if isinstance(ends, list) else [ends]


class OnnxSpeaker:
    """A prompt that `OnnxQwen3VL` answers, for `eye.decoding.greedy_steps`. ids: with one placeholder for each leaf.
    seen: what the tower made of the leaves (N, 3). grid: level-0 tokens of the picture, rows and cols."""

    def __init__(
        self, reader: OnnxQwen3VL, ids: Sequence[int], seen: VisualTokens, leaves: np.ndarray, grid: tuple[int, int]
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


# ---- the patches of one picture --------------------------------------------------------------------------------------


def leaf_patches(picture: np.ndarray, leaves: np.ndarray, merge: int, size: int, temporal: int) -> np.ndarray:
    """Convert (3, H, W), (N, 3) → (N · merge², 3 · temporal · size²): each leaf's pixels at its own resolution."""
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
    """Return (C, H, W) with its right and bottom edge repeated up to a multiple."""
    below, right = -plane.shape[1] % multiple, -plane.shape[2] % multiple
    return np.pad(plane, ((0, 0), (0, below), (0, right)), mode="edge") if below or right else plane
