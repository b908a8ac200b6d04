"""`sense_one`: one picture on a CPU → its texture array, by OpenCV and numpy, without importing torch.

`channels.channel_tasks` are written once for both back ends; `batch.sense` uses them for batches in torch. A test holds
the two equal.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np

from . import text_regions
from .backend import Backend, get_backend
from .channels import ChannelInputs, Task, channel_tasks
from .inputs import picture_array, picture_planes, resolve_size
from .texture import Layout, Texture, get_layout
from .type_height import height_channel

# Pictures of fewer values than this are done before threads have started.
SMALL = 256 * 256 * 3
NO_PREVIOUS = "no previous frame: motion is zero"
NO_CLUSTERS = "no clusters: the cluster channels are zero"


def sense_one(
    picture: object,
    layout: str | Layout = "mvp13",
    *,
    size: int | tuple[int, int] | None = None,
    gaze: tuple[float, float] | None = None,
    previous: object = None,
    clusters: object = "slic",
    text: str = "strokes",
    memory: Mapping[str, object] | None = None,
) -> Texture:
    """The texture array of one picture, as numpy; the arguments are those of `sense`. Semantic channels stay zero.

    The families are computed side by side. Every family writes its own planes: touching fresh memory is half of the
    work, and so that is shared out as well.
    """
    return sense_array(picture, get_layout(layout), ChannelInputs(gaze, previous, text, memory or {}), size, clusters)


def sense_array(
    picture: object, layout: Layout, inputs: ChannelInputs, size: int | tuple[int, int] | None, clusters: object
) -> Texture:
    """The work of `sense_one`."""
    ops = get_backend("opencv")
    array = picture_array(picture)
    target = resolve_size(array.shape[:2], size)
    array = ops.resize(array, target)
    data = ops.texture_memory.take((len(layout), *target))
    out = {name: data[place] for place, name in enumerate(layout.names)}
    first = layout.index("red")
    with threads_for(array.size) as each:
        notes = _write_channels(array, ops, layout, data[first : first + 3], out, each, clusters, inputs)
    return Texture(data, layout, *target, notes=notes)


def _write_channels(
    array: np.ndarray,
    ops: Backend,
    layout: Layout,
    rgb: np.ndarray,
    out: dict[str, np.ndarray],
    each: Callable[..., Iterable[object]],
    clusters: object,
    inputs: ChannelInputs,
) -> tuple[str, ...]:
    """Compute every channel of (H, W, 3) `array` into its plane of `out`; the notes."""
    target = (array.shape[0], array.shape[1])
    planes = picture_planes(array, rgb, each)
    luminance = ops.luminance(planes, out.get("luminance"))
    notes: list[str] = []
    tasks = channel_tasks(ops, layout, planes, luminance, inputs, out)
    if "lab_l" in layout:
        tasks.append(lambda: ops.lab_planes(array, planes, out["lab_l"], out["lab_a"]))
    if "text_regions" in layout and inputs.wants_ocr:
        tasks.append(lambda: {"text_regions": text_regions.ocr_map(array)})
    if "type_height" in layout:
        tasks.append(lambda: {"type_height": height_channel(array)})
    if "motion" in layout and inputs.previous is None:
        notes.append(NO_PREVIOUS)
    elif "motion" in layout:
        from . import flow

        before = ops.resize(picture_array(inputs.previous), target)
        earlier = ops.luminance(picture_planes(before, np.empty((3, *target), dtype=np.float32)))
        tasks.append(lambda: {"motion": flow.motion(flow.backward_flow(earlier, luminance))})
    if "cluster_id" in layout and clusters is None:
        notes.append(NO_CLUSTERS)
    elif "cluster_id" in layout:
        from .clusters import cluster_channels
        from .named_clusters import labels_of

        # First, because it takes longest.
        tasks.insert(0, lambda: cluster_channels(labels_of(clusters, array), target))

    written = {"red", "green", "blue", "luminance"}

    def run(task: Task) -> None:
        for name, values in task().items():
            written.add(name)
            if name in out and values is not out[name]:  # a family may give more than the layout wants
                np.copyto(out[name], values)

    list(each(run, tasks))
    list(each(lambda name: out[name].fill(0), sorted(set(layout.names) - written)))
    return tuple(notes)


@contextmanager
def threads_for(values: int) -> Generator[Callable[..., Iterable[object]]]:
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
