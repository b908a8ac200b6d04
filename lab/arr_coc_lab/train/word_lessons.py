"""Training data of the chooser of words: questions about pages of Office World, with OCR and the scorer's maps."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch
from rapidfuzz.distance import Indel
from torch import Tensor

from arr_coc.core.alphabet import question_row
from arr_coc.core.folders import part_folder
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.knowing.words.chooser import (
    FEATURES,
    GRAMS,
    MOST_PARTS,
    MOST_WORDS,
    RELATIONS,
    PageBoard,
    ask_board,
    page_board,
    under,
)
from arr_coc.pictures.load import load_picture
from arr_coc.pictures.ocr import ocr_words
from arr_coc.pictures.words import Words, as_words, make_words
from arr_coc_lab.worlds.needle.batch import decode

from ..worlds.needle.difficulty import as_difficulty
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import lay_out
from ..worlds.office import make_page, side_by_side
from ..worlds.office.paper import worn
from .own_data import OwnRecord

# Characters that OCR confuses.
MISREAD = dict(zip("0O1lI5S8Becgth6.,", "O0l1lS5B8ceqfbG,.", strict=True)) | {":": "", "-": ""}
MISREAD |= {"m": "rn", "n": "u", "a": "o", "i": "l"}

NEEDLE_FAMILIES = ("forms", "receipts", "charts")
NEEDLE_SIZES = ((512, 512), (768, 1024), (512, 384))
# Kinds of questions that need the picture: colours, and bars without numbers.
BY_SIGHT = ("legend", "tallest")
# Minimum similarity of OCR's spelling to the answer.
SPELLED = 0.6


class WordQuestion(NamedTuple):
    """A question, with the numbers of the words that answer it and of those that name it."""

    kind: str
    text: str
    answer: tuple[int, ...]
    named: tuple[int, ...]


class WordPage(NamedTuple):
    """A page with its questions. maps: (questions, rows, cols) float16 of the scorer; None without. kinds: of all
    possible questions. lines: (N,) of each word, if it comes from OCR."""

    layout: str
    texts: tuple[str, ...]
    boxes: np.ndarray
    size: tuple[int, int]
    asked: tuple[WordQuestion, ...]
    maps: np.ndarray | None
    kinds: frozenset[str]
    lines: np.ndarray | None = None


class Example(NamedTuple):
    """One question as the chooser sees it. start: the place of the first word, −1 if the answer was not read. onward:
    (n, 3) places of the answer's words, and whether it continues to the right and below. named: (N,) bool. read: words
    come from OCR."""

    board: PageBoard
    query: str
    seen: np.ndarray | None
    start: int
    onward: np.ndarray
    named: np.ndarray
    words: Words
    read: bool


def drawn(job: tuple[str, int, int, int]) -> tuple[WordPage, WordPage, np.ndarray]:
    """Draw a page for (split, seed, number, questions): as drawn, as read by OCR, and its pixels, mostly worn. Answers
    that OCR misses or misspells are empty in its version."""
    split, seed, number, most = job
    page = make_page(split, seed, number)
    source = random.Random(f"lessons/{split}/{seed}/{number}")
    readable = [one for one in page.questions if one.kind not in BY_SIGHT]
    chosen = source.sample(readable, min(most, len(readable)))
    asked = tuple(
        WordQuestion(
            one.kind,
            one.text,
            tuple(range(one.answer.first, one.answer.end)),
            tuple(place for span in one.named for place in range(span.first, span.end)),
        )
        for one in chosen
    )
    kinds = frozenset(one.kind for one in page.questions)
    pixels = page.pixels()
    pixels = worn(pixels, source) if source.random() < 0.6 else pixels
    height, width = page.words.size
    boxes = page.words.boxes * np.array([width, height] * 2, np.float32)
    size = (int(height), int(width))
    read = ocr_words(pixels)
    clean = WordPage(page.layout, page.words.texts, boxes, size, asked, None, kinds)
    found = tuple(as_read(one, page.words, read) for one in asked)
    read_boxes = read.boxes * np.array([width, height] * 2, np.float32)
    seen = WordPage(page.layout, read.texts, read_boxes, size, found, None, kinds, read.lines)
    return clean, seen, pixels


def as_read(asked: WordQuestion, drawn: Words, read: Words) -> WordQuestion:
    """Return the same question about the words by OCR: those at the place of its answer that spell it."""
    answer, named = (covered(read, drawn.boxes[list(places)]) for places in (asked.answer, asked.named))
    texts = ("".join(words.texts[one] for one in places) for words, places in ((drawn, asked.answer), (read, answer)))
    spelled = Indel.normalized_similarity(*("".join(filter(str.isalnum, text.lower())) for text in texts))
    return asked._replace(answer=answer if spelled >= SPELLED else (), named=named)


def covered(words: Words, boxes: np.ndarray) -> tuple[int, ...]:
    """Return the words with more than half their width in boxes (n, 4) of their line."""
    if not len(words) or not len(boxes):
        return ()
    mine, given = words.boxes.astype(float)[:, None], np.asarray(boxes, float)[None]
    middle = [(one[..., 1] + one[..., 3]) / 2 for one in (mine, given)]
    level = abs(middle[0] - middle[1]) < 0.6 * (given[..., 3] - given[..., 1])
    along = np.minimum(mine[..., 2], given[..., 2]) - np.maximum(mine[..., 0], given[..., 0])
    share = (np.clip(along, 0, None) * level).sum(1) / (words.boxes[:, 2] - words.boxes[:, 0])
    return tuple(np.flatnonzero(share > 0.5).tolist())


@torch.no_grad()
def pages(
    split: str, seed: int, numbers: Sequence[int], questions: int, device: torch.device, workers: int
) -> Iterator[WordPage]:
    """Draw pages in parallel, and add the scorer's map for every question: as drawn, then as read by OCR."""
    scorer = load_scorer(part_folder("scorer"), str(device)).eval()
    for page, read, pixels in side_by_side(drawn, ((split, seed, number, questions) for number in numbers), workers):
        if page.asked:
            maps = _maps(scorer, page, pixels, device)
            yield page._replace(maps=maps)
            if read.texts:
                yield read._replace(maps=maps)


