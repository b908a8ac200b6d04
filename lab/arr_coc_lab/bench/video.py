"""`bench video`: answers about clips by system and share of the tokens, and detection of cuts.

`mini`, which was trained on single pictures, reads the frame of a Needle clip with most evidence. Every character is
judged with the right ones before it, which for exact match equals greedy decoding. All systems see the same clips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import DEFAULT_LEVELS, Leaves, build_tree
from arr_coc.core.errors import InputError
from arr_coc.video.stream import SETTINGS_NAME, TemporalSettings, load_settings
from arr_coc.video.watching import demand_of, grow_forest

from ..classic.controls import permute_along_tree
from ..classic.walks import dense_vision_attention
from ..train.reader import read
from ..train.train_video import ClipMaps, carry, clip_motion
from ..worlds.needle.clips import NeedleClip, render_clip
from ..worlds.needle.paint import part
from .needle import device_facts, loaded, weights_name
from .report import Report, Score
from .rows import ANY, BenchRow, Key
from .run import Job, Plan
from .suite import VideoBenchOptions, chosen_families

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NUMBER, SIZE, CUTS = 512, (512, 512), 1
KEEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
CONTROLS = ("frame by frame", "uniform", "random", "shuffled", "one frame")
# Temporal allocation is also measured with this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
TEMPORAL, LESS = "temporal", f"temporal, {FEWER:.0%} of the tokens"
DETECTED = "cuts"


def plan(options: VideoBenchOptions) -> Plan:
    odd = [str(keep) for keep in options.keep if not 0 < keep < 1]
    if odd:
        raise InputError(f"--keep {', '.join(odd)} is no share of the full tokens; give for example 0.0625")
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
        jobs.append(Job(what, (*keys, *(Key(f"clip {one}", DETECTED, ANY) for one in range(start, start + count)))))
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
        Score("cuts found", "Cuts found"),
        Score("false cuts", "Frames detected as cuts by mistake"),
    ]
    return Report.of(rows, scores, facts)


@dataclass(frozen=True)
class ClipWork:
    """Draw a batch of Needle clips and read it with every system still missing, in any process."""

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
                if system == DETECTED:
                    found, tokens = cuts_found(motion.cuts, clip.cuts), None
                else:
                    found, tokens = self.read(clip, maps, system, keep, start)
                for place, number in enumerate(numbers):
                    key = Key(f"clip {number}", system, keep)
                    if key in missing:
                        spent = None if tokens is None else tokens[place]
                        yield BenchRow("video", *key, found[place], family, spent)

    def read(
        self, clip: NeedleClip, maps: ClipMaps, system: str, keep: float, start: int
    ) -> tuple[list[dict[str, float]], list[int]]:
        """Return the exact match of every clip, and its tokens."""
        chance = torch.Generator().manual_seed(self.seed + 7919 * start)
        name, share = (TEMPORAL, FEWER) if system == LESS else (system, 1.0)
        leaves = clip_leaves(name, maps, keep, chance, share=share)
        evidence = evidence_of(maps.relevance, leaves)
        right = read_clearest(loaded(self.weights, self.device).mini, clip, leaves, evidence)
        scores = [{"clearest": float(one)} for one in right]
        return scores, leaves.lengths.view(-1, self.frames).sum(1).tolist()


@cache
def settings_of(weights: Path | None) -> TemporalSettings:
    """Load the temporal settings, once in every process."""
    folder = None if weights is None else weights / "video"
    return load_settings(folder if folder is not None and (folder / SETTINGS_NAME).is_file() else None)


def cuts_found(found: Tensor, true: Tensor) -> list[dict[str, float]]:
    """Return for each clip which cuts were found, and how many frames were detected by mistake."""
    result = []
    for seen, cuts in zip(found[:, 1:], true[:, 1:], strict=True):
        scores = {"cuts found": seen[cuts].float(), "false cuts": seen[~cuts].float()}
        result.append({name: round(float(values.mean()), 4) for name, values in scores.items() if values.numel()})
    return result


# ---- clips through `mini` --------------------------------------------------------------------------------------------


def read_clearest(model: PreTrainedModel, clip: NeedleClip, leaves: Leaves, evidence: Tensor) -> list[bool]:
    """Tell for each clip whether its frame with most evidence (N, T), as a picture, is answered right. leaves: of
    N · T frames, clip after clip."""
    right = []
    with dense_vision_attention(model):
        for number, frame in enumerate(evidence.argmax(1).tolist()):
            one = number * evidence.shape[1] + frame
            cells = leaves.cells[one : one + 1, : int(leaves.lengths[one])].long()
            right.append(bool(read(model, part(clip.frames, slice(one, one + 1)), cells).right))
    return right


def evidence_of(relevance: Tensor, leaves: Leaves) -> Tensor:
    """Return the relevance-weighted detail of each frame, (N, T): 1 if everything relevant is seen at level 0.

    relevance: (N, T, rows, cols). leaves: of N · T frames; where they overlap, the finest counts.
    """
    number, frames, rows, cols = relevance.shape
    row, col, level = leaves.cells.unbind(-1)
    detail = torch.zeros(number * frames, rows, cols, device=relevance.device)
    for one in range(int(level.max()), -1, -1):
        which, place = torch.where(level == one)  # padding has level -1
        grid = torch.zeros(number * frames, -(-rows >> one), -(-cols >> one), dtype=torch.bool, device=relevance.device)
        grid[which, row[which, place] >> one, col[which, place] >> one] = True
        seen = grid.repeat_interleave(1 << one, 1).repeat_interleave(1 << one, 2)[:, :rows, :cols]
        detail = torch.where(seen, 0.5**one, detail)
    flat = relevance.flatten(0, 1)
    share = (flat * detail).sum((1, 2)) / flat.sum((1, 2)).clamp_min(1e-9)
    return share.unflatten(0, (number, frames))


# ---- ways to spend a clip's budget, all at the same cost -------------------------------------------------------------


def clip_leaves(system: str, maps: ClipMaps, keep: float, generator: torch.Generator, share: float = 1.0) -> Leaves:
    """Allocate leaves to N · T frames, clip after clip: each clip's total is that of keep · full in every frame.

    share: of that total, for systems that plan over the whole clip; the others use all of it.

    temporal: one order of tokens over carried relevance, new ground first. frame by frame: each frame's own scores and
    an even share. one frame: all of the budget in the first frame, a token elsewhere. shuffled: temporal with its map
    permuted. The score of a leaf is the relevance under it.
    """
    frames, rows, cols = maps.scores.shape[1:]
    flat = maps.scores.flatten(0, 1)
    full, each = rows * cols, max(1, round(keep * rows * cols))
    total = max(frames, int(share * frames * each))
    if system == "full":
        return overlay(flat, [full] * len(flat))
    if system == "frame by frame":
        return overlay(flat, [each] * len(flat))
    if system == "uniform":
        return overlay(torch.ones_like(flat), [each] * len(flat), scored=flat)
    if system == "random":
        # A map with few peaks, like the control of single pictures: an even one would be down-sampling.
        noise = torch.rand(flat.shape, generator=generator).pow(16).to(flat)
        return overlay(noise, [each] * len(flat), scored=flat)
    if system == "one frame":
        first = torch.zeros_like(maps.scores)
        first[:, 0] = maps.scores[:, 0] + 1e-6
        return grow_forest(first, total, relevance=maps.scores)
    demand = demand_of(maps.relevance, maps.same_ground)
    if system == "shuffled":
        # Every frame is permuted alike, so that a place stays one place through time.
        seed, tree = int(torch.randint(2**31, (1,), generator=generator)), build_tree(rows, cols, DEFAULT_LEVELS)
        frames_alike = [
            permute_along_tree(demand[:, time], tree, torch.Generator().manual_seed(seed)) for time in range(frames)
        ]
        demand = torch.stack(frames_alike, 1)
    elif system != "temporal":
        raise InputError(f"unknown way to share a clip's tokens: {system!r}")
    return grow_forest(demand, total, relevance=maps.relevance)
