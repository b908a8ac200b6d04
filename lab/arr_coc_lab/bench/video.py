"""Measuring clips with given weights, for `arr-coc bench video` and for machines without its packages:

python -m arr_coc_lab.bench.video --device cuda --batch 64 --threads 16 --seconds 90 --out DIR

What is found is written to DIR/video.json after every batch, so that a run that is stopped has lost nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.video.blend import same_ground
from arr_coc.video.settings import SETTINGS_NAME, TemporalSettings, load_settings
from arr_coc.video.temporal_model import ClipMotion, TemporalBlend, clip_motion

from ..statistics import paired_bootstrap, wilson
from ..train.acceleration import Prefetcher
from ..train.clip_allocations import STANDING, ClipMaps, carry_scores, clip_leaves, neighbour_similarity, to_grid
from ..train.clip_examples import require_opencv
from ..train.clip_reader import Clips, evidence_of, read_clearest, read_pooled, read_video
from ..worlds.needle import FAMILIES
from ..worlds.needle.clips import render_clip
from .needle import Weights
from .video_report import APART, FEWER, document, tables, with_the_rest

READINGS = ("clearest", "pooled", "video")
DEFAULT_NUMBER, DEFAULT_FRAMES, QUICK_NUMBER, QUICK_FRAMES = 512, 8, 8, 4


@dataclass(frozen=True)
class VideoRequest:
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


def measure_needle(
    request: VideoRequest, advance: Callable[[int, dict[str, Any]], None] | None = None
) -> dict[str, Any]:
    """The document of needle clips. advance: called after every batch with the clips done and the document so far."""
    from arr_coc.video.temporal_model import TemporalBlend

    request.check()
    weights = request.weights
    loaded = Weights.load(weights, request.device)
    own = weights is not None and os.path.exists(weights / "video" / SETTINGS_NAME)
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
    request = VideoRequest(**given, **several)
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


# ---- Moving Needle World: what a clip's tokens buy, how steady allocations are, and which cuts are found -------------

KEEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
CONTROLS = ("frame by frame", "uniform", "random", "shuffled", "one frame", "full")


@dataclass(frozen=True)
class ClipPlan:
    """number of clips, frames and cuts of each, their size, families in turn, and how they are read."""

    number: int = 512
    frames: int = 8
    cuts: int = 1
    size: tuple[int, int] = (512, 512)
    families: tuple[str, ...] = ("cards",)
    readings: tuple[str, ...] = ("clearest", "pooled")
    keeps: tuple[float, ...] = KEEPS
    batch: int = 8
    seed: int = 1
    split: str = "test"
    threads: int = 2


@dataclass
class ClipOutcomes:
    """right: (system, keep, reading) → one bool for each clip, the same clips everywhere. tokens: spent on each clip.

    inside, at_cuts: similarity of standing allocations, of each frame and the one before: "ground" on the same ground,
    "place" by place alone, "alone" on the same ground where each frame is allocated on its own.
    found, rule: (cuts found, true cuts, false cuts, other frames) by the learned features and by the rule of thumb.
    """

    right: dict[tuple[str, float, str], list[bool]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[tuple[str, float], list[int]] = field(default_factory=lambda: defaultdict(list))
    inside: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    at_cuts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    found: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    rule: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    device: str = "cpu"


class PreparedClips(NamedTuple):
    """A batch of clips before a token is spent."""

    clips: Clips
    cuts: Tensor
    motion: ClipMotion
    maps: ClipMaps


@torch.inference_mode()
def prepare_clips(weights: Weights, temporal: TemporalBlend, plan: ClipPlan, start: int) -> PreparedClips:
    """Clips from number `start` on: painted, their motion found, scored, and the scores carried."""
    device = next(weights.mini.parameters()).device
    count, turn = min(plan.batch, plan.number - start), start // plan.batch
    family = plan.families[turn % len(plan.families)]
    # Half of the clips have cuts: a detector must also leave a scene alone.
    cuts = plan.cuts if turn % 2 == 0 else 0
    clip = render_clip(family, count, plan.frames, plan.size, plan.seed, plan.split, None, device, start, cuts=cuts)
    motion = clip_motion(clip.pictures, temporal.settings, plan.threads)
    clips = Clips(clip.pictures, clip.frames.question_ids[:: plan.frames], clip.frames.answer_ids[:: plan.frames])
    scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
    maps = carry_scores(scores.unflatten(0, (count, plan.frames)), motion, temporal)
    return PreparedClips(clips, clip.cuts, motion, maps)


@torch.inference_mode()
def measure_clips(
    weights: Weights,
    temporal: TemporalBlend,
    plan: ClipPlan,
    advance: Callable[[int, ClipOutcomes], None] | None = None,
    seconds: float | None = None,
) -> ClipOutcomes:
    """Every system on the same clips. advance: called after each batch with the number of clips done and what was found
    so far. seconds: begin no batch after so long."""
    require_opencv()
    device = next(weights.mini.parameters()).device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    outcomes, began = ClipOutcomes(device=name), perf_counter()
    generator = torch.Generator().manual_seed(plan.seed)
    starts = iter(range(0, plan.number, plan.batch))

    def make() -> PreparedClips | None:
        start = next(starts, None)
        return None if start is None else prepare_clips(weights, temporal, plan, start)

    done = 0
    with (
        Prefetcher(make, device, ahead=2) as ahead,
        torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
    ):
        while done < plan.number and (seconds is None or perf_counter() - began < seconds):
            prepared = ahead.next()
            assert prepared is not None
            _count_cuts(outcomes, prepared.motion, prepared.cuts)
            _similarities(outcomes, prepared)
            _read_cells(weights.mini, outcomes, prepared, plan, generator)
            done += len(prepared.clips)
            if advance is not None:
                advance(done, outcomes)
    return outcomes


def _read_cells(
    mini: Any, outcomes: ClipOutcomes, prepared: PreparedClips, plan: ClipPlan, generator: torch.Generator
) -> None:
    """Every system at every budget, by every reading."""
    for system, keep, share in cells(plan.keeps):
        leaves = clip_leaves(system, prepared.maps, keep, generator, share=share)
        evidence = evidence_of(prepared.maps.relevance, leaves)
        name = share * keep
        outcomes.tokens[system, name] += leaves.lengths.view(-1, plan.frames).sum(1).tolist()
        for reading in plan.readings:
            right = _read(mini, reading, prepared.clips, leaves, evidence)
            outcomes.right[system, name, reading] += right.tolist()


def cells(keeps: Sequence[float]) -> list[tuple[str, float, float]]:
    """(system, share of the full tokens, share of that) of every cell of the table."""
    found = [("temporal", keep, share) for keep in keeps for share in (FEWER, 1.0)]
    controls = [(system, keep, 1.0) for keep in keeps for system in CONTROLS if system != "full"]
    return [*found, *controls, ("full", 1.0, 1.0)]


def _read(model: Any, reading: str, clips: Clips, leaves: Any, evidence: Tensor) -> Tensor:
    if reading == "video":
        return read_video(model, clips, leaves).right
    return (read_clearest if reading == "clearest" else read_pooled)(model, clips, leaves, evidence).right


def _count_cuts(outcomes: ClipOutcomes, motion: ClipMotion, true: Tensor) -> None:
    inside = ~true
    inside[:, 0] = False
    for counts, cuts in ((outcomes.found, motion.cuts), (outcomes.rule, motion.rule)):
        sums = ((cuts & true).sum(), true.sum(), (cuts & inside).sum(), inside.sum())
        counts += np.array([int(one) for one in sums])


def _similarities(outcomes: ClipOutcomes, prepared: PreparedClips) -> None:
    """Standing allocations of neighbouring frames, on the same ground and by place alone; and each frame's own."""
    later, maps = prepared.cuts[:, 1:], prepared.maps
    grid = (maps.scores.shape[2], maps.scores.shape[3])
    # Measured in the pixels, whether or not a cut was found there.
    ground = to_grid(same_ground(prepared.motion.unexplained), grid)
    found = {
        "ground": neighbour_similarity(maps.relevance, STANDING, ground),
        "place": neighbour_similarity(maps.relevance, STANDING),
        "alone": neighbour_similarity(maps.scores, STANDING, ground),
    }
    for name, similar in found.items():
        outcomes.inside[name] += similar[~later].tolist()
        outcomes.at_cuts[name] += similar[later].tolist()


