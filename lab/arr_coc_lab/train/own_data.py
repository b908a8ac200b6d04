"""Read, check and split your own records: image, question, answer, and optionally boxes or words.

Takes a folder with records.jsonl (as `needle` and `pages` write it), a .jsonl file, or a .parquet file (image: a path,
or the bytes of a picture). Paths are relative to the file. Boxes are x0, y0, x1, y1 in 0–1 of the picture. Unusable
records are reported once, with their lines, and skipped.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing, write_text
from arr_coc.core.runs import PARQUET, image_of, read_rows
from arr_coc.pictures.load import Picture, load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.words import Words, as_words
from arr_coc.texture.type_height import view_size

RECORDS = "records.jsonl"
SHOWN = 20  # maximum number of bad records to list
HELD = 256  # maximum number of decoded pictures in memory
# A box may exceed the picture by this much (rounding); more is an error, mostly pixels instead of shares.
ROUNDING = 0.005
THINNEST = 1e-5  # records are written with few digits; a box must not vanish when they are read again
MOST_MARKED = 0.9  # boxes over so much of a picture leave one class only
MOST_PLACES = 3  # an answer that occurs at more places does not show where to look
HELD_OUT = 0.2
NEEDED = {"boxes": "boxes", "outcomes": "answer", "words": "answer, and words (or OCR) among which it stands"}


@dataclass(frozen=True)
class OwnRecord:
    """A record. line: its number in the file. image: a path, or a picture's bytes. boxes, context: (K, 4) in 0–1, of
    the answer and of what identifies it. words: in any form of `as_words`. picture: a hash of its bytes."""

    line: int
    image: Path | bytes
    query: str
    answer: str = ""
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    context: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    words: Any = None
    picture: str = ""
    source: str = ""

    @property
    def pixels(self) -> np.ndarray:
        """Load the picture, (H, W, 3) uint8, at most as large as a scorer reads it."""
        return pixels_of(self.image)


class Bad(NamedTuple):
    line: int
    why: str


def tell_aside(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class OwnData:
    """The contents of a file: usable records, and the reasons why others are unusable."""

    path: Path
    records: tuple[OwnRecord, ...]
    bad: tuple[Bad, ...] = ()

    def tell(self, say: Callable[[str], None] = tell_aside) -> None:
        """Yield lines that report the bad records."""
        if self.bad:
            say(f"{self.path}: {len(self.bad)} of {len(self.bad) + len(self.records)} records are skipped")
            for line, why in self.bad[:SHOWN]:
                say(f"  line {line}: {why}")
            if len(self.bad) > SHOWN:
                say(f"  … and {len(self.bad) - SHOWN} more")


def entries(path: str | Path) -> Iterator[tuple[int, Any]]:
    """Yield (line, entry) of a folder or file; the entry is a mapping, or a `ValueError` if it is no JSON."""
    found = file_of(path)
    if found.suffix == PARQUET:
        for number, row in read_rows(found):
            yield number + 1, {name: value for name, value in row.items() if value is not None}
        return
    try:
        text = found.read_text(encoding="utf-8-sig")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read records from {found} ({reason})") from error
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip():
            try:
                yield number, json.loads(line)
            except ValueError as error:
                yield number, error


def file_of(path: str | Path) -> Path:
    """Return the file of records for a path: the file itself, or records.jsonl or a .parquet in a folder."""
    path = Path(path)
    if os.path.isdir(path):
        several = [path / RECORDS] if (path / RECORDS).is_file() else sorted(path.glob("*.parquet"))
        if len(several) != 1:
            raise InputError(f"{path} holds no {RECORDS} (and not one .parquet); give the file of records itself")
        return several[0]
    if not os.path.isfile(path):
        raise InputError(f"{path} does not exist; give a folder with {RECORDS}, a .jsonl or a .parquet file")
    if path.suffix not in (".jsonl", ".parquet"):
        raise InputError(f"{path} is neither .jsonl nor .parquet; give records as one of them")
    return path


def parse_record(number: int, entry: object, folder: Path) -> OwnRecord:
    """Convert an entry to a record, or raise `InputError` with the reason. Does not open the picture."""
    if not isinstance(entry, Mapping):
        raise InputError("not JSON" if isinstance(entry, ValueError) else f"a record is an object, not {entry!r:.40}")
    query, answer = (str(entry.get(name) or "").strip() for name in ("query", "answer"))
    words = entry.get("words")
    if not query:
        raise InputError("the question is empty")
    if any("\ud800" <= letter <= "\udfff" for letter in query + answer):
        raise InputError("the question or its answer holds half a character (a lone surrogate)")
    return OwnRecord(
        line=number,
        image=_image(entry.get("image"), folder),
        query=query,
        answer=answer,
        boxes=_boxes(entry.get("boxes"), "box"),
        context=_boxes(entry.get("ctx_boxes"), "box of the context"),
        words=folder / words if isinstance(words, str) else words,
        source=str(entry.get("source") or "own"),
    )


def _image(value: object, folder: Path) -> Path | bytes:
    found = image_of(value, folder)
    if found is None:
        raise InputError("the record names no picture (image)")
    if isinstance(found, Path) and not os.path.isfile(found):  # the name may be too long for a file
        raise InputError(f"there is no picture {str(value)[:200]}")
    return found


def _boxes(value: object, name: str) -> np.ndarray:
    """Return boxes (K, 4) float64; refuse those outside the picture."""
    try:
        boxes = np.array(value if value is not None else [], dtype=np.float64).reshape(-1, 4)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"a {name} must be four numbers x0, y0, x1, y1") from error
    if not np.isfinite(boxes).all() or (boxes < -ROUNDING).any() or (boxes > 1 + ROUNDING).any():
        raise InputError(f"a {name} lies outside the picture; give x0, y0, x1, y1 as shares of it, in 0–1")
    boxes = boxes.clip(0, 1)
    if (boxes[:, 2:] - boxes[:, :2] <= THINNEST).any():
        raise InputError(f"a {name} is empty; give x0 < x1 and y0 < y1")
    return boxes


@lru_cache(maxsize=HELD)
def pixels_of(image: Path | bytes) -> np.ndarray:
    """Load a picture at the size that the scorer's graph reads; the last ones are cached."""
    picture = load_picture(image)
    return np.ascontiguousarray(load_picture(picture, longest_side=max(view_size(picture.size))).pixels)


