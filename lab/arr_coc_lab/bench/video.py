"""`bench video`: what a clip's tokens buy, how steady allocations are, which cuts are found, what a frame costs.

Needle clips are read by `mini`; all systems see the same clips, so differences are taken clip by clip. The parts need
not be measured together, so each says on what machine it was; the bars are those of the specification.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_text, writing
from arr_coc.core.values import JsonObject
from arr_coc.looking import prepare
from arr_coc.packing.prices.counting import tokens_for
from arr_coc.pictures.load import load_picture
from arr_coc.video.settings import SETTINGS_NAME, TemporalSettings, load_settings, same_ground
from arr_coc.video.spending import ENOUGH, cells_of
from arr_coc.video.stream import VideoStream

from ..statistics import Estimate, paired_bootstrap, resampled, wilson
from ..train.acceleration import Prefetcher
from ..train.clip_allocations import STANDING, ClipMaps, carry_scores, clip_leaves, neighbour_similarity, to_grid
from ..train.clip_examples import require_opencv
from ..train.clip_reader import Clips, evidence_of, read_clearest, read_pooled, read_video
from ..train.run import door
from ..train.temporal_model import ClipMotion, TemporalBlend, clip_motion
from ..worlds.needle.clips import render_clip
from .machine import machine_facts, processors
from .needle import Weights
from .options import VideoBenchOptions
from .real import Record, coverage, load_records
from .report import Quantity, Report, Table, TableCell, read_document
from .run import BenchRun, program
from .suite import chosen_families, suite

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from ..train.clip_reader import Leaves

SCHEMA = 2
SUITE = suite("video")
BARS, COLUMNS, QUICK = SUITE["bars"], SUITE["columns"], SUITE["quick"]
PARTS: tuple[str, ...] = tuple(SUITE["parts"])
FEWER: float = SUITE["fewer"]
KEEPS = SUITE.shares("keeps")


def measure(options: VideoBenchOptions, run: BenchRun) -> Report:
    """Measure the parts that are wanted, or take what was saved; parts measured earlier stay in the file."""
    parts = check(options)
    path = None if options.out is None else options.out / "video.json"
    if options.saved is not None:
        found = read_document(options.saved, "video")
    else:
        found = document(
            clips=needle_clips(options, run) if "clips" in parts else None,
            real=davis_clips(options.data, options.quick, run) if "real" in parts and options.data else None,
            speed=frame_speed(options.quick) if "speed" in parts else None,
        )
    if path is not None:
        found = with_the_rest(path, found)
    shown = tables(found)
    if options.markdown is not None:
        with writing(options.markdown):
            sections = [f"### {table.title}\n\n{table.to_markdown()}" for table in shown]
            write_text(options.markdown, "\n\n".join(sections) + "\n")
    facts = {
        f"{name} measured on": ", ".join(f"{key} {value}" for key, value in found[name]["machine"].items())
        for name in PARTS
        if found.get(name)
    }
    return Report(found, shown, facts, page=(page_part(found),))


def check(options: VideoBenchOptions) -> tuple[str, ...]:
    """The parts that are wanted, where everything that was given can be."""
    for name, known in (("part", PARTS), ("reading", SUITE["readings"])):
        unknown = sorted(set(getattr(options, name)) - set(known))
        if unknown:
            raise InputError(f"unknown {name} {', '.join(unknown)}; choose from {', '.join(known)}")
    if "real" in options.part and options.data is None:
        raise InputError("--part real needs --data, a folder with records.jsonl and its pictures")
    chosen_families(options.family)
    odd = [str(keep) for keep in options.keep if not 0 < keep < 1]
    if odd:
        raise InputError(f"--keep {', '.join(odd)} is no share of the full tokens; give for example 0.0625")
    return options.part or PARTS


def needle_clips(options: VideoBenchOptions, run: BenchRun) -> JsonObject:
    """The document of needle clips; what is found so far is written after every batch."""
    loaded = Weights.load(options.weights, options.device)
    folder = None if options.weights is None else options.weights / "video"
    settings = load_settings(folder if folder is not None and os.path.exists(folder / SETTINGS_NAME) else None)
    usual = QUICK if options.quick else SUITE.values
    number = options.n or usual["number"]
    plan = ClipPlan(
        number=number,
        frames=options.frames or usual["frames"],
        families=options.family or ("cards",),
        readings=options.reading or default_readings(loaded.mini, options.quick),
        keeps=options.keep or ((1 / 16,) if options.quick else KEEPS),
        batch=min(options.batch, max(1, number // 2)),
        seed=options.seed,
        split=options.split,
        threads=options.threads,
    )
    temporal = TemporalBlend.of(settings).to(options.device).eval()
    with run.progress(number, "watching") as advance:

        def went_on(done: int, outcomes: ClipOutcomes) -> None:
            advance(done=min(plan.batch, done))
            run.timed(f"{done} of {number} clips")
            if options.out is not None:
                so_far = document(clips=clips_document(outcomes, plan, settings, loaded.name))
                run.save(with_the_rest(options.out / "video.json", so_far))

        outcomes = measure_clips(loaded, temporal, plan, went_on, options.seconds)
    return clips_document(outcomes, plan, settings, loaded.name)


def davis_clips(data: Path, quick: bool, run: BenchRun) -> JsonObject:
    every = QUICK["every"] if quick else 1
    clips = real_clips(data, every)
    with run.progress(list(clips), "following") as advance:
        return {"clips": measure_real_clips(clips, load_settings(), advance), "every": every}


def frame_speed(quick: bool) -> JsonObject:
    rows, facts = speed_rows((QUICK if quick else SUITE.values)["speed_repeats"])
    table = Table("", {}, tuple(rows)).to_json()
    return {"rows": table["rows"], "facts": facts}


def default_readings(mini: PreTrainedModel, quick: bool) -> tuple[str, ...]:
    """From frames as pictures, and through the video prompt where mini was trained on it."""
    video = ("video",) if getattr(mini.config, "trained_on_video", False) else ()
    return (("clearest",) if quick else ("clearest", "pooled")) + video


# ---- Moving Needle World: what a clip's tokens buy, how steady allocations are, and which cuts are found -------------


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
    numbers = range(start, start + count)
    clip = render_clip(family, numbers, plan.frames, plan.size, plan.seed, plan.split, device, cuts=cuts)
    motion = clip_motion(clip.pictures, temporal.settings, plan.threads)
    scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
    maps = carry_scores(scores.unflatten(0, (count, plan.frames)), motion, temporal)
    return PreparedClips(Clips.of(clip), clip.cuts, motion, maps)


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
    mini: PreTrainedModel, outcomes: ClipOutcomes, prepared: PreparedClips, plan: ClipPlan, generator: torch.Generator
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
    controls = [(system, keep, 1.0) for keep in keeps for system in SUITE["controls"] if system != "full"]
    return [*found, *controls, ("full", 1.0, 1.0)]


def _read(model: PreTrainedModel, reading: str, clips: Clips, leaves: Leaves, evidence: Tensor) -> Tensor:
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


def clips_document(
    outcomes: ClipOutcomes, plan: ClipPlan, settings: TemporalSettings, weights: str
) -> dict[str, object]:
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


def _ahead(outcomes: ClipOutcomes, plan: ClipPlan) -> list[dict[str, object]]:
    """Temporal allocation against each other system at equal tokens, and at fewer tokens against frame by frame."""
    rows: list[dict[str, object]] = []
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


def _coherence(outcomes: ClipOutcomes) -> dict[str, object]:
    names = ("found", "true", "false", "frames")
    return {
        "standing": STANDING,
        "inside_n": len(outcomes.inside["ground"]),
        "cuts_n": len(outcomes.at_cuts["ground"]),
        "inside": {name: float(np.mean(values)) for name, values in outcomes.inside.items() if values},
        "at_cuts": {name: float(np.mean(values)) for name, values in outcomes.at_cuts.items() if values},
        "apart_at_cuts": {
            name: sum(one < BARS["apart"] for one in values) for name, values in outcomes.at_cuts.items()
        },
        "detector": dict(zip(names, outcomes.found.tolist(), strict=True)),
        "rule": dict(zip(names, outcomes.rule.tolist(), strict=True)),
    }


# ---- real clips and their boxes --------------------------------------------------------------------------------------

SOURCE = "davis"
KEEP = 1 / 8
SYSTEMS = ("uniform", "frame by frame", "temporal, standing", "temporal, held")


def real_clips(folder: Path, every: int = 1) -> dict[str, list[Record]]:
    """The frames of each clip, in order; every: only each so-manieth."""
    clips: dict[str, list[Record]] = defaultdict(list)
    for record in load_records(folder, sources=(SOURCE,)):
        clips[record.image.stem.rsplit("_", 1)[0]].append(record)
    return {name: sorted(records, key=lambda one: one.image.name)[::every] for name, records in clips.items()}


def measure_real_clips(
    clips: dict[str, list[Record]], settings: TemporalSettings, advance: Callable[[str], None] | None = None
) -> dict[str, object]:
    """By clip: coverage of each system in each frame, similarity of neighbours, cuts found (there are none)."""
    found: dict[str, object] = {}
    for name, records in clips.items():
        if advance is not None:
            advance(name)
        found[name] = _one_clip(records, settings)
    return found


def _one_clip(records: Sequence[Record], settings: TemporalSettings) -> dict[str, object]:
    stream = VideoStream(records[0].query, keep=KEEP, settings=settings)
    values: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    similarity, cuts = [], 0
    for record in records:
        pixels = load_picture(record.image).pixels
        size = (pixels.shape[0], pixels.shape[1])
        budget = int(KEEP * tokens_for(size))
        seen = stream.see(pixels)
        alone = prepare(pixels).look(record.query, budget, relevance="look").allocation
        even = allocate(np.ones((4, 4), dtype=np.float32), budget, image_size=size, strategy="quadtree")
        for system, allocation in zip(SYSTEMS, (even, alone, seen.standing), strict=False):
            values[system].append(coverage(allocation, record.boxes))
        assert stream.state is not None
        values[SYSTEMS[3]].append(held_share(stream.state.shown, record.boxes, seen.standing.grid))
        if seen.similarity is not None and not seen.cut:
            similarity.append(seen.similarity)
        cuts += seen.cut
    return {
        "frames": len(records),
        "query": records[0].query,
        "coverage": values,
        "similarity": float(np.mean(similarity)) if similarity else None,
        "false_cuts": cuts,
    }


def held_share(shown: np.ndarray, boxes: np.ndarray, grid: tuple[int, int]) -> float:
    """Share of the boxes' cells whose ground was shown at level 0, in this frame or an earlier one."""
    detail = cells_of(shown, grid)
    rows, cols = grid
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    inside = np.zeros(grid, dtype=bool)
    for x0, y0, x1, y1 in np.asarray(boxes).reshape(-1, 4):
        inside |= ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return float((detail[inside] >= ENOUGH).mean()) if inside.any() else 0.0


