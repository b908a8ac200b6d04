"""Semantic channels: a PCA of a vision tower's dense features, in 16 dimensions that the question passes, too.

    projection = SemanticProjection.fit(features.flatten(0, 2), text_features)
    sense(pictures, "full40", semantic=projection.planes(features))

`source_line` takes the features of the model's own tower, and the words as its language model reads them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from arr_coc.core.errors import InputError

from .channels40 import SEMANTIC_DIMENSIONS
from .ops import unit


@dataclass(frozen=True, eq=False)
class SemanticProjection:
    """One projection for pictures and texts.

    Image and text features of a contrastive encoder live in two clouds apart. Each cloud is centred on its own mean, so
    that the one basis describes what varies inside them and not the gap between them.

    Args:
        components: (D, 16), orthonormal.
        image_mean: (D,).
        text_mean: (D,).
        variance_kept: Share in [0, 1] of both together.
    """

    components: Tensor
    image_mean: Tensor
    text_mean: Tensor
    variance_kept: float

    @classmethod
    def fit(cls, image_features: Tensor, text_features: Tensor) -> SemanticProjection:
        """Fit on (N, D) image features and (M, D) text features; both count alike, whatever their numbers."""
        shapes = tuple(image_features.shape), tuple(text_features.shape)
        if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
            raise InputError(f"PCA needs features (N, D) and (M, D) of one width, got {shapes[0]} and {shapes[1]}")
        if shapes[0][1] < SEMANTIC_DIMENSIONS or min(shapes[0][0], shapes[1][0]) < 2:
            raise InputError(f"PCA needs {SEMANTIC_DIMENSIONS} dimensions or more and 2 samples of each kind")
        images, texts = (unit(features.double(), 1) for features in (image_features, text_features))
        image_mean, text_mean = images.mean(0), texts.mean(0)
        spreads = [(centred.T @ centred) / len(centred) for centred in (images - image_mean, texts - text_mean)]
        values, vectors = torch.linalg.eigh(spreads[0] + spreads[1])
        components = vectors.flip(1)[:, :SEMANTIC_DIMENSIONS]
        # An eigenvector's sign is arbitrary; fix it, so that two fits of the same data agree.
        largest = components.abs().argmax(0)
        components = components * components.gather(0, largest[None]).sign()
        kept = values.flip(0).clamp_min(0)
        share = float(kept[:SEMANTIC_DIMENSIONS].sum() / kept.sum().clamp_min(1e-30))
        return cls(components.float(), image_mean.float(), text_mean.float(), share)

    def image(self, features: Tensor) -> Tensor:
        """Project (…, D) image features to (…, 16) unit vectors."""
        return self._project(features, self.image_mean)

    def text(self, features: Tensor) -> Tensor:
        """Project (…, D) text features by the same basis to (…, 16) unit vectors."""
        return self._project(features, self.text_mean)

    def planes(self, features: Tensor) -> Tensor:
        """Project dense features (B, h, w, D) to the planes (B, 16, h, w) that `sense` takes."""
        return self.image(features).permute(0, 3, 1, 2)

    def _project(self, features: Tensor, mean: Tensor) -> Tensor:
        if features.shape[-1] != len(mean):
            raise InputError(f"the projection was fitted on {len(mean)} dimensions, got {features.shape[-1]}")
        centred = unit(features.float(), -1) - mean.to(features.device)
        return unit(centred @ self.components.to(features.device), -1)
