"""One dense attention call for pictures of equal length, in place of a Python loop over pictures.

transformers runs packed vision attention picture by picture unless flash-attn is installed. Where all pictures of a
batch have the same number of patches, as in training and in benchmarks, the packed row is really a (B, N) batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

DENSE = "arr_coc_dense"


def dense_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    scaling: float | None = None,
    dropout: float = 0.0,
    segments: int = 1,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention inside each of `segments` equal parts of a packed row. query: (1, heads, S·N, head size)."""
    heads, length, size = query.shape[1:]
    # (1, heads, S·N, d) -> (S, heads, N, d)
    parts = (item.view(heads, segments, length // segments, size).transpose(0, 1) for item in (query, key, value))
    mixed = F.scaled_dot_product_attention(*parts, dropout_p=dropout, scale=scaling)
    return mixed.transpose(1, 2).reshape(1, length, heads, size), None


@contextmanager
def vision_attention(model: PreTrainedModel, name: str, attend: Callable[..., Any]) -> Generator[None]:
    """Inside this block the vision tower of this model attends by a function of the caller's, known as `name`."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, attend)  # adds a name; what is there stays as it is
    tower = model.model.visual
    before = tower.config._attn_implementation
    tower.set_attn_implementation(name)
    try:
        yield
    finally:
        tower.set_attn_implementation(before)


@contextmanager
def dense_vision_attention(model: PreTrainedModel) -> Generator[None]:
    """Inside this block `encode_leaves` runs equal-length batches of this model as one dense call."""
    with vision_attention(model, DENSE, dense_attention):
        yield
