"""`arr-coc train calibration --n 512`: fit the temperature of mini's uncertainty, and write it into mini's folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.options import check_device
from arr_coc.realizing.bundled import Calibration

from ..bench.needle import BATCH, Weights
from ..bench.suite import chosen_families
from ..options import option, parse
from ..train.allocations import LEVELS
from ..train.evaluate import calibrate


@dataclass(frozen=True, kw_only=True)
class TemperatureOptions:
    weights: Path | None = option(None, "Folder with mini and scorer. [default: the package's]")
    n: int = option(512, "Number of validation questions of each family and allocation.")
    family: tuple[str, ...] = option((), "Only this family; may be repeated.")
    seed: int = option(20, "Seed of the validation pictures.")
    device: str = option("cpu", "cpu, cuda, cuda:1.")
    as_json: bool = option(False, "Print JSON only.", flag="--json")


def main(arguments: Sequence[str]) -> None:
    options = parse(TemperatureOptions, arguments, __doc__)
    if options.n < 1:
        raise InputError(f"--n {options.n} measures nothing; give at least 1")
    check_device(options.device)
    families, loaded = chosen_families(options.family), Weights.load(options.weights, options.device)
    size = BATCH.get(options.device.split(":")[0], BATCH["cpu"])
    how: dict[str, Any] = {"families": families, "seed": options.seed, "number": options.n, "batch_size": size}
    found = calibrate(loaded.mini, loaded.scorer, **how)
    folder = part_folder(MINI, options.weights)
    known = replace(Calibration.beside(folder), temperature=found["temperature"], levels=LEVELS)
    path = known.write(folder, **{name: value for name, value in found.items() if name != "temperature"})
    if options.as_json:
        print(json.dumps({**found, "file": str(path)}))
        return
    before, after, asked = (found["overall"][name] for name in ("ece_before", "ece_after", "n"))
    print(f"temperature {found['temperature']:.3f}: {path}")
    print(f"ECE {100 * before:.1f} % before, {100 * after:.1f} % after, n = {asked}")
