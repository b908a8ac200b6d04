"""`sense_one`: one picture on a CPU → its texture array, by OpenCV and numpy, without importing torch.

`channel_tasks` are the channels written once for both back ends; `texture.sense` uses them for batches in torch. A
test holds the two equal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np

from ..arrays import is_tensor
from ..errors import InputError
from . import boundaries, edges, position, saliency, text_regions
from .array import Texture
from .backend import get_backend
from .inputs import picture_array, picture_planes, resolve_size
from .layout import Layout, get_layout
from .memory import memory_channels
from .recycling import texture_memory

TextDetector = Literal["strokes", "ocr", "auto"]
# One family of channels: computes its maps, by name.
Task = Callable[[], dict[str, Any]]
# Pictures of fewer values than this are done before threads have started.
SMALL = 256 * 256 * 3
NO_PREVIOUS = "no previous frame: motion is zero"
NO_CLUSTERS = "no clusters: the cluster channels are zero"


def sense_one(
    picture: Any,
    layout: str | Layout = "mvp13",
    *,
    size: int | tuple[int, int] | None = None,
    gaze: tuple[float, float] | None = None,
    previous: Any = None,
    clusters: Any = "slic",
    text: str = "strokes",
    memory: Mapping[str, Any] | None = None,
) -> Texture:
    """The texture array of one picture, as numpy; the arguments are those of `sense`. Semantic channels stay zero.

    The families are computed side by side. Every family writes its own planes: touching fresh memory is half of the
    work, and so that is shared out as well.
    """
    layout, memory = get_layout(layout), memory or {}
    position.check_gaze(gaze)
    check_detector(text)
    ops = get_backend("opencv")
    array = picture_array(picture)
    target = resolve_size(array.shape[:2], size)
    array = ops.resize(array, target)
    data = texture_memory.take((len(layout), *target))
    out = {name: data[place] for place, name in enumerate(layout.names)}
    first = layout.index("red")
    with threads_for(array.size) as each:
        notes = _write_channels(
            array, ops, layout, data[first : first + 3], out, each, gaze, previous, clusters, text, memory
        )
    return Texture(data, layout, *target, notes=notes)


def _write_channels(
    array: np.ndarray,
    ops: Any,
    layout: Layout,
    rgb: np.ndarray,
    out: dict[str, np.ndarray],
    each: Callable[..., Iterable[Any]],
    gaze: tuple[float, float] | None,
    previous: Any,
    clusters: Any,
    text: str,
    memory: Mapping[str, Any],
) -> tuple[str, ...]:
    """Compute every channel of (H, W, 3) `array` into its plane of `out`; the notes."""
    target = (array.shape[0], array.shape[1])
    planes = picture_planes(array, rgb, each)
    luminance = ops.luminance(planes, out.get("luminance"))
    notes: list[str] = []
    tasks = channel_tasks(ops, layout, planes, luminance, gaze, memory, text, out)
    if "lab_l" in layout:
        tasks.append(lambda: ops.lab_planes(array, planes, out["lab_l"], out["lab_a"]))
    if "text_regions" in layout and wants_ocr(text):
        tasks.append(lambda: {"text_regions": text_regions.ocr_map(array)})
    if "motion" in layout and previous is None:
        notes.append(NO_PREVIOUS)
    elif "motion" in layout:
        from . import flow

        before = ops.resize(picture_array(previous), target)
        earlier = ops.luminance(picture_planes(before, np.empty((3, *target), dtype=np.float32)))
        tasks.append(lambda: {"motion": flow.motion(flow.backward_flow(earlier, luminance))})
    if "cluster_id" in layout and clusters is None:
        notes.append(NO_CLUSTERS)
    elif "cluster_id" in layout:
        from .cluster_channels import cluster_channels

        # First, because it takes longest.
        tasks.insert(0, lambda: cluster_channels(labels_of(clusters, array), target))

    written = {"red", "green", "blue", "luminance"}

    def run(task: Task) -> None:
        for name, values in task().items():
            written.add(name)
            if values is not out[name]:
                np.copyto(out[name], values)

    list(each(run, tasks))
    list(each(lambda name: out[name].fill(0), sorted(set(layout.names) - written)))
    return tuple(notes)


@contextmanager
def threads_for(values: int) -> Generator[Callable[..., Iterable[Any]]]:
    """A `map` that spreads its work over threads; the plain one where there is too little of it."""
    threads = thread_count()
    if threads < 2 or values < SMALL:
        yield map
        return
    with ThreadPoolExecutor(threads) as pool:
        yield pool.map


def thread_count() -> int:
    """As many threads as torch was told to use; where torch is not loaded, as many as OpenMP was told, or processors.

    (Importing torch to ask would take longer than the sensing.)
    """
    if "torch" in sys.modules:
        return sys.modules["torch"].get_num_threads()
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdecimal() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_detector(text: str) -> None:
    if text not in ("strokes", "ocr", "auto"):
        raise InputError(f"no text detector is called {text!r}; choose strokes, ocr or auto")


def labels_of(clusters: Any, array: np.ndarray) -> np.ndarray:
    from .clusters import Clusters
    from .slic import slic

    if isinstance(clusters, Clusters):
        return clusters.labels
    if isinstance(clusters, str):
        if clusters != "slic":
            raise InputError(f"clusters must be 'slic', labels, Clusters or None, got {clusters!r}; call sam() for SAM")
        return slic(array)
    labels = clusters.cpu().numpy() if is_tensor(clusters) else np.asarray(clusters)
    labels = labels[0] if labels.ndim == 3 and len(labels) == 1 else labels
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer) or labels.min() < 0:
        raise InputError(f"cluster labels must be integers (h, w), 0 or more, got {labels.dtype} {labels.shape}")
    return labels


def channel_tasks(
    ops: Any,
    layout: Layout,
    planes: tuple[Any, Any, Any],
    luminance: Any,
    gaze: tuple[float, float] | None,
    memory: Mapping[str, Any],
    text: str,
    out: Mapping[str, Any],
) -> list[Task]:
    """The families both back ends compute by the same formulas, only those that the layout has, slowest first.

    out: planes to write into, by name, where the back end can.
    """
    size = (luminance.shape[-2], luminance.shape[-1])

    def strokes() -> dict[str, Any]:
        return {"text_regions": text_regions.stroke_map(ops, luminance)}

    def shapes() -> dict[str, Any]:
        found = boundaries.object_boundaries(ops, planes)
        return {"object_boundaries": found, "distance_field": boundaries.distance_field(ops, found)}

    def faint_edges() -> dict[str, Any]:
        return {"edges_inverted": edges.edges_inverted(ops, luminance, out)}

    def bands() -> dict[str, Any]:
        high, low = edges.passes(ops, luminance, out)
        return {"edges": edges.edges(ops, luminance, out), "high_pass": high, "low_pass": low}

    def sobel() -> dict[str, Any]:
        return edges.sobel_channels(ops, luminance, out)

    def salience() -> dict[str, Any]:
        return {"saliency": saliency.saliency(ops, planes, out.get("saliency"))}

    def places() -> dict[str, Any]:
        y, x = ops.position(size, luminance)
        return {"y": y, "x": x, "eccentricity": position.eccentricity(ops, size, gaze, luminance)}

    def remembered() -> dict[str, Any]:
        maps = memory_channels(ops, memory, size, luminance)
        return maps if gaze is None else maps | {"gaze": position.gaze_map(ops, size, gaze, luminance)}

    families: list[tuple[str, Task]] = [
        *(("text_regions", strokes), ("edges_inverted", faint_edges), ("object_boundaries", shapes)),
        *(("edges", bands), ("sobel_x", sobel), ("saliency", salience), ("x", places)),
        ("previous_relevance", remembered),
    ]
    return [task for name, task in families if name in layout and not (name == "text_regions" and wants_ocr(text))]


def wants_ocr(text: str) -> bool:
    return text == "ocr" or (text == "auto" and text_regions.ocr_installed())