# ---- the document ----------------------------------------------------------------------------------------------------


def clips_document(outcomes: ClipOutcomes, plan: ClipPlan, settings: TemporalSettings, weights: str) -> dict[str, Any]:
    """What was measured on needle clips, JSON-ready."""
    rows = []
    for (system, keep, reading), right in outcomes.right.items():
        low, high = wilson(sum(right), len(right))
        tokens = outcomes.tokens[system, keep]
        rows.append(
            {
                "system": system,
                "keep": keep,
                "reading": reading,
                "tokens": float(np.mean(tokens)),
                "n": len(right),
                "accuracy": float(np.mean(right)),
                "low": low,
                "high": high,
            }
        )
    return {
        "plan": asdict(plan),
        "device": outcomes.device,
        "weights": weights,
        "settings": settings.to_json(),
        "rows": rows,
        "ahead": [*_ahead(outcomes, plan)],
        "coherence": _coherence(outcomes),
    }


def _ahead(outcomes: ClipOutcomes, plan: ClipPlan) -> list[dict[str, Any]]:
    """Temporal allocation against each other system at equal tokens, and at fewer tokens against frame by frame."""
    rows: list[dict[str, Any]] = []
    pairs = [(1.0, other) for other in ("frame by frame", "uniform", "shuffled", "random", "one frame")]
    pairs.append((FEWER, "frame by frame"))
    for reading in plan.readings:
        for keep in plan.keeps:
            for share, other in pairs:
                mine = np.array(outcomes.right["temporal", share * keep, reading], dtype=float)
                theirs = np.array(outcomes.right[other, keep, reading], dtype=float)
                lead = paired_bootstrap(mine, theirs)
                rows.append(
                    {
                        "reading": reading,
                        "keep": keep,
                        "share": share,
                        "against": other,
                        "difference": lead.value,
                        "low": lead.low,
                        "high": lead.high,
                        "n": len(mine),
                    }
                )
    return rows


def _coherence(outcomes: ClipOutcomes) -> dict[str, Any]:
    names = ("found", "true", "false", "frames")
    return {
        "standing": STANDING,
        "inside_n": len(outcomes.inside["ground"]),
        "cuts_n": len(outcomes.at_cuts["ground"]),
        "inside": {name: float(np.mean(values)) for name, values in outcomes.inside.items() if values},
        "at_cuts": {name: float(np.mean(values)) for name, values in outcomes.at_cuts.items() if values},
        "apart_at_cuts": {name: sum(one < APART for one in values) for name, values in outcomes.at_cuts.items()},
        "detector": dict(zip(names, outcomes.found.tolist(), strict=True)),
        "rule": dict(zip(names, outcomes.rule.tolist(), strict=True)),
    }


if __name__ == "__main__":
    main()