def clip_coverage(clips: JsonObject, system: str) -> Estimate:
    """Mean coverage and its 95 % interval; whole clips are resampled, since frames of one clip are alike."""
    return resampled(np.array([np.mean(one["coverage"][system]) for one in clips.values()]))


# ---- What a frame costs after the first, against the first and against looking at every frame on its own -------------

SIDE = 512
LATER = 30
QUERY = "What number is on the red square?"


def speed_frames(frames: int = LATER + 1, seed: int = 3) -> np.ndarray:
    """(T, 512, 512, 3) uint8: one scene of moving cards, rendered at a half and enlarged: only time is measured."""
    import cv2

    clip = render_clip("cards", range(1), frames, (SIDE // 2, SIDE // 2), seed, "validation")
    small = clip.pictures[0].permute(0, 2, 3, 1).numpy()
    return np.stack([cv2.resize(frame, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for frame in small])


def speed_rows(repeats: int = 5, frames: np.ndarray | None = None) -> tuple[list[dict[str, TableCell]], dict[str, str]]:
    """Rows of the table, and facts. Each repeat is a stream of its own; medians over repeats, one keyframe included."""
    clip = speed_frames() if frames is None else frames
    first, later, alone = [], [], []
    with processors(2) as used:
        _one_stream(clip[:3])  # imports and tables
        for _ in range(repeats):
            seconds = _one_stream(clip)
            first.append(seconds[0])
            later.append(mean(seconds[1:]))
            started = perf_counter()
            prepare(clip[0]).look(QUERY, keep=0.25, relevance="look")
            alone.append(perf_counter() - started)
    ratio, rate = median(later) / median(first), 1 / median(later)
    naive = "look at it on its own"
    rows: list[dict[str, TableCell]] = [
        {"what": "first frame", "value": Quantity(median(first), "s"), "against": naive, "naive": _s(alone)},
        {"what": "a later frame, mean", "value": Quantity(median(later), "s"), "against": naive, "naive": _s(alone)},
        {
            "what": "later / first",
            "value": Quantity(ratio, "", min(later) / max(first), max(later) / min(first)),
            "bar": f"≤ {BARS['later_to_first']}",
            "kept": ratio <= BARS["later_to_first"],
        },
        {
            "what": "sensing and allocating",
            "value": Quantity(rate, "frames/s", 1 / max(later), 1 / min(later)),
            "bar": f"≥ {BARS['frames_a_second']:g} frames/s",
            "kept": rate >= BARS["frames_a_second"],
        },
    ]
    facts = {"clip": f"{len(clip)} frames of {SIDE}×{SIDE}, one scene, one keyframe", "processors": str(used)}
    return rows, facts


def _one_stream(clip: np.ndarray) -> list[float]:
    stream, seconds = VideoStream(QUERY, keep=0.25), []
    for frame in clip:
        started = perf_counter()
        stream.see(frame)
        seconds.append(perf_counter() - started)
    return seconds


def _s(seconds: Sequence[float]) -> Quantity:
    return Quantity(median(seconds), "s")


# ---- the whole document ----------------------------------------------------------------------------------------------


def document(
    clips: Mapping[str, object] | None = None,
    real: Mapping[str, object] | None = None,
    speed: Mapping[str, object] | None = None,
) -> JsonObject:
    """Every part that was measured says on what machine: they need not be measured together."""
    packages = ("torch", "transformers", "opencv-contrib-python-headless", "av")
    facts = machine_facts(packages)
    parts = {"clips": clips, "real": real, "speed": speed}
    return {"schema": SCHEMA, **{name: part and {**part, "machine": facts} for name, part in parts.items()}}


def with_the_rest(path: Path, found: JsonObject) -> JsonObject:
    """The document with the parts that were not measured this time as they are in the file, where there is one."""
    try:
        saved = read_document(path, "video")
    except InputError:
        return found
    if saved.get("schema") != SCHEMA:
        return found
    return {name: part if part is not None else saved.get(name) for name, part in found.items()}


# ---- tables ----------------------------------------------------------------------------------------------------------


def tables(found: JsonObject) -> list[Table]:
    """Every table that the document can fill."""
    return [table for name in PARTS if found.get(name) for table in part_tables(name, found[name])]


def part_tables(name: str, part: JsonObject) -> list[Table]:
    if name == "clips":
        return [accuracy_table(part), ahead_table(part), coherence_table(part), settings_table(part["settings"])]
    return [real_table(part) if name == "real" else speed_table(part)]


def page_part(found: JsonObject) -> str:
    """The tables, and on what each part was measured, as a page of the docs has them."""
    sections = []
    for name in PARTS:
        if not found.get(name):
            continue
        sections += [f"### {table.title}\n\n{table.to_markdown()}" for table in part_tables(name, found[name])]
        facts = {**measured_how(name, found[name]), **found[name]["machine"]}
        sections.append("Measured with " + "; ".join(f"{key}: {value}" for key, value in facts.items()) + ".")
    return "\n\n".join(sections)


def measured_how(name: str, part: JsonObject) -> dict[str, str]:
    """What one must know to repeat a part, in words."""
    if name == "speed":
        return part["facts"]
    if name == "real":
        frames = "all frames" if part["every"] == 1 else f"one frame in {part['every']}"
        return {"clips": f"{len(part['clips'])} of DAVIS, {frames}"}
    plan = part["plan"]
    return {
        "clips": f"{', '.join(plan['families'])}, {plan['split']} split, seed {plan['seed']}",
        "frames": f"{plan['frames']} of {plan['size'][1]}×{plan['size'][0]}, {plan['cuts']} cut in every second batch",
        "device": part["device"],
        "weights": part["weights"],
    }


def accuracy_table(clips: JsonObject) -> Table:
    rows: list[dict[str, TableCell]] = [
        {
            "system": row["system"],
            "reading": row["reading"],
            "keep": f"{row['keep']:.4g}",
            "tokens": row["tokens"],
            "accuracy": Quantity(100 * row["accuracy"], "%", 100 * row["low"], 100 * row["high"]),
            "n": row["n"],
        }
        for row in sorted(clips["rows"], key=lambda row: (row["reading"], row["keep"], row["system"]))
    ]
    return Table(
        "Needle clips", COLUMNS["accuracy"], tuple(rows), {"weights": clips["weights"], "plan": str(clips["plan"])}
    )


def ahead_table(clips: JsonObject) -> Table:
    """Differences, and the two bars: ahead at equal tokens, equal at fewer."""
    rows: list[dict[str, TableCell]] = []
    for row in clips["ahead"]:
        fewer = row["share"] < 1
        # At larger budgets every system reads nearly everything, at smaller ones frame by frame reads nothing.
        barred = f"1/{round(1 / row['keep'])}" == BARS["at"] and row["against"] in ("frame by frame", "uniform")
        bar = BARS["equal"] if fewer else BARS["ahead"]
        rows.append(
            {
                "against": f"{row['against']}, {FEWER:.0%} of its tokens" if fewer else row["against"],
                "reading": row["reading"],
                "keep": f"1/{round(1 / row['keep'])}",
                "difference": Quantity(100 * row["difference"], "points", 100 * row["low"], 100 * row["high"]),
                "n": row["n"],
                "bar": f"≥ {100 * bar:g} points" if barred else None,
                "kept": row["difference"] >= bar if barred else None,
            }
        )
    return Table("Temporal allocation against the others, clip by clip", COLUMNS["ahead"], tuple(rows))


def coherence_table(clips: JsonObject) -> Table:
    found = clips["coherence"]
    rows: list[dict[str, TableCell]] = []

    def share(name: str, hits: int, number: int, bar: float, above: bool = True, barred: bool = True) -> None:
        low, high = wilson(hits, number)
        value = hits / number if number else 0.0
        kept = value >= bar if above else value <= bar
        rows.append(
            {
                "what": name,
                "value": Quantity(100 * value, "%", 100 * low, 100 * high),
                "n": number,
                "bar": f"{'≥' if above else '≤'} {100 * bar:g} %" if barred else None,
                "kept": kept if barred and number else None,
            }
        )

    inside = found["inside"]
    if inside:
        rows.append(
            {"what": "similarity inside scenes", "value": Quantity(inside["ground"]), "n": found["inside_n"],
             "bar": f"≥ {BARS['inside']}", "kept": inside["ground"] >= BARS["inside"]}
        )  # fmt: skip
        for name, key in (("the same, by place alone", "place"), ("the same, each frame alone", "alone")):
            rows.append({"what": name, "value": Quantity(inside[key]), "n": found["inside_n"]})
    detector, rule, apart = found["detector"], found["rule"], found["apart_at_cuts"]
    share(f"cuts with similarity below {BARS['apart']}", apart.get("ground", 0), found["cuts_n"], BARS["found"])
    share("the same, by place alone", apart.get("place", 0), found["cuts_n"], BARS["found"], barred=False)
    share("cuts found", detector["found"], detector["true"], BARS["found"])
    share("false cuts", detector["false"], detector["frames"], BARS["false_cuts"], above=False)
    share("cuts found by the rule of thumb", rule["found"], rule["true"], BARS["found"], barred=False)
    share("its false cuts", rule["false"], rule["frames"], BARS["false_cuts"], above=False, barred=False)
    return Table("Coherence and cuts", COLUMNS["coherence"], tuple(rows))


def settings_table(settings: Mapping[str, object]) -> Table:
    """Where the learned numbers landed, beside what was expected."""
    rows: list[dict[str, TableCell]] = []
    for name, value in settings.items():
        expected = BARS["expected"].get(name)
        shown = ", ".join(f"{one:.3g}" for one in value) if isinstance(value, list | tuple) else f"{value:.3g}"
        rows.append({"what": name, "value": shown, "expected": f"{expected[0]}–{expected[1]}" if expected else None})
    return Table("Temporal settings", COLUMNS["settings"], tuple(rows))


def real_table(real: JsonObject) -> Table:
    clips = real["clips"]
    rows: list[dict[str, TableCell]] = []
    for name, one in clips.items():
        means = {system: 100 * float(np.mean(values)) for system, values in one["coverage"].items()}
        rows.append(
            {"clip": name, "frames": one["frames"], **means, "similarity": one["similarity"],
             "false_cuts": one["false_cuts"]}
        )  # fmt: skip
    means = {}
    for system in SYSTEMS:
        mean = clip_coverage(clips, system)
        means[system] = Quantity(100 * mean.value, "%", 100 * mean.low, 100 * mean.high)
    rows.append({"clip": "all", "frames": sum(one["frames"] for one in clips.values()), **means})
    columns = {"clip": "clip", "frames": "frames", **{system: system for system in SYSTEMS}}
    columns |= {"similarity": "similarity inside", "false_cuts": "false cuts"}
    return Table(
        "Real clips: share of the object's box seen at level 0, at 1/8 of the tokens (%)", columns, tuple(rows)
    )


def speed_table(speed: Mapping[str, object]) -> Table:
    return Table.from_json({**speed, "title": "Cost of a frame"}, COLUMNS["speed"])


if __name__ == "__main__":
    door(program("video", part=("clips",), threads=os.cpu_count() or 1, out=Path(os.environ.get("OUT") or "out/bench")))
