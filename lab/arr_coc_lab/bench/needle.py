"""`bench needle`: exact match on Needle World by family, allocation and share of the tokens; calibration.

All systems see the same pictures, so differences are paired picture by picture.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from zlib import crc32

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.realizing.bundled import Calibration, model_folder

from ..train.allocations import tree_of
from ..train.evaluate import ASKED, MapScorer, answer_batch, calibration_row, evaluation_leaves, is_right, reading
from ..train.reader import read
from ..worlds.needle import render
from ..worlds.needle.batch import NeedleBatch
from .report import Report, Score, Table, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan, in_turn
from .suite import NeedleOptions, chosen_families

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from arr_coc.knowing.scorer.reading_scorer import ReadingScorer

    from ..train.evaluate import Generated

NUMBER, QUICK = 2048, 20
BATCH: Mapping[str, int] = {"cuda": 256, "cpu": 8}
SYSTEMS = ("uniform", "random", "shuffled", "scorer", "oracle")
KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
CELLS = (("full", 1.0), *((system, keep) for keep in KEEPS for system in SYSTEMS))
RIGHT = Score("right", "Exact match", baseline="scorer")


@dataclass(frozen=True)
class Weights:
    """mini and the scorer on one device, with the temperature that calibrates mini's uncertainty."""

    mini: PreTrainedModel
    scorer: ReadingScorer
    temperature: float
    name: str

    @classmethod
    def load(cls, folder: Path | None = None, device: str = "cpu") -> Weights:
        """Load those of the package, or the folders `mini` and `scorer` that a training wrote into `folder`."""
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.disable_progress_bar()
        places = part_folder(MINI, folder), part_folder(SCORER, folder)
        model = Qwen3VLForConditionalGeneration.from_pretrained(model_folder(places[0]), dtype=torch.float32)
        scorer = load_scorer(places[1])
        heat = Calibration.beside(places[0]).temperature
        return cls(model.to(device).eval(), scorer.to(device), heat, digest(*places))

    @property
    def device(self) -> torch.device:
        return next(self.mini.parameters()).device

    def confidence(self, said: Generated) -> np.ndarray:
        """Return the confidence in each answer, (2, B): at temperature 1 and at the calibrated one."""
        return torch.stack([said.confidence(heat) for heat in (1.0, self.temperature)]).float().cpu().numpy()


def digest(*folders: Path) -> str:
    """Return a short digest of the weights, which links a table to the files it was measured with."""
    digested = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.glob("*.safetensors")):
        digested.update(path.read_bytes())
    return digested.hexdigest()[:12]


@cache
def loaded(folder: Path | None, device: str) -> Weights:
    """Load the weights, once in every process."""
    return Weights.load(folder, device)


def weights_name(folder: Path | None) -> str:
    return digest(part_folder(MINI, folder), part_folder(SCORER, folder))


def device_facts(device: str) -> dict[str, str]:
    """Describe the machine, and its GPU if there is one."""
    facts = machine_facts(("torch", "transformers"))
    return facts | ({"device": torch.cuda.get_device_name(device)} if device.startswith("cuda") else {})


@dataclass
class RememberedScores:
    """A scorer that reads each batch once for several allocations."""

    scorer: MapScorer
    _last: tuple[Tensor, Tensor] | None = field(default=None, repr=False)

    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        if self._last is None or self._last[0] is not pictures:
            self._last = pictures, self.scorer.score(pictures, question_ids)
        return self._last[1]


def chance_of(*names: object) -> torch.Generator:
    """Seed a generator for one cell of a table on one batch, independent of what ran before."""
    return torch.Generator().manual_seed(crc32(" ".join(map(str, names)).encode()))


def batch_jobs(families: Sequence[str], number: int, at_once: int, cells: Sequence[tuple[str, float]]) -> list[Job]:
    """List a job for each batch of pictures, families in turn, so that an interrupted run is balanced."""

    def job(family: str, start: int) -> Job:
        count = min(at_once, number - start)
        names = [f"{family} {one}" for one in range(start, start + count)]
        return Job((family, start, count), tuple(Key(name, *cell) for name in names for cell in cells))

    return list(in_turn([job(family, start) for start in range(0, number, at_once)] for family in families))


