"""Fit how sure an answer of `mini` is, from the probability of its text and from how sure the scorer was of its place.

    arr-coc pages --n 200 --split val --seed 4300 --out pages
    python scripts/fit_sureness.py --pages pages --atlas atlas.npz --n 150

Drawn pages, printed pages and Needle World, each counted alike: pictures that nothing was trained on and nothing is
judged by. Prints the expected calibration error of each, before and after, by five-fold cross-validation, and the part
`place` of calibration.json; --write puts it into the folder of `mini`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
from arr_coc.realizing.bundled import CALIBRATION, PlaceDoubt
from scipy.optimize import minimize

from arr_coc.answering.light import quick_eye
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI, part_folder
from arr_coc.core.manifest import changing
from arr_coc_lab.bench.grip_constants import SizedQuestion, drawn_needles, drawn_pages, pages_of, scored_by
from arr_coc_lab.bench.vqa import exact
from arr_coc_lab.bench.workers import in_turn
from arr_coc_lab.statistics import expected_calibration_error

SHARE, FOLDS = 1 / 8, 5


def questions(options: argparse.Namespace) -> Iterator[SizedQuestion]:
    """So many of each world, in turn."""
    printed = drawn_pages(options.n, options.seed, options.atlas)
    return in_turn([printed, drawn_needles(options.n, options.seed), pages_of(options.pages, options.n, options.seed)])


def examples(asked: Iterator[SizedQuestion]) -> list[tuple[str, float, float, bool]]:
    """World, probability of the text, peak of the map, and whether the answer is right."""
    eye, found = quick_eye(), []
    eye.place = None  # the probability itself
    for one in asked:
        scored = scored_by(eye, one.pixels, one.text)
        answer = eye.set_image(one.pixels).ask(one.text, keep=SHARE, relevance=scored, max_new_tokens=48)
        right = exact(answer.text, (one.answer,)) == 1
        found.append((one.source, 1 - answer.uncertainty, float(scored.map.max()), right))
        if len(found) % 25 == 0:
            print(f"{len(found)} answers", flush=True)
    return found


def fitted(confidence: np.ndarray, peak: np.ndarray, right: np.ndarray, weights: np.ndarray) -> PlaceDoubt:
    """The likeliest slope, peak and offset. All (N,)."""
    within = np.clip(confidence, 1e-6, 1 - 1e-6)
    columns = np.stack([np.log(within / (1 - within)), peak, np.ones_like(peak)], 1)

    def loss(values: np.ndarray) -> float:
        logits = columns @ values
        return float((weights * (np.logaddexp(0, logits) - right * logits)).sum() / weights.sum())

    return PlaceDoubt(*(float(one) for one in minimize(loss, np.array([1.0, 0.0, 0.0])).x))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=Path, required=True, help="a folder that arr-coc pages drew")
    parser.add_argument("--atlas", type=Path, help="typefaces of the printed pages; else Needle's")
    parser.add_argument("--n", type=int, default=150, help="questions of each world")
    parser.add_argument("--seed", type=int, default=4301)
    parser.add_argument("--write", action="store_true", help="into mini's calibration.json")
    options = parser.parse_args()
    worlds, confidence, peak, right = (np.array(one) for one in zip(*examples(questions(options)), strict=True))
    weights = np.array([1 / (worlds == one).sum() for one in worlds])
    after, fold = np.zeros(len(worlds)), np.arange(len(worlds)) // 3 % FOLDS
    for number in range(FOLDS):
        rest = fold != number
        law = fitted(confidence[rest], peak[rest], right[rest], weights[rest])
        after[~rest] = [law.sureness(*one) for one in zip(confidence[~rest], peak[~rest], strict=True)]
    errors = {}
    for world in dict.fromkeys([*worlds.tolist(), "all"]):
        own = np.ones(len(worlds), bool) if world == "all" else worlds == world
        errors[world] = [
            round(100 * expected_calibration_error(one[own], right[own]), 1) for one in (confidence, after)
        ]
        sure = own & (after >= 0.9)
        told = f"{sure.sum()} sure, of these right {100 * right[sure].mean():.0f} %" if sure.any() else "none sure"
        print(f"{world}: n {own.sum()}, ECE {errors[world][0]} → {errors[world][1]} %, {told}")
    law = fitted(confidence, peak, right, weights)
    place = {name: round(value, 4) for name, value in asdict(law).items()}
    place |= {"n": len(worlds), "seed": options.seed, "ece_before_after": errors}
    print(json.dumps({"place": place}))
    if options.write:
        path = part_folder(MINI) / CALIBRATION
        with changing(path):
            write_json(path, {**json.loads(path.read_text(encoding="utf-8")), "place": place})


if __name__ == "__main__":
    main()
