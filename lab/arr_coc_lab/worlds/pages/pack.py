"""Pages packed into small files for a machine that has no browser: WebP pictures and compact arrays.

A shard is MAGIC, the length of its notes (8 bytes), the notes (xz), then all pictures end to end. The notes are a JSON
line (strings) followed by arrays of whole numbers. Boxes are stored as differences, which are mostly zero: a character
begins where the one before it ends and is as high as its word.
"""

from __future__ import annotations

import io
import json
import lzma
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing
from arr_coc.core.values import JsonObject

from .page import DrawnPage, DrawnQuestion

MAGIC = b"ARRPAGE1"
SHARD_BYTES = 15_000_000


def write_pack(path: str | Path, pages: Sequence[DrawnPage]) -> None:
    """Write one shard."""
    header = {
        "pages": [[p.name, p.family, p.layout, p.split, p.width, p.height, len(p.picture)] for p in pages],
        "words": [" ".join(p.words) for p in pages],
        "questions": [[[q.kind, q.text, q.answer, len(q.boxes), len(q.context)] for q in p.questions] for p in pages],
    }
    words = _joined(p.word_boxes for p in pages)
    lengths = np.array([len(word) for p in pages for word in p.words], dtype=np.int64)
    asked = _joined(boxes for p in pages for q in p.questions for boxes in (q.boxes, q.context))
    arrays = [
        _differences(words),
        _char_differences(_joined(p.char_boxes for p in pages), words, lengths),
        _differences(asked),
    ]
    line = json.dumps(header | {"rows": [len(a) for a in arrays]}, ensure_ascii=False, separators=(",", ":"))
    # One column after the other, as two-byte numbers: equal neighbours pack best.
    raw = line.encode() + b"\n" + b"".join(np.ascontiguousarray(a.T.astype("<i2")).tobytes() for a in arrays)
    notes = lzma.compress(raw, preset=6)
    with replacing(path) as temporary, temporary.open("wb") as file:
        file.write(MAGIC + len(notes).to_bytes(8, "little") + notes)
        for page in pages:
            file.write(page.picture)


def write_shards(folder: str | Path, stem: str, pages: Iterable[DrawnPage], limit: int = SHARD_BYTES) -> list[Path]:
    """Write `stem`-00.bin, `stem`-01.bin, …, each below `limit` bytes with room for its notes."""
    shards: list[list[DrawnPage]] = [[]]
    size = 0
    for page in pages:
        size += len(page.picture) + 6 * len(page.char_boxes) + 200 * len(page.questions)
        if shards[-1] and size > limit:
            shards.append([])
            size = len(page.picture)
        shards[-1].append(page)
    paths = [Path(folder) / f"{stem}-{number:02d}.bin" for number in range(len(shards))]
    for path, shard in zip(paths, shards, strict=True):
        write_pack(path, shard)
    return paths


def read_pack(paths: str | Path | Iterable[str | Path]) -> list[DrawnPage]:
    """The pages of one shard or of several, in order. Pictures stay WebP; `decoded` opens them."""
    if isinstance(paths, str | Path):
        return _read_one(Path(paths))
    with ThreadPoolExecutor() as pool:
        return [page for pages in pool.map(_read_one, map(Path, paths)) for page in pages]


def decoded(pages: Sequence[DrawnPage], workers: int = 16) -> Iterator[np.ndarray]:
    """(H, W, 3) uint8 pictures of pages, opened side by side."""
    with ThreadPoolExecutor(workers) as pool:
        yield from pool.map(picture_of, pages)


def picture_of(page: DrawnPage) -> np.ndarray:
    """(H, W, 3) uint8."""
    from PIL import Image

    return np.array(Image.open(io.BytesIO(page.picture)).convert("RGB"))


