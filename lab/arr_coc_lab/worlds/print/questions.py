"""Questions about a printed page: what is asked, the answer's letters and boxes.

A question is made from the slots it names, so what it says is what stands in the picture, and what is asked for is
there to be read: whole words, all of them visible.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import PADDING, SPACE
from arr_coc.knowing.language.tables import read_table

from ..constants import constant
from ..needle.content import fill
from .setting import Runs


class Facts(NamedTuple):
    """F things that can be asked about each of B pictures, all (B, F) int64.

    group: of questions. query: a row of the bank that is asked as it stands, −1 for a wording of the group. label,
    second, answer: slots that the question names, and the one that holds the answer; −1 where there is none.
    label_words, answer_from, answer_words: which words of them, 0 words for all. valid: bool.
    """

    group: Tensor
    query: Tensor
    label: Tensor
    second: Tensor
    answer: Tensor
    label_words: Tensor
    answer_from: Tensor
    answer_words: Tensor
    valid: Tensor


WORDINGS: dict[str, list[str]] = read_table(Path(__file__).with_name("data") / "wording.toml")
GROUP = {name: number for number, name in enumerate(WORDINGS)}
# How a long question is asked for short: by the names alone.
SHORT = "{0}{1}?"


def _placed(text: str) -> str:
    """Append missing places to a template, so that it has both."""
    for place in ("{0}", "{1}"):
        if place not in text:
            text += place
    return text


TEMPLATES = tuple(_placed(text) for texts in WORDINGS.values() for text in texts)
COUNTS = tuple(len(texts) for texts in WORDINGS.values())
NAMES_LABEL = tuple("{0}" in texts[0] for texts in WORDINGS.values())


class Spans(NamedTuple):
    """Pieces of text. ids: (B, F, 96) int64, left-justified. boxes: (B, F, 4) pixels. letters: (B, F, 96) bool, which
    of a slot's letters they are."""

    ids: Tensor
    boxes: Tensor
    letters: Tensor


def spans(runs: Runs, extent: Tensor, slot: Tensor, first_word: Tensor, words: Tensor) -> Spans:
    """Return the words from first_word on of the texts of slots (B, F); 0 words for all of it. extent: (B, R, 4)."""
    rows = torch.arange(len(slot), device=slot.device)[:, None]
    slot = slot.clamp_min(0)
    ids, start, advance = runs.ids[rows, slot], runs.start[rows, slot], runs.advance[rows, slot]
    place = torch.arange(ids.shape[-1], device=ids.device)
    word = (ids == SPACE).cumsum(-1)
    first, last = first_word[..., None], (first_word + words)[..., None]
    wanted = (words[..., None] == 0) | ((word >= first) & (word < last))
    wanted &= (place < runs.spoken[rows, slot][..., None]) & (ids > 0)
    # The blank in front of a word counts with it; it is no part of the span.
    wanted &= ~((ids == SPACE) & (word == first) & (words[..., None] > 0) & (first > 0))
    kept = ids * wanted
    order = (kept == PADDING).to(torch.uint8).argsort(dim=-1, stable=True)
    left = torch.where(wanted, start, 1e6).amin(-1)
    right = torch.where(wanted, start + advance, -1e6).amax(-1)
    _, top, _, bottom = extent[rows, slot].unbind(-1)
    return Spans(kept.gather(-1, order), torch.stack([left, top, right, bottom], -1), wanted & (ids != SPACE))


def ask(facts: Facts, queries: Tensor, label: Tensor, second: Tensor, wording: Tensor, space: Tensor) -> Tensor:
    """Return (B, F, 96) identifiers of the questions.

    queries: (N, 96) rows of the bank. label, second: (B, F, L) what they name. wording: (B, F) 32 random bits. space:
    (B, F) letters at most; those that would be longer are asked for short.
    """
    group, device = facts.group, label.device
    counts = constant(COUNTS, device)
    index = (counts.cumsum(0) - counts)[group] + ((wording * counts[group]) >> 32)
    named = label * constant(NAMES_LABEL, device)[group][..., None]
    other = second * (facts.second >= 0)[..., None]
    long = fill(TEMPLATES, index, [named, other], 96)
    long = torch.where((facts.query >= 0)[..., None], queries[facts.query.clamp_min(0)].long(), long)
    comma = fill((", {0}",), torch.zeros_like(index), [other], other.shape[-1] + 2) * (facts.second >= 0)[..., None]
    short = fill((SHORT,), torch.zeros_like(index), [named, comma], 96)
    whole = (long[..., -1] == 0) & ((long > 0).sum(-1) <= space)
    return torch.where(whole[..., None], long, short)
