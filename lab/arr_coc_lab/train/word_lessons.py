"""What the ranker of words is taught by: questions about drawn pages and Needle World, whose answers are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import decode
from arr_coc.knowing.words.page import word_page
from arr_coc.knowing.words.source import features
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.words import Words, as_words, make_words

from ..worlds.bills import bills
from ..worlds.needle.difficulty import as_difficulty
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import lay_out
from ..worlds.pages.pack import read_pack
from .own_data import OwnRecord

OWN = "own"
BILLS = ("drawn invoice", "drawn receipt")
NEEDLE_FAMILIES = ("forms", "receipts", "charts")
NEEDLE_SIZES = ((512, 512), (768, 1024), (512, 384))
# What OCR takes for one another.
MISREAD = {
    "0": "O",
    "O": "0",
    "1": "l",
    "l": "1",
    "I": "l",
    "5": "S",
    "S": "5",
    "8": "B",
    "m": "rn",
    "e": "c",
    "c": "e",
}
MISREAD |= {"t": "f", "n": "u", "a": "o", "i": "l", ".": ",", ",": ".", ":": "", "g": "q", "h": "b", "6": "G", "-": ""}


class WordLesson(NamedTuple):
    """A question about a page: the boxes of its answer and of what names it, (n, 4) in 0–1."""

    query: str
    boxes: np.ndarray
    context: np.ndarray


class Lesson(NamedTuple):
    """page: its words. questions: what is asked about it. family: where it comes from."""

    words: Words
    questions: tuple[WordLesson, ...]
    family: str


def needle_lessons(number: int, seed: int, split: str = "train") -> Iterator[Lesson]:
    """Pages of Needle World with one question each, laid out and never painted: every glyph's place is known."""
    for family in NEEDLE_FAMILIES:
        for size in NEEDLE_SIZES:
            index = torch.arange(number)
            knobs = as_difficulty(None, size)
            scene = lay_out(family, Draws.of(seed, split, family, index), size, split, knobs)
            text, extent = scene.text, np.array([size[1], size[0]] * 2)
            advance, lines = text.advances().numpy(), text.boxes().numpy()
            for row in range(number):
                words = _glyph_words(text.ids[row], advance[row], lines[row], size)
                asked = WordLesson(
                    decode(scene.question[row]),
                    scene.boxes[row][scene.box_mask[row]].numpy() / extent,
                    scene.context[row][scene.context_mask[row]].numpy() / extent,
                )
                if len(words):
                    yield Lesson(words, (asked,), f"needle {family}")


def _glyph_words(ids: Tensor, advance: np.ndarray, lines: np.ndarray, size: tuple[int, int]) -> Words:
    """(R, L) characters, (R, L) widths and (R, 4) boxes of lines → words, split at spaces."""
    texts, boxes, numbers = [], [], []
    for number, (characters, widths, box) in enumerate(zip(ids, advance, lines, strict=True)):
        written = decode(characters)
        ends = box[0] + np.cumsum(widths)
        at = 0
        for word in written.split(" "):
            if word:
                left = ends[at - 1] if at else box[0]
                texts.append(word)
                boxes.append([left, box[1], ends[at + len(word) - 1], box[3]])
                numbers.append(number)
            at += len(word) + 1
    return make_words(
        texts, np.array(boxes, dtype=float).reshape(-1, 4), size=size, lines=numbers, source="Needle World"
    )


def misread(words: Words, source: np.random.Generator) -> Words:
    """The same words as an OCR engine might give them: letters taken for others, words run together, lost or moved."""
    boxes = words.boxes.copy()
    high = (boxes[:, 3] - boxes[:, 1])[:, None]
    boxes += (source.normal(0, 0.06, boxes.shape) * high * [[0.7, 1, 0.7, 1]]).astype(np.float32)
    rate = source.choice((0.0, 0.01, 0.04))
    texts = [
        "".join(
            MISREAD.get(letter, letter) if chance < rate else letter for letter, chance in zip(text, dice, strict=True)
        )
        for text, dice in ((text, source.random(len(text))) for text in words.texts)
    ]
    order = np.lexsort((boxes[:, 0], words.phrases))
    joins, drops = source.random(len(texts)) < source.choice((0.0, 0.08)), source.random(len(texts)) < 0.01
    kept_texts, kept_boxes, last = [], [], -1
    for place in order.tolist():
        if drops[place]:
            continue
        phrase = words.phrases[place]
        if joins[place] and phrase == last and kept_texts:
            kept_texts[-1] += texts[place]
            low, top = kept_boxes[-1], boxes[place]
            kept_boxes[-1] = np.r_[np.minimum(low[:2], top[:2]), np.maximum(low[2:], top[2:])]
        else:
            kept_texts.append(texts[place])
            kept_boxes.append(boxes[place])
        last = phrase
    height, width = words.size
    scaled = np.array(kept_boxes).reshape(-1, 4) * [[width, height, width, height]]
    return make_words(kept_texts, scaled, size=words.size, source=words.source)


