"""Fit the numbers of `relevance/weighing.py`: which source is to be believed for which picture and question.

    python scripts/fit_weighing.py --photos VOC INDOOR --drawn NEEDLE PAGES WORN --out weighing.json

Each is a folder with records.jsonl (question, boxes, picture), as `arr-coc needle` and `arr-coc pages` write it.
Photographs are also seen in grey. Every source is asked once; what it shows of the boxes with an eighth of the cells
decides. Prints what each source and the blend show, by set, at five-fold cross-validation by picture. Words by OCR and
an encoder of one's own are not fitted: drawn pages, which the scorer knows, would speak against both. See `completed`.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from arr_coc.knowing.photos.source import surest_box
from arr_coc.knowing.registry import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc.texture.channels import centre_map
from PIL import Image

from arr_coc.balancing.weights import (
    MAP_SIGNS,
    SIGNS,
    SOURCES,
    WeighingLaw,
    blend,
    cell_shape,
    map_signs,
    on_cells,
    signs_of,
    sureness_signs,
)
from arr_coc.core.files import write_text
from arr_coc.pictures.load import load_picture

ASKED = ("scorer", "photos", "look")
FITTED = (*ASKED, "centre")
# By how much more words by OCR count for each sureness above even, and how much less an encoder than the photo map.
WORDS_SURE, ENCODER_LESS = 3.0, 1.0
CELL = 32
# Without the photo map, in so many of the lessons: the law must know what to do without it.
WITHOUT_PHOTOS = 0.3


@dataclass(frozen=True)
class SourceLesson:
    """One picture and question. group: its set. picture: which, the same in grey. signs: (SIGNS,). maps: (sources,
    MAP_SIGNS). cells: each source's map, of sum 1, on the cells that are compared. fine: on cells of 32 pixels. truth:
    the share of the boxes in each of those."""

    group: str
    picture: str
    signs: np.ndarray
    maps: np.ndarray
    cells: dict[str, np.ndarray]
    fine: dict[str, np.ndarray]
    truth: np.ndarray

    def shown(self, plane: np.ndarray, share: float = 1 / 8) -> float:
        """How much of the boxes the best cells of a map show."""
        best = np.argsort(-plane.ravel(), kind="stable")[: max(1, round(share * plane.size))]
        return float(self.truth.ravel()[best].sum())


def truth_of(boxes: Sequence[Sequence[float]], shape: tuple[int, int]) -> np.ndarray:
    """(rows, cols), sum 1: how much of the boxes lies in each cell."""
    rows, cols = shape
    found = np.zeros(shape)
    for x0, y0, x1, y1 in boxes:
        down = np.clip(np.minimum(y1 * rows, np.arange(rows) + 1) - np.maximum(y0 * rows, np.arange(rows)), 0, 1)
        across = np.clip(np.minimum(x1 * cols, np.arange(cols) + 1) - np.maximum(x0 * cols, np.arange(cols)), 0, 1)
        found = np.maximum(found, down[:, None] * across[None])
    return found / max(found.sum(), 1e-9)


def lesson(group: str, picture: str, pixels: np.ndarray, query: str, boxes: Sequence[Sequence[float]]) -> SourceLesson:
    """What every source makes of a picture and a question."""
    scene, grid = Scene(pixels), cell_shape((pixels.shape[0], pixels.shape[1]))
    alone = scene.varied(photos=False)  # each source speaks for itself
    planes = {name: relevance_for(name, scene if name == "photos" else alone, query).map for name in ASKED}
    planes["centre"] = centre_map(grid)
    shape = -(-pixels.shape[0] // CELL), -(-pixels.shape[1] // CELL)
    cells = {name: on_cells(plane, grid) for name, plane in planes.items()}
    sure = {"scorer": float(planes["scorer"].max()), "photos": surest_box(scene.seen, query)}
    fine = {name: on_cells(plane, shape) for name, plane in planes.items()}
    return SourceLesson(
        group, picture, signs_of(scene, query), map_signs(cells, sure), cells, fine, truth_of(boxes, shape)
    )


def lessons(folder: Path, most: int, seed: int, also_grey: bool) -> Iterator[SourceLesson]:
    """One question for each of at most `most` pictures of a folder."""
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text(encoding="utf-8").splitlines()]
    random.Random(seed).shuffle(rows)
    chosen = {row["image"]: row for row in rows if row.get("boxes")}
    for row in list(chosen.values())[:most]:
        pixels = load_picture(folder / row["image"]).pixels
        yield lesson(folder.name, row["image"], pixels, row["query"], row["boxes"])
        if also_grey:
            grey = np.asarray(Image.fromarray(pixels).convert("L").convert("RGB"))
            yield lesson(f"{folder.name}, grey", row["image"], grey, row["query"], row["boxes"])


def there_of(photos: bool) -> np.ndarray:
    return np.array([name in FITTED and (name != "photos" or photos) for name in SOURCES])


def fit_weights(taught: Sequence[SourceLesson], seed: int, steps: int = 3000, shrinkage: float = 3e-3) -> WeighingLaw:
    """Linear law and softmax, by Adam: the likelihood that a source drawn by its weight shows what is asked for."""
    generator = np.random.default_rng(seed)
    signs, maps = np.stack([one.signs for one in taught]), np.stack([one.maps for one in taught])
    shown = (
        np.stack([[one.shown(one.fine[name]) if name in FITTED else 0 for name in SOURCES] for one in taught]) + 0.02
    )
    groups = [one.group for one in taught]
    count = np.array([1 / groups.count(group) for group in groups])
    there = np.stack([there_of(bool(generator.random() >= WITHOUT_PHOTOS)) for _ in taught])
    # The first step decides which sources are asked at all: it is taught alone as often as with the second.
    theta = np.zeros((len(SOURCES), len(SIGNS) + len(MAP_SIGNS)))
    slope, square = np.zeros_like(theta), np.zeros_like(theta)
    for step in range(1, steps + 1):
        total = shrinkage * theta
        for known in (1.0, 0.0):
            logits = signs @ theta[:, : len(SIGNS)].T + known * (theta[None, :, len(SIGNS) :] * maps).sum(2)
            raised = np.where(there, np.exp(logits - logits.max(1, keepdims=True)), 0)
            prior = raised / raised.sum(1, keepdims=True)
            after = prior * shown
            after /= after.sum(1, keepdims=True)
            error = (prior - after) * (count / count.sum())[:, None] / 2
            total[:, : len(SIGNS)] += error.T @ signs
            total[:, len(SIGNS) :] += known * np.einsum("ns,nsm->sm", error, maps)
        slope, square = 0.9 * slope + 0.1 * total, 0.999 * square + 0.001 * total**2
        theta -= 0.05 * (slope / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-9)
    law = WeighingLaw(theta[:, : len(SIGNS)], theta[:, len(SIGNS) :], np.zeros(3 + 2 * len(SOURCES)))
    return WeighingLaw(law.signs, law.maps, fit_sureness(law, taught))


def fit_sureness(
    law: WeighingLaw, taught: Sequence[SourceLesson], steps: int = 60, shrinkage: float = 0.02
) -> np.ndarray:
    """Logistic regression by Newton's method of what is shown on what was decided."""
    rows, shown = [], []
    for one in taught:
        for photos in (True, False):
            weights = law.weights(one.signs, one.maps, there_of(photos))
            rows.append(sureness_signs(weights, one.maps, blend(one.cells, weights)))
            shown.append(one.shown(blend(one.fine, weights)))
    inputs, wanted = np.stack(rows), np.array(shown)
    found = np.zeros(inputs.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-inputs @ found))
        down = inputs.T @ (chance - wanted) / len(wanted) + shrinkage * found
        bend = (inputs * (chance * (1 - chance))[:, None]).T @ inputs / len(wanted)
        found -= np.linalg.solve(bend + shrinkage * np.eye(len(found)), down)
    return found


