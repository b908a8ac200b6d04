"""What a family lays out, before anything is painted: background, layers of sprites, lines of text, the question.

All positions are whole pixels. B pictures, K items in a layer, R lines of text of at most L characters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch

from ..constants import constant
from .atlas import GlyphAtlas, glyphs, sprite_numbers
from .difficulty import Difficulty
from .draws import Canvas

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (208, 44, 44),
    "green": (46, 150, 66),
    "blue": (44, 84, 204),
    "yellow": (232, 200, 44),
    "purple": (132, 62, 172),
    "orange": (238, 132, 32),
    "pink": (240, 138, 180),
    "brown": (122, 78, 46),
    "black": (34, 34, 38),
    "gray": (136, 140, 146),
    "cyan": (46, 186, 202),
    "white": (246, 246, 244),
}
COLOUR_NAMES = tuple(COLOURS)
SHAPES = ("circle", "square", "triangle", "diamond", "ring", "cross", "star", "heart", "hexagon", "moon")
ANIMALS = ("tiger", "elephant", "penguin", "giraffe", "flamingo", "bear")
THINGS = (*SHAPES, *ANIMALS, "packet", "bars", "bar", "sign")


@dataclass(frozen=True)
class Stage(Canvas):
    """The input of every family: random numbers, canvas, difficulty and typefaces."""

    difficulty: Difficulty
    faces: torch.Tensor
    moving: bool = False

    @property
    def atlas(self) -> GlyphAtlas:
        return glyphs(self.device)

    def constant(self, values: Sequence[object]) -> torch.Tensor:
        """Return whole numbers on the right device, sent there once. Never change it in place."""
        return constant(values, self.device, torch.int64)

    def face(self, name: str, slots: int = 1) -> torch.Tensor:
        """Draw typefaces (B, slots)."""
        return self.faces[self.draws.integers(name, 0, len(self.faces), slots)]

    def size_index(self, pixels: torch.Tensor) -> torch.Tensor:
        """Convert type sizes in pixels to indices of the largest size of the atlas that is not above."""
        return (torch.searchsorted(self.atlas.sizes, pixels.contiguous(), right=True) - 1).clamp(min=0)

    def type_sizes(self, name: str, slots: int, largest: int = 40) -> torch.Tensor:
        """Draw size indices (B, slots): mostly small type, a share of large, by the difficulty."""
        knobs = self.difficulty
        small = self.draws.integers(f"{name}/small", knobs.small[0], knobs.small[1] + 1, slots)
        large = self.draws.integers(f"{name}/large", knobs.large[0], knobs.large[1] + 1, slots)
        pixels = torch.where(self.draws.chance(f"{name}/which", knobs.large_share, slots), large, small)
        return self.size_index(pixels.clamp(max=largest))

    def colour(self, name: str, base: torch.Tensor, jitter: int = 10) -> torch.Tensor:
        """Vary colours (B, K, 3) a little: no two red things have the same red."""
        noise = self.draws.integers(name, -jitter, jitter + 1, base.shape[1] * 3).view(base.shape[0], -1, 3)
        return (base + noise).clamp(0, 255)

    def ink(self, name: str, paper: torch.Tensor, slots: int = 1) -> torch.Tensor:
        """Choose ink (B, slots, 3) that stands out from the paper (B, slots or 1, 3) by the difficulty's contrast."""
        paper = paper.expand(self.number, slots, 3)
        dark = (
            self.draws.integers(name, 8, 60, slots)[..., None] + self.draws.integers(f"{name}/hue", 0, 24, 3)[:, None]
        )
        # Luminance to the eye, in eighths: light ink on blue, red and green; dark ink on yellow, cyan and grey.
        brightness = (paper * self.constant([2, 5, 1])).sum(-1, keepdim=True) >> 3
        target = torch.where(brightness > 125, dark, 255 - (dark >> 1))
        spread = self.draws.integers(f"{name}/spread", -8, 9, slots)[..., None]
        strength = (self.difficulty.contrast + spread).clamp(20, 100)
        return (paper * (100 - strength) + target * strength) // 100

    def palette(self, index: torch.Tensor) -> torch.Tensor:
        """Convert (B, K) colour numbers → (B, K, 3)."""
        return self.constant(list(COLOURS.values()))[index]

    def sprite(self, name: str, like: torch.Tensor) -> torch.Tensor:
        """Return the number of a sprite, (B, K)."""
        return torch.full_like(like, sprite_numbers()[name])

    def sprite_table(self, names: tuple[str, ...]) -> torch.Tensor:
        """Return (n,) sprite numbers of several names, to be indexed."""
        return self.constant([sprite_numbers()[name] for name in names])

    def no_text(self) -> Text:
        """Return a text layer with nothing in it."""
        zeros = torch.zeros(self.number, 1, dtype=torch.int64, device=self.device)
        return Text(zeros[..., None], zeros, zeros, zeros, zeros, zeros[..., None].expand(-1, -1, 3))


@dataclass(frozen=True)
class Background:
    """A gradient from top to bottom (B, 3) with a texture (B,) of some strength (B,) in 1/64."""

    top: torch.Tensor
    bottom: torch.Tensor
    texture: torch.Tensor
    strength: torch.Tensor


