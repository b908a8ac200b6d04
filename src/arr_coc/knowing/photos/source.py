"""What a question asks for in a photograph: the source of relevance called "photos". No torch.

A detector says of every place how much it looks like each of 80 things; a thesaurus (`photo_things`) says which of them
the question means, and which part of them: shoes are at a person's foot. Sides, ordinals and sizes choose among what
was found ("the second car", "the person on the left"), colours among the places. Sky, road and other ground is told by
colour and height: a guess, stated as such in the notes. Where nothing is named that is known, what stands out takes its
place.

The weights are no part of this library: `arr-coc doctor --download` (docs/photos.md). How the parts are put together
was chosen on photographs of other collections than those of docs/real.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...core.errors import InputError
from ...core.values import Relevance
from ...pictures.kind import is_photograph
from ...texture.channels import centre_map
from ..language.lexical import COLOURS, Coupling
from ..language.senses import coupled_words
from .nets import Anchors, PhotoSight
from .parts import REMEDY, find_part
from .things import WHOLE, Ground, PhotoQuestion, Wanted, photo_question

if TYPE_CHECKING:
    from ..scene import Scene

# Of so many anchors that speak most for a class, the boxes are painted.
MOST_BOXES = 60
# What an anchor says counts to this power: a few sure boxes before many doubtful ones.
SURENESS = 2.5
# A best box below this is no better than what stands out.
DOUBT = 0.05
# Ground beside a thing that is known by the same word ("sign"), and what stands out beside what is asked for.
BESIDE, AROUND = 0.1, 0.02
# Boxes that are one thing, and those that are sure enough to be counted ("the second car").
SAME, COUNTED = 0.5, 0.3
# An upright person is so many times as high as wide; a box that the picture cuts off below shows only the upper part.
UPRIGHT = 2.2


def photos_installed() -> bool:
    """Whether the detector is there; loads nothing."""
    return find_part("detector") is not None


def photos_missing(offers: frozenset[str] = frozenset()) -> str | None:
    """One line that says what is missing, or None."""
    return None if photos_installed() else f"relevance='photos' needs a detector's weights, once; fetch them: {REMEDY}"


def photos_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "photos"; option "fast": one look of the detector, and nothing else."""
    if option not in ("", "fast"):
        raise InputError(f"relevance='photos:{option}' is unknown; use 'photos' or 'photos:fast'")
    found = couple(scene.seen, query, fast=bool(option))
    return Relevance(np.asarray(found.map), query=query, participatory=np.asarray(found.map), notes=found.notes)


def photo_coupling(picture: np.ndarray | PhotoSight, query: str) -> Coupling | None:
    """The same for `look`, which has maps of its own beside it; None where the question names nothing that is known,
    and where the picture is no photograph."""
    seen = picture if isinstance(picture, PhotoSight) else PhotoSight(picture)
    if not worth_asking(query) or not is_photograph(seen.pixels):
        return None
    return couple(seen, query, alone=False)


def worth_asking(query: str) -> bool:
    """Whether the photo map has something to say: it is there, the question names something that it knows, and does not
    ask for something written, which it cannot read."""
    return photos_installed() and not coupled_words(query).reading and bool(photo_question(query))


def couple(seen: PhotoSight, query: str, *, fast: bool = False, alone: bool = True) -> Coupling:
    """Where what the question names is: a map (h, w) in [0, 1] and a line that says how it was found. alone: False
    leaves out what stands out, where others see to that."""
    named = photo_question(query)
    looks = [seen.square] if fast else [seen.square, seen.close]
    found, surest = things_map(looks, named, seen.shape)
    note = f"photo map: {', '.join(named.words)}" if named.words else "photo map: nothing named that it knows"
    if named.things:
        note += f" (best box {surest:.2f})"
    if named.grounds:
        share = BESIDE if named.things else 1.0
        found = np.maximum(found, share * np.max([ground_map(seen, ground) for ground in named.grounds], axis=0))
        note += ", by height and colour: a guess" if not named.things else ""
    if not named.things and named.side is not None:
        found = found * side_map(named.side, seen.shape)
    colours = coupled_words(query).colour_names
    if colours and named:
        # Colours choose among places that were found, never new ones.
        found = found * (0.15 + 0.85 * colour_map(seen.small, colours))
    found = found / max(float(found.max()), 1e-6)
    if alone:
        unsure = named.things and not named.grounds and surest < DOUBT
        # Where a thing was found, the network for what stands out would take longer than all the rest, for nothing.
        around = unnamed_map(seen, fast or bool(named and not unsure))
        if not named:
            found = around
            note += ": what stands out"
            if named.side is not None:
                found = found * side_map(named.side, seen.shape)
        elif unsure:
            found = (found * surest + around * (DOUBT - surest)) / DOUBT
            note += ", unsure: what stands out is seen too"
        else:
            found = found + AROUND * around
    return Coupling((found / max(float(found.max()), 1e-6)).astype(np.float32), (note,))


