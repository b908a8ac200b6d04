"""KNOW: three ways of telling what matters in a texture, plus the training-free ones that need no encoder.

Each is a function from a `Texture` (and a query) to a map in [0, 1], (H, W) or (B, H, W), on the texture's device.
Names are resolved on first use: `propositional`, `perspectival` and `lexical` need no torch for a numpy texture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .lexical import Coupling, lexical
    from .participatory import Calibration, fit_calibration, participatory
    from .perspectival import perspectival
    from .photos import photo_coupling, photos_installed
    from .propositional import propositional
    from .registry import Source, find_source, relevance_for, relevance_source, source_names
    from .scene import Scene

resolve_lazily(
    __name__,
    {
        "Calibration": "participatory",
        "Coupling": "lexical",
        "Scene": "scene",
        "Source": "registry",
        "find_source": "registry",
        "fit_calibration": "participatory",
        "lexical": "lexical",
        "participatory": "participatory",
        "perspectival": "perspectival",
        "photo_coupling": "photos",
        "photos_installed": "photos",
        "propositional": "propositional",
        "relevance_for": "registry",
        "relevance_source": "registry",
        "source_names": "registry",
    },
)

__all__ = [
    "Calibration",
    "Coupling",
    "Scene",
    "Source",
    "find_source",
    "fit_calibration",
    "lexical",
    "participatory",
    "perspectival",
    "photo_coupling",
    "photos_installed",
    "propositional",
    "relevance_for",
    "relevance_source",
    "source_names",
]
