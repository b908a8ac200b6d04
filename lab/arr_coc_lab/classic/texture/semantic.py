"""Semantic channels: dense features of any Hugging Face image-text encoder, in 16 dimensions shared with the query.

Two families cover them: encoders that project a class token (CLIP and its kin) and encoders that pool by attention
(SigLIP, SigLIP 2). Their patch tokens are not what training aligned with text; the token pooled from them is. So each
patch is sent alone down the path that the pooled token takes (the value path of the last attention: MaskCLIP's idea).
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from ..core.errors import InputError
from ..core.files import replacing
from . import backend_torch as ops
from .texture import SEMANTIC_DIMENSIONS

CLIP_MEAN, CLIP_SPREAD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
PROJECTION_FILE = "semantic_projection.safetensors"


class SemanticEncoder:
    """An image-text model with its tokenizer and the projection to 16 dimensions."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        projection: SemanticProjection | None = None,
        mean: Sequence[float] | None = None,
        spread: Sequence[float] | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.projection = projection
        self.pools_by_attention = hasattr(model.vision_model, "head")
        if not (self.pools_by_attention or hasattr(model, "visual_projection")):
            raise InputError(
                f"{type(model).__name__} is neither like CLIP nor like SigLIP; no dense features known for it"
            )
        plain = (0.5, 0.5, 0.5)
        self.mean = tuple(mean or (plain if self.pools_by_attention else CLIP_MEAN))
        self.spread = tuple(spread or (plain if self.pools_by_attention else CLIP_SPREAD))

    @classmethod
    def from_pretrained(cls, name: str | Path, projection: str | Path | None = None) -> SemanticEncoder:
        """From a hub name or a folder; a projection saved in the folder is found by itself."""
        from transformers import AutoModel, AutoTokenizer
        from transformers.models.auto.image_processing_auto import get_image_processor_config

        try:
            model = AutoModel.from_pretrained(str(name))
            tokenizer = AutoTokenizer.from_pretrained(str(name))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load an image-text encoder from {name}: {error}") from error
        settings = get_image_processor_config(str(name)) or {}
        path = Path(projection) if projection else Path(name) / PROJECTION_FILE
        fitted = SemanticProjection.load(path) if projection or os.path.isfile(path) else None
        return cls(model, tokenizer, fitted, settings.get("image_mean"), settings.get("image_std"))

    @property
    def device(self) -> torch.device:
        return next(self.model.parameters()).device

    @torch.no_grad()
    def image_features(self, pictures: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W) in [0, 1] → (B, h, w, D), one feature for each patch of the encoder."""
        config = self.model.config.vision_config
        patch = config.patch_size
        if self._packs_patches():
            return self._packed_features(pictures, patch, config.num_patches)
        side = config.image_size
        pixels = self._normalised(pictures, (side, side))
        if self.pools_by_attention:
            hidden = self.model.vision_model(pixel_values=pixels).last_hidden_state
            features = self._attention_value_path(hidden)
        else:
            features = self._class_token_value_path(pixels)
        return features.unflatten(1, (side // patch, side // patch))

    def _packs_patches(self) -> bool:
        """SigLIP 2's flexible variant takes patches and their grid instead of a picture."""
        return self.model.config.model_type == "siglip2"

    def _packed_features(self, pictures: torch.Tensor, patch: int, most: int) -> torch.Tensor:
        height, width = pictures.shape[-2:]
        rows = max(1, min(most, int((most * height / width) ** 0.5)))
        columns = max(1, min(most // rows, int((most * width / height) ** 0.5)))
        pixels = self._normalised(pictures, (rows * patch, columns * patch))
        tiles = pixels.unflatten(3, (columns, patch)).unflatten(2, (rows, patch))  # (B, 3, rows, p, columns, p)
        packed = tiles.permute(0, 2, 4, 3, 5, 1).flatten(3).flatten(1, 2)
        mask = torch.ones(packed.shape[:2], dtype=torch.long, device=packed.device)
        shapes = torch.tensor([[rows, columns]] * len(packed), device=packed.device)
        hidden = self.model.vision_model(packed, pixel_attention_mask=mask, spatial_shapes=shapes).last_hidden_state
        return self._attention_value_path(hidden).unflatten(1, (rows, columns))

    def _normalised(self, pictures: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        pixels = ops.resize(pictures.to(self.device).float().flatten(0, 1), size).unflatten(0, (-1, 3))
        mean = pixels.new_tensor(self.mean)[:, None, None]
        return (pixels - mean) / pixels.new_tensor(self.spread)[:, None, None]

    def _attention_value_path(self, hidden: torch.Tensor) -> torch.Tensor:
        """(B, N, D) → (B, N, D): what the pooling head would return if it attended to that patch alone."""
        head = self.model.vision_model.head
        attention = head.attention
        width = hidden.shape[-1]
        values = F.linear(hidden, attention.in_proj_weight[2 * width :], attention.in_proj_bias[2 * width :])
        pooled = attention.out_proj(values)
        return pooled + head.mlp(head.layernorm(pooled))

    def _class_token_value_path(self, pixels: torch.Tensor) -> torch.Tensor:
        """(B, 3, S, S) → (B, N, D): the last layer with every patch attending to itself alone, then projected."""
        vision = self.model.vision_model
        states = vision(pixel_values=pixels, output_hidden_states=True).hidden_states
        layer = vision.encoder.layers[-1]
        hidden = states[-2][:, 1:]
        attention = layer.self_attn
        hidden = hidden + attention.out_proj(attention.v_proj(layer.layer_norm1(hidden)))
        hidden = hidden + layer.mlp(layer.layer_norm2(hidden))
        return self.model.visual_projection(vision.post_layernorm(hidden))

    @torch.no_grad()
    def text_features(self, texts: Sequence[str]) -> tuple[torch.Tensor, torch.Tensor]:
        """(B, T + 1, D) features of each token and, last, of the whole text; (B, T + 1) bool: which of them count."""
        if not texts or not all(text.strip() for text in texts):
            raise InputError("the query is empty; ask something")
        longest = self.model.config.text_config.max_position_embeddings
        encoded = self.tokenizer(
            list(texts),
            # SigLIP was trained on texts padded to full length, and reads its summary off the last place.
            padding="max_length" if self.pools_by_attention else True,
            truncation=True,
            max_length=longest,
            return_special_tokens_mask=True,
            return_attention_mask=True,
            return_tensors="pt",
        ).to(self.device)
        special = encoded.pop("special_tokens_mask").bool()
        attended = encoded["attention_mask"].bool()
        text_model = self.model.text_model
        if self.pools_by_attention:
            result = text_model(input_ids=encoded["input_ids"])
            tokens, whole = text_model.head(result.last_hidden_state), result.pooler_output
        else:
            result = text_model(input_ids=encoded["input_ids"], attention_mask=encoded["attention_mask"])
            tokens = self.model.text_projection(result.last_hidden_state)
            whole = self.model.text_projection(result.pooler_output)
        counts = torch.cat([attended & ~special, torch.ones_like(attended[:, :1])], 1)
        return torch.cat([tokens, whole[:, None]], 1), counts

    def fit(self, pictures: torch.Tensor, texts: Sequence[str]) -> SemanticProjection:
        """Fit the projection on pictures (B, 3, H, W) and texts, keep it, and return it (see its variance_kept)."""
        image = self.image_features(pictures).flatten(0, 2)
        tokens, counts = self.text_features(texts)
        self.projection = SemanticProjection.fit(image.cpu(), tokens[counts].cpu())
        return self.projection

    def _fitted(self) -> SemanticProjection:
        if self.projection is None:
            raise InputError("this encoder has no projection yet; call encoder.fit(pictures, texts) or load one")
        return self.projection

    def dense(self, pictures: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
        """(B, 3, H, W) → (B, 16, *size): unit vectors, enlarged bilinearly from the encoder's patches."""
        coarse = self._fitted().image(self.image_features(pictures)).permute(0, 3, 1, 2)
        return enlarged_units(coarse, size)


def enlarged_units(coarse: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """(B, 16, h, w) → (B, 16, *size): unit vectors, enlarged bilinearly."""
    return ops.unit(F.interpolate(coarse, size=size, mode="bilinear", align_corners=False), 1)


# ---- the one projection that image features and queries both go through: D dimensions → 16 --------------------------


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
        images, texts = (ops.unit(features.double(), 1) for features in (image_features, text_features))
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
        centred = ops.unit(features.float(), -1) - mean.to(features.device)
        return ops.unit(centred @ self.components.to(features.device), -1)

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

        if not os.path.isfile(path):
            raise InputError(f"no projection at {path}; fit one and save it there")
        with safe_open(path, framework="pt") as stored:
            names = ("components", "image_mean", "text_mean")
            return cls(
                *(stored.get_tensor(name) for name in names),
                variance_kept=float((stored.metadata() or {}).get("variance_kept", "nan")),
            )