def ground_of(boxes: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Return the share of each cell, (rows, cols) float32, that boxes (K, 4) in 0–1 cover."""
    x0, y0, x1, y1 = boxes.reshape(-1, 4).T[:, :, None]
    left, top = np.arange(cols) / cols, np.arange(rows) / rows
    across = np.clip(np.minimum(x1, left + 1 / cols) - np.maximum(x0, left), 0, None) * cols
    down = np.clip(np.minimum(y1, top + 1 / rows) - np.maximum(y0, top), 0, None) * rows
    return np.minimum((down[:, :, None] * across[:, None, :]).sum(0), 1).astype(np.float32)


def found_places(words: Words, answer: str) -> list[np.ndarray]:
    """Return boxes (4,) of every run of words that spells the answer, ignoring case, spaces and marks at the ends."""
    wanted = spelt(answer)
    if not wanted:
        return []
    texts, places = [spelt(text) for text in words.texts], []
    for start, first in enumerate(texts):
        run = ""
        for stop in range(start, len(texts) if first and wanted.startswith(first) else start):
            run += texts[stop]
            if not wanted.startswith(run):
                break
            if run == wanted:
                part = words.boxes[start : stop + 1]
                places.append(np.concatenate([part[:, :2].min(0), part[:, 2:].max(0)]))
                break
    return places


def spelt(text: str) -> str:
    """Normalise the spelling of an answer: no spaces, no capitals, no marks at its ends."""
    return re.sub(r"^\W+|\W+$|\s+", "", text.lower())


def read_own(path: str | Path, source: str = "boxes", *, say: Callable[[str], None] = tell_aside) -> OwnData:
    """Return the usable records, and report the others once by `say`.

    source: what each needs: boxes; an answer ("outcomes"); or an answer and words that contain it ("words": those of
    the record, else by OCR), from which boxes are made."""
    file = file_of(path)
    several = list(entries(file))
    # OCR has one engine; otherwise pictures are decoded in parallel.
    with ThreadPoolExecutor(1 if source == "words" else None) as pool:
        checked = list(pool.map(lambda one: _checked(*one, file.parent, source), several))
    data = OwnData(
        Path(path),
        tuple(one for one in checked if isinstance(one, OwnRecord)),
        tuple(one for one in checked if isinstance(one, Bad)),
    )
    data.tell(say)
    if not data.records:
        raise InputError(
            f"{path} has no usable record (of {len(checked)}); each needs image, query and {NEEDED[source]}"
        )
    return data


def _checked(number: int, entry: object, folder: Path, source: str) -> OwnRecord | Bad:
    """Return the record, with its picture checked and boxes from its words, or the reason why it is unusable."""
    try:
        record = parse_record(number, entry, folder)
        raw = record.image if isinstance(record.image, bytes) else record.image.read_bytes()
        picture = load_picture(raw)
        record = replace(record, picture=hashlib.sha256(raw).hexdigest())
        if source == "words":
            record = _placed(record, picture)
        if source != "boxes" and not record.answer:
            raise InputError("the answer is empty")
        if source != "outcomes":
            _check_boxes(record)
    except (InputError, OSError) as error:
        return Bad(number, getattr(error, "strerror", None) or str(error).replace("the bytes given", "the picture"))
    return record


def _check_boxes(record: OwnRecord) -> None:
    if not len(record.boxes):
        raise InputError("it has no boxes")
    if ground_of(record.boxes, 32, 32).mean() > MOST_MARKED:
        raise InputError("one class only: its boxes mark the whole picture, so nothing tells where to look")


def _placed(record: OwnRecord, picture: Picture) -> OwnRecord:
    """Return the record with the boxes of the words that spell its answer."""
    words = ocr_words(picture.pixels) if record.words is None else as_words(record.words, picture.size)
    places = found_places(words, record.answer)
    if not places:
        raise InputError(f"its answer {record.answer!r:.40} stands nowhere among its {len(words)} words")
    if len(places) > MOST_PLACES:
        raise InputError(f"its answer {record.answer!r:.40} stands at {len(places)} places")
    return replace(record, boxes=np.stack(places).astype(np.float64), words=words)


def split_by_picture(
    records: Sequence[OwnRecord], share: float = HELD_OUT, seed: int = 0
) -> tuple[list[OwnRecord], list[OwnRecord]]:
    """Split into (training, held out): by the content of pictures, so that each is on one side only."""
    pictures = sorted({record.picture for record in records})
    if len(pictures) < 2:
        raise InputError(f"{len(pictures)} picture cannot be split into training and held-out ones; give 2")
    order = sorted(pictures, key=lambda one: hashlib.sha256(f"{seed} {one}".encode()).digest())
    apart = set(order[: min(len(order) - 1, max(1, round(share * len(order))))])
    return (
        [record for record in records if record.picture not in apart],
        [record for record in records if record.picture in apart],
    )


def write_records(path: Path, records: Iterable[OwnRecord]) -> None:
    """Write records as a .jsonl file for `read_own` and `bench real`; pictures stay where they are, those of a parquet
    file are written next to it."""
    lines = []
    for record in records:
        image = record.image
        if isinstance(image, bytes):
            image = path.parent / "img" / f"{record.picture[:16]}.png"
            with replacing(image) as temporary:
                Image.fromarray(load_picture(record.image).pixels).save(temporary)
        entry: dict[str, object] = {"source": record.source, "image": str(Path(image).resolve()), "query": record.query}
        entry |= {"answer": record.answer, "boxes": record.boxes.round(5).tolist()}
        lines.append(json.dumps(entry, ensure_ascii=False) + "\n")
    write_text(path, "".join(lines))
