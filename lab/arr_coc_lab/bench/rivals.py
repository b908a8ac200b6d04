"""`bench rivals`: compare pack with other ways to prepare a picture before it is sent, and with attach.

Keyword crop: a strip or quarter chosen by words of the question, token0's published rule. Squeezed: without empty rows
and columns. Text: the words by OCR that fit into the budget, counted by the model's own tokenizer (for `mini` a letter
is a token) and as four letters a token, like larger models; the chooser of words answers from them, because `mini`
reads no texts. `mini` answers all other ways; only the texts use OCR.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from time import process_time
from typing import Any

import numpy as np

from arr_coc.app.proxy.packer import Packer, ProxySettings
from arr_coc.app.proxy.pointing import PointFrame
from arr_coc.app.proxy.protocols import FORMS, PROTOCOLS
from arr_coc.core.folders import MINI, part_folder
from arr_coc.knowing.words.answer import copied_answer
from arr_coc.options import Options
from arr_coc.packing.pack import pack
from arr_coc.packing.packed import encode
from arr_coc.packing.prices.tables import table_for
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.words import make_words

from ..statistics import mean, ratio
from ..worlds.office.export import write_pages
from . import scores
from .asking import FULL, SMALLER, eye_of, held
from .needle import loaded
from .questions import Question, by_picture, drawn, load_questions
from .report import Quantity, Report, Score, Table, TableCell, machine_facts, share_name
from .rows import BenchRow, Key
from .run import Job, Plan, in_turn
from .suite import RivalsOptions, parse_shares

PACK, ATTACHED, KEYWORDS, SQUEEZED = "pack", "attached", "keyword crop", "squeezed"
TEXT, SHORT = TEXTS = ("text by OCR", "text by OCR, four letters a token")
WAYS = (PACK, ATTACHED, SMALLER, KEYWORDS, SQUEEZED, *TEXTS)
DRAWN = 40  # pages by default
# Share of the score by attach that packed pictures should reach.
BAR = 0.85
LONGEST = 48
# Words of a question, and the crop x0, y0, x1, y1 in shares of the picture; the first match counts.
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


def plan(options: RivalsOptions) -> Plan:
    sets: dict[str, list[Question]] = defaultdict(list)
    for data in options.data:
        for one in load_questions(data):
            if one.answers and not held(one):
                sets[one.group.partition("/")[0]].append(one)
    if not options.data:
        sets["pages"] = drawn_pages(options.limit or DRAWN, options.seed)
    limits = {} if options.limit is None else {"": options.limit}
    shares = parse_shares(options.keeps)
    cells = [(FULL, 1.0), *((name, keep) for keep in shares for name in WAYS)]
    cells = [cell for cell in cells if any(one in cell[0] for one in options.ways or ("",))]
    ordered = in_turn(drawn({name: several}, limits, options.seed) for name, several in sets.items())
    jobs = [Job(one, tuple(Key(one.name, *cell) for cell in cells)) for one in ordered]
    kinds = [Score("anls", "ANLS", baseline=PACK), Score("exact", "Exact match", baseline=PACK)]
    kinds += [Score("prefix", "Prefix kept when another question follows"), Score("clicks", "Clicks land")]
    facts = {
        "seed": str(options.seed),
        "milliseconds": "of a processor, with the answer; of the two text rows the first includes OCR",
    }
    facts |= machine_facts()

    def report(rows: list[BenchRow]) -> Report:
        spent = means_table("Spent", rows, {"tokens": "tokens", "ms": "milliseconds"})
        return Report.of(rows, kinds, facts, ("set", "way"), [spent, beside_attach(rows)])

    return Plan(jobs, asked, report, {"data": list(options.data), "seed": options.seed})


def drawn_pages(number: int, seed: int) -> list[Question]:
    """Draw pages with a question about each; their layouts and typefaces were not used in any training."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_pages(folder, number, seed, "val")
        asked = [one for one in load_questions(name) if not held(one)]
        chosen = drawn({one[0].scene: one for one in by_picture(asked)}, {"": 1}, seed)
        return [replace(one, image=(folder / "img" / one.scene).read_bytes()) for one in chosen]


