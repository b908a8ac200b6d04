"""Which of the two back ends does the work, and what is put together from the operations of either.

The channel families (`channels`, `text_regions`) are written once, over the operations that `backend_torch` and
`backend_opencv` both have; a back end is simply one of those two modules. OpenCV is imported only when it is chosen.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from ..core.errors import InputError

BackendName = Literal["auto", "opencv", "torch"]
# A module used as a value: the two have the same functions over different array types.
Backend = Any
# A map in the chosen back end's own array type: (H, W) numpy or (B, H, W) torch.
BackendMap = Any


def opencv_installed() -> bool:
    return find_spec("cv2") is not None


def get_backend(name: str) -> Backend:
    """The module of that name ("opencv" or "torch")."""
    if name == "opencv" and not opencv_installed():
        raise InputError("backend 'opencv' needs OpenCV; install opencv-contrib-python-headless or use backend='torch'")
    if name not in ("opencv", "torch"):
        raise InputError(f"no back end is called {name!r}; choose auto, opencv or torch")
    return import_module(f".backend_{name}", __package__)


# ---- wide neighbourhoods --------------------------------------------------------------------------------------------


# At a cost that does not grow with them: averaged on a shrunken view, enlarged again. A mean over 33×33 pixels has no
# detail a quarter-size view could lose, and there it costs a sixteenth.


def surround_radius(size: tuple[int, int]) -> int:
    """About 1/64 of the longer side: 16 pixels at 1024, the height of a line of text."""
    return max(1, max(size) // 64)


def _view(size: tuple[int, int], radius: int) -> tuple[tuple[int, int], int]:
    """The size to average at and the radius there: as coarse as leaves the radius at least 4 pixels."""
    factor = max(1, radius // 4)
    return (max(1, size[0] // factor), max(1, size[1] // factor)), max(1, round(radius / factor))


def smooth(ops: Backend, maps: BackendMap, radius: int) -> BackendMap:
    """Blurred by two boxes (a triangle: near enough to a Gaussian) of `radius`."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    return ops.resize(ops.box(ops.box(ops.resize(maps, view), near), near), size)


def local_contrast(ops: Backend, maps: BackendMap, radius: int, floor: float) -> BackendMap:
    """(value − mean of its surroundings) / (their standard deviation + floor)."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    mean = ops.box(ops.resize(maps, view), near)
    square = ops.box(ops.resize(maps * maps, view), near)
    gain = 1 / (ops.square_root(square - mean * mean) + floor)
    return (maps - ops.resize(mean, size)) * ops.resize(gain, size)
