"""Train the ranker of words (`knowing.word_ranker`) on drawn pages and Needle World; no real page is used.

    python -m arr_coc.lab.train.train_words --pages PACK [--pages PACK …] --out src/arr_coc/weights/words/ranker.npz

Minutes on one core. The result depends on the pages, the seed and torch's version only.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from ...alphabet import decode
from ...files import replacing
from ...knowing.word_page import NEIGHBOURS, word_page
from ...knowing.word_ranker import LOUDEST, ROUNDS
from ...knowing.words import features
from ...sensing.words import Words, make_words
from ..needle.difficulty import as_difficulty
from ..needle.draws import Draws
from ..needle.renderer import lay_out
from ..pages.pack import read_pack

WIDTH = 32
WORD_WIDTH = 24
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


class Asked(NamedTuple):
    """A question about a page: the boxes of its answer and of what names it, (n, 4) in 0–1."""

    query: str
    boxes: np.ndarray
    context: np.ndarray


class Lesson(NamedTuple):
    """page: its words. questions: what is asked about it. family: where it comes from."""

    words: Words
    questions: tuple[Asked, ...]
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
                asked = Asked(
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
class Example:
    """One question about one page, as arrays: (S, ·), (N, ·) features; neighbours (S, 6); phrase, answer, named (N,)."""

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
            found = tuple(Asked(one.text, one.boxes / extent, one.context / extent) for one in asked)
            yield Lesson(words, found, page.family)


def examples(lessons: Iterable[Lesson], seed: int, noisy: float = 0.5) -> Iterator[Example]:
    """Lessons as the ranker sees them; a share of the pages misread. Questions whose answer no word holds are left out."""
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
                yield Example(phrases, own, page.neighbours, page.phrase, answer, named, lesson.family)


class Ranker(nn.Module):
    """The network of `knowing.word_ranker` in torch; `export` gives its weights to numpy."""

    def __init__(self, sample: Sequence[Example]) -> None:
        super().__init__()
        phrases, words = (
            np.concatenate([getattr(one, name) for one in sample]).astype(np.float32) for name in ("phrases", "words")
        )
        for name, values in (("", phrases), ("word_", words)):
            self.register_buffer(f"{name}mean", torch.from_numpy(values.mean(0)))
            self.register_buffer(f"{name}scale", torch.from_numpy(np.maximum(values.std(0), 0.05)))
        own = words.shape[1]
        self.first = nn.Linear(phrases.shape[1], WIDTH)
        self.rounds = nn.ModuleList(nn.Linear(WIDTH * (NEIGHBOURS + 2), WIDTH) for _ in range(ROUNDS))
        self.word = nn.Linear(WIDTH + 3 * own, WORD_WIDTH)
        self.last = nn.Linear(WORD_WIDTH, 2)

    def forward(self, batch: Batch) -> Tensor:
        """(words of the batch, 2) logits."""
        seen = ((batch.phrases - self.mean) / self.scale).clamp(-LOUDEST, LOUDEST)
        hidden = self.first(seen).relu()
        for turn in self.rounds:
            padded = torch.cat([hidden, torch.zeros_like(hidden[:1])])
            around = padded[batch.neighbours].flatten(1)
            pages = torch.full((batch.pages, WIDTH), -1e9)
            pages = pages.scatter_reduce(0, batch.page[:, None].expand_as(hidden), hidden, "amax")
            hidden = hidden + turn(torch.cat([hidden, around, pages[batch.page]], 1)).relu()
        own = ((batch.words - self.word_mean) / self.word_scale).clamp(-LOUDEST, LOUDEST)
        together = (batch.phrase[1:] == batch.phrase[:-1])[:, None]
        nothing = torch.zeros_like(own[:1])
        before, after = torch.cat([nothing, own[:-1] * together]), torch.cat([own[1:] * together, nothing])
        return self.last(self.word(torch.cat([hidden[batch.phrase], own, before, after], 1)).relu())

    def export(self) -> dict[str, np.ndarray]:
        """Half precision: the file is half as large, the ranking the same."""
        named = {"first": self.first, "word": self.word, "last": self.last}
        named |= {f"round{turn}": layer for turn, layer in enumerate(self.rounds)}
        found = {name: layer.weight.detach().T.half().numpy() for name, layer in named.items()}
        found |= {f"{name}_bias": layer.bias.detach().half().numpy() for name, layer in named.items()}
        return found | {name: buffer.numpy().astype(np.float32) for name, buffer in self.named_buffers()}


class Batch(NamedTuple):
    """Several examples as one graph. page: (S,) and word_page: (N,) the example each belongs to."""

    phrases: Tensor
    words: Tensor
    neighbours: Tensor
    phrase: Tensor
    page: Tensor
    word_page: Tensor
    answer: Tensor
    named: Tensor
    pages: int


def collate(chosen: Sequence[Example]) -> Batch:
    sizes, lengths = [len(one.phrases) for one in chosen], [len(one.words) for one in chosen]
    starts, total = np.cumsum([0, *sizes])[:-1], sum(sizes)
    near = [
        np.where(one.neighbours < size, one.neighbours + start, total)
        for one, size, start in zip(chosen, sizes, starts, strict=True)
    ]
    phrase = [one.phrase + start for one, start in zip(chosen, starts, strict=True)]
    joined = {
        name: np.concatenate([getattr(one, name) for one in chosen]) for name in ("phrases", "words", "answer", "named")
    }
    return Batch(
        torch.from_numpy(joined["phrases"]).float(),
        torch.from_numpy(joined["words"]).float(),
        torch.from_numpy(np.concatenate(near)),
        torch.from_numpy(np.concatenate(phrase)),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), sizes)),
        torch.from_numpy(np.repeat(np.arange(len(chosen)), lengths)),
        torch.from_numpy(joined["answer"]).float(),
        torch.from_numpy(joined["named"]).float(),
        len(chosen),
    )


def loss_of(logits: Tensor, batch: Batch) -> Tensor:
    """Each word by itself, so that scores are probabilities, and the answer's words against all others of the page."""
    counts = torch.bincount(batch.word_page, minlength=batch.pages).clamp(min=1).float()
    targets = torch.stack([batch.answer, batch.named], 1)
    single = nn.functional.binary_cross_entropy_with_logits(logits, targets, reduction="none")
    # A page of 600 words counts no more than one of 30: its answer is as large.
    single = (single * torch.tensor([1.0, 0.3])).sum(1) / counts[batch.word_page].sqrt()
    scores = logits[:, 0]
    top = torch.full((batch.pages,), -1e9).scatter_reduce(0, batch.word_page, scores.detach(), "amax")
    weight = (scores - top[batch.word_page]).exp()
    total = torch.zeros(batch.pages).index_add(0, batch.word_page, weight)
    right = torch.zeros(batch.pages).index_add(0, batch.word_page, weight * batch.answer)
    return single.sum() / batch.pages + 0.5 * -(right / total).clamp(min=1e-6).log().mean()


