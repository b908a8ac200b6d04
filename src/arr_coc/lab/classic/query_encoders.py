"""The question as vectors, whoever reads it: `encode_query(text)` gives one vector for each token and one for all.

- `BackboneQueryEncoder`: the language model's own input embeddings; nothing more to load, any causal or
  vision-language model, the bundled one included. The tokens know nothing of each other.
- `ImageTextQueryEncoder`: the text tower of an image-text encoder (CLIP, SigLIP, SigLIP 2); tokens read in context and
  in the space that pictures share.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from ...errors import InputError
from ...sensing import SemanticEncoder


class EncodedQuery(NamedTuple):
    """tokens: (L, D) float32, one vector for each token of the question. summary: (D,), one for the whole."""

    tokens: Tensor
    summary: Tensor


class QueryEncoder(Protocol):
    """What every encoder of questions offers. width: D."""

    @property
    def width(self) -> int: ...

    def encode_query(self, text: str) -> EncodedQuery: ...


class BackboneQueryEncoder:
    """The text side of a language or vision-language model: its tokenizer and its input embeddings."""

    def __init__(self, model: Any, tokenizer: Any) -> None:
        """tokenizer: also a processor that has one."""
        self.tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        self.embeddings = model.get_input_embeddings()

    @classmethod
    def from_pretrained(cls, name: str | Path) -> BackboneQueryEncoder:
        """From a hub name or a folder; only the embeddings are kept of the model."""
        from transformers import AutoModel, AutoTokenizer

        try:
            return cls(AutoModel.from_pretrained(str(name)), AutoTokenizer.from_pretrained(str(name)))
        except (OSError, ValueError) as error:
            raise InputError(f"cannot load a language model from {name}: {error}") from error

    @property
    def width(self) -> int:
        return self.embeddings.weight.shape[1]

    @torch.no_grad()
    def encode_query(self, text: str) -> EncodedQuery:
        """The embeddings of the text's tokens, and their mean."""
        _check_asked(text)
        ids = self.tokenizer(text, add_special_tokens=False, return_tensors="pt")["input_ids"]
        tokens = self.embeddings(ids.to(self.embeddings.weight.device))[0].float()
        return EncodedQuery(tokens, tokens.mean(0))


class ImageTextQueryEncoder:
    """The text tower of an image-text encoder, at its full width (no projection to the texture's channels)."""

    def __init__(self, encoder: SemanticEncoder) -> None:
        self.encoder = encoder

    @classmethod
    def from_pretrained(cls, name: str | Path) -> ImageTextQueryEncoder:
        return cls(SemanticEncoder.from_pretrained(name))

    @property
    def width(self) -> int:
        own = getattr(self.encoder, "width", None)  # encoders that are not a pair of towers say it themselves
        if own is not None:
            return int(own)
        model = self.encoder.model
        return (model.text_model.head if self.encoder.pools_by_attention else model.text_projection).out_features

    def encode_query(self, text: str) -> EncodedQuery:
        """The tower's features of the text's own tokens (no markers, no padding), and of the whole text."""
        _check_asked(text)
        features, counts = self.encoder.text_features([text])
        tokens, summary = features[0, :-1][counts[0, :-1]].float(), features[0, -1].float()
        return EncodedQuery(tokens if len(tokens) else summary[None], summary)


def load_query_encoder(name: str | Path) -> BackboneQueryEncoder | ImageTextQueryEncoder:
    """The right one for a hub name or a folder: image-text models by their tower, all others by their embeddings."""
    from transformers import AutoConfig
    from transformers.models.auto.modeling_auto import MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES

    try:
        kind = AutoConfig.from_pretrained(str(name)).model_type
    except (OSError, ValueError) as error:
        raise InputError(f"cannot load an encoder of questions from {name}: {error}") from error
    aligned = kind in MODEL_FOR_ZERO_SHOT_IMAGE_CLASSIFICATION_MAPPING_NAMES
    return (ImageTextQueryEncoder if aligned else BackboneQueryEncoder).from_pretrained(name)


def stack_queries(queries: Sequence[EncodedQuery]) -> tuple[Tensor, Tensor, Tensor]:
    """Several questions as one batch: words (B, L, D), padding (B, L) bool (True = no word), summaries (B, D)."""
    if not queries:
        raise InputError("there is no question to stack; pass at least one encoded query")
    words = pad_sequence([query.tokens for query in queries], batch_first=True)
    lengths = torch.tensor([len(query.tokens) for query in queries], device=words.device)
    padding = torch.arange(words.shape[1], device=words.device) >= lengths[:, None]
    return words, padding, torch.stack([query.summary for query in queries])


def _check_asked(text: str) -> None:
    if not text.strip():
        raise InputError("the query is empty; ask something")
