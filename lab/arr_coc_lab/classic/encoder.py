"""The user's own image-text encoder as a source of relevance: `relevance="encoder:FOLDER"`, any CLIP or SigLIP.

Dense features of the picture (each patch sent down the path that the pooled token takes, MaskCLIP's
idea) against the text of the question and against texts that name nothing in particular: what matters is where the
picture is more like the question than like "a photo". Several overlapping windows at the encoder's own resolution are
looked at beside the whole, because an encoder of 224 pixels sees no small thing in a large picture.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.knowing.photos.source import asking_words
from arr_coc.knowing.registry import Source
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.onnx_scorer import area_shrink

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
CLIP_MEAN, CLIP_SPREAD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)


def encoder_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "encoder:FOLDER"; option: a folder or a name that transformers can load."""
    encoder = load_encoder(option, str(scene.device))
    found = likeness(encoder, scene.tensor, query)
    note = f"image-text encoder {option}: {phrase(query)!r} against {len(NOTHING)} texts that name nothing"
    return Relevance(found, query=query, participatory=found, notes=(note,))


SOURCE = Source(
    "encoder",
    encoder_relevance,
    summary="where the picture is like the question, by an image-text encoder",
    option="FOLDER",
    option_needed=True,
)


@lru_cache(maxsize=2)
def load_encoder(name: str, device: str = "cpu") -> SemanticEncoder:
    """Load an encoder once in a process."""
    encoder = SemanticEncoder.from_pretrained(name)
    encoder.model.to(device)
    return encoder


def phrase(query: str) -> str:
    """What a question names, for a text encoder: "Where is the red car?" → "a photo of red car"."""
    words = [word for word in re.findall(r"[\w'-]+", query.lower()) if word not in asking_words()]
    return TEMPLATE.format(" ".join(words) if words else query.strip() or "something")


def likeness(encoder: SemanticEncoder, picture: torch.Tensor, query: str) -> np.ndarray:
    """(3, H, W) in [0, 1] and a question → (h, w) float32 in [0, 1], the likest place 1."""
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


class SemanticEncoder:
    """An image-text model with its tokenizer.

    Two families are known: encoders that project a class token (CLIP and its kin) and encoders that pool by attention
    (SigLIP, SigLIP 2). Their patch tokens are not what training aligned with text; the token pooled from them is. So
    each patch is sent alone down the path that the pooled token takes (the value path of the last attention).
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        mean: Sequence[float] | None = None,
        spread: Sequence[float] | None = None,
    ) -> None:
        self.model = model.eval()
        self.tokenizer = tokenizer
        self.pools_by_attention = hasattr(model.vision_model, "head")
        if not (self.pools_by_attention or hasattr(model, "visual_projection")):
            raise InputError(
                f"{type(model).__name__} is neither like CLIP nor like SigLIP; no dense features known for it"
            )
        plain = (0.5, 0.5, 0.5)
        self.mean = tuple(mean or (plain if self.pools_by_attention else CLIP_MEAN))
        self.spread = tuple(spread or (plain if self.pools_by_attention else CLIP_SPREAD))

    @classmethod
    def from_pretrained(cls, name: str) -> SemanticEncoder:
        """Load from a hub name or a folder."""
        from transformers import AutoModel, AutoTokenizer
        from transformers.models.auto.image_processing_auto import get_image_processor_config

        try:
            model = AutoModel.from_pretrained(str(name))
            tokenizer = AutoTokenizer.from_pretrained(str(name))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load an image-text encoder from {name}: {error}") from error
        settings = get_image_processor_config(str(name)) or {}
        return cls(model, tokenizer, settings.get("image_mean"), settings.get("image_std"))

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
        pixels = pictures.to(self.device).float()
        if size[0] <= pixels.shape[-2] and size[1] <= pixels.shape[-1]:
            pixels = area_shrink(pixels, size)
        else:
            pixels = F.interpolate(pixels, size=size, mode="bilinear", align_corners=False)
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
