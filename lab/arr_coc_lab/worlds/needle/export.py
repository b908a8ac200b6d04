"""Needle World on disk: PNG pictures, `records.jsonl` and a contact sheet."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont

from arr_coc.core.folders import replacing, write_text
from arr_coc.core.runs import check_folder

from .batch import NeedleBatch
from .difficulty import Difficulty
from .families import FAMILIES
from .renderer import render

AT_ONCE = 64


def record(name: str, source: str, image: str, size: tuple[int, int]) -> dict[str, object]:
    """Return the fields of every record besides the question. size: width, height."""
    about: dict[str, object] = {"id": name, "source": source, "image": image, "w": size[0], "h": size[1]}
    return about | {"box_kind": "gold", "any_of": False}


def rounded(boxes: np.ndarray) -> list[list[float]]:
    """Convert boxes (N, 4) for JSON."""
    return np.asarray(boxes, np.float64).round(5).tolist()


def records(batch: NeedleBatch) -> list[dict[str, object]]:
    """Return one JSON-ready record per picture; boxes are x0 y0 x1 y1 in 0–1."""
    size, batch = (batch.pictures.shape[-1], batch.pictures.shape[-2]), batch.to("cpu")
    result: list[dict[str, object]] = []
    for row, number in enumerate(batch.index.tolist()):
        name = f"{batch.family}-{batch.split}-{batch.seed}-{number:06d}"
        boxes, context = batch.boxes[row][batch.box_mask[row]], batch.ctx_boxes[row][batch.ctx_mask[row]]
        result.append(
            record(name, f"needle/{batch.family}", f"img/{name}.png", size)
            | {"query": batch.questions[row], "answer": batch.answers[row]}
            | {"boxes": rounded(boxes.numpy()), "ctx_boxes": rounded(context.numpy())}
            | {"qtype": batch.task_names[int(batch.tasks[row])]}
        )
    return result


def begin(folder: Path) -> None:
    """Remove old records: until the new ones are there, no reader takes old ones for those of the new pictures."""
    check_folder(folder)
    (folder / "records.jsonl").unlink(missing_ok=True)


def write_records(folder: Path, records: Sequence[Mapping[str, object]]) -> None:
    write_text(folder / "records.jsonl", "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in records))


def picture(batch: NeedleBatch, row: int) -> Image.Image:
    """Convert one picture of a batch for PIL."""
    return Image.fromarray(batch.pictures[row].permute(1, 2, 0).cpu().numpy())


def contact_sheet(pictures: list[Image.Image], captions: list[str], columns: int = 4, tile: int = 320) -> Image.Image:
    """Draw pictures side by side, each over its caption of one or two lines."""
    columns = min(columns, len(pictures))
    height = max(round(image.height * tile / image.width) for image in pictures)
    font, gap, line = ImageFont.load_default(13), 10, 17
    rows = -(-len(pictures) // columns)
    step_y = height + 2 * line + gap
    sheet = Image.new("RGB", (gap + columns * (tile + gap), gap + rows * step_y), "white")
    pen = ImageDraw.Draw(sheet)
    for index, (image, caption) in enumerate(zip(pictures, captions, strict=True)):
        x, y = gap + index % columns * (tile + gap), gap + index // columns * step_y
        small = image.resize((tile, round(image.height * tile / image.width)), Image.Resampling.LANCZOS)
        sheet.paste(small, (x, y))
        for number, text in enumerate(caption.split("\n")[:2]):
            pen.text((x, y + height + 2 + number * line), text, fill=(20, 20, 20), font=font)
    return sheet


def write_dataset(
    family: str,
    numbers: range,
    seed: int,
    out: str | Path,
    size: tuple[int, int] = (512, 512),
    split: str = "train",
    difficulty: Difficulty | str | None = None,
    device: torch.device | str = "cpu",
) -> list[dict[str, object]]:
    """Write `img/*.png`, `records.jsonl` and `contact_sheet.png` (of the first 16) under `out`; return the records.

    family: its name, or "all": the pictures of these numbers of each."""
    folder = Path(out)
    begin(folder)
    written: list[dict[str, object]] = []
    shown: list[Image.Image] = []
    pieces = [numbers[first : first + AT_ONCE] for first in range(0, len(numbers), AT_ONCE)]
    for kind, piece in [(kind, piece) for kind in (FAMILIES if family == "all" else (family,)) for piece in pieces]:
        batch = render(kind, len(piece), size, seed, split, difficulty, device, piece.start)
        entries = records(batch)
        for row, entry in enumerate(entries):
            image = picture(batch, row)
            with replacing(folder / str(entry["image"])) as path:
                image.save(path)
            if len(shown) < 16:
                shown.append(image)
        written += entries
    write_records(folder, written)
    captions = [f"{entry['query']}\n{entry['answer']}" for entry in written[: len(shown)]]
    with replacing(folder / "contact_sheet.png") as path:
        contact_sheet(shown, captions).save(path)
    return written