def surest_box(seen: PhotoSight, query: str) -> float:
    """The score of the surest box of what the question names, in [0, 1]; 0 where it names nothing that is known."""
    named = photo_question(query)
    return things_map([seen.square], named, seen.shape)[1] if named.things else 0.0


# ---- things ----------------------------------------------------------------------------------------------------------


def things_map(looks: Sequence[Anchors], named: PhotoQuestion, shape: tuple[int, int]) -> tuple[np.ndarray, float]:
    """(h, w) in [0, 1], its surest place 1 where a box is no worse than `DOUBT`, and the surest box's score."""
    found, surest = np.zeros(shape, np.float32), 0.0
    for wanted in named.things:
        # Parts are taken of the look at the whole: a second, closer one sees parts of bodies as bodies.
        for anchors in looks if wanted.part == WHOLE else looks[:1]:
            scores, boxes = strongest(anchors, wanted)
            boxes, scores = chosen(boxes, scores, named)
            if not len(scores):
                continue
            surest = max(surest, float(scores.max()))
            found = np.maximum(found, painted(part_of(boxes, wanted), wanted.weight * scores**SURENESS, shape))
    return found / max(float(found.max()), DOUBT**SURENESS), surest


def strongest(anchors: Anchors, wanted: Wanted) -> tuple[np.ndarray, np.ndarray]:
    """(K,) scores and (K, 4) boxes, inside the picture, of the anchors that speak most for a class."""
    scores = anchors.scores[:, wanted.place]
    order = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    return scores[order], np.clip(anchors.boxes[order], 0, 1)


def chosen(boxes: np.ndarray, scores: np.ndarray, named: PhotoQuestion) -> tuple[np.ndarray, np.ndarray]:
    """Those that sides, ordinals and sizes leave: one counted thing, or all of them weighted by where they lie."""
    if named.ordinal is not None or named.size:
        alone = distinct(boxes, scores)
        counted = alone[scores[alone] >= COUNTED * scores.max()]
        along = (boxes[counted, 0] + boxes[counted, 2]) / 2
        area = (boxes[counted, 2] - boxes[counted, 0]) * (boxes[counted, 3] - boxes[counted, 1])
        order = np.argsort(-area * named.size if named.size else -along if named.from_right else along, kind="stable")
        place = 0 if named.ordinal is None else named.ordinal
        if -len(order) <= place < len(order):
            one = counted[order[place]]
            alike = overlap(boxes[one : one + 1], boxes)[0] > SAME
            return boxes[alike], scores[alike]
    if named.side is not None:
        centres = (boxes[:, :2] + boxes[:, 2:]) / 2
        scores = scores * at_side(centres[:, 0], centres[:, 1], named.side)
    return boxes, scores


def at_side(x: np.ndarray, y: np.ndarray, side: tuple[int, int]) -> np.ndarray:
    """How far places (0–1) lie to a side, in [0, 1]; (0, 0) is the middle."""
    if side == (0, 0):
        return np.clip(1 - 2 * np.hypot(x - 0.5, y - 0.5), 0, 1)
    across = x if side[0] > 0 else 1 - x if side[0] < 0 else 1.0
    down = y if side[1] > 0 else 1 - y if side[1] < 0 else 1.0
    return np.asarray(across * down)


def side_map(side: tuple[int, int], shape: tuple[int, int]) -> np.ndarray:
    y, x = ((np.arange(number) + 0.5) / number for number in shape)
    return at_side(x[None, :], y[:, None], side) * np.ones(shape)


