"""Clusters from SAM or SAM 2: automatic masks over a grid of points, through transformers, from a name or a path."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import InputError
from . import backend_torch as ops
from .channels import view_size
from .clusters import Clusters, lab_at, tidy
from .inputs import picture_array, picture_batch
from .slic import compact, slic

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
POINTS_AT_ONCE = 64


class MaskGenerator:
    """A SAM or SAM 2 model that proposes masks for a whole picture."""

    def __init__(self, model: Any) -> None:
        self.model = model.eval()
        kind = model.config.model_type
        if not kind.startswith("sam"):
            raise InputError(f"{kind} is not a SAM model; give the name or the folder of a SAM or SAM 2 checkpoint")
        # SAM keeps the aspect ratio and pads; SAM 2 squeezes the picture into a square.
        self.keeps_aspect = kind == "sam"
        self.side = _first(model.config.prompt_encoder_config.image_size)

    @classmethod
    def from_pretrained(cls, name: str | Path) -> MaskGenerator:
        from transformers import AutoConfig, Sam2Model, SamModel

        try:
            kind = AutoConfig.from_pretrained(str(name)).model_type
            model = (Sam2Model if kind.startswith("sam2") else SamModel).from_pretrained(str(name))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load SAM from {name}: {error}") from error
        return cls(model)

    @torch.no_grad()
    def masks(
        self, picture: Any, points: int = 16, quality: float = 0.88, stability: float = 0.92, overlap: float = 0.7
    ) -> torch.Tensor:
        """(N, h, w) bool, best first: masks at the decoder's resolution, cut to the picture, near-duplicates removed.

        points: prompts along each side. quality: least predicted overlap with the true mask. stability: least overlap
        between the mask drawn tightly and drawn loosely. overlap: above it, the worse of two masks goes.
        """
        pixels, used = self._pixels(picture)
        embeddings = self.model.get_image_embeddings(pixels)
        steps = (torch.arange(points, device=pixels.device) + 0.5) / points
        y, x = torch.meshgrid(steps * used[0], steps * used[1], indexing="ij")
        prompts = torch.stack([x.flatten(), y.flatten()], 1)[None, :, None]  # (1, P, 1, 2)
        logits, scores = [], []
        for chunk in prompts.split(POINTS_AT_ONCE, dim=1):
            labels = torch.ones(chunk.shape[:3], dtype=torch.long, device=chunk.device)
            proposed = self.model(image_embeddings=embeddings, input_points=chunk, input_labels=labels)
            logits.append(proposed.pred_masks.flatten(0, 2))
            scores.append(proposed.iou_scores.flatten())
        mask_logits, score = torch.cat(logits).float(), torch.cat(scores).float()
        rows, columns = (max(1, round(mask_logits.shape[-1] * part / self.side)) for part in used)
        return distinct_masks(mask_logits[:, :rows, :columns], score, quality, stability, overlap)

    def _pixels(self, picture: Any) -> tuple[torch.Tensor, tuple[int, int]]:
        """(1, 3, S, S) normalised, and the part of it, (height, width), that is picture."""
        batch = picture_batch(picture, None)[0][:1].to(next(self.model.parameters()).device)
        height, width = batch.shape[-2:]
        scale = self.side / max(height, width)
        used = (self.side, self.side)
        if self.keeps_aspect:
            used = (max(1, round(height * scale)), max(1, round(width * scale)))
        resized = ops.resize(batch[0], used)
        mean, spread = resized.new_tensor(MEAN)[:, None, None], resized.new_tensor(SPREAD)[:, None, None]
        pixels = resized.new_zeros((1, 3, self.side, self.side))
        pixels[0, :, : used[0], : used[1]] = (resized - mean) / spread
        return pixels, used


def distinct_masks(
    logits: torch.Tensor, scores: torch.Tensor, quality: float, stability: float, overlap: float
) -> torch.Tensor:
    """(N, h, w) logits and (N,) scores → (M, h, w) bool masks worth keeping, best first."""
    masks = logits > 0
    tight, loose = (logits > 1).sum((1, 2)), (logits > -1).sum((1, 2))
    steady = tight / loose.clamp_min(1)
    kept = (scores > quality) & (steady >= stability) & masks.flatten(1).any(1)
    masks, scores = masks[kept], scores[kept]
    masks = masks[scores.argsort(descending=True, stable=True)]
    if len(masks) < 2:
        return masks
    flat = masks.flatten(1).float()
    shared = flat @ flat.T
    area = flat.sum(1)
    ratio = shared / (area[:, None] + area - shared).clamp_min(1)
    # A mask goes if any better one nearly equals it: one look at the whole table instead of a loop over masks.
    return masks[ratio.tril(-1).amax(1) <= overlap]


def labels_from_masks(masks: np.ndarray, ground: np.ndarray) -> np.ndarray:
    """(N, h, w) bool masks and (h, w) labels for uncovered ground → (h, w) int32: the smallest mask wins each pixel."""
    if not len(masks):
        return compact(ground)
    order = np.argsort(-masks.reshape(len(masks), -1).sum(1), kind="stable")
    ranked = np.where(masks[order], np.arange(1, len(masks) + 1)[:, None, None], 0).max(0)
    return compact(np.where(ranked > 0, ranked - 1 + int(ground.max()) + 1, ground))


def sam(picture: Any, model: str | Path | MaskGenerator, points: int = 16, **limits: float) -> Clusters:
    """Clusters of a picture by SAM: its masks, superpixels where no mask lies; merged, grouped or split as needed."""
    generator = model if isinstance(model, MaskGenerator) else MaskGenerator.from_pretrained(model)
    array = picture_array(picture)
    size = view_size(array.shape[:2])
    masks = generator.masks(picture, points, **limits).float().cpu()
    if len(masks):
        masks = torch.nn.functional.interpolate(masks[:, None], size=size, mode="bilinear")[:, 0]
    labels = labels_from_masks((masks > 0.5).numpy().reshape(-1, *size), slic(array))
    return tidy(labels, lab_at(array, size))


@lru_cache(maxsize=1)
def load_masks(folder: str) -> MaskGenerator:
    """A SAM of a folder, read once in a process."""
    return MaskGenerator.from_pretrained(folder)


def _first(side: int | tuple[int, ...] | list[int]) -> int:
    return side if isinstance(side, int) else int(side[0])
