"""What is printed: rows of characters by kind, made once, and filled anew with every picture.

A row is a pattern (see `writer`). It may also be scrambled: each letter becomes any letter, each figure any figure.
Nothing of it is in a language then, and it has to be read.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS
from arr_coc.knowing.language.tables import read_table

from ..pages.words import COUNTABLE, label_kinds
from .writer import CAPITAL, CLASSES, DATA, FIGURE, FIRST_CLASS, LENGTH, SMALL, VALUE, TextWriter

ROWS: dict[str, int] = read_table(DATA / "words.toml")["rows"]
KINDS = tuple(ROWS)
KIND = {name: number for number, name in enumerate(KINDS)}


def _rows(texts: Sequence[str], length: int) -> np.ndarray:
    """(N, 96) uint8; the euro sign is the identifier behind the last of ASCII."""
    cut = [text[:length].replace("€", "\x7f").encode("latin-1", "replace") for text in texts]
    rows = np.array(cut, dtype=f"S{LENGTH}").view(np.uint8).reshape(len(cut), LENGTH)
    return np.where((rows > 0) & (rows < FIRST_CLASS), rows - 31, rows).astype(np.uint8)


@dataclass(frozen=True)
class Bank:
    """rows: (N, 96) uint8, identifiers, and classes from 200 on. first, count: (kinds,) int64. value_kind: (labels,)
    int64, what belongs to each label. classes: (8, 128) uint8 identifiers of every class. scrambled: (256,) int64, the
    class that a byte is scrambled to, −1 for itself; filled: likewise where nothing is scrambled. counts: as count."""

    rows: Tensor
    first: Tensor
    count: Tensor
    value_kind: Tensor
    classes: Tensor
    scrambled: Tensor
    filled: Tensor
    counts: tuple[int, ...]

    @property
    def labels(self) -> int:
        return len(self.value_kind)

    def choose(self, kind: Tensor, bits: Tensor) -> Tensor:
        """Rows of these kinds by 32 random bits each, both int64 of one shape."""
        return self.first[kind] + ((bits * self.count[kind]) >> 32)

    def written(self, row: Tensor, scramble: Tensor, bits: Tensor) -> Tensor:
        """(…,) rows, (…,) bool, (…, 96) bits → (…, 96) uint8 identifiers, 0 behind the end."""
        text = self.rows[row]
        code = torch.where(scramble[..., None], self.scrambled[text.int()], self.filled[text.int()])
        chosen = self.classes[code.clamp_min(0), bits >> 25]
        return torch.where(code >= 0, chosen, text)


def make_bank(seed: int, device: torch.device | str) -> Bank:
    """Some thousand rows of every kind, in a few seconds."""
    writer = TextWriter(seed)
    labels = list(label_kinds())
    kinds = [label_kinds()[label] for label in labels]
    for _ in range(600):
        label, other = writer.pick(*labels[:600]), writer.word("prefixes")
        if label_kinds()[label] in COUNTABLE:
            labels.append(f"{other} {label[0].lower()}{label[1:]}")
            kinds.append(label_kinds()[label])
    keep = [i for i, label in enumerate(labels) if len(label) <= 28]
    texts: dict[str, list[str]] = {"label": [labels[i] for i in keep]}
    for name, number in ROWS.items():
        if number:
            texts[name] = writer.rows(name, number, labels)
    wide = {"sentence", "nonsense", "leader"}
    arrays = [_rows(texts[name], LENGTH if name in wide else VALUE) for name in KINDS]
    counts = np.array([len(array) for array in arrays])
    ids = [[IDS[c] for c in characters] for characters in CLASSES]
    table = np.array([[own[i * len(own) // 128] for i in range(128)] for own in ids], np.uint8)
    scrambled, filled = np.full(256, -1), np.full(256, -1)
    filled[FIRST_CLASS : FIRST_CLASS + len(CLASSES)] = np.arange(len(CLASSES))
    scrambled[FIRST_CLASS : FIRST_CLASS + len(CLASSES)] = np.arange(len(CLASSES))
    for letters, own in ((string.ascii_lowercase, SMALL), (string.ascii_uppercase, CAPITAL), (string.digits, FIGURE)):
        scrambled[[IDS[c] for c in letters]] = own
    first = np.cumsum(counts) - counts
    tensor = partial(torch.as_tensor, device=device)
    return Bank(
        tensor(np.concatenate(arrays), dtype=torch.uint8),
        tensor(first, dtype=torch.int64),
        tensor(counts, dtype=torch.int64),
        tensor(np.array([KIND[kinds[i]] for i in keep]), dtype=torch.int64),
        tensor(table, dtype=torch.uint8),
        tensor(scrambled, dtype=torch.int64),
        tensor(filled, dtype=torch.int64),
        tuple(counts.tolist()),
    )
