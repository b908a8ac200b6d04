"""Answer a question about a clip: through the stock video prompt, or from one picture of all frames with tokens.

Models that take frames in groups, such as the released Qwen3-VL, see all frames in one prompt, each with its own tokens
and its time as text. Others, such as a `mini` trained on single pictures only, see the frames with tokens side by side,
as one picture with all their tokens.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from ..attending.leaves import in_picture
from ..core.answer import Answer, Pass
from ..core.errors import InputError
from ..core.values import Allocation
from ..options import Options
from ..pictures.load import load_picture, resized
from .watching import Watched, share_budget

if TYPE_CHECKING:
    from ..answering.eye import Eye
    from .stream import SeenFrame

# Maximum number of frames side by side.
SHEET_FRAMES = 4


def answer_clip(
    eye: Eye,
    watched: Watched,
    frames: Sequence[np.ndarray],
    max_new_tokens: int = 64,
) -> Answer:
    """Answer from a watched clip. frames: (H, W, 3) uint8, those watched; sides are multiples of the model's cell.

    The answer has one pass for each group of frames, or one for the sheet of frames.
    """
    if len(frames) != len(watched.frames):
        raise InputError(f"{len(watched.frames)} frames were watched, `frames` has {len(frames)}; pass the same")
    return (_from_video if knows_video(eye) else _from_sheet)(eye, watched, frames, max_new_tokens)


def knows_video(eye: Eye) -> bool:
    """Tell whether a model was trained on video prompts."""
    config = eye.model.config
    return str(config.model_type).startswith("qwen3_vl") and config.vision_config.temporal_patch_size > 1


def _from_sheet(eye: Eye, watched: Watched, frames: Sequence[np.ndarray], longest: int) -> Answer:
    chosen = watched.funded(SHEET_FRAMES)
    seen = [as_seen(frames[one], watched.allocations[one]) for one in chosen]
    sheet, allocation = side_by_side([frame for frame, _ in seen], [allocation for _, allocation in seen])
    options = Options(allocation=allocation, max_new_tokens=longest)
    return replace(eye.set_image(sheet).ask(watched.query, options=options), full=watched.full)


def as_seen(frame: np.ndarray, allocation: Allocation) -> tuple[np.ndarray, Allocation]:
    """Resize a frame to its reading size, and return it with its regions in those pixels."""
    size = allocation.canvas or (allocation.height, allocation.width)
    if size == frame.shape[:2]:
        return frame, allocation
    return resized(load_picture(frame), size).pixels, in_picture(allocation, size)


def side_by_side(frames: Sequence[np.ndarray], allocations: Sequence[Allocation]) -> tuple[np.ndarray, Allocation]:
    """Lay frames of one size out as one picture, row by row, with all their regions there.

    Each frame gets a rectangle whose sides are multiples of the coarsest leaf, so that every leaf stays whole; the
    rest of the rectangle repeats the frame's edge and gets no token.
    """
    first = allocations[0]
    leaf = first.cell << max(int(one.levels.max()) for one in allocations)
    height, width = (-(-side // leaf) * leaf for side in frames[0].shape[:2])
    columns = math.ceil(math.sqrt(len(frames)))
    places = [(number // columns * height, number % columns * width) for number in range(len(frames))]
    sheet = np.zeros((places[-1][0] + height, min(columns, len(frames)) * width, 3), dtype=np.uint8)
    for frame, (y, x) in zip(frames, places, strict=True):
        spare = ((0, height - frame.shape[0]), (0, width - frame.shape[1]), (0, 0))
        sheet[y : y + height, x : x + width] = np.pad(frame, spare, mode="edge")
    boxes = [one.boxes + np.array([*place, 0, 0], np.int32) for one, place in zip(allocations, places, strict=True)]
    made = Allocation(
        boxes=np.concatenate(boxes),
        levels=np.concatenate([one.levels for one in allocations]),
        counts=np.concatenate([one.counts for one in allocations]),
        scores=np.concatenate([one.scores for one in allocations]),
        height=sheet.shape[0],
        width=sheet.shape[1],
        budget=sum(one.tokens for one in allocations),
        full=sheet.shape[0] * sheet.shape[1] // first.cell**2,
        strategy=first.strategy,
        sparse=True,
        cell=first.cell,
        notes=(f"{len(frames)} frames side by side",) if len(frames) > 1 else (),
    )
    return sheet, made


def _from_video(eye: Eye, watched: Watched, frames: Sequence[np.ndarray], longest: int) -> Answer:
    import torch

    from ..answering.decoding import Sureness, generated
    from ..realizing.qwen3_vl.video import video_backbone, video_inputs

    started = perf_counter()
    backbone = video_backbone(eye.model)
    temporal = eye.processor.image_processor.temporal_patch_size
    seconds = watched.seconds or tuple(float(number) for number in range(len(frames)))
    allocations = group_allocations(watched, temporal)
    size = allocations[0].canvas or watched.size
    inputs = video_inputs(eye.processor, np.stack(frames), seconds, watched.query, size=size)
    inputs = {name: value.to(eye.model.device) for name, value in inputs.items()}
    with torch.inference_mode():
        realized = backbone.realize(eye.model, inputs, allocations)
    encoded, ids, sureness = perf_counter(), [], Sureness(eye.calibration.temperature)
    for step in generated(eye.model, realized.inputs, longest):
        sureness.add(*step)
        ids.append(int(step.ids[0]))
    text = eye.processor.tokenizer.decode(ids, skip_special_tokens=True).strip()
    uncertainty = 1.0 - sureness.row(0)["confidence"]
    passes = tuple(Pass(allocation, allocation.tokens) for allocation in allocations)
    last = replace(passes[-1], text=text, uncertainty=uncertainty)
    took = {"encode": encoded - started, "answer": perf_counter() - encoded}
    return Answer(text, uncertainty, (*passes[:-1], last), took, -(-watched.full // temporal))


def group_allocations(watched: Watched, temporal: int) -> list[Allocation]:
    """Allocate the budget of the clip to groups of `temporal` frames; return one allocation for each group.

    All frames of a group share its tokens, so its relevance is the largest of any of them, and its ground counts as
    shown only where it was shown in all of them.
    """
    if temporal == 1:
        return watched.allocations
    groups = [grouped(watched.frames[start : start + temporal]) for start in range(0, len(watched.frames), temporal)]
    most = len(groups) * (watched.full // len(watched.frames))
    total = min(watched.budget, most)
    cell = watched.allocations[0].cell
    return [one.allocation for one in share_budget(groups, total, watched.size, cell, watched.distance)]


def grouped(frames: Sequence[SeenFrame]) -> SeenFrame:
    """Merge several frames into one."""
    relevance = np.max([frame.relevance.map for frame in frames], axis=0)
    known = [frame.same_ground for frame in frames]
    same = None if any(one is None for one in known) else np.min([one for one in known if one is not None], axis=0)
    return replace(frames[0], relevance=replace(frames[0].relevance, map=relevance), same_ground=same)
