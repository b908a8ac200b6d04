"""Idefics3: as SmolVLM, its descendant."""

from __future__ import annotations

from typing import ClassVar

from .smolvlm import SmolVLM


class Idefics3(SmolVLM):
    model_types: ClassVar[tuple[str, ...]] = ("idefics3",)
