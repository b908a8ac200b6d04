"""Clusters from SAM or SAM 2: automatic masks over a grid of points, through transformers or from two ONNX graphs."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..core.arrays import sized
from ..core.errors import InputError
from ..core.onnx import open_session
from . import backend_torch as ops
from .channels import view_size
from .clusters import Clusters, lab_at, tidy
from .inputs import picture_array, picture_batch
from .sam_files import check_pair, sam_pair
from .slic import compact, slic

MEAN, SPREAD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
POINTS_AT_ONCE = 64
PROMPT = {"point_coords", "point_labels", "mask_input", "has_mask_input"}  # what an exported decoder is asked by


class MaskGenerator:
    """A SAM or SAM 2 model that proposes masks for a whole picture. note: what is to be said of its files."""

    at_once, note = POINTS_AT_ONCE, ""

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
        pair = sam_pair(Path(name))
        if pair is not None:
            return GraphMasks(*pair)
        from transformers import AutoConfig, Sam2Model, SamModel

        try:
            kind = AutoConfig.from_pretrained(str(name)).model_type
            model = (Sam2Model if kind.startswith("sam2") else SamModel).from_pretrained(str(name))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load SAM from {name}: {error}") from error
        return cls(model)

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @torch.no_grad()
    def masks(
        self, picture: object, points: int = 16, quality: float = 0.88, stability: float = 0.92, overlap: float = 0.7
    ) -> torch.Tensor:
        """(N, h, w) bool, best first: masks at the decoder's resolution, cut to the picture, near-duplicates removed.

        points: prompts along each side. quality: least predicted overlap with the true mask. stability: least overlap
        between the mask drawn tightly and drawn loosely. overlap: above it, the worse of two masks goes.
        """
        pixels, used = self._pixels(picture)
        features = self.features(pixels)
        steps = (torch.arange(points, device=pixels.device) + 0.5) / points
        y, x = torch.meshgrid(steps * used[0], steps * used[1], indexing="ij")
        prompts = torch.stack([x.flatten(), y.flatten()], 1)
        found = [self.propose(features, chunk) for chunk in prompts.split(self.at_once)]
        mask_logits, score = (
            torch.cat([one.flatten(0, 1).float() for one in part]) for part in zip(*found, strict=True)
        )
        rows, columns = (max(1, round(mask_logits.shape[-1] * part / self.side)) for part in used)
        return distinct_masks(mask_logits[:, :rows, :columns], score, quality, stability, overlap)

    def features(self, pixels: torch.Tensor) -> object:
        """(1, 3, S, S) → what every prompt is answered from."""
        return self.model.get_image_embeddings(pixels)

    def propose(self, features: Any, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """(P, 2) x and y in pixels of the model → (P, M, h, w) logits of M masks each, and their (P, M) scores."""
        labels = torch.ones((1, len(points), 1), dtype=torch.long, device=points.device)
        found = self.model(image_embeddings=features, input_points=points[None, :, None], input_labels=labels)
        return found.pred_masks[0], found.iou_scores[0]

    def _pixels(self, picture: object) -> tuple[torch.Tensor, tuple[int, int]]:
        """(1, 3, S, S) normalised, and the part of it, (height, width), that is picture."""
        batch = picture_batch(picture, None)[0][:1].to(self.device)
        height, width = batch.shape[-2:]
        used = sized((height, width), self.side, grow=True) if self.keeps_aspect else (self.side, self.side)
        resized = ops.resize(batch[0], used)
        mean, spread = resized.new_tensor(MEAN)[:, None, None], resized.new_tensor(SPREAD)[:, None, None]
        pixels = resized.new_zeros((1, 3, self.side, self.side))
        pixels[0, :, : used[0], : used[1]] = (resized - mean) / spread
        return pixels, used


class GraphMasks(MaskGenerator):
    """SAM 2 as two ONNX graphs on a processor: pixels to features, features and points to masks."""

    # A decoder repeats the features for every point: 16 of them take 2 GB.
    at_once, keeps_aspect = 16, False

    def __init__(self, encoder: Path, decoder: Path) -> None:
        self.note = check_pair((encoder, decoder))
        try:
            self.encoder, self.decoder = open_session(str(encoder)), open_session(str(decoder))
        except Exception as error:  # every failure of the runtime is a class of its own
            reason = str(error).splitlines()[0]
            raise InputError(
                f"onnxruntime cannot open the SAM of {encoder.parent} ({reason}); fetch it again"
            ) from error
        picture = [one.shape for one in self.encoder.get_inputs()]
        wanted = {one.name: one.shape for one in self.decoder.get_inputs()}
        if len(picture) != 1 or picture[0][:2] != [1, 3] or not isinstance(picture[0][-1], int):
            raise InputError(f"{encoder} is not the encoder of a SAM: it takes {picture}, not one picture (1, 3, S, S)")
        unmet = sorted(wanted.keys() - PROMPT - {one.name for one in self.encoder.get_outputs()})
        if unmet or not wanted.keys() >= PROMPT or len(self.decoder.get_outputs()) < 2:
            lacks = f"asks for {unmet[0]}, which {encoder.name} does not give" if unmet else "takes no points and masks"
            raise InputError(f"{decoder} is not the decoder of a SAM 2: it {lacks}")
        self.side, self.earlier = picture[0][-1], wanted["mask_input"][1:]
        self.wanted = wanted.keys() - PROMPT

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    def features(self, pixels: torch.Tensor) -> dict[str, np.ndarray]:
        names = [one.name for one in self.encoder.get_outputs()]
        found = self.encoder.run(names, {self.encoder.get_inputs()[0].name: pixels.numpy()})
        return {name: values for name, values in zip(names, found, strict=True) if name in self.wanted}

    def propose(self, features: dict[str, np.ndarray], points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        prompt = {
            "point_coords": points[:, None].numpy(),
            "point_labels": np.ones((len(points), 1), np.float32),
            "mask_input": np.zeros((len(points), *self.earlier), np.float32),
            "has_mask_input": np.zeros(1, np.float32),
        }
        logits, scores = self.decoder.run(None, {**features, **prompt})[:2]
        return torch.from_numpy(logits), torch.from_numpy(scores)


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


def sam(picture: object, model: str | Path | MaskGenerator, points: int = 16, **limits: float) -> Clusters:
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
