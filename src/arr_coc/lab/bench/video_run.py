"""Measuring clips with given weights, for `arr-coc bench video` and for machines without its packages:

python -m arr_coc.lab.bench.video --device cuda --batch 64 --threads 16 --seconds 90 --out DIR

What is found is written to DIR/video.json after every batch, so that a run that is stopped has lost nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from ...errors import InputError
from ...files import write_json
from ...video.settings import SETTINGS_NAME, load_settings
from ..needle import FAMILIES
from .needle import Weights
from .video import clips_document, document, tables, with_the_rest
from .video_clips import KEEPS, ClipOutcomes, ClipPlan, measure_clips

READINGS = ("clearest", "pooled", "video")
DEFAULT_NUMBER, DEFAULT_FRAMES, QUICK_NUMBER, QUICK_FRAMES = 512, 8, 8, 4


@dataclass(frozen=True)
class Request:
    """What is asked for; None is the default, which is smaller where it is to be quick."""

    number: int | None = None
    frames: int | None = None
    quick: bool = False
    families: tuple[str, ...] = ("cards",)
    readings: tuple[str, ...] = ()
    keeps: tuple[float, ...] = ()
    weights: Path | None = None
    batch: int = 8
    threads: int = 2
    seed: int = 1
    split: str = "test"
    device: str = "cpu"
    seconds: float | None = None

    @property
    def clips(self) -> int:
        return self.number if self.number is not None else QUICK_NUMBER if self.quick else DEFAULT_NUMBER

    def check(self) -> None:
        if self.clips < 1:
            raise InputError(f"--n {self.number} measures nothing; give at least 1")
        unknown = sorted(set(self.families) - set(FAMILIES))
        if unknown:
            raise InputError(f"unknown family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}")
        wrong = sorted(set(self.readings) - set(READINGS))
        if wrong:
            raise InputError(f"unknown reading {', '.join(wrong)}; choose clearest, pooled or video")
        odd = [str(keep) for keep in self.keeps if not 0 < keep < 1]
        if odd:
            raise InputError(f"--keep {', '.join(odd)} is no share of the full tokens; give for example 0.0625")


def default_readings(mini: Any, quick: bool) -> tuple[str, ...]:
    """From frames as pictures, and through the video prompt where mini was trained on it."""
    video = ("video",) if getattr(mini.config, "trained_on_video", False) else ()
    return (("clearest",) if quick else ("clearest", "pooled")) + video


def measure_needle(request: Request, advance: Callable[[int, dict[str, Any]], None] | None = None) -> dict[str, Any]:
    """The document of needle clips. advance: called after every batch with the clips done and the document so far."""
    from ...video.temporal_model import TemporalBlend

    request.check()
    weights = request.weights
    loaded = Weights.load(weights, request.device)
    own = weights is not None and (weights / "video" / SETTINGS_NAME).exists()
    settings = load_settings(weights / "video" if own and weights is not None else None)
    plan = ClipPlan(
        number=request.clips,
        frames=request.frames or (QUICK_FRAMES if request.quick else DEFAULT_FRAMES),
        families=request.families,
        readings=request.readings or default_readings(loaded.mini, request.quick),
        keeps=request.keeps or ((1 / 16,) if request.quick else KEEPS),
        batch=min(request.batch, max(1, request.clips // 2)),
        seed=request.seed,
        split=request.split,
        threads=request.threads,
    )

    def report(done: int, outcomes: ClipOutcomes) -> None:
        if advance is not None:
            advance(done, clips_document(outcomes, plan, settings, loaded.name))

    temporal = TemporalBlend.of(settings).to(request.device).eval()
    outcomes = measure_clips(loaded, temporal, plan, report, request.seconds)
    return clips_document(outcomes, plan, settings, loaded.name)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", dest="number", type=int, help=f"clips, {DEFAULT_NUMBER} unless given")
    parser.add_argument("--frames", type=int, help=f"of each clip, {DEFAULT_FRAMES} unless given")
    parser.add_argument("--quick", action="store_true", help="a few clips: only to see that it runs")
    parser.add_argument("--families", nargs="+", default=["cards"], help="in turn")
    parser.add_argument("--readings", nargs="+", default=[], help=", ".join(READINGS))
    parser.add_argument("--keeps", nargs="+", type=float, default=[], help="shares of the full tokens")
    parser.add_argument("--weights", type=Path, help="folder with mini, scorer and video; the package's if none")
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1, help="for the optical flow")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--split", default="test", choices=("test", "validation", "train"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, help="begin no batch after so long")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "out/bench")))
    given = vars(parser.parse_args(arguments))
    path = given.pop("out") / "video.json"
    several = {name: tuple(given.pop(name)) for name in ("families", "readings", "keeps")}
    request = Request(**given, **several)
    began = perf_counter()

    def keep(done: int, clips: dict[str, Any]) -> None:
        write_json(path, with_the_rest(path, document(clips=clips)))
        print(f"{done} of {request.clips} clips, {perf_counter() - began:.1f} s", flush=True)

    try:
        found = document(clips=measure_needle(request, keep))
    except InputError as error:
        sys.exit(f"error: {error}")
    for table in tables(found):
        print(f"\n{table.title}\n\n{table.to_markdown()}", flush=True)
