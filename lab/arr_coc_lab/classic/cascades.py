"""What the cascade spares, and what it costs: Needle World at 1024², validation, against sensing everything.

python -m arr_coc_lab.classic.cascades --number 210 --out docs/data/cascades.json

Work: pixels that are sensed, seconds of processor time for sensing and scoring (one thread). Coverage: the share of the
cells that the question needs which an overlay of the given share of the tokens shows in full; differences are paired by
picture.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import torch

from arr_coc.allocation.allocate import allocate
from arr_coc.core.alphabet import decode
from arr_coc.core.files import write_json
from arr_coc.core.values import Relevance
from arr_coc.relevance.look.three_ways import relevance_of
from arr_coc.relevance.scene import CHANNELS
from arr_coc.sensing.one_picture import sense_one
from arr_coc.sensing.texture import Layout

from .. import statistics
from ..train.allocations import target_cells
from ..train.pictures import render_family
from ..worlds.needle import FAMILIES
from .cascade import cascade_map

SIDE = 1024
KEEPS = (1 / 16, 1 / 4)
# What `look` senses at, and the finest mip of the cascade.
EVERYTHING = {"all, at 768": 768, "all, at 1024": 1024}


def sense_all(pixels: np.ndarray, query: str, side: int) -> tuple[Relevance, int]:
    """Relevance of the picture sensed as a whole, and the pixels sensed for it."""
    texture = sense_one(pixels, Layout.of("look", CHANNELS), size=side)
    return relevance_of(texture, query), texture.height * texture.width


def sense_some(pixels: np.ndarray, query: str, by_clusters: bool) -> tuple[Relevance, int]:
    found, done = cascade_map(pixels, query, by_clusters=by_clusters)
    return found, sum(one.sensed for one in done)


WAYS: dict[str, Callable[[np.ndarray, str], tuple[Relevance, int]]] = {
    **{name: partial(sense_all, side=side) for name, side in EVERYTHING.items()},
    "cascade": partial(sense_some, by_clusters=False),
    "cascade:clusters": partial(sense_some, by_clusters=True),
}


def measure(number: int, seed: int = 0, split: str = "validation", side: int = SIDE) -> dict[str, Any]:
    """Rows by way: seconds, pixels, and coverage of each picture at each share of the tokens."""
    found: dict[str, dict[str, list[float]]] = {name: {} for name in WAYS}
    for family in FAMILIES:
        for index in range(-(-number // len(FAMILIES))):
            batch = render_family(family, 1, (side, side), seed, index, "cpu", None, split)
            pixels = batch.pictures[0].permute(1, 2, 0).contiguous().numpy()
            query, truth = decode(batch.question_ids[0]), target_cells(batch, side // 32, side // 32)[0].numpy() > 0
            if not truth.any():  # "is there a …?" with the answer no needs no place
                continue
            for name, way in WAYS.items():
                started = process_time()
                relevance, sensed = way(pixels, query)
                row = {"seconds": process_time() - started, "pixels": float(sensed)}
                for keep in KEEPS:
                    levels = allocate(relevance, round(keep * truth.size), image_size=(side, side)).level_map()
                    row[f"covered {keep:g}"] = float((levels[truth] == 0).mean())
                for key, value in row.items():
                    found[name].setdefault(key, []).append(value)
    return found


def table_of(found: dict[str, dict[str, list[float]]]) -> dict[str, dict[str, list[float]]]:
    """By way: means with 95 % intervals, and paired differences in coverage against sensing all as `look` does."""
    first = found[next(iter(found))]
    rows: dict[str, dict[str, list[float]]] = {}
    for name, values in found.items():
        estimates = {key: statistics.mean(np.array(one)) for key, one in values.items()}
        for key in values:
            if key.startswith("covered") and values is not first:
                difference = np.array(values[key]) - np.array(first[key])
                estimates[f"{key}, difference"] = statistics.mean(difference)
        rows[name] = {
            key: [round(value, 4) for value in (one.value, one.low, one.high)] for key, one in estimates.items()
        }
    return rows


def main(arguments: Iterable[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--number", type=int, default=210, help="pictures")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--side", type=int, default=SIDE, help="pixels")
    parser.add_argument("--out", type=Path, default=None, help="a JSON file")
    options = parser.parse_args(None if arguments is None else list(arguments))
    torch.set_num_threads(1)
    found = measure(options.number, options.seed, side=options.side)
    rows = table_of(found)
    for name, row in rows.items():
        print(name, {key: "{:.4g} [{:.4g}, {:.4g}]".format(*value) for key, value in row.items()})
    if options.out is not None:
        count = len(found["cascade"]["seconds"])
        write_json(options.out, {"n": count, "side": options.side, "seed": options.seed, "rows": rows})


if __name__ == "__main__":
    main()