@dataclass(frozen=True)
class Layer:
    """Sprites that do not overlap one another.

    y, x, height, width, sprite: (B, K) int64; height or width 0: not there.
    colours: (B, K, 3, 4) int64: red, green, blue and opacity of the sprite's three masks.
    masks: which of the three are painted.
    """

    y: torch.Tensor
    x: torch.Tensor
    height: torch.Tensor
    width: torch.Tensor
    sprite: torch.Tensor
    colours: torch.Tensor
    masks: tuple[int, ...] = (0, 1, 2)

    @property
    def boxes(self) -> torch.Tensor:
        """Return (B, K, 4) x0, y0, x1, y1 in pixels."""
        return torch.stack([self.x, self.y, self.x + self.width, self.y + self.height], dim=-1)


@dataclass(frozen=True)
class Text:
    """Lines of text that do not overlap one another.

    ids: (B, R, L) characters, left-justified. x: (B, R) left edge. baseline: (B, R).
    face, size: (B, R) typeface and index of the type size. ink: (B, R, 3).
    """

    ids: torch.Tensor
    x: torch.Tensor
    baseline: torch.Tensor
    face: torch.Tensor
    size: torch.Tensor
    ink: torch.Tensor

    @property
    def atlas(self) -> GlyphAtlas:
        return glyphs(self.ids.device)

    def advances(self) -> torch.Tensor:
        """Return (B, R, L) columns of every character."""
        return self.atlas.advance[self.face[..., None], self.size[..., None], self.ids]

    def middles(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return y and x (B, R, L) of every character's centre: half a capital above the baseline."""
        advance = self.advances()
        x = self.x[..., None] + advance.cumsum(-1) - ((advance + 1) >> 1)
        y = self.baseline - (self.atlas.cap[self.face, self.size] >> 1)
        return y[..., None].expand_as(x), x

    def width(self) -> torch.Tensor:
        """Return (B, R) pixels from the first column to the last."""
        return self.advances().sum(-1)

    def top(self) -> torch.Tensor:
        return self.baseline - self.atlas.ascent[self.face, self.size]

    def height(self) -> torch.Tensor:
        return self.atlas.height[self.face, self.size]

    def boxes(self) -> torch.Tensor:
        """Return (B, R, 4) x0, y0, x1, y1 of the lines, in pixels."""
        top = self.top()
        return torch.stack([self.x, top, self.x + self.width(), top + self.height()], dim=-1)

    def fitted(self, limit: torch.Tensor | int, steps: int = 6) -> Text:
        """Return the same text, set smaller where it is wider than `limit` pixels."""
        text = self
        for _ in range(steps):
            text = replace(text, size=torch.where(text.width() > limit, (text.size - 1).clamp(min=0), text.size))
        return text

    def aligned(self, right: torch.Tensor | None = None, centre: torch.Tensor | None = None) -> Text:
        """Return the same text with its right edge or its middle at the given x (B, R)."""
        if right is not None:
            return replace(self, x=right - self.width())
        assert centre is not None
        return replace(self, x=centre - (self.width() >> 1))

    def only(self, keep: torch.Tensor) -> Text:
        """Return the same text without the lines that are not kept (B, R)."""
        return replace(self, ids=self.ids * keep[..., None])


def stack_text(parts: list[Text]) -> Text:
    """Join several blocks of lines."""
    length = max(part.ids.shape[-1] for part in parts)
    padded = [torch.nn.functional.pad(part.ids, (0, length - part.ids.shape[-1])) for part in parts]
    rest = {name: torch.cat([getattr(p, name) for p in parts], 1) for name in ("x", "baseline", "face", "size", "ink")}
    return Text(ids=torch.cat(padded, dim=1), **rest)


@dataclass(frozen=True)
class Marks:
    """Things for the cells' labels: boxes (B, K, 4) in pixels, classes (B, K), and which of them are there (B, K)."""

    boxes: torch.Tensor
    classes: torch.Tensor
    there: torch.Tensor


@dataclass(frozen=True)
class NeedleScene:
    """All that is needed to paint a batch and to ask about it.

    question, answer: (B, L) characters. boxes, context: (B, n, 4) pixels with masks (B, n).
    task: (B,) index into `tasks`.
    """

    background: Background
    layers: list[Layer]
    text: Text
    question: torch.Tensor
    answer: torch.Tensor
    boxes: torch.Tensor
    box_mask: torch.Tensor
    context: torch.Tensor
    context_mask: torch.Tensor
    task: torch.Tensor
    tasks: tuple[str, ...]
    marks: list[Marks] = field(default_factory=list)


def paints(*slots: torch.Tensor | None, opacity: tuple[int, int, int] = (255, 255, 255)) -> torch.Tensor:
    """Convert (B, K, 3) per mask → (B, K, 3, 4); None leaves a mask out."""
    first = next(slot for slot in slots if slot is not None)
    result = torch.zeros(*first.shape[:2], 3, 4, dtype=torch.int64, device=first.device)
    for index, slot in enumerate(slots):
        if slot is not None:
            result[:, :, index, :3] = slot
            result[:, :, index, 3] = opacity[index]
    return result


def take(values: torch.Tensor, which: torch.Tensor) -> torch.Tensor:
    """Convert (B, K, …), (B,) → (B, …); or (B, n) → (B, n, …)."""
    rows = torch.arange(len(values), device=values.device)
    return values[rows.view(-1, *[1] * (which.dim() - 1)), which]
