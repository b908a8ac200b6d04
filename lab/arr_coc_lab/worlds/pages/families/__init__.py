"""The families of pages. A layout is a function (Sheet) → HTML; drawn for training or kept aside, never both."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ..sheet import Sheet

Layout = Callable[[Sheet], str]
SPLITS = ("train", "val")


class Family(NamedTuple):
    """weight: how often in a mixed pack. train, held: layouts by name; no function stands in both."""

    weight: float
    train: Mapping[str, Layout]
    held: Mapping[str, Layout]


def families() -> dict[str, Family]:
    """All families by name."""
    from . import charts, desks, forms, letters, sales, schedules, screens, tables, webs

    return {
        "forms": Family(24, forms.TRAIN, forms.HELD),
        "letters": Family(5, letters.TRAIN, letters.HELD),
        "receipts": Family(6, sales.RECEIPTS, sales.HELD_RECEIPTS),
        "invoices": Family(6, sales.INVOICES, sales.HELD_INVOICES),
        "tables": Family(6, tables.TABLES, tables.HELD_TABLES),
        "bars": Family(16, charts.BARS, charts.HELD_BARS),
        "stacks": Family(5, charts.STACKS, charts.HELD_STACKS),
        "lines": Family(6, charts.LINES, charts.HELD_LINES),
        "pies": Family(3, charts.PIES, charts.HELD_PIES),
        "scatters": Family(2, charts.SCATTERS, charts.HELD_SCATTERS),
        "dashboards": Family(3, screens.DASHBOARDS, screens.HELD_DASHBOARDS),
        "desktops": Family(4, desks.TRAIN, desks.HELD),
        "phones": Family(4, screens.PHONES, screens.HELD_PHONES),
        "webs": Family(3, webs.WEBS, webs.HELD_WEBS),
        "slides": Family(2, webs.SLIDES, webs.HELD_SLIDES),
        "timetables": Family(2, schedules.TIMETABLES, schedules.HELD_TIMETABLES),
        "menus": Family(1, schedules.MENUS, schedules.HELD_MENUS),
    }


def chosen(split: str, seed: int, index: int, wanted: Mapping[str, Family]) -> tuple[str, str]:
    """(family, layout) of page `index`."""
    source = random.Random(f"family/{split}/{seed}/{index}")
    family = source.choices(list(wanted), [entry.weight for entry in wanted.values()])[0]
    layouts = wanted[family].train if split == "train" else wanted[family].held
    return family, source.choice(list(layouts))
