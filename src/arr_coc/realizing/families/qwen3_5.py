"""Qwen3.5: as Qwen2.5-VL in all that concerns pictures.

Most of its layers are recurrent. A token that is left out is gone for them, while a token that is only masked still
moves their state, so no masked run of the full prompt can stand in for a shortened one.
"""

from __future__ import annotations

from typing import ClassVar

from .qwen2_5_vl import Qwen25VL


class Qwen35(Qwen25VL):
    model_types: ClassVar[tuple[str, ...]] = ("qwen3_5",)
