"""Which of the two back ends does the work, and the one type the channel families are written against.

The families (`edges`, `saliency`, …) are written once, over the operations that `backend_torch` and `backend_opencv`
both have; a back end is simply one of those two modules. OpenCV is imported only when it is chosen.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal

from ..errors import InputError

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
