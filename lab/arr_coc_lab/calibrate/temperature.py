"""Fit the one temperature of mini's uncertainty on validation pictures, and write it into the folder of mini."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.options import check_device
from arr_coc.realizing.bundled import Calibration

from ..bench.needle import BATCH, Weights
from ..bench.suite import chosen_families
from ..options import option, parse
from ..train.evaluate import calibrate, print_answers
from ..train.print_world import PrintWorld
from ..train.run import door


@dataclass(frozen=True, kw_only=True)
class TemperatureOptions:
    weights: Path | None = option(None, "Folder with mini and scorer. [default: the package's]")
    n: int = option(512, "Validation questions of each family and allocation.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    seed: int = option(20, "Of the validation pictures.")
    atlas: Path | None = option(None, "An atlas of type: printed pages too.", flag="--print")
    device: str = option("cpu", "cpu, cuda, cuda:1.")
    as_json: bool = option(False, "Print JSON and nothing else.", flag="--json")


def main(arguments: Iterable[str] | None = None) -> None:
    options = parse(TemperatureOptions, sys.argv[1:] if arguments is None else arguments, __doc__)
    if options.n < 1:
        raise InputError(f"--n {options.n} measures nothing; give at least 1")
    check_device(options.device)
    families, loaded = chosen_families(options.family), Weights.load(options.weights, options.device)
    size = BATCH.get(options.device.split(":")[0], BATCH["cpu"])
    world = None if options.atlas is None else PrintWorld(options.atlas, options.device, options.seed, split="val")
    printed = print_answers(loaded.mini, loaded.scorer, world, options.n * len(families), size) if world else ()
    cells = {"families": families, "seed": options.seed}
    how: dict[str, Any] = {**cells, "number": options.n, "batch_size": size}
    found = calibrate(loaded.mini, loaded.scorer, more=printed, **how)
    rest = {name: value for name, value in found.items() if name not in ("temperature", "levels")}
    path = Calibration(found["temperature"], found["levels"]).write(part_folder(MINI, options.weights), **rest)
    if options.as_json:
        print(json.dumps({**found, "file": str(path)}))
        return
    before, after, asked = (found["overall"][name] for name in ("ece_before", "ece_after", "n"))
    print(f"temperature {found['temperature']:.3f}: {path}")
    print(f"ECE {100 * before:.1f} % before, {100 * after:.1f} % after, n = {asked}")


if __name__ == "__main__":
    door(main)
