"""What was asked, decided and judged, in a file of the user's own: off unless a file is named, and it never leaves it.

eye = Eye.from_pretrained("mini", record="feedback.jsonl")     or: arr-coc ask … --record feedback.jsonl
answer = eye.set_image("street.png").ask("What does the red sign say?")
eye.record.judge("right")                                      or "wrong", or "better" with boxes=[[x0, y0, x1, y1]]

One JSON object a line, each appended by a single write, so that several processes may share the file and a killed one
leaves no half line before another's. A judgement is a line of its own that names the record it judges. `arr-coc train
scorer --data feedback.jsonl` learns from it: from the better place, and from what was seen where the answer was right.
"""

from __future__ import annotations

import json
import os
import secrets
import zlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ..core.checks import shown
from ..core.errors import InputError
from ..core.files import replacing
from ..core.values import Allocation, Answer, JsonObject
from ..pictures.load import Picture
from ..pictures.pdf import is_pdf

JUDGEMENTS = ("right", "wrong", "better")
# Failures are counted among so many judgements, the last ones; as many as `arousal` counts as all.
RECENT = 10
RECORDED = "recorded as "
# Of what was seen finely; an answer that needed more cells than this says little about where to look.
MOST_SEEN = 256


@dataclass
class Feedback:
    """The file of records. last: the name of the record that was written last by this object."""

    path: Path
    last: str = ""
    _read: int = field(default=0, repr=False)
    _judged: deque[str] = field(default_factory=lambda: deque(maxlen=RECENT), repr=False)

    def __post_init__(self) -> None:
        self.path = Path(self.path)
        if os.path.isdir(self.path) or self.path.suffix != ".jsonl":
            raise InputError(f"cannot record to {self.path}: name a file that ends in .jsonl")
        if not os.path.isdir(self.path.parent):
            raise InputError(f"cannot record to {self.path}: there is no folder {self.path.parent}; make it first")

    @classmethod
    def of(cls, value: Feedback | str | os.PathLike[str] | None) -> Feedback | None:
        """What `record=` stands for."""
        if not isinstance(value, Feedback | str | os.PathLike | None):
            raise InputError(f"record= is the path of a file that ends in .jsonl, got {shown(value)}")
        return value if value is None or isinstance(value, Feedback) else cls(Path(value))

    def noted(self, answer: Answer, query: str, picture: Picture, *, place: object = None, model: str = "") -> Answer:
        """Append what was asked and decided; the answer then says by which name. place: the picture's file, where it
        has one; others are kept beside the records."""
        self.last, allocation = secrets.token_hex(6), answer.allocation
        entry = {
            "id": self.last,
            "source": "feedback",
            "image": self._image(picture, place),
            "query": query,
            "answer": answer.text,
            "judged": None,
            "model": model,
            "uncertainty": round(answer.uncertainty, 4),
            "tokens": answer.tokens,
            "full": answer.full,
            "strategy": allocation.strategy,
            "seen": seen_boxes(allocation),
            "notes": list(answer.notes),
        }
        self._append(entry)
        return replace(answer, notes=(*answer.notes, RECORDED + self.last))

    def judge(
        self, judged: str, record: str | None = None, *, boxes: Sequence[Sequence[float]] = (), answer: str = ""
    ) -> None:
        """Say of a record, by its name (else the last one in the file), whether its answer was right. boxes: the better
        place, x0, y0, x1, y1 in 0–1 of the picture. answer: what the right one would have been."""
        if judged not in JUDGEMENTS:
            raise InputError(f"judgement {judged!r} is unknown; choose from {', '.join(JUDGEMENTS)}")
        try:
            given = np.array(list(boxes), dtype=float).reshape(-1, 4)
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"a better place is x0, y0, x1, y1 in 0–1, got {shown(boxes)}") from error
        outside = not ((given >= 0) & (given <= 1)).all() or (given[:, 2:] <= given[:, :2]).any()
        if outside or (judged == "better") is not (len(given) > 0):
            raise InputError("a better place is x0, y0, x1, y1 in 0–1, x0 < x1, y0 < y1; others have none")
        known = [entry["id"] for entry in entries_of(self.path) if "id" in entry]
        name = record or self.last or (known[-1] if known else "")
        if name not in known:
            raise InputError(f"{self.path} holds no record {name!r}" + (f"; the last is {known[-1]}" if known else ""))
        entry: dict[str, object] = {"judges": name, "judged": judged}
        entry |= {"boxes": given.tolist()} if len(given) else {}
        self._append(entry | ({"right_answer": answer} if answer else {}))

    def failures(self) -> int:
        """How many of the last ten judgements say wrong, or that another place was better. Only what was added to the
        file since the last call is read."""
        if os.path.isfile(self.path):
            with self.path.open("rb") as file:
                file.seek(self._read)
                added = file.read()
            whole = added[: added.rfind(b"\n") + 1]
            self._read += len(whole)
            self._judged.extend(entry["judged"] for entry in _entries(whole) if "judges" in entry)
        return sum(judged != "right" for judged in self._judged)

    def _image(self, picture: Picture, place: object) -> str:
        """The path of the picture; one that came from no file of its own is kept beside the records."""
        if isinstance(place, str | os.PathLike) and os.path.isfile(place) and not is_pdf(place):
            return str(Path(place).resolve())
        from PIL import Image

        name = f"{zlib.crc32(picture.pixels.tobytes()):08x}-{picture.width}x{picture.height}.png"
        kept = self.path.with_suffix(".pictures") / name
        if not os.path.isfile(kept):
            with replacing(kept) as temporary:
                Image.fromarray(picture.pixels).save(temporary)
        return f"{kept.parent.name}/{kept.name}"

    def _append(self, entry: Mapping[str, object]) -> None:
        line = (json.dumps(entry, ensure_ascii=False) + "\n").encode()
        try:
            # Windows would write two characters for the end of a line, unless told that these are bytes.
            binary = getattr(os, "O_BINARY", 0)
            handle = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | binary, 0o600)
            try:
                os.write(handle, line)
            finally:
                os.close(handle)
        except OSError as error:
            raise InputError(f"cannot record to {self.path} ({error.strerror}); name another file") from error


