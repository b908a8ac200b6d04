"""What `clusters=` stands for: "slic", "sam", the folder of a SAM, labels, or `Clusters`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ..core.arrays import is_tensor
from ..core.errors import InputError
from .clusters import Clusters, lab_at, tidy
from .inputs import picture_array
from .sam_files import sam_folder
from .slic import slic


def check_clusters(clusters: object) -> None:
    """Refuse, before any picture is read, names that stand for nothing here."""
    if isinstance(clusters, str | Path) and str(clusters) != "slic":
        sam_folder(clusters)


def find_clusters(picture: object, clusters: object = "slic") -> Clusters:
    """Clusters of a picture, grouped, merged and, where few, in two scales. clusters: "slic", "sam", the folder of a
    SAM, labels (h, w), or `Clusters`, which are as their maker left them."""
    if isinstance(clusters, Clusters):
        return clusters
    array = picture_array(picture)
    if isinstance(clusters, str | Path) and str(clusters) != "slic":
        from .sam import load_masks, sam

        generator = load_masks(str(sam_folder(clusters)))
        return replace(sam(array, generator), note=generator.note)
    labels = labels_of(clusters, array)
    return tidy(labels, lab_at(array, (labels.shape[0], labels.shape[1])))


def labels_of(clusters: object, array: np.ndarray) -> np.ndarray:
    """What `clusters=` stands for, as labels (h, w): "slic" as it is found, all else tidied."""
    if isinstance(clusters, Clusters):
        return clusters.labels
    if isinstance(clusters, str | Path):
        return slic(array) if str(clusters) == "slic" else find_clusters(array, clusters).labels
    labels = clusters.cpu().numpy() if is_tensor(clusters) else np.asarray(clusters)
    labels = labels[0] if labels.ndim == 3 and len(labels) == 1 else labels
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise InputError(f"cluster labels must be integers (h, w), 0 or more, got {labels.dtype} {labels.shape}")
    return labels
