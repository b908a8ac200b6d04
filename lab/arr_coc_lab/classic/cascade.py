"""The source "cascade": relevance found coarse to fine, sensing and scoring a finer mip only where the coarser one was
relevant.

64 → 256 → 1024 along the longer side. The whole picture is sensed at 64. The 4×4 cells of the next mip below each of
its 64 best cells are sensed and scored, then those below the best 256 of them. What is sensed at a finer mip is cut out
with a rim and laid beside each other as one small picture, a mosaic, which the same senses read. What stands out is
known from the coarsest mip (saliency is found at that size anyway) and is carried down.

"cascade:clusters" opens clusters first: the best three coarse ones, of these the ten best, and inside them cells.

The strategy "cascade" does the same with the cells of a map that is there: look coarsely everywhere, then finer only
where the coarse look was promising.

What it spares, and what it costs, on Needle World at 1024², validation, against sensing everything:

    python -m arr_coc_lab.classic.cascade --number 210 --out docs/data/cascades.json

Work: pixels that are sensed, seconds of processor time for sensing and scoring (one thread). Coverage: the share of the
cells that the question needs which an overlay of the given share of the tokens shows in full; differences are paired by
picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np

from arr_coc.attending.strategies import SHAPED, Strategy
from arr_coc.balancing.arousal import first_arousal, modulate
from arr_coc.balancing.tension import DEFAULT_TENSIONS, mixture, normalise, sharpen
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject, Relevance
from arr_coc.knowing.registry import Source
from arr_coc.knowing.scene import CHANNELS, Scene
from arr_coc.texture.texture import Layout
from arr_coc.video.clusters import region_scores

if TYPE_CHECKING:
    from torch import Tensor

    from arr_coc.attending.job import AllocationJob
    from arr_coc.attending.tree import Leaves

COARSEST, STEP = 64, 4
MIPS = 3
# The map is kept at the middle mip: what the finest one says is averaged into it.
MIDDLE = 2
KEEPS = (64, 256)
# Pixels around an opened block that are sensed with it, so that no window of the senses looks over its edge.
RIM = 4
KEEP_PARENTS, KEEP_CLUSTERS = 3, 10
NAMES = ("propositional", "perspectival", "participatory")


@dataclass(frozen=True)
class Mip:
    """What was done at one level: its side, pixels that were sensed, cells that were scored, cells in all."""

    side: int
    sensed: int
    scored: int
    cells: int


def cascade_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "cascade"; option "clusters": regions before cells."""
    if option not in ("", "clusters"):
        raise InputError(f"relevance='cascade:{option}' is unknown; use 'cascade' or 'cascade:clusters'")
    return cascade_map(scene.pixels, query or "what is there", by_clusters=bool(option))[0]


def cascade_map(
    pixels: np.ndarray, query: str, *, keeps: Sequence[int] = KEEPS, by_clusters: bool = False
) -> tuple[Relevance, tuple[Mip, ...]]:
    """(H, W, 3) uint8 → relevance at the middle mip, and what was done at each. Ground that was not opened keeps what
    the coarser mip said of it; what was opened twice has the mean of its finest cells. keeps: cells that are opened at
    each mip but the finest."""
    from arr_coc.knowing.language.lexical import lexical
    from arr_coc.knowing.ways import perspectival, propositional
    from arr_coc.texture.one_picture import sense_one

    mips = mips_of(pixels)
    texture = sense_one(mips[0], Layout.of("look", CHANNELS))
    coupled = lexical(texture, query)
    ways = [np.array(one) for one in (propositional(texture), perspectival(texture), coupled.map)]
    done = [Mip(max(mips[0].shape[:2]), ways[0].size, ways[0].size, ways[0].size)]
    notes = list(coupled.notes)
    score, open_cells = mixture(*ways), np.ones(ways[0].shape, bool)
    if by_clusters:
        open_cells, told = best_clusters(mips[min(1, len(mips) - 1)], score, np.asarray(texture["saliency"]))
        notes.append(told)
    for number, (mip, keep) in enumerate(zip(mips[1:], keeps, strict=False), start=1):
        places = best_cells(np.where(open_cells, score, -np.inf), keep)
        rows, cols = blocks_below(places, score.shape)
        mosaic, inner = cut_out(mip, rows, cols)
        read = reading(mosaic, inner, rows, cols, mip.shape[:2], query)
        if number < MIDDLE:
            ways = [one.repeat(STEP, 0).repeat(STEP, 1) for one in ways]
            at = (rows[:, :, None], cols[:, None, :])
            open_cells = np.zeros(ways[0].shape, bool)
            open_cells[at] = True
        else:  # each block lies below one cell of the map, which gets its mean
            at, read = np.unravel_index(places, score.shape), tuple(one.mean((1, 2)) for one in read)
        for way, values in zip((0, 2), read, strict=True):
            ways[way][at] = values
        score = mixture(*ways)
        cells = mip.shape[0] * mip.shape[1]
        done.append(Mip(max(mip.shape[:2]), mosaic.shape[0] * mosaic.shape[1], rows.size * STEP, cells))
    arousal = first_arousal(query, ways)
    notes += [] if arousal.mood == "calm" else [arousal.note()]
    told = ", ".join(f"{one.scored} of {one.cells} at {one.side}" for one in done)
    found = Relevance(
        modulate(sharpen(normalise(mixture(*ways)[None])), arousal.value)[0],
        query=query,
        tensions=dict(DEFAULT_TENSIONS, focus_diversify=0.0),
        notes=(*notes, f"cascade: cells scored {told}; {sum(one.sensed for one in done)} pixels sensed"),
        **dict(zip(NAMES, ways, strict=True)),
    )
    return found, tuple(done)


