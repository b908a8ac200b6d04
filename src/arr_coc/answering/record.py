"""Record what was asked and answered, one JSON object a line, in a file of the user's own.

Eye.from_pretrained("mini", record="asked.jsonl")     or: arr-coc ask … --record asked.jsonl

`arr-coc train scorer --data asked.jsonl` learns from the lines whose answer the user has marked as right
(`"judged": "right"`).
"""

from __future__ import annotations

import json
import os
import zlib
from functools import partial
from pathlib import Path

import numpy as np

from ..core.answer import Answer
from ..core.errors import InputError, shown
from ..core.folders import replacing
from ..core.values import Allocation
from ..pictures.load import Picture

# Regions seen in full detail; an answer that needed more of them says little about where to look.
MOST_SEEN = 256


class Record:
    """A file of records. Each line is one write, so several processes may share the file."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        if not isinstance(path, str | os.PathLike) or Path(path).suffix != ".jsonl" or os.path.isdir(path):
            raise InputError(f"record must be the path of a .jsonl file, got {shown(path)}")
        self.path = Path(path)
        if not os.path.isdir(self.path.parent):
            raise InputError(f"cannot record to {self.path}: the folder {self.path.parent} does not exist; create it")

    def add(self, answer: Answer, query: str, picture: Picture, model: str) -> None:
        """Append one answer to the record."""
        entry = {
            "source": "record",
            "image": self._image(picture),
            "query": query,
            "answer": answer.text,
            "judged": None,
            "model": model,
            "uncertainty": round(answer.uncertainty, 4),
            "tokens": answer.tokens,
            "full": answer.full,
            "seen": seen_boxes(answer.allocation),
            "notes": list(answer.notes),
            "ways": {way: dict(one) for way, one in answer.allocation.ways.items()},
            "tensions": dict(answer.allocation.tensions),
        }
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
        try:
            with open(self.path, "ab", buffering=0, opener=partial(os.open, mode=0o600)) as file:
                file.write(line)
        except OSError as error:
            raise InputError(f"cannot record to {self.path} ({error.strerror}); choose another file") from error

    def _image(self, picture: Picture) -> str:
        """Keep the picture beside the records."""
        from PIL import Image

        name = f"{zlib.crc32(picture.pixels.tobytes()):08x}-{picture.width}x{picture.height}.png"
        path = self.path.with_suffix(".pictures") / name
        if not os.path.isfile(path):
            with replacing(path) as temporary:
                Image.fromarray(picture.pixels).save(temporary)
        return f"{path.parent.name}/{path.name}"


def seen_boxes(allocation: Allocation) -> list[list[float]]:
    """List the cells seen in full detail, x0, y0, x1, y1 in 0–1; none where that is most of the picture."""
    fine = allocation.boxes[allocation.levels == 0].astype(float)
    if len(fine) > min(MOST_SEEN, allocation.full // 2):
        return []
    top, left, height, width = fine.T
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    return np.round(np.stack([left, top, left + width, top + height], 1) / scale, 5).tolist()
