"""Random numbers that are pure functions of (seed, split, family, picture, name, slot).

A counter-based generator in whole numbers: nothing depends on the batch, on the device or on what was drawn before,
so picture 7 of seed 5 is the same picture alone, in a batch of a thousand, on a processor and on a GPU.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache
from typing import Self

import torch

_MASK = 0xFFFFFFFF
# Draws whose names begin so decide what is asked, not what is seen.
QUESTION_DRAWS = frozenset({"task", "target", "wording", "truth", "other", "absent", "relation", "bars"})


def mix(value: torch.Tensor) -> torch.Tensor:
    """Scramble 32 bits (by the two-round multiply-shift of the `lowbias32` family), held in int64.

    Both multipliers stay below 2**31, so no product leaves the 63 bits and nothing depends on overflow.
    """
    value = value & _MASK
    value = ((value ^ (value >> 16)) * 0x21F0AAAD) & _MASK
    value = ((value ^ (value >> 15)) * 0x735A2D97) & _MASK
    return value ^ (value >> 15)


def name_key(name: str) -> int:
    return zlib.crc32(name.encode())


@cache
def base_key(seed: int, name: str) -> int:
    """Hash a seed and a name to a plain number, so that nothing must be sent to a device."""
    base = mix(mix(torch.tensor(seed & _MASK)) ^ ((seed >> 32) & _MASK))
    return int(mix(base + name_key(name)))


@cache
def question_key(question: int) -> int:
    return int(mix(torch.tensor(question + 4211)))


def scattered(number: torch.Tensor) -> torch.Tensor:
    return mix(number * 0x9E3779B1 + 1)


@dataclass(frozen=True)
class Draws:
    """All the chance of a batch.

    key: (B,) int64, one per picture, for what the picture says (texts, colours, question).
    place_key: (B,) int64 for where things stand; equal to `key` but for clips, where a cut changes it.
    question_key: (B,) int64 for what is asked; equal to `key` for a picture's first question.
    time: (B,) int64, the frame's number since the last cut; 0 for still pictures.
    """

    key: torch.Tensor
    place_key: torch.Tensor
    question_key: torch.Tensor
    time: torch.Tensor

    @classmethod
    def of(
        cls,
        seed: int,
        split: str,
        family: str,
        index: torch.Tensor,
        *,
        question: int = 0,
        scene: torch.Tensor | None = None,
        time: torch.Tensor | None = None,
    ) -> Self:
        """index: (B,) int64 picture numbers. question: its number for each picture. scene, time: (B,) of clips."""
        key = mix(mix(base_key(seed, f"{split}/{family}") + (index & _MASK)) + (index >> 32))
        place = key if scene is None else torch.where(scene > 0, mix(key + mix(scene + 977)), key)
        asked = key if question == 0 else mix(key + question_key(question))
        return cls(key, place, asked, torch.zeros_like(index) if time is None else time)

    @property
    def device(self) -> torch.device:
        return self.key.device

    def __len__(self) -> int:
        return len(self.key)

    def bits(self, name: str, slots: int, place: bool = False) -> torch.Tensor:
        """Draw (B, slots) int64, uniform in [0, 2**32)."""
        asked = name.split("/", 1)[0] in QUESTION_DRAWS
        key = self.question_key if asked else self.place_key if place else self.key
        counter = torch.arange(slots, device=self.device, dtype=torch.int64)
        return mix(mix(key + name_key(name))[:, None] + scattered(counter))

    def integers(self, name: str, low: int, high: int, slots: int = 1, place: bool = False) -> torch.Tensor:
        """Draw (B, slots) int64, uniform in [low, high)."""
        return low + ((self.bits(name, slots, place) * max(1, high - low)) >> 32)

    def below(self, name: str, bound: torch.Tensor, slots: int = 1, place: bool = False) -> torch.Tensor:
        """Draw (B, slots) int64, uniform in [0, bound); bound is a (B, slots) or (B, 1) tensor; 0 for bound <= 0."""
        return (self.bits(name, slots, place) * bound.clamp(min=1)) >> 32

    def chance(self, name: str, percent: int, slots: int = 1) -> torch.Tensor:
        """Draw (B, slots) bool, true with the given probability."""
        return self.integers(name, 0, 100, slots) < percent

    def order(self, name: str, slots: int, place: bool = False) -> torch.Tensor:
        """Draw a random permutation of 0 … slots - 1, (B, slots) int64."""
        return self.bits(name, slots, place).argsort(dim=1, stable=True)

    def pick(self, name: str, valid: torch.Tensor) -> torch.Tensor:
        """Draw one of the true entries of valid (B, K), (B,) int64; entry 0 if there is none."""
        return (self.bits(name, valid.shape[1]) + 1).masked_fill(~valid, 0).argmax(dim=1)

    def drift(self, name: str, reach: torch.Tensor, slots: int = 1) -> torch.Tensor:
        """Return the place at this time of a thing that wanders between 0 and `reach`, (B, slots) int64.

        It starts anywhere and moves to and fro at its own pace, so that a still picture is a clip's first frame.
        """
        reach = reach.clamp(min=0).expand(len(self), slots)
        start = self.below(f"{name}/start", 2 * reach + 1, slots, place=True)
        pace = self.integers(f"{name}/pace", -24, 25, slots, place=True)
        travelled = start + ((pace * self.time[:, None]) >> 3)
        # Inside the picture the thing turns round at either end of its reach: a triangle wave.
        period = (2 * reach).clamp(min=1)
        wave = travelled - torch.div(travelled, period, rounding_mode="floor") * period
        return torch.where(wave > reach, 2 * reach - wave, wave).clamp(min=0)


class FloatDraws(Draws):
    """Draws of floating numbers; the same on every device."""

    def uniform(self, name: str, low: float = 0.0, high: float = 1.0, slots: int = 1) -> torch.Tensor:
        """Draw (B, slots) float32, uniform in [low, high)."""
        return (self.bits(name, slots) >> 8).float() * (2.0**-24 * (high - low)) + low


@dataclass(frozen=True)
class Canvas:
    """What the layout of a batch begins with: its chance, and the size of its pictures."""

    draws: Draws
    height: int
    width: int

    @property
    def device(self) -> torch.device:
        return self.draws.device

    @property
    def number(self) -> int:
        return len(self.draws)
