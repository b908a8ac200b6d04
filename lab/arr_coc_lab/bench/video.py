"""`bench video`: what a clip's tokens buy, how steady allocations are, which cuts are found.

Needle clips are read by `mini`; all systems see the same clips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.texture.motion import agreement
from arr_coc.video.stream import SETTINGS_NAME, TemporalSettings, load_settings

from ..train.train_video import ClipMaps, ClipMotion, carry, clip_motion, require_opencv, to_grid
from ..worlds.needle.clips import render_clip
from .clip_reading import (
    STANDING,
    Clips,
    clip_leaves,
    evidence_of,
    neighbour_similarity,
    read_clearest,
)
from .needle import device_facts, loaded, weights_name
from .report import Report, Score
from .rows import ANY, BenchRow, Key
from .run import Job, Plan
from .suite import VideoBenchOptions, chosen_families

NUMBER, SIZE, CUTS = 512, (512, 512), 1
KEEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
CONTROLS = ("frame by frame", "uniform", "random", "shuffled", "one frame")
# Temporal allocation is also given this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
TEMPORAL, LESS = "temporal", f"temporal, {FEWER:.0%} of the tokens"
COHERENCE = "coherence"
# The residuals between which ground counts as the same in part. Fixed, not learned: a measure must not move with what
# it measures.
SAME_UP_TO, OTHER_FROM = 0.03, 0.11


def plan(options: VideoBenchOptions) -> Plan:
    odd = [str(keep) for keep in options.keep if not 0 < keep < 1]
    if odd:
        raise InputError(f"--keep {', '.join(odd)} is no share of the full tokens; give for example 0.0625")
    require_opencv()
    families = options.family or ("cards",)
    chosen_families(families)
    number, frames = options.n or (8 if options.quick else NUMBER), 4 if options.quick else options.frames
    keeps = options.keep or ((1 / 16,) if options.quick else KEEPS)
    batch = min(options.batch, max(1, number // 2))
    cells = [("full", 1.0), *((name, keep) for keep in keeps for name in (TEMPORAL, LESS, *CONTROLS))]
    jobs = []
    for turn, start in enumerate(range(0, number, batch)):
        count = min(batch, number - start)
        # Half of the clips have cuts: a detector must also leave a scene alone.
        what = (families[turn % len(families)], start, count, CUTS if turn % 2 == 0 else 0)
        keys = [Key(f"clip {one}", *cell) for one in range(start, start + count) for cell in cells]
        jobs.append(Job(what, (*keys, *(Key(f"clip {one}", COHERENCE, ANY) for one in range(start, start + count)))))
    name = weights_name(options.weights)
    facts = {
        **device_facts(options.device),
        "weights": name,
        "clips": f"{', '.join(families)}, {frames} frames of {SIZE[0]}×{SIZE[1]}, test split, seed {options.seed}",
        "cuts": f"{CUTS} in every second batch",
    }
    work = ClipWork(frames, options.seed, options.threads, options.device, options.weights)
    settings = {"weights": name, "frames": frames, "seed": options.seed, "batch": batch}
    return Plan(jobs, work, lambda rows: clip_report(rows, facts), settings)


def clip_report(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    scores = [
        Score("clearest", "Exact match, read from the clearest frame", baseline=TEMPORAL),
        Score("similarity", f"Similarity of neighbouring frames' allocations at {STANDING:g}, same ground", 1.0),
        Score("similarity, each frame alone", "The same, each frame allocated alone", 1.0),
        Score("similarity at cuts", "The same across cuts", 1.0),
        Score("cuts found", "Cuts found"),
        Score("false cuts", "Other frames that were called cuts"),
    ]
    return Report.of(rows, scores, facts, ("family", "system"))


@dataclass(frozen=True)
class ClipWork:
    """Draws a batch of Needle clips and reads it by every system that it lacks, in any process."""

    frames: int
    seed: int
    threads: int
    device: str
    weights: Path | None

    @torch.inference_mode()
    def __call__(self, what: tuple[str, int, int, int], wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        family, start, count, cuts = what
        weights, missing = loaded(self.weights, self.device), set(wanted)
        settings = settings_of(self.weights)
        numbers = range(start, start + count)
        clip = render_clip(family, numbers, self.frames, SIZE, self.seed, "test", weights.device, cuts=cuts)
        motion = clip_motion(clip.pictures, settings, self.threads)
        half = weights.device.type == "cuda"
        with torch.autocast(weights.device.type, torch.bfloat16, enabled=half):
            scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
            maps = carry(scores.unflatten(0, (count, self.frames)), motion, settings)
            for system, keep in dict.fromkeys((key.system, key.keep) for key in wanted):
                if system == COHERENCE:
                    found, tokens = coherence(maps, motion, clip.cuts), None
                else:
                    found, tokens = self.read(Clips.of(clip), maps, system, keep, start)
                for place, number in enumerate(numbers):
                    key = Key(f"clip {number}", system, keep)
                    if key in missing:
                        spent = None if tokens is None else tokens[place]
                        yield BenchRow("video", *key, found[place], family, spent)

    def read(
        self, clips: Clips, maps: ClipMaps, system: str, keep: float, start: int
    ) -> tuple[list[dict[str, float]], list[int]]:
        """Exact match of every clip, and its tokens."""
        chance = torch.Generator().manual_seed(self.seed + 7919 * start)
        name, share = (TEMPORAL, FEWER) if system == LESS else (system, 1.0)
        leaves = clip_leaves(name, maps, keep, chance, share=share)
        evidence = evidence_of(maps.relevance, leaves)
        right = read_clearest(loaded(self.weights, self.device).mini, clips, leaves, evidence).right
        scores = [{"clearest": float(one)} for one in right]
        return scores, leaves.lengths.view(-1, self.frames).sum(1).tolist()


@cache
def settings_of(weights: Path | None) -> TemporalSettings:
    """The temporal numbers, once in every process."""
    folder = None if weights is None else weights / "video"
    return load_settings(folder if folder is not None and (folder / SETTINGS_NAME).is_file() else None)


def coherence(maps: ClipMaps, motion: ClipMotion, true: Tensor) -> list[dict[str, float]]:
    """By clip: how alike the standing allocations of neighbouring frames are, and which cuts were found."""
    grid = (maps.scores.shape[2], maps.scores.shape[3])
    # Measured in the pixels, whether or not a cut was found there.
    ground = to_grid(agreement(motion.unexplained, SAME_UP_TO, OTHER_FROM), grid)
    similar = neighbour_similarity(maps.relevance, STANDING, ground)
    alone = neighbour_similarity(maps.scores, STANDING, ground)
    result = []
    for place, cuts in enumerate(true[:, 1:]):
        found = motion.cuts[place, 1:]
        scores = {
            "similarity": similar[place][~cuts],
            "similarity, each frame alone": alone[place][~cuts],
            "similarity at cuts": similar[place][cuts],
            "cuts found": found[cuts].float(),
            "false cuts": found[~cuts].float(),
        }
        result.append({name: round(float(values.mean()), 4) for name, values in scores.items() if values.numel()})
    return result