def name_of(answer: Answer) -> str:
    """The name under which an answer was recorded; "" where it was not."""
    names = [note.removeprefix(RECORDED) for note in answer.notes if note.startswith(RECORDED)]
    return names[-1] if names else ""


def place_of(text: str) -> list[list[float]]:
    """A place as it is typed, "x0,y0,x1,y1" in 0–1, as boxes; none where nothing is typed."""
    try:
        sides = [float(side) for side in text.split(",")] if text.strip() else []
    except ValueError:
        sides = [0.0]
    if len(sides) not in (0, 4):
        raise InputError(f"{shown(text)} is no place; give x0,y0,x1,y1 in 0–1 of the picture")
    return [sides] if sides else []


def seen_boxes(allocation: Allocation) -> list[list[float]]:
    """Cells that were seen at level 0, x0, y0, x1, y1 in 0–1; none where that is most of the picture."""
    fine = allocation.boxes[allocation.levels == 0].astype(float)
    if len(fine) > min(MOST_SEEN, allocation.full // 2):
        return []
    top, left, height, width = fine.T
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    return np.round(np.stack([left, top, left + width, top + height], 1) / scale, 5).tolist()


def entries_of(path: Path) -> list[dict[str, object]]:
    """Every line that can be read."""
    return list(_entries(path.read_bytes())) if os.path.isfile(path) else []


def _entries(raw: bytes) -> Iterator[JsonObject]:
    for line in raw.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:  # a line of which the disk took half
            continue
        if isinstance(entry, dict):
            yield entry
