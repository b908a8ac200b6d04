"""`bench rivals`: what others do with a picture before it is sent, beside ours, at equal tokens.

Keyword crop: a strip or quarter by words of the question, token0's published rule. Squeezed: no empty rows and columns.
Text: as many words as the budget pays for, answered from by the chooser of words: `mini` reads no texts.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from time import perf_counter

import numpy as np

from arr_coc.app.proxy.packer import Packer, ProxySettings
from arr_coc.app.proxy.pointing import PointFrame
from arr_coc.app.proxy.protocols import FORMS, PROTOCOLS
from arr_coc.knowing.words.answer import copied_answer
from arr_coc.options import Options
from arr_coc.packing.pack import pack
from arr_coc.packing.packed import encode
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.words import as_words, make_words

from . import scores
from .asking import FULL, PACK, SMALLER, AskWork, PackedQuestion, Said, stock_reader
from .questions import Question, load_questions, parse_limits
from .report import Report, Score, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import RealOptions, parse_shares

KEYWORDS, SQUEEZED, TEXT = "keyword crop", "squeezed", "text by OCR"
# Words of a question → x0, y0, x1, y1 in shares of the picture; the first that fits.
PLACES = {
    "header|title|heading|logo|top of|letterhead|subject": (0, 0, 1, 0.3),
    "footer|total|amount due|subtotal|bottom of|sign|signature|terms|footnote": (0, 0.6, 1, 1),
    "date|(invoice|reference|order) number|(top|upper)[ -]right": (0.45, 0, 1, 0.55),
    "(top|upper)[ -]left": (0, 0, 0.55, 0.55),
    "balance due|(bottom|lower)[ -]right": (0.45, 0.45, 1, 1),
    "cent(er|re|ral)|middle": (0.2, 0.2, 0.8, 0.8),
    "left (side|half|column|panel)|(bottom|lower)[ -]left": (0, 0, 0.55, 1),
    "right (side|half|column|panel)": (0.45, 0, 1, 1),
}
OTHER = "Which title stands at the top?"


def plan(options: RealOptions) -> Plan:
    every = load_questions(options.data, parse_limits(options.limit), options.source, options.seed)
    questions = [one for one in every if one.answers]
    shares = parse_shares(options.keeps or "1/4")
    cells = [(FULL, 1.0), *((name, keep) for keep in shares for name in (PACK, SMALLER, KEYWORDS, SQUEEZED, TEXT))]
    jobs = [Job(one, tuple(Key(one.name, *cell) for cell in cells)) for one in questions]
    kinds = [Score("anls", "ANLS", baseline=PACK), Score("exact", "Exact match", baseline=PACK)]
    kinds += [Score("prefix", "Prefix kept when another question follows"), Score("clicks", "Clicks land")]
    facts = {"seed": str(options.seed), **machine_facts(("torch", "transformers"))}
    work = RivalWork((options.relevance or ("auto",))[0])
    settings = {**vars(work), "data": options.data, "seed": options.seed}
    return Plan(jobs, work, lambda rows: Report.of(rows, kinds, facts, ("source", "way")), settings)


@dataclass(frozen=True)
class RivalWork:
    """Asks one question by every way, in any process."""

    relevance: str

    def __call__(self, question: Question, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        ask = PackedQuestion(AskWork("mini", "cpu", self.relevance, "overlay", 0, "", "pack"), question, "")
        for key in wanted:
            budget, started = max(1, math.floor(key.keep * ask.full)), perf_counter()
            if key.system in (FULL, PACK, SMALLER):
                said = ask(key.system, budget)
            else:
                said = from_text(ask, budget) if key.system == TEXT else from_part(ask, key.system, budget)
            seconds = perf_counter() - started
            found = {name: getattr(scores, name)(said.text, question.answers) for name in ("anls", "exact")}
            if key.system != FULL:
                found["prefix"] = self.keeps_prefix(key.system, ask, budget)
                found |= {"clicks": clicks_land(key.system, ask, budget)} if len(question.boxes) else {}
            yield BenchRow("rivals", *key, found, question.group, said.tokens, seconds, {"said": said.text})

    def keeps_prefix(self, system: str, ask: PackedQuestion, budget: int) -> float:
        """Whether what stands for the picture stays the same when another question is the latest one."""
        asked = ask.question.bare
        if system != PACK:
            return float(system != KEYWORDS or place_of(asked) == place_of(OTHER))
        seen = []
        for later in (False, True):
            picture = FORMS["image_url"].written({"type": "image_url"}, encode(ask.picture.pixels, "png"), "image/png")
            messages = [{"role": "user", "content": [picture, {"type": "text", "text": asked}]}]
            messages += [{"role": "assistant", "content": "…"}, {"role": "user", "content": OTHER}] * later
            packer = Packer(ProxySettings("http://127.0.0.1", options=Options(relevance=self.relevance)))
            asyncio.run(packer.request({"messages": messages}, PROTOCOLS[0], "mini", budget))
            packer.close()
            seen.append(messages[0])
        return float(seen[0] == seen[1])


def clicks_land(system: str, ask: PackedQuestion, budget: int) -> float:
    """Whether a click into the middle of the true box, as it is shown, lies in it for a client that sent the whole."""
    box = ask.question.boxes[0] * np.tile(ask.picture.size[::-1], 2)
    part, rows, cols = cut(system, ask.picture.pixels, ask.question.bare)
    shown = ask.table.fit(part.shape[:2], budget)
    if system == TEXT or shown is None:
        return 0.0
    frame = PointFrame(part.shape[1] / shown.size[1], part.shape[0] / shown.size[0])
    inside = [np.searchsorted(one, (box[axis] + box[axis + 2]) / 2) for axis, one in enumerate((cols, rows))]
    point = [int(inside[0] / frame.across), int(inside[1] / frame.down)]
    if system == PACK:  # the only way that knows the way back
        point = [frame.at(one, axis, edge=False) for axis, one in enumerate(point)]
    return float(all(box[axis] <= point[axis] + 0.5 and point[axis] < box[axis + 2] for axis in (0, 1)))


def place_of(question: str) -> tuple[float, ...]:
    return next((box for words, box in PLACES.items() if re.search(rf"\b({words})\b", question.lower())), (0, 0, 1, 1))


def cut(system: str, pixels: np.ndarray, question: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, W, 3) → the part that is kept before it is reduced, and which rows and columns that are."""
    rows, cols = (np.arange(side) for side in pixels.shape[:2])
    if system == KEYWORDS:
        x0, y0, x1, y1 = place_of(question)
        rows, cols = (one[int(a * len(one)) : int(b * len(one))] for one, a, b in ((rows, y0, y1), (cols, x0, x1)))
    elif system == SQUEEZED and np.ptp(grey := pixels.astype(np.int16).mean(-1)) > 24:
        rows, cols = (np.flatnonzero(np.ptp(grey, axis=axis) > 24) for axis in (1, 0))
    return np.ascontiguousarray(pixels[np.ix_(rows, cols)]), rows, cols


def from_part(ask: PackedQuestion, system: str, budget: int) -> Said:
    """The answer from the part that a system keeps, reduced to the budget."""
    part = cut(system, ask.picture.pixels, ask.question.bare)[0]
    shown = pack(part, ask.question.bare, budget, model=ask.table, layout="overview").pictures
    said = stock_reader(ask.work.device).say([one.pixels for one in shown], ask.asked, 48)
    return Said(said, sum(one.tokens for one in shown), ask.full)


def from_text(ask: PackedQuestion, budget: int) -> Said:
    """The answer from the page's words alone, known or by OCR, as far as the budget reaches."""
    words = as_words(ask.question.words or ocr_words(ask.picture.pixels), ask.picture.size)
    lengths = np.cumsum([len(text) + 1 for text in words.texts])
    kept = int(np.searchsorted(lengths, 4 * budget, side="right"))  # four characters count as a token
    if not kept:
        return Said("", 0, ask.full)
    answer = copied_answer(make_words(words.texts[:kept], words.boxes[:kept]), ask.question.bare)
    return Said(answer.text if answer else "", math.ceil(int(lengths[kept - 1]) / 4), ask.full)
