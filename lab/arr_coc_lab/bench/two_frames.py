"""`bench two-frames`: questions about a clip that no frame alone can answer, by how the clip is read."""

from __future__ import annotations

import numpy as np

from arr_coc.eye.eye import Eye
from arr_coc.video.answering import Reading, answer_clip, knows_video
from arr_coc.video.watching import watch

from ..train.run import door
from ..worlds.needle.clips import two_frame_clips
from .options import TwoFrameOptions
from .report import Report, Table, accuracy_rows
from .run import BenchRun, program
from .suite import suite

SEED, LONGEST = 38, 12


def measure(options: TwoFrameOptions, run: BenchRun) -> Report:
    return Report.of(two_frame_table(options.number, options.model, options.keep, options.side, options.device))


def two_frame_table(
    number: int, model: str = "mini", keep: float = 0.25, side: int = 512, device: str = "cpu"
) -> Table:
    """One row for each reading; the same clips, watched once."""
    eye = Eye.from_pretrained(model, device=device, memory=0)
    readings: tuple[Reading, ...] = ("clearest", "sheet", "video") if knows_video(eye) else ("clearest", "sheet")
    right: dict[str, list[bool]] = {name: [] for name in readings}
    tokens: dict[str, list[int]] = {name: [] for name in readings}
    for clip in two_frame_clips(number, (side, side), seed=SEED, split="validation"):
        watched = watch(iter(clip.frames), clip.question, keep=keep, relevance="auto", scorer=eye.scorer)
        for name in readings:
            answer = answer_clip(eye, watched, clip.frames, name, max_new_tokens=LONGEST)
            right[name].append(answer.text == clip.answer)
            tokens[name].append(answer.tokens)
    more = {name: {"tokens": round(float(np.mean(counts)))} for name, counts in tokens.items()}
    facts = {
        "clips": f"Needle World, scenes, halves of {side}×{2 * side}, validation split, seed {SEED}",
        "model": f"{model}; {keep:g} of the clip's tokens",
    }
    return Table(
        "Questions that need two frames", suite("two-frames")["columns"], accuracy_rows(right, "clearest", more), facts
    )


main = program("two-frames")

if __name__ == "__main__":
    door(main)
