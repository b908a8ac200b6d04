"""Fit the sign of `sensing/picture_kind.py`: folders of photographs against folders of drawn pictures.

    python scripts/fit_picture_kind.py --photos voc/images indoor --drawn needle pages worn

Prints the constants, the errors at five-fold cross-validation by folder, and the area under the curve.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from arr_coc.pictures.kind import PHOTOGRAPH, kind_features
from arr_coc.pictures.load import load_picture
from arr_coc_lab.statistics import wilson

ENDINGS = {".png", ".jpg", ".jpeg", ".webp"}


def fit(features: np.ndarray, photos: np.ndarray, shrinkage: float = 1e-3) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logistic regression by Newton's method, both kinds counting alike: middle, spread, weights and constant."""
    middle, spread = features.mean(0), features.std(0)
    inputs = np.c_[(features - middle) / spread, np.ones(len(features))]
    counts = np.where(photos, 0.5 / photos.mean(), 0.5 / (1 - photos.mean()))
    weights = np.zeros(inputs.shape[1])
    for _ in range(60):
        chance = 1 / (1 + np.exp(-inputs @ weights))
        slope = inputs.T @ (counts * (chance - photos)) + shrinkage * len(photos) * weights
        bend = (inputs * (counts * chance * (1 - chance))[:, None]).T @ inputs
        weights -= np.linalg.solve(bend + shrinkage * len(photos) * np.eye(len(weights)), slope)
    return middle, spread, weights


def odds(fitted: tuple[np.ndarray, np.ndarray, np.ndarray], features: np.ndarray) -> np.ndarray:
    middle, spread, weights = fitted
    return np.c_[(features - middle) / spread, np.ones(len(features))] @ weights


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--photos", nargs="+", type=Path, required=True)
    parser.add_argument("--drawn", nargs="+", type=Path, required=True)
    given = parser.parse_args()
    rows = [
        (kind_features(load_picture(path).pixels), folder in given.photos, str(folder))
        for folder in (*given.photos, *given.drawn)
        for path in sorted(folder.rglob("*"))
        if path.suffix.lower() in ENDINGS
    ]
    features = np.array([row[0] for row in rows])
    photos = np.array([row[1] for row in rows])
    folders = np.array([row[2] for row in rows])
    fold = np.random.default_rng(0).integers(0, 5, len(rows))
    found = np.zeros(len(rows))
    for held in range(5):
        found[fold == held] = odds(fit(features[fold != held], photos[fold != held]), features[fold == held])
    for name in dict.fromkeys(folders):
        here = folders == name
        for threshold in (0.0, PHOTOGRAPH):
            number = int((found[here] > threshold).sum())
            low, high = wilson(number, int(here.sum()))
            print(f"{name}: above {threshold}: {number} of {here.sum()} [{100 * low:.1f}, {100 * high:.1f}] %")
    print(f"area under the curve: {(found[photos][:, None] > found[~photos][None]).mean():.4f}")
    for name, values in zip(("MIDDLE", "SPREAD", "WEIGHTS"), fit(features, photos), strict=True):
        print(name, "=", tuple(round(float(value), 4) for value in values))


if __name__ == "__main__":
    main()
