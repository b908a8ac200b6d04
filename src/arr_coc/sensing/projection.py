"""The one projection that image features and queries both go through: D dimensions → 16, by PCA over both."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import InputError
from ..files import replacing
from .blocks import unit
from .layout import SEMANTIC_DIMENSIONS


@dataclass(frozen=True, eq=False)
class SemanticProjection:
    """components: (D, 16) orthonormal. image_mean, text_mean: (D,). variance_kept: share in [0, 1] of both together.

    Image and text features of a contrastive encoder live in two clouds apart. Each cloud is centred on its own mean,
    so that the one basis describes what varies inside them rather than the gap between them.
    """

    components: torch.Tensor
    image_mean: torch.Tensor
    text_mean: torch.Tensor
    variance_kept: float

    @classmethod
    def fit(cls, image_features: torch.Tensor, text_features: torch.Tensor) -> SemanticProjection:
        """From (N, D) dense image features and (M, D) text features; both count alike, however many there are."""
        if image_features.ndim != 2 or text_features.ndim != 2 or image_features.shape[1] != text_features.shape[1]:
            raise InputError(
                "PCA needs image features (N, D) and text features (M, D) of one width, got "
                f"{tuple(image_features.shape)} and {tuple(text_features.shape)}"
            )
        width = image_features.shape[1]
        if width < SEMANTIC_DIMENSIONS or min(len(image_features), len(text_features)) < 2:
            raise InputError(
                f"PCA to {SEMANTIC_DIMENSIONS} needs at least as many dimensions and 2 samples of each kind"
            )
        images, texts = (unit(features.double(), 1) for features in (image_features, text_features))
        image_mean, text_mean = images.mean(0), texts.mean(0)
        covariance = sum(
            (centred.T @ centred) / len(centred) for centred in (images - image_mean, texts - text_mean)
        ) * torch.ones((), dtype=torch.float64)
        values, vectors = torch.linalg.eigh(covariance)
        components = vectors.flip(1)[:, :SEMANTIC_DIMENSIONS]
        # An eigenvector's sign is arbitrary; fix it, so that two fits of the same data agree.
        largest = components.abs().argmax(0)
        components = components * components.gather(0, largest[None]).sign()
        kept = values.flip(0).clamp_min(0)
        share = float(kept[:SEMANTIC_DIMENSIONS].sum() / kept.sum().clamp_min(1e-30))
        return cls(components.float(), image_mean.float(), text_mean.float(), share)

    def image(self, features: torch.Tensor) -> torch.Tensor:
        """(..., D) image features → (..., 16) unit vectors."""
        return self._project(features, self.image_mean)

    def text(self, features: torch.Tensor) -> torch.Tensor:
        """(..., D) text features → (..., 16) unit vectors: the same basis."""
        return self._project(features, self.text_mean)

    def _project(self, features: torch.Tensor, mean: torch.Tensor) -> torch.Tensor:
        if features.shape[-1] != len(mean):
            raise InputError(f"the projection was fitted on {len(mean)} dimensions, got {features.shape[-1]}")
        centred = unit(features.float(), -1) - mean.to(features.device)
        return unit(centred @ self.components.to(features.device), -1)

    def save(self, path: str | Path) -> None:
        from safetensors.torch import save_file

        tensors = {"components": self.components, "image_mean": self.image_mean, "text_mean": self.text_mean}
        with replacing(path) as temporary:
            save_file(
                {name: value.contiguous() for name, value in tensors.items()},
                temporary,
                metadata={"variance_kept": repr(self.variance_kept)},
            )

    @classmethod
    def load(cls, path: str | Path) -> SemanticProjection:
        from safetensors import safe_open

        if not Path(path).is_file():
            raise InputError(f"no projection at {path}; fit one and save it there")
        with safe_open(path, framework="pt") as stored:
            names = ("components", "image_mean", "text_mean")
            return cls(
                *(stored.get_tensor(name) for name in names),
                variance_kept=float((stored.metadata() or {}).get("variance_kept", "nan")),
            )