def _maps(scorer: ReadingScorer, page: WordPage, pixels: np.ndarray, device: torch.device) -> np.ndarray:
    """Return the scorer's map for each question, (questions, rows, cols) float16."""
    picture = torch.from_numpy(pixels.copy()).to(device).permute(2, 0, 1)[None]
    ids = torch.tensor([question_row(one.text) for one in page.asked], device=device)
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        seen = scorer.see(scorer.padded(picture))
        found = scorer.find(seen.expand(len(ids), -1, -1, -1), ids)
    rows, cols = -(-page.size[0] // 32), -(-page.size[1] // 32)
    return found.float().sigmoid()[:, :rows, :cols].half().cpu().numpy()


def other_pages(number: int, seed: int, split: str = "train") -> Iterator[WordPage]:
    """Lay out `number` pages of Needle World of each family and size, without painting them, so without maps."""
    for family in NEEDLE_FAMILIES if number else ():
        for size in NEEDLE_SIZES:
            index = torch.arange(number)
            scene = lay_out(family, Draws.of(seed, split, family, index), size, split, as_difficulty(None, size))
            text, extent = scene.text, np.array([size[1], size[0]] * 2)
            advance, lines = text.advances().numpy(), text.boxes().numpy()
            for row in range(number):
                words = _glyph_words(text.ids[row], advance[row], lines[row], size)
                boxes = scene.boxes[row][scene.box_mask[row]].numpy() / extent
                context = scene.context[row][scene.context_mask[row]].numpy() / extent
                if page := _by_boxes(words, [(decode(scene.question[row]), boxes, context)], f"needle {family}"):
                    yield page


def own_pages(records: Iterable[OwnRecord]) -> Iterator[WordPage]:
    """Convert your own records to pages; words missing from a record are read by OCR."""
    several: dict[str, list[OwnRecord]] = {}
    for record in records:
        several.setdefault(record.picture, []).append(record)
    for group in several.values():
        picture, known = load_picture(group[0].pixels), [one.words for one in group if one.words is not None]
        words = as_words(known[0], picture.size) if known else ocr_words(picture.pixels)
        if page := _by_boxes(words, [(one.query, one.boxes, one.context) for one in group], "own"):
            yield page


def _by_boxes(words: Words, asked: Sequence[tuple[str, np.ndarray, np.ndarray]], name: str) -> WordPage | None:
    """Make a page from answers with boxes."""
    found = tuple(
        WordQuestion(
            name, query, tuple(np.flatnonzero(inside(words, boxes))), tuple(np.flatnonzero(inside(words, context)))
        )
        for query, boxes, context in asked
        if len(words) and inside(words, boxes).any()
    )
    height, width = words.size
    boxes = words.boxes * np.array([width, height] * 2, np.float32)
    kinds = frozenset(one.kind for one in found)
    return WordPage(name, words.texts, boxes, (int(height), int(width)), found, None, kinds) if found else None


def inside(words: Words, boxes: np.ndarray) -> np.ndarray:
    """Return a mask (N,) of the words with more than half their area in one of the boxes (n, 4)."""
    if not len(boxes):
        return np.zeros(len(words), bool)
    mine, given = words.boxes.astype(float)[:, None], np.asarray(boxes, dtype=float)[None]
    shared = np.clip(np.minimum(mine[..., 2:], given[..., 2:]) - np.maximum(mine[..., :2], given[..., :2]), 0, None)
    return (shared.prod(-1) / (mine[..., 2:] - mine[..., :2]).prod(-1)).max(1) > 0.5


def _glyph_words(ids: Tensor, advance: np.ndarray, lines: np.ndarray, size: tuple[int, int]) -> Words:
    """Split lines at spaces into words: (R, L) characters, (R, L) widths and (R, 4) boxes."""
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


def foreign(page: WordPage, other: WordPage) -> WordQuestion | None:
    """Return a question about another page that this one does not answer; None if it answers all."""
    alike = page.kinds & other.kinds or page.maps is None or other.maps is None
    found = [] if alike and len(page.kinds) == 1 else [one for one in other.asked if one.kind not in page.kinds]
    return found[0]._replace(answer=(), named=()) if found else None


def example(
    page: WordPage, which: int, source: random.Random, noisy: bool = True, instead: WordQuestion | None = None
) -> Example:
    """Make an example of a question about a page. noisy: with OCR's errors (words misread, joined, moved, left out),
    often only the lines that the map points at. instead: a question that the page does not answer."""
    asked = instead or page.asked[which]
    texts, boxes = list(page.texts), page.boxes.astype(np.float64)
    height, width = page.size
    map_ = None if page.maps is None or instead else page.maps[which].astype(np.float32)
    seen = None
    if map_ is not None:
        # The map's cells may exceed the page, whose sides need not be multiples of 32.
        extent = np.array([map_.shape[1], map_.shape[0]] * 2) * 32
        seen = under(map_, boxes / extent)
    answer, named = np.zeros(len(texts), bool), np.zeros(len(texts), bool)
    answer[list(asked.answer)], named[list(asked.named)] = True, True
    kept = np.ones(len(texts), bool)
    if noisy:
        kept = _left_out(boxes, page.lines, seen, answer, source)
        if page.lines is None:
            texts, boxes = _misread(texts, boxes, answer, kept, source)
    number = np.flatnonzero(kept)
    lines = None if page.lines is None else page.lines[number]
    words = make_words([texts[one] for one in number], boxes[number], size=(height, width), lines=lines, source="drawn")
    answer, named = answer[number], named[number]
    seen = None if seen is None or (noisy and source.random() < 0.15) else seen[number]
    chosen = None
    if len(words) > MOST_WORDS:
        chosen = np.argsort(-(np.random.default_rng(source.getrandbits(32)).random(len(words)) + 2 * answer))
        chosen = np.sort(chosen[:MOST_WORDS])
    board = page_board(words, chosen)
    here = answer[board.order]
    places = np.flatnonzero(here)
    onward = np.zeros((len(places), 3), np.int64)
    for row, place in enumerate(places.tolist()):
        follows = [end < len(board) and bool(here[end]) for end in (int(board.right[place]), int(board.below[place]))]
        onward[row] = place, follows[0], follows[1] and not follows[0]
    start = int(places[0]) if len(places) == answer.sum() and len(places) else -1
    seen = None if seen is None else seen[board.order]
    return Example(board, asked.text, seen, start, onward, named[board.order], words, page.lines is not None)


def _left_out(
    boxes: np.ndarray, line: np.ndarray | None, seen: np.ndarray | None, answer: np.ndarray, source: random.Random
) -> np.ndarray:
    """Draw a mask (N,) of words to keep: all, some, or those of the lines that the map points at most. line: (N,) of
    each word, if known."""
    kept = np.ones(len(boxes), bool)
    pick = source.random() * (1.0 if line is None else 0.5)
    if pick < 0.35 and seen is not None:
        if line is None:
            middle = (boxes[:, 1] + boxes[:, 3]) / 2
            order = np.argsort(middle)
            step = np.r_[False, np.diff(middle[order]) > 0.5 * np.median(boxes[:, 3] - boxes[:, 1])]
            line = np.empty(len(boxes), int)
            line[order] = np.cumsum(step)
        best = np.full(line.max(initial=0) + 1, -1.0)
        np.maximum.at(best, line, seen)
        kept = np.isin(line, np.argsort(-best, kind="stable")[: source.choice((8, 12, 12, 12, 24))])
    elif pick < 0.6 and line is None:
        chance = np.random.default_rng(source.getrandbits(32)).random(len(boxes))
        kept = chance > source.choice((0.02, 0.1, 0.3))
        if source.random() < 0.85:
            kept |= answer
    if not kept.any():
        kept[:] = True
    return kept


def _misread(
    texts: list[str], boxes: np.ndarray, answer: np.ndarray, kept: np.ndarray, source: random.Random
) -> tuple[list[str], np.ndarray]:
    """Add OCR's errors: confused letters, joined words, shifted boxes. Changes `kept` if two words join."""
    rate, glue = source.choice((0.0, 0.0, 0.01, 0.03)), source.choice((0.0, 0.0, 0.05, 0.2))
    found = list(texts)
    if rate:
        found = [
            "".join(MISREAD.get(c, c) if source.random() < rate else c for c in text) or text for text in texts
        ]  # fmt: skip
    high = boxes[:, 3:] - boxes[:, 1:2]
    chance = np.random.default_rng(source.getrandbits(32))
    boxes = boxes + chance.normal(0, source.choice((0.0, 0.04, 0.1)), boxes.shape) * high
    if glue:
        last = -1
        for place in range(len(found)):
            if not kept[place]:
                continue
            level = last >= 0 and abs(boxes[last, 1] - boxes[place, 1]) < 0.5 * high[place, 0]
            close = level and 0 <= boxes[place, 0] - boxes[last, 2] < 0.7 * high[place, 0]
            if close and answer[last] == answer[place] and source.random() < glue:
                found[last] += found[place]
                boxes[last, 2:] = np.maximum(boxes[last, 2:], boxes[place, 2:])
                kept[place] = answer[place] = False
            else:
                last = place
    return found, boxes


class Batch(NamedTuple):
    """Batch examples, with P = MOST_PARTS places for the question and N for words.

    grams (B, P + N, GRAMS) int64, features (B, P + N, FEATURES), there (B, P + N) bool, relations (B, N, N) uint8,
    match (B, P, N, 2), start (B,) int64 (N: not read), right, below (B, N) 0, 1 or −1 if unknown, named (B, N).
    """

    grams: Tensor
    features: Tensor
    there: Tensor
    relations: Tensor
    match: Tensor
    start: Tensor
    right: Tensor
    below: Tensor
    named: Tensor


def collate(examples: Sequence[Example]) -> Batch:
    number, many = len(examples), max(8, *(len(one.board) for one in examples))
    side = MOST_PARTS + many
    grams = np.zeros((number, side, GRAMS), np.int64)
    features = np.zeros((number, side, FEATURES), np.float32)
    there = np.zeros((number, side), bool)
    relations = np.full((number, many, many), RELATIONS - 1, np.uint8)
    match = np.zeros((number, MOST_PARTS, many, 2), np.float32)
    start = np.full(number, many)
    links = np.full((2, number, many), -1, np.int8)
    named = np.zeros((number, many), np.float32)
    for row, one in enumerate(examples):
        board = ask_board(one.board, one.query, one.seen)
        asked, words = board.asked, len(one.board)
        for target, values in ((grams, board.grams), (features, board.features)):
            target[row, :asked], target[row, MOST_PARTS : MOST_PARTS + words] = values[:asked], values[asked:]
        there[row, :asked] = there[row, MOST_PARTS : MOST_PARTS + words] = True
        relations[row, :words, :words] = board.relations
        match[row, :asked, :words] = board.match
        start[row] = one.start if one.start >= 0 else many
        if one.start >= 0:
            links[:, row, one.onward[:, 0]] = one.onward[:, 1:].T
        named[row, :words] = one.named
    arrays = (grams, features, there, relations, match, start, *links, named)
    return Batch(*(torch.from_numpy(array) for array in arrays))
