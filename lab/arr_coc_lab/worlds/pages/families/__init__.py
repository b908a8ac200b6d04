"""The families of pages. A layout is a function (PageSheet) → HTML; drawn for training or kept aside, never both."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import NamedTuple

from ..sheet import Layout

SPLITS = ("train", "val")


class PageFamily(NamedTuple):
    """weight: how often in a mixed pack. train, held: layouts by name; no layout stands in both."""

    weight: float
    train: Mapping[str, Layout]
    held: Mapping[str, Layout]


def families() -> dict[str, PageFamily]:
    """All families by name."""
    from . import charts, crossings, desks, dialogs, forms, letters, sales, schedules, screens, tables, unlabelled, webs

    return {
        "forms": PageFamily(24, forms.TRAIN, forms.HELD),
        "letters": PageFamily(5, letters.TRAIN, letters.HELD),
        "receipts": PageFamily(6, sales.RECEIPTS, sales.HELD_RECEIPTS),
        "invoices": PageFamily(6, sales.INVOICES, sales.HELD_INVOICES),
        "tables": PageFamily(6, tables.TABLES, tables.HELD_TABLES),
        "bars": PageFamily(16, charts.BARS, charts.HELD_BARS),
        "stacks": PageFamily(5, charts.STACKS, charts.HELD_STACKS),
        "lines": PageFamily(6, charts.LINES, charts.HELD_LINES),
        "pies": PageFamily(3, charts.PIES, charts.HELD_PIES),
        "scatters": PageFamily(2, charts.SCATTERS, charts.HELD_SCATTERS),
        "dashboards": PageFamily(3, screens.DASHBOARDS, screens.HELD_DASHBOARDS),
        "desktops": PageFamily(4, desks.TRAIN, desks.HELD),
        "phones": PageFamily(4, screens.PHONES, screens.HELD_PHONES),
        "webs": PageFamily(3, webs.WEBS, webs.HELD_WEBS),
        "slides": PageFamily(2, webs.SLIDES, webs.HELD_SLIDES),
        "timetables": PageFamily(2, schedules.TIMETABLES, schedules.HELD_TIMETABLES),
        "menus": PageFamily(1, schedules.MENUS, schedules.HELD_MENUS),
        "crossings": PageFamily(6, crossings.CROSSINGS, crossings.HELD_CROSSINGS),
        "bare": PageFamily(5, unlabelled.BARE, unlabelled.HELD_BARE),
        "places": PageFamily(4, unlabelled.PLACES, unlabelled.HELD_PLACES),
        "archives": PageFamily(6, unlabelled.ARCHIVES, unlabelled.HELD_ARCHIVES),
        "dialogs": PageFamily(4, dialogs.TRAIN, dialogs.HELD),
    }


def choose_layout(split: str, seed: int, index: int, wanted: Mapping[str, PageFamily]) -> tuple[str, str]:
    """(family, layout) of page `index`."""
    source = random.Random(f"family/{split}/{seed}/{index}")
    family = source.choices(list(wanted), [entry.weight for entry in wanted.values()])[0]
    layouts = wanted[family].train if split == "train" else wanted[family].held
    return family, source.choice(list(layouts))