def overlap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """(A, 4) and (B, 4) → (A, B): the shared area as a part of both together."""
    low, high = np.maximum(first[:, None, :2], second[None, :, :2]), np.minimum(first[:, None, 2:], second[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (first, second)]
    return shared / np.maximum(areas[0][:, None] + areas[1][None] - shared, 1e-9)


def distinct(boxes: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """Numbers of the boxes that no surer one overlaps by half; boxes come with the surest first."""
    shared = overlap(boxes, boxes) > SAME
    kept: list[int] = []
    for place in range(len(scores)):
        if not shared[place, kept].any():
            kept.append(place)
    return np.array(kept, dtype=int)


def part_of(boxes: np.ndarray, wanted: Wanted) -> np.ndarray:
    """(K, 4) boxes of things → of the wanted part of each."""
    left, top, right, bottom = wanted.part
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    if wanted.part != WHOLE and wanted.place == 0:
        # A person cut off by the lower edge: as high as it would be.
        cut = (boxes[:, 3] > 0.97) & (height < UPRIGHT * width)
        height = np.where(cut, np.minimum(UPRIGHT * width, 3 * height), height)
    return np.stack(
        [
            boxes[:, 0] + left * width,
            boxes[:, 1] + top * height,
            boxes[:, 0] + right * width,
            boxes[:, 1] + bottom * height,
        ],
        axis=1,
    )


def painted(boxes: np.ndarray, values: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """(K, 4) boxes and (K,) values → (h, w): the greatest value of the boxes over each place, with soft edges."""
    rows, cols = shape
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    across = np.clip(np.minimum(x - boxes[:, :1], boxes[:, 2:3] - x) * cols + 0.5, 0, 1)
    down = np.clip(np.minimum(y - boxes[:, 1:2], boxes[:, 3:] - y) * rows + 0.5, 0, 1)
    return (values[:, None, None] * down[:, :, None] * across[:, None, :]).max(0).astype(np.float32)


# ---- ground, colours, and what stands out ----------------------------------------------------------------------------


def ground_map(seen: PhotoSight, ground: Ground) -> np.ndarray:
    """(h, w) in [0, 1] by height, busyness, upright edges and colour: a guess."""
    rows, cols = seen.shape
    y = (np.arange(rows) + 0.5) / rows
    found = np.exp(-0.5 * ((y - ground.height) / ground.reach) ** 2)[:, None] * np.ones((1, cols))
    busy, upright = seen.edges
    found = found * np.exp(2 * ground.busy * (busy - 0.5))
    if ground.upright:
        found = found * np.exp(2.5 * (upright - 0.5))
    if ground.colours:
        found = found * (0.25 + colour_map(seen.small, ground.colours))
    return found / found.max()


def colour_map(small: np.ndarray, colours: Sequence[str]) -> np.ndarray:
    """(h, w, 3) in [0, 1] → (h, w) in [0, 1]: nearness to the nearest of the named colours."""
    from ...texture.pixels import srgb_to_lab
    from ..language.lexical import COLOUR_REACH, LIGHTNESS_WEIGHT

    wanted = np.array([COLOURS[name] for name in colours], np.float32)[None] / 255
    weights = np.array([LIGHTNESS_WEIGHT, 1, 1], np.float32)
    lab, targets = (
        np.stack(srgb_to_lab((one[..., 0], one[..., 1], one[..., 2])), -1) * weights for one in (small, wanted)
    )
    far = ((lab[:, :, None] - targets[:, None]) ** 2).sum(-1).min(-1)
    return np.exp(-0.5 * far / COLOUR_REACH**2)


def unnamed_map(seen: PhotoSight, fast: bool = False) -> np.ndarray:
    """(h, w) in [0, 1]: what looks like any thing at all, and what stands out, where that network is there."""
    scores = seen.square.scores.max(1)
    order = np.argsort(-scores, kind="stable")[:MOST_BOXES]
    things = painted(np.clip(seen.square.boxes[order], 0, 1), scores[order], seen.shape)
    things = things / max(float(things.max()), 1e-6)
    salient = None if fast else seen.salient
    middle = centre_map(seen.shape)
    return (things + middle) / 2 if salient is None else (2 * things + 2 * salient + 0.2 * middle) / 4.2
