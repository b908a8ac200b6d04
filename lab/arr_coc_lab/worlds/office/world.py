"""Pages of Office World: a layout, a seed and a number give the same page everywhere with the same typefaces."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import NamedTuple, TypeVar

import numpy as np

from arr_coc.knowing.language.tables import read_table
from arr_coc.pictures.words import Words, make_words

from . import charts as _charts  # noqa: F401  its blocks
from .blocks import BLOCKS
from .paper import Area, PageQuestion, Paper, Span
from .speech import DATA

SPLITS = {"train": "layouts", "val": "aside"}
HEAD = 1.2  # size of a running head, beside the page's type
Job = TypeVar("Job")
Made = TypeVar("Made")

FILLERS = (
    "prose n=5",
    "pairs scope=any n=6 style=beside",
    "pairs scope=any n=6 style=boxed columns=3",
    "table",
    "prose n=8",
)


class Page(NamedTuple):
    """A page: its layout, its words, what is asked about it (spans are numbers of words), and itself for painting."""

    layout: str
    words: Words
    questions: list[PageQuestion]
    paper: Paper

    def pixels(self) -> np.ndarray:
        """Draw the clean page, (H, W, 3) uint8; `paper.worn` wears it."""
        return self.paper.paint()

    def boxes(self, *spans: Span) -> np.ndarray:
        """Return (K, 4) in 0–1: a box for each line of the spans."""
        found: list[np.ndarray] = []
        for span in spans:
            for place in range(span.first, span.end):
                box = self.words.boxes[place]
                if place > span.first and box[1] == found[-1][1]:
                    found[-1] = np.array([*found[-1][:2], *box[2:]])
                else:
                    found.append(box)
        return np.array(found, np.float64).reshape(-1, 4)


def layout_names(split: str = "train") -> tuple[str, ...]:
    """Return the layouts for training or, for "val", the held-out ones."""
    return tuple(read_table(DATA / "layouts.toml")[SPLITS[split]])


def make_page(split: str, seed: int, number: int, head: str = "") -> Page:
    """Lay out page `number`; layouts follow one another. head: a line above everything else."""
    names = layout_names(split)
    name = names[number % len(names)]
    row = read_table(DATA / "layouts.toml")[SPLITS[split]][name]
    source = random.Random(f"office/{split}/{seed}/{number}")
    paper = Paper(source, row["shape"], split == "val", row.get("dark", False))
    margin = source.uniform(0.03, 0.08) * paper.width
    y = margin
    if head:
        paper.write(margin, 0.5 * margin, head, scale=HEAD, bold=True)
        y += 1.5 * HEAD * paper.size
    rows, filler = list(row["rows"]), source.random()
    while rows or (y < 0.75 * paper.height and filler < 0.45):
        blocks = rows.pop(0) if rows else [source.choice(FILLERS)]
        x, bottoms = margin, []
        weighted = [block.split() for block in blocks]
        shares = [float(parts[1]) if len(parts) > 1 and parts[1][0] == "." else 0.0 for parts in weighted]
        free = (1 - sum(shares)) / max(1, shares.count(0.0))
        for parts, share in zip(weighted, shares, strict=True):
            wide = (share or free) * (paper.width - 2 * margin)
            how = dict(part.split("=") for part in parts[1:] if "=" in part)
            frame = Area(x, y, x + wide - (1.2 * paper.size if len(blocks) > 1 else 0), paper.height - margin)
            bottoms.append(BLOCKS[parts[0]](paper, frame, y, **how))
            x += wide
        y = max(bottoms) + source.uniform(0.4, 2.2) * paper.size
    if y < 0.8 * paper.height and source.random() < 0.7:
        paper.height = round(y + margin)
    whole = [place for place in range(len(paper.texts)) if paper.visible(Span(place, place + 1, ""))]
    number_of = {place: number for number, place in enumerate(whole)}

    def moved(span: Span) -> Span:
        return Span(number_of[span.first], number_of[span.end - 1] + 1, span.text)

    words = make_words(
        [paper.texts[place] for place in whole],
        np.array([paper.boxes[place] for place in whole]).reshape(-1, 4),
        size=(paper.height, paper.width),
        source="Office World",
    )
    questions = [
        PageQuestion(one.kind, one.text, moved(one.answer), tuple(map(moved, one.named))) for one in paper.asked()
    ]
    return Page(name, words, questions, paper)


def side_by_side(draw: Callable[[Job], Made], jobs: Iterable[Job], workers: int = 1) -> Iterator[Made]:
    """Yield the results of `draw` for all jobs, in order; several workers are processes."""
    if workers == 1:
        yield from map(draw, jobs)
        return
    pool = ProcessPoolExecutor(workers, get_context("spawn"))
    try:
        yield from pool.map(draw, jobs, chunksize=4)
    finally:
        pool.shutdown(cancel_futures=True)