def completed(law: WeighingLaw) -> WeighingLaw:
    """With what is not fitted: words by OCR are believed as the scorer is, and more or less by how sure they are of an
    answer; an encoder as the photo map is, a little less."""
    scorer, photos, words, encoder = (SOURCES.index(name) for name in ("scorer", "photos", "words", "encoder"))
    signs, maps, sureness = law.signs.copy(), law.maps.copy(), law.sureness.copy()
    for own, like in ((words, scorer), (encoder, photos)):
        signs[own], maps[own] = signs[like], maps[like]
        for first in (3, 3 + len(SOURCES)):
            sureness[first + own] = sureness[first + like]
    maps[words, MAP_SIGNS.index("sure")] = WORDS_SURE
    signs[encoder, SIGNS.index("1")] -= ENCODER_LESS
    return WeighingLaw(signs, maps, sureness)


def judged(law: WeighingLaw, held: Iterable[SourceLesson]) -> list[tuple[str, dict[str, float]]]:
    """For every lesson what each way shows with an eighth of the cells."""
    rows = []
    for one in held:
        weights = {photos: law.weights(one.signs, one.maps, there_of(photos)) for photos in (True, False)}
        row = {name: one.shown(one.fine[name]) for name in FITTED}
        row["blend"] = one.shown(blend(one.fine, weights[True]))
        row["best of them"] = max(row[name] for name in FITTED)
        row["no photo map"] = one.shown(blend(one.fine, weights[False]))
        row["expected"] = law.expected(weights[True], one.maps, blend(one.cells, weights[True]))
        rows.append((one.group, row))
    return rows


