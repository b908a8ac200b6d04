"""`bench pack`: what a model reads that nobody touched, from packed pictures and from what one does without them.

Every way shows pictures of at most as many tokens as the share allows, by the model's own processor; the question
stands behind them and nothing else, because the small model was trained on questions alone. The relevance is made once
for each question and used by all ways that need one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING
from zlib import crc32

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.looking import prepare
from arr_coc.packing.layout import PackPart, PackSheet
from arr_coc.packing.pack import PackPage, pack
from arr_coc.packing.prices.tables import TokenTable, table_for
from arr_coc.pictures.load import load_picture

from ..statistics import paired, proportion, ratio, resampled
from .answers import AnswerStore
from .machine import machine_facts
from .options import PackOptions
from .real import reading_questions
from .report import Quantity, Report, Table
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import FULL, Condition, Question, anls, conditions_at, exact
from .workers import in_turn

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

SUITE = suite("pack")
PACK, LARGER, COLLAGE, SMALLER, CENTRE, ZOOM, ATTACH = SUITE["ways"]
NEW_TOKENS = 48


class StockReader:
    """The bundled model by its own class: pictures and a question in, a text out. Nothing of ours is attached."""

    def __init__(self, device: str = "cpu", weights: Path | None = None) -> None:
        import torch
        from arr_coc.realizing.bundled import model_folder
        from arr_coc.realizing.qwen3_vl.processor import load_processor
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.disable_progress_bar()
        folder = model_folder(part_folder(MINI, weights))
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.model, self.processor = model.to(device).eval(), load_processor(folder)

    def say(self, pictures: Sequence[np.ndarray], question: str, new_tokens: int = NEW_TOKENS) -> tuple[str, int]:
        """What the model says, and the visual tokens of its prompt."""
        return self.say_all([pictures], question, new_tokens)[0]

    def say_all(
        self, prompts: Sequence[Sequence[np.ndarray]], question: str, new_tokens: int = NEW_TOKENS
    ) -> list[tuple[str, int]]:
        """The same of one question about several sets of pictures, in one batch."""
        import torch

        from .pointing import chat_inputs

        inputs = chat_inputs(self.processor, prompts, [question] * len(prompts)).to(self.model.device)
        with torch.inference_mode():
            said = self.model.generate(**inputs, max_new_tokens=new_tokens, do_sample=False)
        told = self.processor.tokenizer.batch_decode(said[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
        spent = (inputs["input_ids"] == self.model.config.image_token_id).sum(1).tolist()
        return [(text.strip(), count) for text, count in zip(told, spent, strict=True)]


# ---- what is shown ---------------------------------------------------------------------------------------------------


def smaller(page: PackPage, budget: int, table: TokenTable) -> list[np.ndarray]:
    """The whole picture, reduced."""
    return [one.pixels for one in pack(page.picture, "?", budget, model=table, layout="overview").pictures]


def grid_within(shape: tuple[int, int], budget: int) -> tuple[int, int]:
    """(rows, cols) of about a picture's shape, at most `budget` cells."""
    rows = max(1, min(budget, round((budget * shape[0] / shape[1]) ** 0.5)))
    return rows, max(1, budget // rows)


def crop_at(page: PackPage, middle: tuple[float, float], budget: int, table: TokenTable) -> np.ndarray:
    """Ground of the picture's own shape around a place (y, x), as large as it is, in at most so many tokens."""
    sides = [cells * table.cell for cells in grid_within(page.size, budget)]
    tall, wide = (min(side, whole) for side, whole in zip(sides, page.size, strict=True))
    y = int(min(max(0, middle[0] - tall / 2), page.size[0] - tall))
    x = int(min(max(0, middle[1] - wide / 2), page.size[1] - wide))
    size = max(table.cell, tall // table.cell * table.cell), max(table.cell, wide // table.cell * table.cell)
    sheet = PackSheet(page.picture.pixels, page.size)
    return sheet.picture(PackPart((y, x, tall, wide), size, "A"), size, table).pixels


def shown_by(way: str, page: PackPage, question: str, budget: int, relevance: np.ndarray) -> list[np.ndarray]:
    """The pictures that a way shows of a page."""
    table = table_for(MINI)
    if way == SMALLER:
        return smaller(page, budget, table)
    if way == CENTRE:
        return [crop_at(page, (page.size[0] / 2, page.size[1] / 2), budget, table)]
    if way == ZOOM:
        first = smaller(page, max(table.least, budget // 2), table)
        left = budget - table.tokens((first[0].shape[0], first[0].shape[1]))
        row, col = np.unravel_index(int(relevance.argmax()), relevance.shape)
        peak = ((row + 0.5) / relevance.shape[0] * page.size[0], (col + 0.5) / relevance.shape[1] * page.size[1])
        return [*first, crop_at(page, peak, max(table.least, left), table)]
    layout = "collage" if way == COLLAGE else "auto"
    pack_page = partial(pack, page.picture, question, budget, model=table, words=page.words, marks=False)
    scale = SUITE["larger"] if way == LARGER else "auto"
    return [one.pixels for one in pack_page(relevance=relevance, layout=layout, scale=scale).pictures]


def asked_of(
    reader: StockReader, eye: Eye, question: Question, conditions: Sequence[Condition], device: str = "cpu"
) -> Iterator[dict[str, object]]:
    """One row for each condition."""
    picture = load_picture(question.image)
    page = PackPage(picture)
    full = table_for(MINI).tokens(page.size)
    relevance = prepare(picture).look(question.bare, keep=0.25, device=device).relevance.map
    for keep in dict.fromkeys(condition.keep for condition in conditions):
        own = [condition for condition in conditions if condition.keep == keep]
        budget = max(1, int(keep * full + 1e-9))
        yield from answers_at(own, reader, eye, question, page, budget, np.asarray(relevance))


def answers_at(
    conditions: Sequence[Condition],
    reader: StockReader,
    eye: Eye,
    question: Question,
    page: PackPage,
    budget: int,
    relevance: np.ndarray,
) -> Iterator[dict[str, object]]:
    """Conditions of one budget; what the stock class reads is read in one batch, whose time is shared."""
    stock, answers = [one for one in conditions if one.way != ATTACH], {}
    started = perf_counter()
    if stock:
        shown = [
            [page.picture.pixels] if one.way == FULL else shown_by(one.way, page, question.bare, budget, relevance)
            for one in stock
        ]
        said = reader.say_all(shown, question.text)
        seconds = (perf_counter() - started) / len(stock)
        answers = {one: (*told, seconds) for one, told in zip(stock, said, strict=True)}
    for condition in conditions:
        started = perf_counter()
        if condition.way == ATTACH:
            ask = eye.set_image(page.picture).ask
            answer = ask(question.text, budget, relevance=relevance, max_new_tokens=NEW_TOKENS)
            answers[condition] = answer.text, answer.tokens, perf_counter() - started
        said, tokens, seconds = answers[condition]
        if tokens > budget:
            raise AssertionError(f"{condition.name} spent {tokens} of {budget} tokens")
        yield {
            "question": question.name,
            "cell": condition.name,
            "said": said,
            "true": list(question.answers),
            "exact": exact(said, question.answers),
            "anls": round(anls(said, question.answers), 5),
            "score": exact(said, question.answers),
            "tokens": tokens,
            "full": table_for(MINI).tokens(page.size),
            "seconds": round(seconds, 4),
        }


# ---- the run ---------------------------------------------------------------------------------------------------------


def measure(options: PackOptions, run: BenchRun) -> Report:
    """Ask what is not answered yet; a table for each kind of data and share, and the bars."""
    shares = parse_shares(options.keeps)
    conditions = conditions_at(shares, [way for way in SUITE["ways"] if not options.way or way in options.way])
    conditions = [one for one in conditions if not options.way or one.way in options.way]
    asked = {group: found for folder in options.data for group, found in grouped(folder, options)}
    if not asked:
        raise InputError("--data names no folder with records.jsonl; make one with arr-coc needle --out DIR")
    with run.answers("pack_", "out/pack", {"seed": options.seed}) as answers:
        # In turns, so that a run that was stopped has as many of each kind.
        jobs = answers.waiting(in_turn(asked.values()), conditions)
        work = partial(read_packed, options.device, options.weights)
        answers.fill(run.each(jobs, work, "reading", options.workers))
    facts = {"model": "mini by its stock class", "seed": str(options.seed), **machine_facts(("torch", "transformers"))}
    tables, bars = [], {}
    for group, questions in asked.items():
        names = answers.whole([one.name for one in questions], conditions)
        if not names:
            continue
        for keep in shares:
            found = scores(answers, names, conditions, keep)
            tables.append(table_of(f"{group} at {keep:g}", found, answers, names, keep, facts))
            bars[f"{group} {keep:g}"] = bars_of(found)
    lines = [f"{cell}: {line}" for cell, found in bars.items() for line in told(found)]
    document = {"schema": 1, "tables": [table.to_json() for table in tables], "bars": bars}
    return Report(document, tables, facts, lines=lines, page=tables, name="pack")


def grouped(folder: Path, options: PackOptions) -> Iterable[tuple[str, list[Question]]]:
    """The questions of a folder by kind of data: the families of one world are one kind, with as many of each."""
    every = reading_questions(folder, None, (), options.seed)
    wanted = {one.source for one in every} & set(options.source) or {one.source for one in every}
    drawn: dict[str, list[list[Question]]] = {}
    for source in sorted(wanted):
        own = [one.question for one in every if one.source == source]
        order = np.random.default_rng([options.seed, crc32(source.encode())]).permutation(len(own))
        drawn.setdefault(source.partition("/")[0], []).append([own[place] for place in order])
    # In rounds through the families: fewer questions are the first of more.
    return [(group, list(in_turn(several))[: options.n]) for group, several in drawn.items()]


def read_packed(
    device: str, weights: Path | None, job: tuple[Question, Sequence[Condition]]
) -> list[dict[str, object]]:
    """Reads a question in the ways in which it is not read yet, in whatever process it is."""
    return list(asked_of(*pack_readers(device, weights), *job, device))


@cache
def pack_readers(device: str, weights: Path | None) -> tuple[StockReader, Eye]:
    """The model by its own class, and attached."""
    from arr_coc.answering.eye import Eye

    attached = MINI if weights is None else str(part_folder(MINI, weights))
    return StockReader(device, weights), Eye.from_pretrained(attached, device=device)


def scores(
    answers: AnswerStore, names: Sequence[str], conditions: Sequence[Condition], keep: float
) -> dict[str, dict[str, np.ndarray]]:
    """Way → exact and anls, (n,) each, at one share; all tokens as well."""
    own = [one for one in conditions if one.way == FULL or one.keep == keep]
    return {
        one.way: {measure: answers.column(names, one.name, measure) for measure in ("exact", "anls")} for one in own
    }


def table_of(
    title: str,
    found: Mapping[str, Mapping[str, np.ndarray]],
    answers: AnswerStore,
    names: Sequence[str],
    keep: float,
    facts: Mapping[str, str],
) -> Table:
    rows = []
    for way, own in found.items():
        cell = Condition(way, 1.0 if way == FULL else keep).name
        ahead = PACK in found and way != PACK
        rows.append(
            {
                "way": way,
                "tokens": float(answers.column(names, cell, "tokens").mean()),
                "exact": Quantity.percent(proportion(own["exact"])),
                "anls": Quantity.percent(resampled(own["anls"])),
                "ahead": Quantity.percent(paired(found[PACK]["exact"], own["exact"])) if ahead else None,
            }
        )
    return Table(title, SUITE["columns"], tuple(rows), {"questions": str(len(names)), **facts})


def bars_of(found: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, object]:
    """What was promised: pack of attach, and pack over the smaller picture, with intervals."""
    told_bars: dict[str, object] = {"n": len(next(iter(found.values()))["exact"])}
    if PACK in found and ATTACH in found and found[ATTACH]["exact"].sum():
        share = ratio(found[PACK]["exact"], found[ATTACH]["exact"])
        told_bars["of attach"] = {**vars(share), "bar": SUITE["bars"]["of_attach"]}
    if PACK in found and SMALLER in found:
        over = paired(found[PACK]["exact"], found[SMALLER]["exact"])
        told_bars["over smaller"] = {**vars(over), "bar": SUITE["bars"]["over_smaller"]}
    return told_bars


def told(bars: Mapping[str, object]) -> Iterator[str]:
    for name, one in bars.items():
        if isinstance(one, Mapping):
            kept = "kept" if one["value"] >= one["bar"] else "missed"
            unit = " points" if name == "over smaller" else " %"
            yield (
                f"pack {name}: {100 * one['value']:.1f}{unit} [{100 * one['low']:.1f}, {100 * one['high']:.1f}], "
                f"promised {100 * one['bar']:g}: {kept} (n = {bars['n']})"
            )
