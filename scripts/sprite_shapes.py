"""The drawings that `build_atlas.py` turns into sprites: each is up to three masks, painted one over the other.

For shapes: 0 = soft shadow, 1 = body, 2 = light or dark accent. Coordinates run from 0 to 100.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 128
OVER = 4  # drawn four times as large, then averaged


class Mask:
    """A grey canvas with coordinates from 0 to 100."""

    def __init__(self) -> None:
        self.image = Image.new("L", (SIDE * OVER, SIDE * OVER))
        self.pen = ImageDraw.Draw(self.image)

    def points(self, values: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
        scale = SIDE * OVER / 100
        return [(x * scale, y * scale) for x, y in values]

    def ellipse(self, x0: float, y0: float, x1: float, y1: float, fill: int = 255) -> Mask:
        self.pen.ellipse(self.points([(x0, y0), (x1, y1)]), fill=fill)
        return self

    def box(self, x0: float, y0: float, x1: float, y1: float, radius: float = 0, fill: int = 255) -> Mask:
        corner = self.points([(x0, y0), (x1, y1)])
        self.pen.rounded_rectangle(corner, radius * SIDE * OVER / 100, fill=fill)
        return self

    def polygon(self, *values: tuple[float, float], fill: int = 255) -> Mask:
        self.pen.polygon(self.points(values), fill=fill)
        return self

    def line(self, *values: tuple[float, float], width: float = 3, fill: int = 255) -> Mask:
        self.pen.line(self.points(values), fill=fill, width=max(1, round(width * SIDE * OVER / 100)), joint="curve")
        return self

    def blurred(self, radius: float) -> Mask:
        self.image = self.image.filter(ImageFilter.GaussianBlur(radius * SIDE * OVER / 100))
        self.pen = ImageDraw.Draw(self.image)
        return self

    def array(self) -> np.ndarray:
        return np.asarray(self.image.resize((SIDE, SIDE), Image.Resampling.BOX))


def star(points: int, outer: float, inner: float, turn: float = -90) -> list[tuple[float, float]]:
    angles = [math.radians(turn + 180 * index / points) for index in range(2 * points)]
    radii = [outer if index % 2 == 0 else inner for index in range(2 * points)]
    return [(50 + r * math.cos(a), 50 + r * math.sin(a)) for r, a in zip(radii, angles, strict=True)]


def heart() -> list[tuple[float, float]]:
    turns = [2 * math.pi * step / 90 for step in range(90)]
    x = [16 * math.sin(t) ** 3 for t in turns]
    y = [13 * math.cos(t) - 5 * math.cos(2 * t) - 2 * math.cos(3 * t) - math.cos(4 * t) for t in turns]
    return [(50 + 2.5 * a, 46 - 2.5 * b) for a, b in zip(x, y, strict=True)]


def shape(body: Callable[[Mask], Mask], light: Callable[[Mask], Mask] | None = None) -> list[Mask]:
    """Shadow, body, highlight: the highlight is a faint gloss on the upper left of the body."""
    shadow = body(Mask())
    moved = Image.new("L", shadow.image.size)
    moved.paste(shadow.image, (SIDE * OVER // 40, SIDE * OVER // 24))
    shadow.image = moved
    gloss = Mask().ellipse(4, -20, 84, 52).blurred(7)
    inside = np.minimum(np.asarray(gloss.image), np.asarray(body(Mask()).image)) // 5
    gloss.image = Image.fromarray(inside)
    return [shadow.blurred(2.5), body(Mask()), light(Mask()) if light else gloss]


def panel(radius: float, border: float) -> list[Mask]:
    """Cut in nine when drawn: only the corners (32 pixels, here 25 units) keep their size. 64 of the 128 are used."""
    scale = 100 / SIDE
    fill = (3 * scale, 2 * scale, 61 * scale, 59 * scale)
    inner = (fill[0] + border * scale, fill[1] + border * scale, fill[2] - border * scale, fill[3] - border * scale)
    edge = Mask().box(*fill, radius=radius * scale)
    if border:
        edge.box(*inner, radius=max(0.0, radius - border) * scale, fill=0)
    else:
        edge = Mask()
    shadow = Mask().box(fill[0], fill[1] + 2 * scale, fill[2], fill[3] + 2 * scale, radius=radius * scale)
    return [shadow.blurred(1.5 * scale), Mask().box(*fill, radius=radius * scale), edge]


def tiger() -> list[Mask]:
    body = Mask().ellipse(14, 38, 78, 70).ellipse(58, 20, 92, 54).ellipse(60, 16, 70, 28).ellipse(80, 16, 90, 28)
    body.line((16, 50), (6, 36), (8, 22), width=5)
    for x in (20, 32, 58, 70):
        body.box(x, 58, x + 8, 90, radius=3)
    stripes = Mask()
    for x in (24, 34, 44, 54, 64):
        stripes.polygon((x - 1, 38), (x + 4, 38), (x + 2, 58))
    for y in (30, 38):
        stripes.line((6, y - 6), (12, y - 4), width=3)
    for x in (20, 32, 58, 70):
        stripes.line((x, 74), (x + 8, 74), width=3).line((x, 82), (x + 8, 82), width=3)
    stripes.line((75, 20), (75, 30), width=3).line((68, 22), (71, 30), width=3).line((82, 22), (79, 30), width=3)
    stripes.ellipse(67, 32, 71, 37).ellipse(79, 32, 83, 37).polygon((72, 43), (78, 43), (75, 47))
    white = Mask().ellipse(28, 60, 64, 70).ellipse(68, 42, 82, 53)
    white.polygon((72, 43), (78, 43), (75, 47), fill=0)
    return [body, stripes, white]


def elephant() -> list[Mask]:
    body = Mask().ellipse(8, 24, 70, 72).ellipse(54, 16, 90, 54)
    body.line((84, 40), (90, 56), (88, 74), (80, 80), width=9)
    for x in (14, 28, 46, 58):
        body.box(x, 56, x + 11, 92, radius=3)
    body.line((10, 42), (3, 56), width=3)
    dark = Mask().ellipse(50, 20, 70, 52).ellipse(76, 28, 80, 32)
    for x in (14, 28, 46, 58):
        dark.box(x, 88, x + 11, 92, radius=1)
    light = Mask().polygon((80, 46), (84, 48), (96, 62), (90, 60)).ellipse(54, 24, 66, 46, fill=70)
    return [body, dark, light]


def penguin() -> list[Mask]:
    body = Mask().ellipse(26, 24, 74, 90).ellipse(32, 6, 68, 42)
    body.polygon((28, 42), (14, 66), (22, 70), (34, 54)).polygon((72, 42), (86, 66), (78, 70), (66, 54))
    white = Mask().ellipse(34, 36, 66, 88).ellipse(36, 16, 49, 32).ellipse(51, 16, 64, 32)
    white.ellipse(41, 21, 46, 27, fill=0).ellipse(54, 21, 59, 27, fill=0)
    orange = Mask().polygon((43, 30), (57, 30), (50, 40)).ellipse(28, 86, 48, 95).ellipse(52, 86, 72, 95)
    return [body, white, orange]


def giraffe() -> list[Mask]:
    body = Mask().ellipse(18, 46, 66, 68).polygon((54, 56), (66, 56), (78, 16), (70, 14)).ellipse(66, 8, 92, 24)
    body.line((74, 12), (72, 2), width=3).line((80, 11), (80, 2), width=3).line((19, 54), (12, 70), width=3)
    for x in (22, 31, 50, 58):
        body.box(x, 58, x + 6, 95, radius=2)
    spots = Mask()
    for x, y, r in (
        (30, 54, 5),
        (42, 52, 5),
        (52, 58, 5),
        (38, 62, 4),
        (26, 60, 3),
        (62, 46, 3.5),
        (67, 34, 3),
        (72, 22, 2.5),
    ):
        spots.ellipse(x - r, y - r, x + r, y + r)
    dark = Mask().ellipse(78, 12, 82, 16).ellipse(70, 0, 74, 4).ellipse(78, 0, 82, 4).ellipse(10, 68, 15, 75)
    return [body, spots, dark]


def flamingo() -> list[Mask]:
    body = Mask().ellipse(22, 36, 66, 60).ellipse(60, 8, 76, 24).polygon((16, 46), (30, 40), (30, 54))
    body.line((60, 50), (72, 42), (60, 30), (64, 18), width=6)
    legs = Mask().line((42, 58), (42, 94), width=2.5).line((50, 58), (54, 74), (44, 78), width=2.5)
    legs.line((42, 94), (52, 94), width=3).polygon((74, 14), (86, 20), (80, 28), (74, 22))
    wing = Mask().ellipse(26, 40, 54, 54, fill=110)
    return [body, legs, wing]


def bear() -> list[Mask]:
    body = Mask().ellipse(16, 34, 74, 74).ellipse(56, 18, 90, 50).ellipse(58, 14, 68, 26).ellipse(78, 14, 88, 26)
    for x in (18, 32, 52, 64):
        body.box(x, 58, x + 11, 90, radius=4)
    dark = Mask().ellipse(66, 28, 70, 33).ellipse(78, 28, 82, 33).ellipse(70, 37, 78, 42)
    for x in (18, 32, 52, 64):
        dark.box(x, 86, x + 11, 90, radius=2)
    light = Mask().ellipse(65, 34, 83, 48, fill=120)
    light.ellipse(70, 37, 78, 42, fill=0)
    return [body, dark, light]


def tree() -> list[Mask]:
    trunk = Mask().box(44, 56, 56, 99)
    crown = Mask().ellipse(14, 24, 58, 66).ellipse(42, 22, 86, 66).ellipse(26, 4, 74, 48)
    light = Mask().ellipse(22, 14, 56, 44).blurred(6)
    light.image = Image.eval(light.image, lambda value: value // 4)
    return [trunk, crown, light]


def cloud() -> list[Mask]:
    return [Mask().ellipse(4, 44, 46, 76).ellipse(24, 26, 68, 74).ellipse(54, 40, 96, 76).blurred(3), Mask(), Mask()]


def car() -> list[Mask]:
    body = Mask().box(4, 48, 96, 80, radius=8).polygon((20, 50), (32, 26), (70, 26), (84, 50))
    dark = Mask().ellipse(16, 66, 38, 92).ellipse(64, 66, 86, 92)
    glass = Mask().polygon((27, 48), (35, 31), (49, 31), (49, 48)).polygon((53, 48), (53, 31), (68, 31), (77, 48))
    glass.ellipse(23, 73, 31, 85).ellipse(71, 73, 79, 85)
    return [body, dark, glass]


def window() -> list[Mask]:
    frame = Mask().box(0, 0, 100, 100)
    glass = Mask().box(10, 8, 46, 46).box(54, 8, 90, 46).box(10, 53, 46, 92).box(54, 53, 90, 92)
    shine = Mask().polygon((10, 40), (40, 8), (46, 8), (46, 18), (18, 46), (10, 46), fill=90)
    return [frame, glass, shine]


def bars() -> list[Mask]:
    """A cage: upright bars and two rails, each with a thin light along it."""
    upright, light = Mask(), Mask()
    for x in range(2, 100, 12):
        upright.box(x, 0, x + 3.2, 100)
        light.box(x + 0.6, 0, x + 1.5, 100, fill=150)
    for y in (2, 92):
        upright.box(0, y, 100, y + 5)
        light.box(0, y + 1, 100, y + 2.4, fill=150)
    return [upright, light, Mask()]


def packet() -> list[Mask]:
    """A snack pouch with crimped ends; 1 = body, 2 = the two crimps."""
    top = [(2 + 4 * step, 3 if step % 2 else 0) for step in range(25)]
    bottom = [(98 - 4 * step, 97 if step % 2 else 100) for step in range(25)]
    body = Mask().polygon(*top, *bottom)
    shadow = Mask().box(4, 6, 99, 100).blurred(2)
    crimps = Mask()
    for y in (3, 5.5, 94.5, 97):
        crimps.line((3, y), (97, y), width=0.8, fill=160)
    return [shadow, body, crimps]


def bar() -> list[Mask]:
    light = Mask()
    light.image = Image.fromarray(np.tile(np.linspace(70, 0, SIDE * OVER).astype(np.uint8), (SIDE * OVER, 1)))
    return [Mask().box(0, 0, 100, 100), light, Mask()]


def glow() -> list[Mask]:
    return [Mask().ellipse(8, 8, 92, 92).blurred(8), Mask(), Mask()]


SPRITES: dict[str, Callable[[], list[Mask]]] = {
    "solid": lambda: [Mask().box(0, 0, 100, 100), Mask(), Mask()],
    "panel": lambda: panel(3, 1),
    "round_panel": lambda: panel(9, 0),
    "sign_panel": lambda: panel(7, 2.5),
    "sheet": lambda: panel(1, 0),
    "circle": lambda: shape(lambda mask: mask.ellipse(8, 8, 92, 92)),
    "square": lambda: shape(lambda mask: mask.box(12, 12, 88, 88)),
    "triangle": lambda: shape(lambda mask: mask.polygon((50, 8), (94, 88), (6, 88))),
    "diamond": lambda: shape(lambda mask: mask.polygon((50, 4), (88, 50), (50, 96), (12, 50))),
    "ring": lambda: shape(lambda mask: mask.ellipse(6, 6, 94, 94).ellipse(30, 30, 70, 70, fill=0)),
    "cross": lambda: shape(lambda mask: mask.box(36, 6, 64, 94).box(6, 36, 94, 64)),
    "star": lambda: shape(lambda mask: mask.polygon(*star(5, 48, 19))),
    "heart": lambda: shape(lambda mask: mask.polygon(*heart())),
    "hexagon": lambda: shape(lambda mask: mask.polygon(*star(6, 47, 47)[::2])),
    "moon": lambda: shape(lambda mask: mask.ellipse(8, 6, 92, 94).ellipse(34, -2, 108, 76, fill=0)),
    "tiger": tiger,
    "elephant": elephant,
    "penguin": penguin,
    "giraffe": giraffe,
    "flamingo": flamingo,
    "bear": bear,
    "tree": tree,
    "cloud": cloud,
    "car": car,
    "window": window,
    "bars": bars,
    "packet": packet,
    "bar": bar,
    "glow": glow,
}


def draw_sprite(name: str) -> np.ndarray:
    """(3, SIDE, SIDE) uint8 masks of one sprite."""
    masks = SPRITES[name]()
    return np.stack([mask.array() for mask in (*masks, *[Mask()] * (3 - len(masks)))])
