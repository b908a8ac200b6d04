"""A small network over the phrases of a page: how likely each word is the answer, and how likely it is what names it.

Every phrase starts from its own features; two rounds let it hear its neighbours (left, right, above, below, the heads
of its row and column) and the page as a whole; then each word is judged with its phrase. Numpy only; the weights are
written by `python -m arr_coc_lab.train.train_words`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...core import folders
from ...core.errors import InputError
from ...core.manifest import verify
from .page import WordPage

RANKER = "ranker.npz"
WEIGHTS = folders.WEIGHTS / "words" / RANKER
ROUNDS = 2
LOUDEST = 5.0  # standard deviations beyond which a feature says no more


@lru_cache(maxsize=4)
def ranker_weights(path: Path = WEIGHTS) -> Mapping[str, np.ndarray]:
    """The weights by name, float32."""
    verify(path.parent, [path.name])
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name].astype(np.float32) for name in held.files}
    except (OSError, ValueError) as error:
        remedy = "install the package again" if path == WEIGHTS else "give a folder that arr-coc train words wrote"
        raise InputError(f"cannot read the ranker of words at {path} ({error}); {remedy}") from error


def standard(values: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip((values - mean) / scale, -LOUDEST, LOUDEST)


def word_logits(
    page: WordPage, phrases: np.ndarray, words: np.ndarray, weights: Mapping[str, np.ndarray] | None = None
) -> np.ndarray:
    """(S, ·) and (N, ·) features → (N, 2) logits in the page's order: answer, and what names it."""
    w = ranker_weights() if weights is None else weights
    seen = standard(phrases, w["mean"], w["scale"])
    hidden = np.maximum(seen @ w["first"] + w["first_bias"], 0)
    for turn in range(ROUNDS):
        padded = np.concatenate([hidden, np.zeros_like(hidden[:1])])
        around = padded[page.neighbours].reshape(len(hidden), -1)
        overall = np.broadcast_to(hidden.max(0), hidden.shape)
        heard = np.concatenate([hidden, around, overall], axis=1)
        hidden = hidden + np.maximum(heard @ w[f"round{turn}"] + w[f"round{turn}_bias"], 0)
    own = standard(words, w["word_mean"], w["word_scale"])
    together = (page.phrase[1:] == page.phrase[:-1])[:, None]
    nothing = np.zeros_like(own[:1])
    before = np.concatenate([nothing, own[:-1] * together])
    after = np.concatenate([own[1:] * together, nothing])
    judged = np.concatenate([hidden[page.phrase], own, before, after], axis=1)
    judged = np.maximum(judged @ w["word"] + w["word_bias"], 0)
    return judged @ w["last"] + w["last_bias"]
