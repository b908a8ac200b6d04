"""`sense`: a picture → its texture array.

The channels are written once (`channels`, `text_regions`) over two back ends: OpenCV for one picture on a CPU
(`one_picture`), torch for batches, gradients and other devices. A test holds the two equal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from . import backend_torch as ops
from . import flow, text_regions
from .backend import BackendName, get_backend, opencv_installed
from .channels import ChannelInputs, channel_tasks, view_size
from .clusters import Clusters, cluster_channels_batch
from .inputs import picture_batch
from .named_clusters import labels_of
from .one_picture import NO_CLUSTERS, NO_PREVIOUS, sense_array
from .pyramid import to_cells
from .slic import slic_batch
from .texture import SEMANTIC_NAMES, Layout, Texture, get_layout
from .type_height import height_channel

if TYPE_CHECKING:
    from .semantic import SemanticEncoder

NO_ENCODER = "no image-text encoder: the semantic channels are zero"


def sense(
    picture: object,
    layout: str | Layout = "mvp13",
    inputs: ChannelInputs | None = None,
    *,
    size: int | tuple[int, int] | None = None,
    cells: tuple[int, int] | None = None,
    backend: BackendName = "auto",
    clusters: str | np.ndarray | torch.Tensor | Clusters | None = "slic",
    encoder: SemanticEncoder | None = None,
) -> Texture:
    """The texture array of a picture, or of a batch of pictures of one size.

    picture: PIL image; numpy (H, W), (H, W, 3); tensor (3, H, W) or (B, 3, H, W); uint8, or floating in [0, 1].
    inputs: gaze, the frame before, how text is found, memory.
    size: sense at this size: the longer side, or (height, width); as given if None.
    cells: (rows, columns): reduce to this grid, each channel by its own reducer ((32, 32) is the v0.1 path).
    backend: "auto" takes OpenCV for a single picture on a CPU without gradients, torch for all else.
    clusters: "slic", labels (h, w) or (B, h, w) of any resolution, `Clusters`, or None for zero.
    encoder: gives the semantic channels; zero, and noted, without one.
    """
    chosen = get_layout(layout)
    inputs = inputs or ChannelInputs()
    if _choose(picture, backend) == "opencv":
        texture = sense_array(picture, chosen, inputs, size, clusters).tensors()
    else:
        texture = _sense_batch(picture, chosen, inputs, size, clusters)
    texture = _with_semantic(texture, encoder)
    return texture if cells is None else to_cells(texture, cells)


def _choose(picture: object, backend: str) -> str:
    if backend != "auto":
        get_backend(backend)
        return backend
    if isinstance(picture, torch.Tensor) and (
        picture.ndim == 4 or picture.requires_grad or picture.device.type != "cpu"
    ):
        return "torch"
    return "opencv" if opencv_installed() else "torch"


def _sense_batch(
    picture: object,
    layout: Layout,
    inputs: ChannelInputs,
    size: int | tuple[int, int] | None,
    clusters: str | np.ndarray | torch.Tensor | Clusters | None,
) -> Texture:
    """A batch by torch: any device, differentiable."""
    batch, batched = picture_batch(picture, size)
    target = (batch.shape[-2], batch.shape[-1])
    red, green, blue = batch.unbind(1)
    luminance = ops.luminance((red, green, blue))
    notes: list[str] = []
    maps: dict[str, torch.Tensor] = {"red": red, "green": green, "blue": blue, "luminance": luminance}
    for task in channel_tasks(ops, layout, (red, green, blue), luminance, inputs, {}):
        maps.update(task())
    if "lab_l" in layout:
        light, red_green, _ = ops.lab((red, green, blue))
        maps["lab_l"], maps["lab_a"] = light * 0.01, red_green * (1 / 256) + 0.5
    if "text_regions" in layout and inputs.wants_ocr:
        texts = [text_regions.ocr_map(one.permute(1, 2, 0).numpy()) for one in batch.detach().cpu()]
        maps["text_regions"] = torch.from_numpy(np.stack(texts)).to(batch)
    if "type_height" in layout:
        tall = [height_channel(one.permute(1, 2, 0).numpy()) for one in batch.detach().cpu()]
        maps["type_height"] = torch.from_numpy(np.stack(tall)).to(batch)
    if "motion" in layout:
        if inputs.previous is None:
            notes.append(NO_PREVIOUS)
        else:
            before = picture_batch(inputs.previous, target)[0].to(batch.device)
            red_before, green_before, blue_before = before.unbind(1)
            earlier = ops.luminance((red_before, green_before, blue_before)).expand_as(luminance)
            maps["motion"] = flow.motion_batch(flow.batch_flow(luminance, earlier))
    if "cluster_id" in layout:
        labels = _labels_of_batch(clusters, batch)
        if labels is None:
            notes.append(NO_CLUSTERS)
        else:
            maps.update(cluster_channels_batch(labels, target))
    blank = luminance.new_zeros(()).expand_as(luminance)
    data = torch.stack([maps.get(name, blank).expand_as(luminance) for name in layout.names], dim=1)
    return Texture(data if batched else data[0], layout, *target, notes=tuple(notes))


def _labels_of_batch(
    clusters: str | np.ndarray | torch.Tensor | Clusters | None, batch: torch.Tensor
) -> torch.Tensor | None:
    if clusters is None:
        return None
    if isinstance(clusters, str) and clusters == "slic":
        small = ops.resize(batch.detach().flatten(0, 1), view_size((batch.shape[-2], batch.shape[-1])))
        red, green, blue = small.unflatten(0, (-1, 3)).unbind(1)
        return slic_batch(torch.stack(ops.lab((red, green, blue)), dim=1))
    if isinstance(clusters, torch.Tensor) and clusters.ndim == 3 and len(clusters) == len(batch):
        return clusters.to(batch.device)
    labels = labels_of(clusters, np.empty(0))
    return torch.tensor(labels, device=batch.device).expand(len(batch), -1, -1)


def _with_semantic(texture: Texture, encoder: SemanticEncoder | None) -> Texture:
    if SEMANTIC_NAMES[0] not in texture:
        return texture
    if encoder is None:
        return texture.noting(NO_ENCODER)
    dense = encoder.dense(texture.rgb if texture.batched else texture.rgb[None], (texture.height, texture.width))
    place = texture.layout.index(SEMANTIC_NAMES[0])
    data = texture.batch()
    parts = [data[:, :place], dense.to(data), data[:, place + len(SEMANTIC_NAMES) :]]
    joined = torch.cat(parts, dim=1)
    return Texture(
        joined if texture.batched else joined[0], texture.layout, texture.height, texture.width, texture.notes
    )
