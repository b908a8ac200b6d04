"""Can a stream say where the tokens of the next frame belong, before it is seen?

    python -m arr_coc_lab.bench.video_foresight --clips 56 --page docs/video.md

Moving Needle World, validation split, no cuts. After every frame three allocations of one budget are held against the
boxes of the frame that follows: `foreseen`, the relevance moved on by the last motion; `carried over`, the standing one
as it is; `seen`, the one of a stream that has seen that frame. With `--cascade` the streams go through clusters.

    python -m arr_coc_lab.bench.video_foresight --mips 0.1 0.25 0.5 --clips 56 --page docs/video.md

Instead, what reading the temporal mips of the last frames does to the frame that is seen, by the share that they have.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.values import Allocation
from arr_coc.video.stream import VideoStream

from ..statistics import paired_bootstrap, resampled
from ..worlds.needle.clips import render_clip
from .hypotheses import percent
from .real_measures import coverage
from .table import Cell, Table, fill_page

MARK = "foresight"
COLUMNS = {"row": "allocation", "covered": "of the next frame's boxes, %", "difference": "− carried over", "n": "clips"}
MIPS_COLUMNS = {"row": "share", "covered": "of the frame's boxes, %", "difference": "− none", "n": "clips"}
MOVING = ("cards", "scenes", "signs", "zoo")
SIZE = (512, 512)
SYSTEMS = ("foreseen", "carried over", "seen")


def moving(
    family: str, number: int, frames: int, size: tuple[int, int], every: int, split: str = "validation"
) -> tuple[str, np.ndarray, list[np.ndarray]]:
    """One clip without cuts, each `every`-th frame: its question, (T, H, W, 3) uint8, and the boxes of every frame."""
    clip = render_clip(family, 1, every * (frames - 1) + 1, size, 77, split, None, "cpu", number)
    pixels = clip.pictures[0, ::every].permute(0, 2, 3, 1).contiguous().numpy()
    there = clip.frames.box_mask.unflatten(0, tuple(clip.cuts.shape))[0, ::every].numpy()
    boxes = [one[mask] for one, mask in zip(clip.boxes[0, ::every].numpy(), there, strict=True)]
    return clip.questions[0], pixels, boxes


def clip_coverages(
    family: str,
    number: int,
    frames: int,
    size: tuple[int, int],
    keep: float,
    relevance: str,
    cascade: bool,
    every: int = 1,
) -> np.ndarray:
    """(3,): mean share of the boxes at level 0, of the systems in order, over the frames after the second."""
    query, pixels, boxes = moving(family, number, frames, size, every)
    stream = VideoStream(query, keep=keep, relevance=relevance, clusters=cascade, cascade=cascade)
    found: list[tuple[float, ...]] = []
    before: tuple[Allocation, Allocation] | None = None
    for time, frame in enumerate(pixels):
        seen = stream.see(frame)
        if before is not None and len(boxes[time]):
            found.append(tuple(coverage(one, boxes[time]) for one in (*before, seen.standing)))
        before = (stream.foresee(), seen.standing) if time else None
    return np.mean(found, axis=0) if found else np.full(3, np.nan)


def foresight_table(
    clips: int,
    families: Sequence[str] = MOVING,
    frames: int = 8,
    size: tuple[int, int] = SIZE,
    keep: float = 1 / 16,
    relevance: str = "scorer",
    cascade: bool = False,
    every: int = 1,
) -> Table:
    shares = [
        clip_coverages(families[number % len(families)], number, frames, size, keep, relevance, cascade, every)
        for number in range(clips)
    ]
    values = np.array([one for one in shares if np.isfinite(one).all()])
    if not len(values):
        raise InputError("no clip has a box after its second frame; give more --clips")
    rows: list[dict[str, Cell]] = [
        {
            "row": system,
            "covered": percent(resampled(values[:, place])),
            "difference": None if place == 1 else percent(paired_bootstrap(values[:, place], values[:, 1])),
            "n": len(values),
        }
        for place, system in enumerate(SYSTEMS)
    ]
    facts = {
        "clips": f"{clips} of Needle World's validation split, {frames} frames of {size[0]}×{size[1]}, families "
        f"{', '.join(families)}, seed 77, relevance {relevance!r}{', through clusters' if cascade else ''}",
        "budget": f"1/{round(1 / keep)} of a frame's tokens; every {every}. frame of the clip is seen",
        "intervals": "95 %, whole clips resampled",
    }
    return Table("Where the next frame needs its tokens", COLUMNS, tuple(rows), facts)


def mips_coverages(shares: Sequence[float], family: str, number: int, how: Mapping[str, Any]) -> np.ndarray:
    """(shares,): mean share of a frame's boxes at level 0 of a stream that reads temporal mips, after its first."""
    query, pixels, boxes = moving(family, number, how["frames"], SIZE, how["every"], how["split"])
    given: dict[str, Any] = {"keep": how["keep"], "relevance": how["relevance"], "clusters": False}
    streams = [VideoStream(query, mips=share, **given) for share in shares]
    found = []
    for time, frame in enumerate(pixels):
        standing = [stream.see(frame).standing for stream in streams]
        if time and len(boxes[time]):
            found.append([coverage(one, boxes[time]) for one in standing])
    return np.mean(found, axis=0) if found else np.full(len(shares), np.nan)