def report(rows: Sequence[tuple[str, dict[str, float]]]) -> str:
    """A table by set, and whether what was expected foretells what is shown."""
    names = list(rows[0][1])
    lines = ["| set | n | " + " | ".join(names) + " |", "|---|--:|" + "--:|" * len(names)]
    for group in dict.fromkeys(group for group, _ in rows):
        here = [row for name, row in rows if name == group]
        means = [f"{100 * float(np.mean([row[name] for row in here])):.1f}" for name in names]
        lines.append(f"| {group} | {len(here)} | " + " | ".join(means) + " |")
    order = sorted((row["expected"], row["blend"]) for _, row in rows)
    bins = [np.mean(part, axis=0) for part in np.array_split(np.array(order), 5)]
    told = ", ".join(f"{100 * expected:.0f} → {100 * shown:.0f}" for expected, shown in bins)
    return "\n".join([*lines, "", f"expected → shown, in fifths: {told}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", nargs="+", type=Path, required=True, help="folders with records.jsonl")
    parser.add_argument("--drawn", nargs="+", type=Path, required=True)
    parser.add_argument("--n", type=int, default=60, help="pictures of each set")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--out", type=Path, help="where the numbers go")
    given = parser.parse_args()
    sets = [(folder, True) for folder in given.photos] + [(folder, False) for folder in given.drawn]
    taught = [one for folder, also_grey in sets for one in lessons(folder, given.n, given.seed, also_grey)]
    fit_and_tell(taught, given.seed, given.out)


def fit_and_tell(taught: Sequence[SourceLesson], seed: int, out: Path | None) -> None:
    """Cross-validation, then the numbers of all lessons."""
    pictures = sorted({one.picture for one in taught})
    fold = dict(zip(pictures, np.random.default_rng(seed).integers(0, 5, len(pictures)), strict=True))
    rows = []
    for number in range(5):
        law = fit_weights([one for one in taught if fold[one.picture] != number], seed)
        rows += judged(law, [one for one in taught if fold[one.picture] == number])
    print(report(rows))
    if out is not None:
        law = completed(fit_weights(taught, seed))
        told = {name: np.round(getattr(law, name), 4).tolist() for name in ("signs", "maps", "sureness")}
        columns = {"sources": SOURCES, "columns": SIGNS, "map columns": MAP_SIGNS, "n": len(taught)}
        write_text(out, json.dumps(columns | told, indent=1) + "\n")


if __name__ == "__main__":
    main()
