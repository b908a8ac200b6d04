"""`bench foresight`: can a stream say where the tokens of the next frame belong, before it is seen?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.video.stream import VideoStream

from ..statistics import paired_bootstrap, resampled
from ..train.run import door
from ..worlds.needle.clips import render_clip
from .options import ForesightOptions
from .real import coverage
from .report import Quantity, Report, Table
from .run import BenchRun, program
from .suite import suite

COLUMNS = suite("foresight")["columns"]
MOVING = ("cards", "scenes", "signs", "zoo")
SIZE = (512, 512)
SYSTEMS = ("foreseen", "carried over", "seen")


def measure(options: ForesightOptions, run: BenchRun) -> Report:
    """Where the next frame needs its tokens; with --mips what temporal mips do to the frame that is seen."""
    if options.mips:
        return Report.of(mips_table(options), name="mips", mark="mips")
    return Report.of(foresight_table(options))


def moving(options: ForesightOptions, number: int, split: str) -> tuple[str, np.ndarray, list[np.ndarray]]:
    """One clip without cuts, each `every`-th frame: its question, (T, H, W, 3) uint8, and the boxes of every frame."""
    family, every = MOVING[number % len(MOVING)], options.every
    clip = render_clip(family, range(number, number + 1), every * (options.frames - 1) + 1, SIZE, 77, split)
    pixels = clip.pictures[0, ::every].permute(0, 2, 3, 1).contiguous().numpy()
    there = clip.frames.box_mask.unflatten(0, tuple(clip.cuts.shape))[0, ::every].numpy()
    boxes = [one[mask] for one, mask in zip(clip.boxes[0, ::every].numpy(), there, strict=True)]
    return clip.questions[0], pixels, boxes


def clip_coverages(options: ForesightOptions, number: int) -> np.ndarray:
    """(3,): mean share of the boxes at level 0, of the systems in order, over the frames after the second."""
    query, pixels, boxes = moving(options, number, "validation")
    cascade = options.cascade
    stream = VideoStream(query, keep=options.keep, relevance=options.relevance, clusters=cascade, cascade=cascade)
    found: list[tuple[float, ...]] = []
    before: tuple[Allocation, Allocation] | None = None
    for time, frame in enumerate(pixels):
        seen = stream.see(frame)
        if before is not None and len(boxes[time]):
            found.append(tuple(coverage(one, boxes[time]) for one in (*before, seen.standing)))
        before = (stream.foresee(), seen.standing) if time else None
    return np.mean(found, axis=0) if found else np.full(3, np.nan)


def mips_coverages(options: ForesightOptions, shares: Sequence[float], number: int) -> np.ndarray:
    """(shares,): mean share of a frame's boxes at level 0 of a stream that reads temporal mips, after its first."""
    query, pixels, boxes = moving(options, number, options.split)
    streams = [
        VideoStream(query, mips=share, keep=options.keep, relevance=options.relevance, clusters=False)
        for share in shares
    ]
    found = []
    for time, frame in enumerate(pixels):
        standing = [stream.see(frame).standing for stream in streams]
        if time and len(boxes[time]):
            found.append([coverage(one, boxes[time]) for one in standing])
    return np.mean(found, axis=0) if found else np.full(len(shares), np.nan)


def foresight_table(options: ForesightOptions) -> Table:
    found = [clip_coverages(options, number) for number in range(options.clips)]
    facts = {
        "clips": f"{options.clips} of Needle World's validation split, {options.frames} frames of {SIZE[0]}×{SIZE[1]}, "
        f"families {', '.join(MOVING)}, seed 77, relevance {options.relevance!r}"
        f"{', through clusters' if options.cascade else ''}",
        "budget": f"1/{round(1 / options.keep)} of a frame's tokens; every {options.every}. frame of the clip is seen",
    }
    return _table("Where the next frame needs its tokens", "foresight", SYSTEMS, found, facts)


def mips_table(options: ForesightOptions) -> Table:
    """Without temporal mips, and with the given shares of them."""
    shares = (0.0, *options.mips)
    found = [mips_coverages(options, shares, number) for number in range(options.clips)]
    facts = {
        "clips": f"Needle World, split {options.split}, {options.frames} frames of {SIZE[0]}×{SIZE[1]}, every "
        f"{options.every}. seen, families {', '.join(MOVING)}, seed 77, relevance {options.relevance!r}",
        "budget": f"1/{round(1 / options.keep)} of a frame's tokens",
    }
    names = [f"{share:g}" if share else "none" for share in shares]
    return _table("Temporal mips of the last four frames", "mips", names, found, facts)


def _table(title: str, kind: str, names: Sequence[str], found: list[np.ndarray], facts: dict[str, str]) -> Table:
    """A row for each system, compared with `carried over` or `none`. found: (systems,) coverages of every clip."""
    values = np.array([one for one in found if np.isfinite(one).all()])
    if not len(values):
        raise InputError("no clip has a box after its first frames; give more --clips")
    base = next(place for place, name in enumerate(names) if name in ("carried over", "none"))
    rows = tuple(
        {
            "row": name,
            "covered": Quantity.percent(resampled(values[:, place])),
            "difference": None
            if place == base
            else Quantity.percent(paired_bootstrap(values[:, place], values[:, base])),
            "n": len(values),
        }
        for place, name in enumerate(names)
    )
    return Table(title, COLUMNS[kind], rows, {**facts, "intervals": "95 %, whole clips resampled"})


if __name__ == "__main__":
    door(program("foresight"))