def _read_one(path: Path) -> list[DrawnPage]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(
            f"cannot read the pack {path} ({error.strerror}); write one with arr-coc pages --pack"
        ) from error
    if not data.startswith(MAGIC):
        raise InputError(f"{path} is not a pack of pages; write one with arr-coc pages --pack")
    try:
        end = 16 + int.from_bytes(data[8:16], "little")
        line, _, raw = lzma.decompress(data[16:end]).partition(b"\n")
        return _pages(json.loads(line), raw, data, end)
    except (lzma.LZMAError, ValueError, IndexError) as error:
        raise InputError(f"the pack {path} is damaged ({error}); write it again with arr-coc pages --pack") from error


def _pages(header: JsonObject, raw: bytes, data: bytes, at: int) -> list[DrawnPage]:
    arrays, start = [], 0
    for rows in header["rows"]:
        flat = np.frombuffer(raw, "<i2", rows * 4, start)
        arrays.append(flat.reshape(4, rows).T.astype(np.int64))
        start += rows * 8
    texts = [line.split(" ") if line else [] for line in header["words"]]
    lengths = np.array([len(word) for words in texts for word in words], dtype=np.int64)
    words, asked = _summed(arrays[0]), _summed(arrays[2]).astype(np.uint16)
    chars = _char_boxes(arrays[1], words, lengths).astype(np.uint16)
    words = words.astype(np.uint16)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    result, word, box = [], 0, 0
    for entry, page_words, questions in zip(header["pages"], texts, header["questions"], strict=True):
        *about, size = entry
        about_page = []
        for kind, text, answer, n, m in questions:
            about_page.append(DrawnQuestion(kind, text, answer, asked[box : box + n], asked[box + n : box + n + m]))
            box += n + m
        after = word + len(page_words)
        char_boxes = chars[ends[word] : ends[after]]
        result.append(DrawnPage(*about, data[at : at + size], page_words, words[word:after], char_boxes, about_page))
        word, at = after, at + size
    return result


def _joined(boxes: Iterable[np.ndarray]) -> np.ndarray:
    """(N, 4) int64 of all."""
    held = [np.asarray(entry, dtype=np.int64).reshape(-1, 4) for entry in boxes]
    return np.concatenate([np.zeros((0, 4), np.int64), *held])


def _differences(boxes: np.ndarray) -> np.ndarray:
    """(N, 4) corners → steps of the corner from box to box, width and height."""
    corners = np.diff(boxes[:, :2], axis=0, prepend=0)
    return np.concatenate([corners, boxes[:, 2:] - boxes[:, :2]], axis=1)


def _summed(steps: np.ndarray) -> np.ndarray:
    corners = np.cumsum(steps[:, :2], axis=0)
    return np.concatenate([corners, corners + steps[:, 2:]], axis=1)


def _starts(lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(word of every character, first character of that word)."""
    owner = np.repeat(np.arange(len(lengths)), lengths)
    return owner, (np.cumsum(lengths) - lengths)[owner]


def _char_differences(chars: np.ndarray, words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """(C, 4): gap to the character before (or the word's left edge), width, offsets to the word's top and height."""
    owner, first = _starts(lengths)
    before = np.concatenate([[0], chars[:-1, 2]]) if len(chars) else np.zeros(0, np.int64)
    left = np.where(np.arange(len(chars)) == first, words[owner, 0], before)
    height = (words[:, 3] - words[:, 1])[owner]
    return np.stack(
        [
            chars[:, 0] - left,
            chars[:, 2] - chars[:, 0],
            chars[:, 1] - words[owner, 1],
            chars[:, 3] - chars[:, 1] - height,
        ],
        axis=1,
    )


def _char_boxes(steps: np.ndarray, words: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """`_char_differences` undone."""
    owner, first = _starts(lengths)
    if not len(owner):
        return np.zeros((0, 4), np.int64)
    right = np.cumsum(steps[:, 0] + steps[:, 1])
    right += words[owner, 0] - np.concatenate([[0], right])[first]
    top = words[owner, 1] + steps[:, 2]
    height = (words[:, 3] - words[:, 1])[owner] + steps[:, 3]
    return np.stack([right - steps[:, 1], top, right, top + height], axis=1)