def inside(words: Words, boxes: np.ndarray) -> np.ndarray:
    """(N,) which words lie in one of the boxes (n, 4): more than half of their own ground."""
    if not len(boxes):
        return np.zeros(len(words), bool)
    mine, given = words.boxes.astype(float)[:, None], np.asarray(boxes, dtype=float)[None]
    shared = np.clip(np.minimum(mine[..., 2:], given[..., 2:]) - np.maximum(mine[..., :2], given[..., :2]), 0, None)
    return (shared.prod(-1) / (mine[..., 2:] - mine[..., :2]).prod(-1)).max(1) > 0.5


@dataclass(frozen=True, eq=False)
class WordExample:
    """One question about one page: (S, ·), (N, ·) features; neighbours (S, 6); phrase, answer, named (N,)."""

    phrases: np.ndarray
    words: np.ndarray
    neighbours: np.ndarray
    phrase: np.ndarray
    answer: np.ndarray
    named: np.ndarray
    family: str


def page_lessons(packs: Sequence[str | Path], questions: int, seed: int) -> Iterator[Lesson]:
    """Pages drawn by a browser (`arr-coc pages --pack`), at most so many questions of each."""
    source = np.random.default_rng(seed)
    for pack in packs:
        for page in read_pack(pack):
            extent = np.array([page.width, page.height] * 2, dtype=float)
            words = make_words(page.words, page.word_boxes, size=(page.height, page.width), source=page.name)
            chosen = source.permutation(len(page.questions))[:questions]
            asked = [page.questions[place] for place in chosen.tolist()]
            found = tuple(WordLesson(one.text, one.boxes / extent, one.context / extent) for one in asked)
            yield Lesson(words, found, page.family)


def bill_lessons(number: int, questions: int, seed: int, split: str = "train") -> Iterator[Lesson]:
    """Drawn bills, at most so many questions of each."""
    source = np.random.default_rng(seed)
    for bill in bills(number, seed, split):
        chosen = source.permutation(len(bill.questions))[:questions]
        asked = [bill.questions[place] for place in chosen.tolist()]
        found = tuple(WordLesson(one.query, one.answer.boxes, one.context) for one in asked)
        yield Lesson(bill.words, found, f"drawn {bill.kind}")


def own_lessons(records: Iterable[OwnRecord]) -> Iterator[Lesson]:
    """One's own pictures with all that is asked about each; their words are known by now, or come by OCR."""
    pages: dict[str, list[OwnRecord]] = {}
    for record in records:
        pages.setdefault(record.picture, []).append(record)
    for several in pages.values():
        picture, known = (
            load_picture(several[0].pixels),
            next((one.words for one in several if one.words is not None), None),
        )
        words = ocr_words(picture.pixels) if known is None else as_words(known, picture.size)
        if len(words):
            yield Lesson(words, tuple(WordLesson(one.query, one.boxes, one.context) for one in several), OWN)


def examples(lessons: Iterable[Lesson], seed: int, noisy: float = 0.5) -> Iterator[WordExample]:
    """Lessons as the ranker sees them, a share of the pages misread; without questions whose answer no word holds."""
    source = np.random.default_rng(seed)
    for lesson in lessons:
        words = misread(lesson.words, source) if source.random() < noisy else lesson.words
        if not len(words):
            continue
        page = word_page(words)
        for asked in lesson.questions:
            answer = inside(words, asked.boxes)[page.order]
            if answer.any():
                named = inside(words, asked.context)[page.order]
                phrases, own = (values.astype(np.float16) for values in features(page, asked.query))  # half the memory
                yield WordExample(phrases, own, page.neighbours, page.phrase, answer, named, lesson.family)
