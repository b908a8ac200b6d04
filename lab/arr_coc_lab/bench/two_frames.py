"""`bench two-frames`: questions about a clip that no frame alone can answer, by how the clip is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.source import ScorerRelevance

from arr_coc.answering.eye import Eye
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject, Relevance
from arr_coc.video.answering import Reading, answer_clip, knows_video
from arr_coc.video.watching import watch

from ..train.run import door
from ..worlds.needle.clips import TwoFrameClip, two_frame_clips
from .options import TwoFrameOptions
from .report import Report, Table, accuracy_rows
from .run import BenchRun, program
from .suite import suite

SEED, LONGEST = 38, 12


def measure(options: TwoFrameOptions, run: BenchRun) -> Report:
    """One row for each reading; the same clips, watched once; goes on from what is in --out."""
    settings = {"model": options.model, "keep": options.keep, "side": options.side}
    with run.answers("two_frames_", "out/two-frames", settings) as answers:
        known, size = {name for name, _ in answers.rows}, (options.side, options.side)
        clips = enumerate(two_frame_clips(options.number, size, seed=SEED, split="validation"))
        waiting = (one for one in clips if str(one[0]) not in known)
        work = partial(watch_clip, options)
        answers.fill(run.each(waiting, work, "watching", options.workers, options.number))
    rows = [row for row in answers.rows.values() if int(row["question"]) < options.number]
    if not rows:
        raise InputError("no clip was watched; give the run more --seconds")
    return Report.of(two_frame_table(rows, options))


def watch_clip(options: TwoFrameOptions, job: tuple[int, TwoFrameClip]) -> list[JsonObject]:
    """Watches a clip and answers by every reading, in whatever process it is: one row for each. job: the number of the
    clip, and the clip."""
    number, clip = job
    eye = two_frame_eye(options.model, options.device)
    readings: tuple[Reading, ...] = ("clearest", "sheet", "video") if knows_video(eye) else ("clearest", "sheet")
    scorer = eye.scorer
    if isinstance(scorer, ScorerRelevance):
        scorer = ClipScorer(scorer.folder, options.device)
    watched = watch(iter(clip.frames), clip.question, keep=options.keep, relevance="auto", scorer=scorer)
    rows = []
    for name in readings:
        answer = answer_clip(eye, watched, clip.frames, name, max_new_tokens=LONGEST)
        row = {"question": str(number), "cell": name, "said": answer.text, "true": clip.answer}
        rows.append({**row, "right": answer.text == clip.answer, "tokens": answer.tokens})
    return rows


@dataclass(frozen=True)
class ClipScorer(ScorerRelevance):
    """The scorer on a device that is told once: the scenes of a clip name none."""

    device: str = "cpu"

    def of_scene(self, scene: Scene, query: str) -> Relevance:
        if isinstance(scene.given, np.ndarray):
            return self.of_pixels(scene.given, query, self.device, scene.kept)
        return super().of_scene(scene, query)


@cache
def two_frame_eye(model: str, device: str) -> Eye:
    """Loaded once in every process."""
    return Eye.from_pretrained(model, device=device, memory=0)


def two_frame_table(answers: Sequence[JsonObject], options: TwoFrameOptions) -> Table:
    """One row for each reading."""
    readings = dict.fromkeys(row["cell"] for row in answers)
    right = {name: [row["right"] for row in answers if row["cell"] == name] for name in readings}
    tokens = {name: [row["tokens"] for row in answers if row["cell"] == name] for name in readings}
    more = {name: {"tokens": round(float(np.mean(counts)))} for name, counts in tokens.items()}
    facts = {
        "clips": f"Needle World, scenes, halves of {options.side}×{2 * options.side}, validation split, seed {SEED}",
        "model": f"{options.model}; {options.keep:g} of the clip's tokens",
    }
    return Table(
        "Questions that need two frames", suite("two-frames")["columns"], accuracy_rows(right, "clearest", more), facts
    )


if __name__ == "__main__":
    door(program("two-frames"))
