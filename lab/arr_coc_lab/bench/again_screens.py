"""`bench again --screens`: the steps of an agent at one screen, asked one by one and seen one after the other.

Work is counted as it is done: every run of the tower and of the language model is watched, but for single tokens, which
are those of answers. The map of a question is the same for all ways, and is not counted here.
"""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from arr_coc.knowing.registry import relevance_for
from arr_coc.knowing.scene import Scene

from arr_coc.attending.overlay import OVERVIEW_FIRST, RASTER
from arr_coc.core.errors import InputError
from arr_coc.core.files import read_text
from arr_coc.core.folders import MINI, part_folder
from arr_coc.core.kept import ByteStore
from arr_coc.core.values import JsonObject
from arr_coc.pictures.load import load_picture

from ..statistics import paired, proportion, resampled
from .machine import machine_facts
from .options import AgainOptions
from .peers.cost import language_operations, tower_operations
from .report import Quantity, Report, Table
from .run import BenchRun
from .suite import suite
from .vqa import anls, exact

ONE, SEEN = "single asks", "seen one after the other"
NEW_TOKENS = 32


class CountedSession:
    """A graph of the model whose runs are noted: rows that go in, and columns of the cache before them."""

    def __init__(self, session: Any, rows: str) -> None:
        self.session, self.rows = session, rows
        self.runs: list[tuple[int, int]] = []

    def run(self, names: object, feed: dict[str, np.ndarray]) -> list[np.ndarray]:
        self.runs.append((len(feed[self.rows]), feed["past0"].shape[2] if "past0" in feed else 0))
        return self.session.run(names, feed)


class CountedEye:
    """An eye without torch whose work is counted. leaves, read, operations: so far, the last in GFLOP."""

    def __init__(self, eye: Any, config: Any, memory: int) -> None:
        self.config, self.eye = config, copy(eye)
        self.eye.memory = ByteStore(memory)
        self.eye.engine = copy(eye.engine)
        self.eye.engine.reader = reader = copy(eye.engine.reader)
        reader.tower, reader.speaker = CountedSession(reader.tower, "patches"), CountedSession(reader.speaker, "states")
        self.tower, self.speaker = reader.tower, reader.speaker

    @property
    def prompts(self) -> list[tuple[int, int]]:
        return [run for run in self.speaker.runs if run[0] > 1]

    @property
    def leaves(self) -> int:
        return sum(rows for rows, _ in self.tower.runs) // self.config.vision_config.spatial_merge_size**2

    @property
    def read(self) -> int:
        return sum(rows for rows, _ in self.prompts)

    @property
    def operations(self) -> float:
        vision, text = self.config.vision_config, self.config.text_config
        tower = sum(tower_operations(vision, [rows] * (vision.depth + 1)) for rows, _ in self.tower.runs)
        layers = text.num_hidden_layers
        return (tower + sum(language_operations(text, [rows] * layers, past) for rows, past in self.prompts)) / 1e9


def steps_of(folder: Path) -> dict[str, list[JsonObject]]:
    """The records of every picture of a loop, in order."""
    try:
        rows = [json.loads(line) for line in read_text(folder / "records.jsonl").splitlines() if line.strip()]
        found: dict[str, list[dict[str, object]]] = {}
        for row in sorted(rows, key=lambda row: row["step"]):
            found.setdefault(row["image"], []).append(row)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder} is no folder of arr-coc pages --screens ({error}); draw one") from error
    return found


def measure_screens(options: AgainOptions, run: BenchRun, keep: float) -> Report:
    """All steps by both ways: accuracy, and the work of tower and prompt."""
    from transformers import AutoConfig

    from arr_coc.answering.eye import Eye, beside
    from arr_coc.answering.light import LightEngine

    if options.device != "cpu":
        raise InputError("--screens counts the runs of the engine without torch; leave --device out")
    assert options.screens is not None
    steps, folder = steps_of(options.screens), part_folder(MINI, options.weights)
    model, config = Eye(LightEngine(folder), **beside(folder)), AutoConfig.from_pretrained(folder)
    eyes = {ONE: CountedEye(model, config, 0), SEEN: CountedEye(model, config, 1 << 30)}
    rows: dict[str, list[tuple[float, float]]] = {way: [] for way in eyes}
    with run.progress(len(steps), "looking") as advance:
        for image, asked in steps.items():
            pixels = load_picture(options.screens / image).pixels
            view = model.view(pixels)
            scene = Scene(view.tensors["canvas"], scorer=model.scorer, kept=view.kept)
            maps = [relevance_for("auto", scene, one["query"]) for one in asked]
            for way, counted in eyes.items():
                eye = counted.eye.see(pixels) if way == SEEN else counted.eye.set_image(pixels)
                for one, relevance in zip(asked, maps, strict=True):
                    how: dict[str, object] = {"hints": "none", "scale": 1, "max_new_tokens": NEW_TOKENS}
                    how |= {"relevance": relevance, "order": RASTER if way == ONE else OVERVIEW_FIRST}
                    said = eye.ask(one["query"], keep=keep, **how).text
                    rows[way].append((exact(said, [one["answer"]]), anls(said, [one["answer"]])))
            advance()
            run.save_sometimes(lambda: report_of(options, eyes, rows, len(steps)).document)
    return report_of(options, eyes, rows, len(steps))


def report_of(
    options: AgainOptions, eyes: dict[str, CountedEye], rows: dict[str, list[tuple[float, float]]], steps: int
) -> Report:
    """What was found so far."""
    facts = {"steps": str(steps), "questions": str(len(rows[ONE])), "of tokens": options.keep}
    facts |= {"model": "mini, not trained for it", **machine_facts(("onnxruntime",))}
    table = screens_table(eyes, {way: np.array(found) for way, found in rows.items()}, facts)
    share, bar = eyes[SEEN].operations / eyes[ONE].operations, suite("again")["bars"]["screens"]
    line = f"a screen seen step by step costs {share:.2f} of single asks in tower and prompt, promised {bar:g}: "
    line += "kept" if share <= bar else "missed"
    document = {"schema": 1, "tables": [table.to_json()], "lines": [line]}
    return Report(document, [table], facts, lines=[line], page=[table, f"- {line}"], name="screens", mark="screens")


def screens_table(eyes: dict[str, CountedEye], rows: dict[str, np.ndarray], facts: dict[str, str]) -> Table:
    lines = []
    for way, counted in eyes.items():
        right, near = rows[way].T
        lines.append(
            {
                "way": way,
                "exact": Quantity.percent(proportion(right)),
                "anls": Quantity.percent(resampled(near)),
                "minus": None if way == ONE else Quantity.percent(paired(right, rows[ONE][:, 0])),
                "leaves": counted.leaves,
                "read": counted.read,
                "operations": counted.operations,
                "share": counted.operations / eyes[ONE].operations,
            }
        )
    return Table("A screen that hardly changes", suite("again")["screens"], tuple(lines), facts)