def mips_table(clips: int, shares: Sequence[float], **how: Any) -> Table:
    """Without temporal mips, and with the given shares of them."""
    every = (0.0, *shares)
    found = np.array([mips_coverages(every, MOVING[one % len(MOVING)], one, how) for one in range(clips)])
    values = found[np.isfinite(found).all(1)]
    if not len(values):
        raise InputError("no clip has a box after its first frame; give more --clips")
    rows: list[dict[str, Cell]] = [
        {
            "row": f"{share:g}" if share else "none",
            "covered": percent(resampled(values[:, place])),
            "difference": percent(paired_bootstrap(values[:, place], values[:, 0])) if share else None,
            "n": len(values),
        }
        for place, share in enumerate(every)
    ]
    facts = {
        "clips": f"Needle World, split {how['split']}, {how['frames']} frames of {SIZE[0]}×{SIZE[1]}, every "
        f"{how['every']}. seen, families {', '.join(MOVING)}, seed 77, relevance {how['relevance']!r}",
        "budget": f"1/{round(1 / how['keep'])} of a frame's tokens",
        "intervals": "95 %, whole clips resampled",
    }
    return Table("Temporal mips of the last four frames", MIPS_COLUMNS, tuple(rows), facts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.video_foresight", description=__doc__)
    parser.add_argument("--clips", type=int, default=56)
    parser.add_argument("--frames", type=int, default=8)
    parser.add_argument("--keep", type=float, default=1 / 16)
    parser.add_argument("--relevance", default="scorer")
    parser.add_argument("--every", type=int, default=1, help="only each so-manieth frame: larger steps")
    parser.add_argument("--cascade", action="store_true")
    parser.add_argument("--mips", nargs="+", type=float, help="shares of temporal mips, against none")
    parser.add_argument("--split", default="validation", help="of --mips")
    parser.add_argument("--out", type=Path, help="folder for foresight.json")
    parser.add_argument("--page", type=Path, help=f"a Markdown page with the marks {MARK}, or mips")
    given = parser.parse_args(arguments)
    if given.clips < 1 or given.frames < 3 or given.every < 1:
        raise InputError("--clips and --every must be at least 1 and --frames at least 3")
    how: dict[str, Any] = {name: getattr(given, name) for name in ("frames", "keep", "relevance", "every")}
    if given.mips:
        mark, table = "mips", mips_table(given.clips, given.mips, split=given.split, **how)
    else:
        mark, table = MARK, foresight_table(given.clips, cascade=given.cascade, **how)
    print(table.section())
    if given.out is not None:
        write_json(given.out / f"{mark}.json", table.to_json())
    if given.page is not None:
        fill_page(given.page, mark, table)


if __name__ == "__main__":
    main()
