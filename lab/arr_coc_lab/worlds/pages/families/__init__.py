"""The families of pages. A layout is a function that fills a PageSheet, and a template; for training or kept aside."""

from __future__ import annotations

import random
from collections.abc import Mapping

from ..sheet import PageFamily
from . import charts, papers, screens, tables

SPLITS = ("train", "val")
FAMILIES: dict[str, PageFamily] = papers.FAMILIES | tables.FAMILIES | charts.FAMILIES | screens.FAMILIES


def choose_layout(split: str, seed: int, index: int, wanted: Mapping[str, PageFamily]) -> tuple[str, str]:
    """(family, layout) of page `index`."""
    source = random.Random(f"family/{split}/{seed}/{index}")
    family = source.choices(list(wanted), [entry.weight for entry in wanted.values()])[0]
    layouts = wanted[family].train if split == "train" else wanted[family].held
    return family, source.choice(list(layouts))