def means_table(title: str, rows: Sequence[BenchRow], names: Mapping[str, str]) -> Table:
    """Make a table of the means of numbers in the rows' extras. names: their headings."""
    found: dict[tuple[str, str, float], list[BenchRow]] = defaultdict(list)
    for row in rows:
        found[row.group, row.system, row.keep].append(row)
    lines: list[dict[str, TableCell]] = []
    for (group, system, keep), own in found.items():
        means = {name: mean(np.array([float(str(row.extras[name])) for row in own])) for name in names}
        cells = {name: Quantity(one.value, "", one.low, one.high) for name, one in means.items()}
        lines.append({"set": group, "way": system, "keep": share_name(keep), **cells, "n": len(own)})
    return Table(title, {"set": "set", "way": "way", "keep": "share", **names, "n": "n"}, lines)


def beside_attach(rows: Sequence[BenchRow]) -> Table:
    """Compare `mini`'s answers from packed pictures with those by attach, question by question."""
    found: dict[tuple[str, float], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        if row.system in (PACK, ATTACHED):
            found[row.group, row.keep][row.system].append(row.scores["exact"])
    lines: list[dict[str, TableCell]] = []
    for (group, keep), both in sorted(found.items(), key=lambda one: -one[0][1]):
        if len(both) < 2:  # one question has no interval
            continue
        of = ratio(np.array(both[PACK]), np.array(both[ATTACHED]))
        shares = {name: f"{100 * float(np.mean(both[name])):.1f}" for name in (PACK, ATTACHED)}
        line = {"set": group, "tokens": share_name(keep), **shares, "of": Quantity.percent(of)}
        lines.append({**line, "kept": of.value >= BAR, "n": len(both[PACK])})
    heads = {"set": "set", "tokens": "tokens", PACK: PACK, ATTACHED: ATTACHED, "of": "pack of attached, %"}
    return Table(f"Exact match, %; the bar is {BAR:.0%} of attached", {**heads, "kept": "bar", "n": "n"}, lines)


def asked(question: Question, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
    """Ask one question in every way, in any process."""
    ask = RivalQuestion(question)
    for key in wanted:
        budget, started = max(1, math.floor(key.keep * ask.full)), process_time()
        said, tokens = ask.answer(key.system, budget)
        found = {name: getattr(scores, name)(said, question.answers) for name in ("anls", "exact")}
        extras = {"ms": 1000 * (process_time() - started), "tokens": tokens, "said": said, "true": question.answers}
        if key.system not in (FULL, ATTACHED):
            found["prefix"] = ask.keeps_prefix(key.system, budget)
            found |= {"clicks": ask.clicks_land(key.system, budget)} if len(question.boxes) else {}
        group = question.group.partition("/")[0]
        yield BenchRow("rivals", *key, found, group, tokens, extras=extras)


class RivalQuestion:
    """Answer one question about its picture in any way."""

    def __init__(self, question: Question) -> None:
        self.question, self.table, self.picture = question, table_for(MINI), load_picture(question.image)
        self.full = self.table.tokens(self.picture.size)

    def answer(self, system: str, budget: int) -> tuple[str, int]:
        """Return the answer and its tokens."""
        question, pixels = self.question, self.picture.pixels
        if system == ATTACHED:
            eye = eye_of(MINI, "cpu").set_image(self.picture)
            looked = eye.prepare(question.text, Options(budget=budget, ocr=False), look_for=question.bare)
            found = eye.answer(looked, LONGEST)
            return found.text, found.tokens
        if system in TEXTS:
            return self.from_text(system, budget)
        if system == PACK:  # without letters and frames, which it was not trained on
            own = Options(ocr=False)
            packed = pack(self.picture, question.bare, budget, model=self.table, marks=False, options=own)
            shown = [one.pixels for one in packed.pictures]
        elif system != FULL:
            part = cut(system, pixels, question.bare)[0]
            packed = pack(part, question.bare, budget, model=self.table, layout="overview")
            shown = [one.pixels for one in packed.pictures]
        else:
            shown = [pixels]
        return read_by_stock(shown, question.text), sum(map(self.table.tokens, [one.shape[:2] for one in shown]))

    def from_text(self, system: str, budget: int) -> tuple[str, int]:
        """Answer from as many of the page's words as the budget allows."""
        words = ocr_words(self.picture.pixels)
        texts = [f"{text} " for text in words.texts]
        ids = stock()[1].tokenizer(texts).input_ids if texts and system == TEXT else texts
        spent = np.cumsum([len(one) / (1 if system == TEXT else 4) for one in ids])
        kept = int(np.searchsorted(spent, budget, side="right"))
        if not kept:
            return "", 0
        answer = copied_answer(make_words(words.texts[:kept], words.boxes[:kept]), self.question.bare)
        return answer.text if answer else "", math.ceil(spent[kept - 1])

    def keeps_prefix(self, system: str, budget: int) -> float:
        """Tell whether the packed pictures stay the same when another question is the latest one."""
        bare = self.question.bare
        if system != PACK:
            return float(system != KEYWORDS or place_of(bare) == place_of(OTHER))
        seen = []
        for later in (False, True):
            picture = FORMS["image_url"].written({"type": "image_url"}, encode(self.picture.pixels), "image/png")
            messages = [{"role": "user", "content": [picture, {"type": "text", "text": bare}]}]
            messages += [{"role": "assistant", "content": "…"}, {"role": "user", "content": OTHER}] * later
            packer = Packer(ProxySettings("http://127.0.0.1"))
            asyncio.run(packer.request({"messages": messages}, PROTOCOLS[0], MINI, budget))
            packer.close()
            seen.append(messages[0])
        return float(seen[0] == seen[1])

    def clicks_land(self, system: str, budget: int) -> float:
        """Tell whether a click into the middle of the true box, as shown to the model, lands in it in the original."""
        box = self.question.boxes[0] * np.tile(self.picture.size[::-1], 2)
        part, rows, cols = cut(system, self.picture.pixels, self.question.bare)
        shown = self.table.fit(part.shape[:2], budget)
        if system in TEXTS or shown is None:
            return 0.0
        frame = PointFrame(part.shape[1] / shown.size[1], part.shape[0] / shown.size[0])
        inside = [np.searchsorted(one, (box[axis] + box[axis + 2]) / 2) for axis, one in enumerate((cols, rows))]
        point = [int(inside[0] / frame.across), int(inside[1] / frame.down)]
        if system == PACK:  # the only way that maps coordinates back
            point = [frame.at(one, axis, edge=False) for axis, one in enumerate(point)]
        return float(all(box[axis] <= point[axis] + 0.5 and point[axis] < box[axis + 2] for axis in (0, 1)))


def place_of(question: str) -> tuple[float, ...]:
    return next((box for words, box in PLACES.items() if re.search(rf"\b({words})\b", question.lower())), (0, 0, 1, 1))


def cut(system: str, pixels: np.ndarray, question: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the part of (H, W, 3) that is kept before it is reduced, with its rows and columns."""
    rows, cols = (np.arange(side) for side in pixels.shape[:2])
    if system == KEYWORDS:
        x0, y0, x1, y1 = place_of(question)
        rows, cols = (one[int(a * len(one)) : int(b * len(one))] for one, a, b in ((rows, y0, y1), (cols, x0, x1)))
    elif system == SQUEEZED and np.ptp(grey := pixels.astype(np.int16).mean(-1)) > 24:
        rows, cols = (np.flatnonzero(np.ptp(grey, axis=axis) > 24) for axis in (1, 0))
    return np.ascontiguousarray(pixels[np.ix_(rows, cols)]), rows, cols


@cache
def stock() -> tuple[Any, Any]:
    """Load the bundled model by its stock class, without this library, and its processor; once in every process."""
    from arr_coc.realizing.bundled import model_folder
    from arr_coc.realizing.query import load_processor

    return loaded(None, "cpu").mini, load_processor(model_folder(part_folder(MINI)))


def read_by_stock(pictures: Sequence[np.ndarray], question: str) -> str:
    """Return its answer about pictures (H, W, 3) uint8."""
    import torch

    from ..calibrate.pointing import chat_inputs

    model, processor = stock()
    inputs = chat_inputs(processor, [pictures], [question])
    with torch.inference_mode():
        said = model.generate(**inputs, max_new_tokens=LONGEST, do_sample=False)
    ids = said[:, inputs["input_ids"].shape[1] :]
    return processor.tokenizer.batch_decode(ids, skip_special_tokens=True)[0].strip()