def train(found: Sequence[Example], steps: int, batch: int, rate: float, seed: int, every: int = 500) -> Ranker:
    """Adam with a rate that rises and falls; the families are drawn by the share of their questions."""
    torch.manual_seed(seed)
    source = np.random.default_rng(seed)
    model = Ranker([found[place] for place in source.choice(len(found), min(len(found), 400), replace=False)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    running = 0.0
    for step in range(steps):
        group = collate([found[place] for place in source.integers(0, len(found), batch)])
        loss = loss_of(model(group), group)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        running += float(loss.detach())
        if (step + 1) % every == 0:
            print(f"step {step + 1}: loss {running / every:.3f}", flush=True)
            running = 0.0
    return model


def rank_report(found: Sequence[Example], model: Ranker) -> dict[str, tuple[int, float, float]]:
    """Family → questions, and the shares whose answer holds the best word, and one of the best three phrases."""
    rows: dict[str, list[tuple[float, float]]] = {}
    model.eval()
    with torch.no_grad():
        for one in found:
            scores = model(collate([one]))[:, 0].numpy()
            best = np.full(int(one.phrase.max()) + 1, -np.inf)
            np.maximum.at(best, one.phrase, scores)
            right = set(one.phrase[one.answer].tolist())
            top = set(np.argsort(-best)[:3].tolist())
            rows.setdefault(one.family, []).append((float(one.answer[scores.argmax()]), float(bool(right & top))))
    return {family: (len(values), *np.mean(values, axis=0).tolist()) for family, values in sorted(rows.items())}  # type: ignore[misc]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pages", nargs="+", required=True, help="packs of drawn pages, of the split for training")
    parser.add_argument("--aside", nargs="*", default=[], help="packs of layouts kept aside, for the report")
    parser.add_argument("--out", type=Path, required=True, help="where the weights go (.npz)")
    parser.add_argument("--questions", type=int, default=6, help="of each page")
    parser.add_argument("--needle", type=int, default=120, help="pages of each family and size of Needle World")
    parser.add_argument("--steps", type=int, default=6000)
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--rate", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args(arguments)
    found = list(examples(page_lessons(given.pages, given.questions, given.seed), given.seed))
    found += examples(needle_lessons(given.needle, given.seed), given.seed + 1)
    print(f"{len(found)} questions", flush=True)
    model = train(found, given.steps, given.batch, given.rate, given.seed)
    with replacing(given.out) as temporary:
        np.savez_compressed(temporary, **model.export())  # type: ignore[arg-type]
    aside = list(examples(page_lessons(given.aside, given.questions, given.seed), given.seed + 2, noisy=0.0))
    aside += examples(needle_lessons(20, given.seed, "validation"), given.seed + 3, noisy=0.0)
    for family, (number, first, third) in rank_report(aside, model).items():
        print(f"{family:18} n {number:5}  best word {100 * first:5.1f} %  best three phrases {100 * third:5.1f} %")


if __name__ == "__main__":
    main()
