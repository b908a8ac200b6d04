"""The user's own image-text encoder as a source of relevance: `relevance="encoder:FOLDER"`, any CLIP or SigLIP.

Dense features of the picture (`sensing.semantic`: each patch sent down the path that the pooled token takes, MaskCLIP's
idea) against the text of the question and against texts that name nothing in particular: what matters is where the
picture is more like the question than like "a photo". Several overlapping windows at the encoder's own resolution are
looked at beside the whole, because an encoder of 224 pixels sees no small thing in a large picture.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from ..core.errors import InputError
from ..core.values import Relevance
from .photos.things import thesaurus

if TYPE_CHECKING:
    import torch

    from ..texture.semantic import SemanticEncoder
    from .scene import Scene

# What is in any picture; the question must be more like a place than these are.
NOTHING = ("a photo", "background", "a texture", "the ground", "the sky", "a wall", "something else")
TEMPLATE = "a photo of {}"
# Cosines of such encoders differ by a few hundredths between what fits and what does not; CLIP was trained to weigh
# them by a hundred. A judgement: dense features are less sure than whole pictures.
SHARPNESS = 40.0
# Windows along the longer side, beside the whole picture; each overlaps the next by half.
WINDOWS = 2
MAP_SIDE = 128
# What the place of greatest likeness counts beside the share against NOTHING, which saturates.
CONTRAST = 0.5


def encoder_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "encoder:FOLDER"; option: a folder or a name that transformers can load."""
    encoder = load_encoder(option, str(scene.device))
    found = likeness(encoder, scene.tensor, query)
    note = f"image-text encoder {option}: {phrase(query)!r} against {len(NOTHING)} texts that name nothing"
    return Relevance(found, query=query, participatory=found, notes=(note,))


@lru_cache(maxsize=2)
def load_encoder(name: str, device: str = "cpu") -> SemanticEncoder:
    """A `sensing.SemanticEncoder`, read once in a process."""
    from ..texture.semantic import SemanticEncoder

    encoder = SemanticEncoder.from_pretrained(name)
    encoder.model.to(device)
    return encoder


def phrase(query: str) -> str:
    """What a question names, for a text encoder: "Where is the red car?" → "a photo of red car"."""
    words = [word for word in re.findall(r"[\w'-]+", query.lower()) if word not in thesaurus().asking]
    return TEMPLATE.format(" ".join(words) if words else query.strip() or "something")


def likeness(encoder: SemanticEncoder, picture: torch.Tensor, query: str) -> np.ndarray:
    """(3, H, W) in [0, 1] and a question → (h, w) float32 in [0, 1], the likest place 1."""
    import torch
    import torch.nn.functional as F

    features, _ = encoder.text_features([phrase(query), *NOTHING])
    texts = F.normalize(features[:, -1].float(), dim=-1)
    height, width = picture.shape[-2:]
    scale = MAP_SIDE / max(height, width)
    shape = max(1, round(height * scale)), max(1, round(width * scale))
    total, count = torch.zeros(shape), torch.zeros(shape)
    for top, left, bottom, right in windows(height, width):
        patches = F.normalize(encoder.image_features(picture[None, :, top:bottom, left:right]).float(), dim=-1)[0]
        cosines = torch.einsum("hwd,td->thw", patches, texts)
        share = (SHARPNESS * cosines).softmax(0)[0]
        # Beside the share: the cosine itself, less that of the texts that name nothing.
        beyond = cosines[0] - cosines[1:].mean(0)
        one = share + CONTRAST * torch.sigmoid(SHARPNESS * beyond)
        rows = slice(round(top * scale), max(round(top * scale) + 1, round(bottom * scale)))
        cols = slice(round(left * scale), max(round(left * scale) + 1, round(right * scale)))
        size = total[rows, cols].shape
        total[rows, cols] += F.interpolate(one[None, None].cpu(), size=size, mode="bilinear", align_corners=False)[0, 0]
        count[rows, cols] += 1
    found = (total / count.clamp_min(1)).numpy()
    if not np.isfinite(found).all():
        raise InputError("the encoder gives no numbers for this picture; check its weights")
    span = float(found.max() - found.min())
    return ((found - found.min()) / max(span, 1e-9)).astype(np.float32)


def windows(height: int, width: int) -> list[tuple[int, int, int, int]]:
    """The whole picture, and square windows that overlap by half: top, left, bottom, right."""
    side = -(-max(height, width) // WINDOWS)
    found = [(0, 0, height, width)]
    steps = [
        sorted({min(start, max(0, length - side)) for start in range(0, length, max(1, side // 2))})
        for length in (height, width)
    ]
    found += [(top, left, min(height, top + side), min(width, left + side)) for top in steps[0] for left in steps[1]]
    return found