def mips_of(pixels: np.ndarray) -> list[np.ndarray]:
    """Coarsest first, 64 along the longer side, each four times as large; none larger than the picture, but one."""
    import cv2

    longest = max(pixels.shape[:2])
    scale = min(1.0, COARSEST / longest)
    height, width = (max(1, round(side * scale)) for side in pixels.shape[:2])
    number = max(1, sum(COARSEST * STEP**level <= 1.2 * longest for level in range(MIPS)))
    mips = [pixels]
    for level in reversed(range(number)):
        size = (width * STEP**level, height * STEP**level)
        mips.append(cv2.resize(mips[-1], size, interpolation=cv2.INTER_AREA))
    return mips[:0:-1]


def best_cells(score: np.ndarray, keep: int) -> np.ndarray:
    """(n,) flat places of the highest finite scores, best first, ties by position."""
    flat = score.ravel()
    keep = min(keep, int(np.isfinite(flat).sum()))
    return np.argsort(-flat, kind="stable")[:keep]


def blocks_below(places: np.ndarray, shape: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """Flat places on a mip → (n, 4) rows and (n, 4) columns of the next finer one."""
    step = np.arange(STEP)
    return (places // shape[1])[:, None] * STEP + step, (places % shape[1])[:, None] * STEP + step


def cut_out(mip: np.ndarray, rows: np.ndarray, cols: np.ndarray) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """A mosaic of the blocks, each with its rim, and where in it, (n, 4) rows and (n, 4) columns, the blocks lie."""
    number, side = len(rows), STEP + 2 * RIM
    reach = np.arange(-RIM, STEP + RIM)
    down = np.clip(rows[:, :1] + reach, 0, mip.shape[0] - 1)
    across = np.clip(cols[:, :1] + reach, 0, mip.shape[1] - 1)
    wide = int(np.ceil(np.sqrt(number)))
    high = -(-number // wide)
    tiles = mip[down[:, :, None], across[:, None, :]]
    blank = np.zeros((high * wide - number, *tiles.shape[1:]), tiles.dtype)
    board = np.concatenate([tiles, blank]).reshape(high, wide, side, side, -1)
    mosaic = np.ascontiguousarray(board.transpose(0, 2, 1, 3, 4).reshape(high * side, wide * side, -1))
    tile, step = np.arange(number)[:, None], np.arange(STEP) + RIM
    return mosaic, ((tile // wide) * side + step, (tile % wide) * side + step)


def reading(
    mosaic: np.ndarray,
    inner: tuple[np.ndarray, np.ndarray],
    rows: np.ndarray,
    cols: np.ndarray,
    size: tuple[int, ...],
    query: str,
) -> tuple[np.ndarray, np.ndarray]:
    """What there is to be read, and what the question couples to, in each block: (n, 4, 4) each."""
    from arr_coc.knowing.language.lexical import lexical
    from arr_coc.knowing.ways import propositional
    from arr_coc.texture.one_picture import sense_one

    names = ("red", "green", "blue", "text_regions", "y", "x")
    texture = sense_one(mosaic, Layout.of("mosaic", names))
    at = (inner[0][:, :, None], inner[1][:, None, :])
    # Blocks know their true places; their rims are thrown away, whatever they say.
    y, x = np.array(texture["y"]), np.array(texture["x"])
    y[at] = ((rows + 0.5) / size[0])[:, :, None]
    x[at] = ((cols + 0.5) / size[1])[:, None, :]
    coupled = lexical(texture.replacing(y=y, x=x), query).map
    return np.asarray(propositional(texture))[at], np.asarray(coupled)[at]


def best_clusters(view: np.ndarray, score: np.ndarray, saliency: np.ndarray) -> tuple[np.ndarray, str]:
    """Cells (h, w) bool inside the best clusters of a picture."""
    import cv2

    from arr_coc.texture.named_clusters import find_clusters

    found = find_clusters(view)
    size = score.shape[::-1]
    labels = cv2.resize(found.labels.astype(np.float32), size, interpolation=cv2.INTER_NEAREST_EXACT).astype(int)
    opened, told = open_clusters(labels, score, saliency, found.parents, found.count)
    return opened, f"cascade: {told}"


def open_clusters(
    labels: np.ndarray, score: np.ndarray, saliency: np.ndarray, parents: np.ndarray | None = None, count: int = 0
) -> tuple[np.ndarray, str]:
    """Maps (h, w) → bool inside the best clusters: three coarse ones first where there are two scales, then ten; and
    how many they are, in words."""
    count = count or int(labels.max()) + 1
    allowed = np.ones(count, bool)
    if parents is not None:
        coarse = region_scores(score, parents[labels], saliency)
        allowed = np.isin(parents, np.argsort(-coarse, kind="stable")[:KEEP_PARENTS])
    scores = np.where(allowed, region_scores(score, labels, saliency, count), -np.inf)
    chosen = np.argsort(-scores, kind="stable")[:KEEP_CLUSTERS]
    chosen = chosen[np.isfinite(scores[chosen])]
    of_parents = "" if parents is None else f"{KEEP_PARENTS} of {int(parents.max()) + 1} coarse clusters, "
    return np.isin(labels, chosen), f"{of_parents}{len(chosen)} of {count} clusters opened"


SOURCE = Source(
    "cascade",
    cascade_relevance,
    summary="as look, coarse to fine: a finer mip is sensed only where the coarser one was relevant",
    option="clusters",
)

# ---- the strategy ----------------------------------------------------------------------------------------------------

# Cells that are kept of the map at a quarter of its detail, at half of it, and as it is; of a coarse map half at most,
# so that something is left unopened.
KEPT = (64, 256, 200)
# What ground outside the chosen cells counts, beside its relevance.
ELSEWHERE = 0.1


def cascade_cells(cells: Tensor, keeps: Sequence[int] = KEPT) -> Tensor:
    """(B, rows, cols) relevance of cells → bool: those that a look from coarse to fine ends at.

    Each step halves the size of a place; only what lies below the kept places of the step before is looked at.
    """
    import torch
    from torch.nn import functional as F

    rows, cols = cells.shape[1:]
    opened = torch.ones_like(cells, dtype=torch.bool)
    for step, keep in zip(range(len(keeps) - 1, -1, -1), keeps, strict=True):
        side = 1 << step
        coarse = F.avg_pool2d(cells[:, None].float(), side, ceil_mode=True)[:, 0]
        scores = coarse.masked_fill(~opened[:, ::side, ::side], -torch.inf).flatten(1)
        most = min(keep, -(-scores.shape[1] // 2)) if step else keep
        order = scores.argsort(dim=1, descending=True, stable=True)[:, :most]
        kept = torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True) & scores.isfinite()
        opened = kept.view_as(coarse).repeat_interleave(side, 1).repeat_interleave(side, 2)[:, :rows, :cols]
    return opened


def cascade(job: AllocationJob) -> Leaves:
    """Leaves by the cells that the cascade ends at."""
    cells = job.cells.float().clamp(0, 1)
    kept = cascade_cells(cells, tuple(job.option("keeps", KEPT)))
    return job.leaves(cells.where(kept, ELSEWHERE * cells))


STRATEGY = Strategy("cascade", cascade, (*SHAPED, "keeps"))

# ---- what it spares, and what it costs -------------------------------------------------------------------------------

SIDE = 1024
SHARES = (1 / 16, 1 / 4)
# What `look` senses at, and the finest mip of the cascade.
EVERYTHING = {"all, at 768": 768, "all, at 1024": 1024}


def sense_all(pixels: np.ndarray, query: str, side: int) -> tuple[Relevance, int]:
    """Relevance of the picture sensed as a whole, and the pixels sensed for it."""
    from arr_coc.balancing.look import relevance_of
    from arr_coc.texture.one_picture import sense_one

    texture = sense_one(pixels, Layout.of("look", CHANNELS), size=side)
    return relevance_of(texture, query), texture.height * texture.width


def sense_some(pixels: np.ndarray, query: str, by_clusters: bool) -> tuple[Relevance, int]:
    found, done = cascade_map(pixels, query, by_clusters=by_clusters)
    return found, sum(one.sensed for one in done)


# By way and by what was measured: a number a picture.
Figures = dict[str, dict[str, list[float]]]
ARMS: dict[str, Callable[[np.ndarray, str], tuple[Relevance, int]]] = {
    **{name: partial(sense_all, side=side) for name, side in EVERYTHING.items()},
    "cascade": partial(sense_some, by_clusters=False),
    "cascade:clusters": partial(sense_some, by_clusters=True),
}


def asked_pictures(number: int, seed: int, side: int) -> Iterator[tuple[np.ndarray, str, np.ndarray]]:
    """Validation pictures of every family, a question about each, and (rows, cols) bool the cells that it needs."""
    from ..train.allocations import target_cells
    from ..train.pictures import every_family

    for batch in every_family(number, (side, side), seed, "validation", at_once=1):
        truth = target_cells(batch, side // 32, side // 32)[0].numpy() > 0
        if truth.any():  # "is there a …?" with the answer no needs no place
            yield batch.pictures[0].permute(1, 2, 0).contiguous().numpy(), batch.questions[0], truth


def shown_in_full(
    relevance: Relevance | np.ndarray, keep: float, truth: np.ndarray, how: JsonObject | None = None
) -> float:
    """The share of the needed cells that an allocation of a share of the tokens shows in full."""
    from arr_coc.attending.allocate import allocate

    size = truth.shape[0] * 32, truth.shape[1] * 32
    levels = allocate(relevance, round(keep * truth.size), image_size=size, **(how or {})).level_map()
    return float((levels[truth] == 0).mean())


def measure(number: int, seed: int = 0, side: int = SIDE) -> Figures:
    """Rows by way: seconds, pixels, and coverage of each picture at each share of the tokens."""
    found: Figures = {name: {} for name in ARMS}
    for pixels, query, truth in asked_pictures(number, seed, side):
        for name, way in ARMS.items():
            started = process_time()
            relevance, sensed = way(pixels, query)
            row = {"seconds": process_time() - started, "pixels": float(sensed)}
            row |= {f"covered {keep:g}": shown_in_full(relevance, keep, truth) for keep in SHARES}
            for key, value in row.items():
                found[name].setdefault(key, []).append(value)
    return found


def table_of(found: Figures) -> Figures:
    """By way: means with 95 % intervals, and paired differences in coverage against sensing all as `look` does."""
    from ..statistics import mean_intervals

    first = found[next(iter(found))]
    rows: Figures = {}
    for name, values in found.items():
        arrays = {key: np.array(one) for key, one in values.items()}
        for key in [key for key in values if key.startswith("covered") and values is not first]:
            arrays[f"{key}, difference"] = arrays[key] - np.array(first[key])
        rows[name] = mean_intervals(arrays)
    return rows


def tell(measure: Callable[..., Figures], doc: str | None, number: int, side: int, source: str = "") -> None:
    """A measurement from the command line: a line for each way, and the JSON of --out. source: of relevance, where the
    measurement takes one."""
    import torch

    from arr_coc.core.files import write_json

    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    if source:
        parser.add_argument("--source", default=source, help="of relevance")
    parser.add_argument("--side", type=int, default=side, help="pixels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=number, help="pictures")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file")
    given = vars(parser.parse_args())
    out = given.pop("out")
    torch.set_num_threads(1)
    found = measure(**given)
    rows, count = table_of(found), len(next(iter(found[next(iter(found))].values())))
    print(f"n = {count}")
    for name, row in rows.items():
        print(name, {key: "{:.4g} [{:.4g}, {:.4g}]".format(*value) for key, value in row.items()})
    if out is not None:
        del given["number"]
        write_json(out, {"n": count, **given, "rows": rows})


if __name__ == "__main__":
    tell(measure, __doc__, 210, SIDE)
