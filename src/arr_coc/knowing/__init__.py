"""KNOW: three ways of telling what matters in a texture, plus the training-free ones that need no encoder.

Each is a function from a `Texture` (and a query) to a map in [0, 1], (H, W) or (B, H, W), on the texture's device.
Names are resolved on first use: `propositional`, `perspectival` and `lexical` need no torch for a numpy texture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import resolve_lazily

if TYPE_CHECKING:
    from .edge_lod import CLASSIC_TOKENS, EdgeLOD, edge_density
    from .lexical import Coupling, lexical
    from .participatory import Calibration, fit_calibration, participatory
    from .perspectival import perspectival
    from .propositional import propositional

resolve_lazily(
    __name__,
    {
        "CLASSIC_TOKENS": "edge_lod",
        "Calibration": "participatory",
        "Coupling": "lexical",
        "EdgeLOD": "edge_lod",
        "edge_density": "edge_lod",
        "fit_calibration": "participatory",
        "lexical": "lexical",
        "participatory": "participatory",
        "perspectival": "perspectival",
        "propositional": "propositional",
    },
)

__all__ = [
    "CLASSIC_TOKENS",
    "Calibration",
    "Coupling",
    "EdgeLOD",
    "edge_density",
    "fit_calibration",
    "lexical",
    "participatory",
    "perspectival",
    "propositional",
]
