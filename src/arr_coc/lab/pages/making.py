"""One page by its number: family and layout drawn by seed, the sheet written, the browser asked."""

from __future__ import annotations

import random

from .drawing import Artist
from .families import Family, families
from .page import Page
from .sheet import Sheet

SPLITS = ("train", "val")
TRIES = 3


def chosen(split: str, seed: int, index: int, wanted: dict[str, Family]) -> tuple[str, str]:
    """(family, layout) of page `index`."""
    source = random.Random(f"family/{split}/{seed}/{index}")
    family = source.choices(list(wanted), [entry.weight for entry in wanted.values()])[0]
    layouts = wanted[family].train if split == "train" else wanted[family].held
    return family, source.choice(list(layouts))


def make_page(artist: Artist, split: str, seed: int, index: int, names: tuple[str, ...] = ()) -> Page:
    """Draw page `index`; one that ends up with no question at all is written anew from the next seed."""
    known = families()
    wanted = {name: known[name] for name in names} if names else known
    family, layout = chosen(split, seed, index, wanted)
    write = (wanted[family].train if split == "train" else wanted[family].held)[layout]
    for turn in range(TRIES):
        sheet = Sheet(split, seed, index + turn * 10**9)
        body = write(sheet)
        page = artist.draw(sheet, body, f"{family}-{split}-{seed}-{index:06d}", family)
        if page.questions:
            break
    return page
