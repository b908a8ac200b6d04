"""Page World on disk: drawn in parallel, pack by pack, so that a stopped run goes on where it was."""

from __future__ import annotations

import io
import json
import multiprocessing
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageOps

from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing, write_text
from arr_coc.core.runs import check_folder

from ..needle.export import contact_sheet, record, rounded
from .drawing import Artist, browser, check_tools, make_page
from .families import FAMILIES, SPLITS
from .pack import DrawnPage, read_pack, write_pack

PART = 40
SHOWN = 24


class Order(NamedTuple):
    """What to draw: pages 0 … n - 1 of a seed and split. names: families, none for the mixture of all."""

    n: int
    seed: int = 0
    split: str = "train"
    names: tuple[str, ...] = ()


def draw_part(order: Order, start: int, count: int, path: Path) -> int:
    """Draw pages start … start + count - 1 in a browser of their own and pack them; returns how many."""
    with browser() as running:
        artist = Artist(running)
        write_pack(path, [make_page(artist, order.split, order.seed, start + i, order.names) for i in range(count)])
    return count


def draw_packs(
    order: Order, folder: str | Path, workers: int = 1, advance: Callable[[int], object] = lambda done: None
) -> list[Path]:
    """Draw an order into `folder`/packs, 40 pages a pack; packs that are there already are kept.

    advance: called with how many more pages are done.
    """
    check_order(order)
    stem = f"{order.split}-{order.seed}-{'-'.join(order.names) or 'all'}"
    jobs = []
    for start in range(0, order.n, PART):
        count = min(PART, order.n - start)
        jobs.append((start, count, Path(folder) / "packs" / f"{stem}-{start:06d}-{count}.bin"))
    waiting = [job for job in jobs if not job[2].exists()]
    advance(order.n - sum(job[1] for job in waiting))
    if waiting:
        check_tools()
        # A fresh interpreter each: playwright's loop does not survive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(min(workers, len(waiting)), mp_context=context) as pool:
            drawn = [pool.submit(draw_part, order, *job) for job in waiting]
            try:
                for finished in as_completed(drawn):
                    advance(finished.result())
            except BaseException:
                pool.shutdown(cancel_futures=True)
                raise
    return [path for _, _, path in jobs]


def records(page: DrawnPage, image: str) -> list[dict[str, object]]:
    """One record a question, as Needle World writes them; boxes are x0 y0 x1 y1 in 0–1 of the picture."""
    size, scale = (page.width, page.height), np.array([page.width, page.height] * 2)
    return [
        record(f"{page.name}-{number:02d}", f"pages/{page.family}", image, size)
        | {"query": asked.text, "answer": asked.answer, "qtype": asked.kind}
        | {"boxes": rounded(asked.boxes / scale), "ctx_boxes": rounded(asked.context / scale)}
        for number, asked in enumerate(page.questions)
    ]


def write_dataset(
    order: Order,
    out: str | Path,
    workers: int = 1,
    resume: bool = True,
    advance: Callable[[int], object] = lambda done: None,
) -> dict[str, object]:
    """Draw, then write img/*.webp, records.jsonl and contact_sheet.png under `out`; returns what was written.

    resume: keep the packs of an earlier run.
    """
    folder = Path(out)
    check_folder(folder)
    if not resume:
        shutil.rmtree(folder / "packs", ignore_errors=True)
    packs = draw_packs(order, folder, workers, advance)
    pages = read_pack(packs)
    lines: list[str] = []
    # Records come last: until they are there, no reader takes old ones for those of the new pictures.
    (folder / "records.jsonl").unlink(missing_ok=True)
    for page in pages:
        image = f"img/{page.name}.webp"
        with replacing(folder / image) as path:
            path.write_bytes(page.picture)
        lines += [json.dumps(one, ensure_ascii=False) + "\n" for one in records(page, image)]
    write_text(folder / "records.jsonl", "".join(lines))
    with replacing(folder / "contact_sheet.png") as path:
        show(pages[:SHOWN]).save(path)
    return {"out": str(folder), "pages": len(pages), "questions": len(lines), "packs": [str(path) for path in packs]}


def show(pages: Sequence[DrawnPage]) -> Image.Image:
    """A contact sheet: every page with its first question's boxes, answer red and context blue."""
    tiles, captions = [], []
    for page in pages:
        image = Image.open(io.BytesIO(page.picture)).convert("RGB")
        pen, question = ImageDraw.Draw(image), page.questions[0]
        for boxes, color in ((question.context, "#06c"), (question.boxes, "#d00")):
            for box in boxes.tolist():
                pen.rectangle(box, outline=color, width=3)
        tiles.append(ImageOps.pad(image, (640, 640), color="#888"))
        captions.append(f"{question.text}\n{question.answer}")
    return contact_sheet(tiles, captions)


def check_order(order: Order) -> None:
    if order.n < 1:
        raise InputError(f"--n {order.n} makes no page; give at least 1")
    if order.split not in SPLITS:
        raise InputError(f"--split {order.split!r} is unknown; take one of {', '.join(SPLITS)}")
    for name in order.names:
        if name not in FAMILIES:
            raise InputError(f"--families {name!r} is unknown; take some of {', '.join(FAMILIES)}")