@dataclass(frozen=True)
class NeedleWork:
    """Read a batch of one family with every system still missing, in any process. A subclass may define other
    allocations and scores."""

    size: tuple[int, int]
    seed: int
    device: str
    weights: Path | None

    suite: ClassVar[str] = "needle"

    @torch.inference_mode()
    def __call__(self, what: tuple[str, int, int], wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        family, start, count = what
        weights, missing = loaded(self.weights, self.device), set(wanted)
        batch = render(family, count, self.size, self.seed, "test", device=weights.device, start=start)
        maps = self.maps(batch, weights)
        for cell in dict.fromkeys((key.system, key.keep) for key in wanted):
            leaves = self.leaves(cell, batch, maps, chance_of(self.seed, family, start, *cell))
            with reading(weights.mini):
                scores, extras = self.judged(cell, batch, leaves, maps, weights)
            for place in range(count):
                key = Key(f"{family} {start + place}", *cell)
                if key in missing:
                    own = {name: round(values[place], 4) for name, values in scores.items()}
                    more = {name: values[place] for name, values in extras.items()}
                    yield BenchRow(self.suite, *key, own, family, leaves.shape[1], None, more)

    def maps(self, batch: NeedleBatch, weights: Weights) -> Any:
        """Return the data that all systems share on a batch."""
        return RememberedScores(weights.scorer)

    def leaves(self, cell: tuple[str, float], batch: NeedleBatch, maps: Any, chance: torch.Generator) -> Tensor:
        return evaluation_leaves(*cell, batch, tree_of(self.size), maps, chance)

    def judged(
        self, cell: tuple[str, float], batch: NeedleBatch, leaves: Tensor, maps: Any, weights: Weights
    ) -> tuple[dict[str, list[float]], dict[str, list[list[float]]]]:
        """Return scores and extras, one value for each picture.

        Unless confidences are needed, the true answer is teacher forced: one pass that counts the same answers as right
        as greedy decoding does.
        """
        if cell not in ASKED:
            return {"right": read(weights.mini, batch, leaves).right.float().tolist()}, {}
        said = answer_batch(weights.mini, batch.pictures, batch.question_ids, leaves)
        right = is_right(said, batch.answer_ids).float().tolist()
        return {"right": right}, {"sure": weights.confidence(said).T.round(5).tolist()}


def plan(options: NeedleOptions) -> Plan:
    from ..cli.worlds import parse_size

    number, size = options.n or (QUICK if options.quick else NUMBER), parse_size(options.size)
    at_once = BATCH["cpu" if options.device == "cpu" else "cuda"]
    jobs = batch_jobs(chosen_families(options.family), number, at_once, CELLS)
    name = weights_name(options.weights)
    facts = {
        **device_facts(options.device),
        "weights": name,
        "pictures": f"{size[0]}×{size[1]}, split test (held-out seeds and typefaces), seed {options.seed}",
    }
    settings = {"weights": name, "size": list(size), "seed": options.seed, "at_once": at_once}
    work = NeedleWork(size, options.seed, options.device, options.weights)
    return Plan(jobs, work, lambda rows: report_of(rows, facts), settings)


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    return Report.of(rows, [RIGHT], facts, ("family", "allocation"), [calibration_table(rows)], compact=True)


def calibration_table(rows: Sequence[BenchRow]) -> Table:
    """Return the expected calibration error of the decoded cells, by family and for all families together."""
    lines = []
    for cell in ASKED:
        asked = [row for row in rows if (row.system, row.keep) == cell and "sure" in row.extras]
        groups = list(dict.fromkeys(row.group for row in asked))
        for group in [*groups, "all"] if asked else []:
            own = [row for row in asked if group in (row.group, "all")]
            before, after = np.array([row.extras["sure"] for row in own], dtype=float).T
            found = calibration_row((before, after), np.array([row.scores["right"] for row in own], dtype=bool))
            percents = {name: f"{100 * float(str(found[f'ece_{name}'])):.1f}" for name in ("before", "after", "chance")}
            lines.append({"group": group, "system": cell[0], "n": len(own), **percents})
    columns = {"group": "ECE, %", "system": "allocation", "n": "n", "before": "before", "after": "after"}
    return Table("Calibration by one temperature", {**columns, "chance": "by chance"}, lines)
