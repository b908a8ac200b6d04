"""What keeps a run of `train_hypotheses` honest when it is stopped and gone on with: whose weights a folder belongs to,
and which rounds of the measurement are done."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ...errors import InputError
from ...files import replacing, write_json
from .measure import Measuring, Round
from .rivals import Rivals

BEGUN, ROUNDS = "begun.json", "rounds.json"
WEIGHT_FILES = "*.safetensors"


def fingerprint(*folders: Path) -> str:
    """Of all weights in these folders: other weights, another fingerprint."""
    digest = hashlib.sha256()
    for folder in folders:
        for path in sorted(folder.rglob(WEIGHT_FILES)):
            digest.update(str(path.relative_to(folder)).encode())
            with path.open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def check_begun(folder: Path, reader: Path, scorer: Path) -> None:
    """A folder goes on with the reader and the scorer it began with: parts trained beside others cannot be compared."""
    own = {"reader": fingerprint(reader), "scorer": fingerprint(scorer)}
    path = folder / BEGUN
    if path.is_file():
        begun = json.loads(path.read_text(encoding="utf-8"))
        for name, value in own.items():
            if begun.get(name) != value:
                raise InputError(f"{folder} holds a run that began with another {name}; give a new --folder")
    else:
        write_json(path, own)


@dataclass(frozen=True)
class RoundsKept:
    """The finished rounds in a file, valid for one measurement (plan, powers, weights) and no other."""

    path: Path
    key: dict[str, Any]

    @classmethod
    def of(cls, folder: Path, plan: Measuring, rivals: Rivals, weights: str) -> RoundsKept:
        # How long it may take and how much fits into memory at once change no number; the size of a round does.
        pictures = {name: value for name, value in asdict(plan).items() if name not in ("seconds", "large_at_once")}
        key = {"plan": pictures, "powers": rivals.powers, "odds": sorted(rivals.odds), "weights": weights}
        return cls(folder / ROUNDS, json.loads(json.dumps(key)))

    def load(self) -> list[Round]:
        """Those of this measurement; none where the file is of another, or is not there."""
        if not self.path.is_file():
            return []
        found = json.loads(self.path.read_text(encoding="utf-8"))
        return found["rounds"] if found["key"] == self.key else []

    def save(self, rounds: Sequence[Round]) -> None:
        with replacing(self.path) as temporary:
            temporary.write_text(json.dumps({"key": self.key, "rounds": list(rounds)}), encoding="utf-8")
