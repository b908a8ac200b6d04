"""`bench video`: what a clip's tokens buy, how steady allocations are, which cuts are found.

Needle clips are read by `mini`; all systems see the same clips. --family two-frames asks what no frame alone can answer.
--data takes real clips with boxes, where coverage counts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from arr_coc.answering.eye import Eye
from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.core.values import Relevance
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.source import ScorerRelevance
from arr_coc.looking import prepare
from arr_coc.packing.prices.counting import tokens_for
from arr_coc.pictures.load import load_picture
from arr_coc.video.answering import Reading, answer_clip, knows_video
from arr_coc.video.settings import SETTINGS_NAME, load_settings, same_ground
from arr_coc.video.spending import ENOUGH, cells_of
from arr_coc.video.stream import VideoStream
from arr_coc.video.watching import watch

from ..train.clip_allocations import STANDING, ClipMaps, carry_scores, clip_leaves, neighbour_similarity, to_grid
from ..train.clip_examples import require_opencv
from ..train.clip_reader import Clips, evidence_of, read_clearest, read_pooled, read_video
from ..train.temporal_model import ClipMotion, TemporalBlend, clip_motion
from ..worlds.needle.clips import TwoFrameClip, render_clip, two_frame_clips
from .needle import device_facts, loaded, weights_name
from .questions import Question, load_questions
from .report import Report, Score
from .rows import ANY, Key, Row
from .run import Job, Plan
from .scores import coverage
from .suite import VideoOptions, chosen_families

NUMBER, SIZE, CUTS = 512, (512, 512), 1
KEEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
CONTROLS = ("frame by frame", "uniform", "random", "shuffled", "one frame")
READINGS = ("clearest", "pooled", "video")
# Temporal allocation is also given this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
TEMPORAL, LESS = "temporal", f"temporal, {FEWER:.0%} of the tokens"
COHERENCE = "coherence"
TWO_FRAMES, LONGEST = "two-frames", 12


def plan(options: VideoOptions) -> Plan:
    if options.data is not None:
        return real_plan(options)
    if TWO_FRAMES in options.family:
        return two_frames_plan(options)
    unknown = sorted(set(options.reading) - set(READINGS))
    if unknown:
        raise InputError(f"unknown reading {', '.join(unknown)}; choose from {', '.join(READINGS)}")
    odd = [str(keep) for keep in options.keep if not 0 < keep < 1]
    if odd:
        raise InputError(f"--keep {', '.join(odd)} is no share of the full tokens; give for example 0.0625")
    require_opencv()
    families = options.family or ("cards",)
    chosen_families(families)
    readings = options.reading or (("clearest",) if options.quick else ("clearest", "pooled"))
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
    work = ClipWork(frames, options.seed, readings, options.threads, options.device, options.weights)
    settings = {"weights": name, "frames": frames, "seed": options.seed, "readings": list(readings), "batch": batch}
    return Plan(jobs, work, lambda rows: clip_report(rows, readings, facts), settings)


def clip_report(rows: Sequence[Row], readings: Sequence[str], facts: Mapping[str, str]) -> Report:
    scores = [Score(one, f"Exact match, read from {one}", baseline=TEMPORAL) for one in readings]
    scores += [
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
    readings: tuple[str, ...]
    threads: int
    device: str
    weights: Path | None

    @torch.inference_mode()
    def __call__(self, what: tuple[str, int, int, int], wanted: tuple[Key, ...]) -> Iterator[Row]:
        family, start, count, cuts = what
        weights, missing = loaded(self.weights, self.device), set(wanted)
        temporal = blend_of(self.weights, self.device)
        numbers = range(start, start + count)
        clip = render_clip(family, numbers, self.frames, SIZE, self.seed, "test", weights.device, cuts=cuts)
        motion = clip_motion(clip.pictures, temporal.settings, self.threads)
        half = weights.device.type == "cuda"
        with torch.autocast(weights.device.type, torch.bfloat16, enabled=half):
            scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
            maps = carry_scores(scores.unflatten(0, (count, self.frames)), motion, temporal)
            for system, keep in dict.fromkeys((key.system, key.keep) for key in wanted):
                if system == COHERENCE:
                    found, tokens = coherence(maps, motion, clip.cuts), None
                else:
                    found, tokens = self.read(Clips.of(clip), maps, system, keep, start)
                for place, number in enumerate(numbers):
                    key = Key(f"clip {number}", system, keep)
                    if key in missing:
                        spent = None if tokens is None else tokens[place]
                        yield Row("video", *key, found[place], family, spent)

    def read(
        self, clips: Clips, maps: ClipMaps, system: str, keep: float, start: int
    ) -> tuple[list[dict[str, float]], list[int]]:
        """Exact match of every clip by every reading, and its tokens."""
        chance = torch.Generator().manual_seed(self.seed + 7919 * start)
        name, share = (TEMPORAL, FEWER) if system == LESS else (system, 1.0)
        leaves = clip_leaves(name, maps, keep, chance, share=share)
        evidence = evidence_of(maps.relevance, leaves)
        model, right = loaded(self.weights, self.device).mini, {}
        for reading in self.readings:
            if reading == "video":
                right[reading] = read_video(model, clips, leaves).right
            else:
                by = read_clearest if reading == "clearest" else read_pooled
                right[reading] = by(model, clips, leaves, evidence).right
        scores = [{one: float(found[place]) for one, found in right.items()} for place in range(len(clips))]
        return scores, leaves.lengths.view(-1, self.frames).sum(1).tolist()


@cache
def blend_of(weights: Path | None, device: str) -> TemporalBlend:
    """The temporal numbers, once in every process."""
    folder = None if weights is None else weights / "video"
    there = folder is not None and (folder / SETTINGS_NAME).is_file()
    return TemporalBlend.of(load_settings(folder if there else None)).to(device).eval()


def coherence(maps: ClipMaps, motion: ClipMotion, true: Tensor) -> list[dict[str, float]]:
    """By clip: how alike the standing allocations of neighbouring frames are, and which cuts were found."""
    grid = (maps.scores.shape[2], maps.scores.shape[3])
    # Measured in the pixels, whether or not a cut was found there.
    ground = to_grid(same_ground(motion.unexplained), grid)
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


# ---- questions that need two frames ----------------------------------------------------------------------------------


def two_frames_plan(options: VideoOptions) -> Plan:
    """One row for each reading of each clip; the clip is watched once."""
    number, keep = options.n or (2 if options.quick else 210), (options.keep or (0.25,))[0]
    side = 192 if options.quick else SIZE[0]
    readings = options.reading or ("clearest", "sheet")
    jobs = [Job(one, tuple(Key(f"clip {one}", name, keep) for name in readings)) for one in range(number)]
    work = TwoFramesWork(options.seed, side, options.device)
    facts = {"clips": f"Needle World, scenes, halves of {side}×{2 * side}, validation split, seed {options.seed}"}
    facts |= device_facts(options.device)
    scores = [Score("right", "Questions that need two frames: exact match", baseline="clearest")]
    settings = {"seed": options.seed, "side": side}
    return Plan(jobs, work, lambda rows: Report.of(rows, scores, facts, ("", "reading")), settings, "video_two_frames")


@dataclass(frozen=True)
class TwoFramesWork:
    """Watches one clip and answers by every reading that it lacks, in any process."""

    seed: int
    side: int
    device: str

    def __call__(self, number: int, wanted: tuple[Key, ...]) -> Iterator[Row]:
        clip = drawn_clips(self.seed, self.side)[number]
        eye = clip_eye(self.device)
        scorer = ClipScorer(eye.scorer.folder, self.device) if isinstance(eye.scorer, ScorerRelevance) else eye.scorer
        watched = watch(iter(clip.frames), clip.question, keep=wanted[0].keep, relevance="auto", scorer=scorer)
        for key in wanted:
            if key.system == "video" and not knows_video(eye):
                raise InputError(f"{MINI} was not trained on video prompts; leave out --reading video")
            reading: Reading = key.system  # type: ignore[assignment]
            answer = answer_clip(eye, watched, clip.frames, reading, max_new_tokens=LONGEST)
            extras = {"said": answer.text, "true": clip.answer}
            yield Row("video", *key, {"right": float(answer.text == clip.answer)}, "", answer.tokens, None, extras)


class DrawnClips:
    """Clips by number. They are drawn one after another, and only the last one is kept."""

    def __init__(self, seed: int, side: int) -> None:
        self.how = {"size": (side, side), "seed": seed, "split": "validation"}
        self.clips, self.next = iter(()), 0

    def __getitem__(self, number: int) -> TwoFrameClip:
        if number < self.next or not self.next:
            self.clips, self.next = two_frame_clips(1 << 20, **self.how), 0
        for clip in self.clips:
            self.next += 1
            if self.next > number:
                return clip
        raise IndexError(number)


drawn_clips = cache(DrawnClips)


@cache
def clip_eye(device: str) -> Eye:
    return Eye.from_pretrained(MINI, device=device)


@dataclass(frozen=True)
class ClipScorer(ScorerRelevance):
    """The scorer on a device that is set once: the scenes of a clip name none."""

    device: str = "cpu"

    def of_scene(self, scene: Scene, query: str) -> Relevance:
        if isinstance(scene.given, np.ndarray):
            return self.of_pixels(scene.given, query, self.device, scene.kept)
        return super().of_scene(scene, query)


# ---- real clips and their boxes --------------------------------------------------------------------------------------

REAL = ("uniform", "frame by frame", "temporal, standing", "temporal, held")
REAL_KEEP = 1 / 8


def real_plan(options: VideoOptions) -> Plan:
    """Coverage of the boxes, a job for each clip; clips are independent, their frames are not."""
    clips: dict[str, list[Question]] = defaultdict(list)
    for question in load_questions(str(options.data), sources=options.family):
        if isinstance(question.image, Path):
            clips[question.image.stem.rsplit("_", 1)[0]].append(question)
    every = 8 if options.quick else 1
    jobs = []
    for name, questions in clips.items():
        frames = sorted(questions, key=lambda one: str(one.image))[::every]
        jobs.append(Job((name, frames), tuple(Key(one.name, system, REAL_KEEP) for one in frames for system in REAL)))
    scores = [Score("coverage", "Share of the object's box seen at level 0", baseline="temporal, held")]
    scores += [Score("similarity", "Similarity inside", 1.0), Score("false cuts", "False cuts")]
    facts = {"clips": f"{len(clips)}, {'all frames' if every == 1 else f'one frame in {every}'}"}
    return Plan(
        jobs,
        real_work,
        lambda rows: Report.of(rows, scores, facts, ("source", "system")),
        {"every": every},
        "video_real",
    )


def real_work(what: tuple[str, list[Question]], wanted: tuple[Key, ...]) -> Iterator[Row]:
    """One clip, frame by frame: a stream has to see them all."""
    name, frames = what
    stream = VideoStream(frames[0].text, keep=REAL_KEEP, settings=load_settings())
    for question in frames:
        pixels = load_picture(question.image).pixels
        size = (pixels.shape[0], pixels.shape[1])
        budget = int(REAL_KEEP * tokens_for(size))
        seen = stream.see(pixels)
        alone = prepare(pixels).look(question.text, budget, relevance="look").allocation
        even = allocate(np.ones((4, 4), dtype=np.float32), budget, image_size=size, strategy="quadtree")
        assert stream.state is not None
        shown = [coverage(one, question.boxes) for one in (even, alone, seen.standing)]
        shown.append(held_share(stream.state.shown, question.boxes, seen.standing.grid))
        for system, value in zip(REAL, shown, strict=True):
            scores = {"coverage": round(value, 5)}
            if system == REAL[2]:
                scores |= {"false cuts": float(seen.cut)}
                scores |= {} if seen.similarity is None or seen.cut else {"similarity": round(seen.similarity, 4)}
            yield Row("video", question.name, system, REAL_KEEP, scores, question.group, extras={"scene": name})


def held_share(shown: np.ndarray, boxes: np.ndarray, grid: tuple[int, int]) -> float:
    """Share of the boxes' cells whose ground was shown at level 0, in this frame or an earlier one."""
    detail = cells_of(shown, grid)
    rows, cols = grid
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    inside = np.zeros(grid, dtype=bool)
    for x0, y0, x1, y1 in np.asarray(boxes).reshape(-1, 4):
        inside |= ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return float((detail[inside] >= ENOUGH).mean()) if inside.any() else 0.0
