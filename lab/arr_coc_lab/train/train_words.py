"""Train the ranker of words (`words.ranker`): the bundled one on drawn pages and Needle World, no real page; and
`--data` goes on from there on one's own records, half of every batch drawn.

    arr-coc train words --pages PACK … --aside PACK … --out src/arr_coc/weights/words --cpu
    arr-coc train words --data invoices --steps 400 --out my-words --cpu       look(…, relevance="words:my-words")

Minutes on one core.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.folders import whole_folder, write_json
from arr_coc.core.values import JsonObject
from arr_coc.knowing.words.answer import LOUDEST as LOUDEST_LOGIT
from arr_coc.knowing.words.answer import answer_words, doubts
from arr_coc.knowing.words.page import NEIGHBOURS
from arr_coc.knowing.words.source import LOUDEST, RANKER, ROUNDS, ranker_weights

from ..options import option, plain
from .own_data import HELD_OUT, read_own, split_by_picture
from .run import Moment, Notes, RunOptions, Schedule, Training, command, door
from .word_lessons import BILLS, OWN, WordExample, bill_lessons, examples, needle_lessons, own_lessons, page_lessons

if TYPE_CHECKING:
    from accelerate import Accelerator

WIDTH = 32
WORD_WIDTH = 24


class Ranker(nn.Module):
    """The network of `words.ranker` in torch; `export` gives its weights to numpy."""

    mean: Tensor
    scale: Tensor
    word_mean: Tensor
    word_scale: Tensor

    def __init__(self, sample: Sequence[WordExample]) -> None:
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

    def load(self, weights: Mapping[str, np.ndarray]) -> None:
        """`export` undone."""
        for name, layer in self.named().items():
            layer.weight.data.copy_(torch.from_numpy(weights[name].T.copy()))
            layer.bias.data.copy_(torch.from_numpy(weights[f"{name}_bias"]))
        for name, buffer in self.named_buffers():
            buffer.copy_(torch.from_numpy(weights[name]))

    def named(self) -> dict[str, nn.Linear]:
        """The layers, by the names of their weights in the file."""
        rounds: dict[str, Any] = {f"round{turn}": layer for turn, layer in enumerate(self.rounds)}
        return {"first": self.first, "word": self.word, "last": self.last, **rounds}

    def export(self) -> dict[str, np.ndarray]:
        """Half precision: the file is half as large, the ranking the same."""
        named = self.named()
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


def collate(chosen: Sequence[WordExample]) -> Batch:
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


def rank_report(found: Sequence[WordExample], model: Ranker) -> dict[str, tuple[int, float, float]]:
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


def calibration_of(found: Sequence[WordExample], model: Ranker) -> np.ndarray:
    """(3,) weights of `answer.doubts`, fitted so that a copied answer is right as often as it says. Pages drawn by a
    browser, which are the most like real ones, count half."""
    told, right = [], []
    model.eval()
    with torch.no_grad():
        for one in found:
            logits = model(collate([one]))[:, 0].numpy().clip(-LOUDEST_LOGIT, LOUDEST_LOGIT)
            chosen = answer_words(one.phrase, logits)
            told.append(doubts(one.phrase, logits, chosen))
            right.append(bool(one.answer[chosen].all()) and int(one.answer.sum()) == len(chosen))
    features, target, weights = np.array(told), np.array(right, float), np.zeros(3)
    simple = np.array([one.family in BILLS or one.family.startswith("needle") for one in found])
    share = len(found) / 2 / np.where(simple, max(1, simple.sum()), max(1, (~simple).sum()))
    for _ in range(50):  # Newton's steps; a little weight keeps them small where everything is right
        odds = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (share * (target - odds)) - 0.1 * weights
        bend = (features * (share * odds * (1 - odds))[:, None]).T @ features + 0.1 * np.eye(3)
        step = np.linalg.solve(bend, slope)
        weights = weights + step / max(1.0, 4 * np.abs(step).max())
    return weights


@dataclass(frozen=True, kw_only=True)
class WordsOptions(RunOptions):
    """How the ranker is trained."""

    steps: int = option(6000, "end after so many steps")
    seconds: float = option(36000.0, "how long this run may train")
    folder: Path = option(Path("runs/words"), "where the checkpoint and the curve are kept")
    data: Path | None = option(None, "one's own records: a folder with records.jsonl, a .jsonl or a .parquet file")
    source: str = option("words", "where their answers are", flag="--from", choices=("words", "boxes"))
    start: str = option("", "the ranker to go on from: bundled, or a folder; with --data bundled, else none")
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(HELD_OUT, "share of one's own pictures that are judged on and never learned from")
    mix: float = option(0.5, "with --data: share of every batch that is drawn")
    pages: tuple[Path, ...] = option((), "packs of drawn pages, of the split for training")
    aside: tuple[Path, ...] = option((), "packs of layouts kept aside, for the report")
    questions: int = option(6, "of each page")
    needle: int = option(120, "pages of each family and size of Needle World")
    bills: int = option(1200, "drawn invoices and receipts")
    batch: int = option(24, "questions a step")
    rate: float = option(4e-3, "of AdamW; an eighth of it where a trained ranker goes on")

    def __post_init__(self) -> None:
        if not 0 <= self.mix < 1 or not 0 < self.held_out < 1:
            raise InputError(f"--mix {self.mix} must be below 1 and --held-out {self.held_out} between 0 and 1")


class WordsTraining(Training[WordsOptions]):
    """Questions over words, drawn evenly; judged on layouts that were kept aside."""

    def __init__(self, options: WordsOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        seed = options.seed
        self.found = list(examples(page_lessons(options.pages, options.questions, seed), seed))
        self.found += examples(needle_lessons(options.needle, seed), seed + 1)
        self.found += examples(bill_lessons(options.bills, options.questions, seed), seed + 6)
        self.aside = list(examples(page_lessons(options.aside, options.questions, seed), seed + 2, noisy=0.0))
        self.aside += examples(needle_lessons(max(2, options.needle // 6), seed, "validation"), seed + 3, noisy=0.0)
        aside = bill_lessons(max(2, options.bills // 8), options.questions, seed, "validation")
        self.aside += examples(aside, seed + 7, noisy=0.0)
        self.own: list[WordExample] = []
        if options.data is not None:
            learned, held = split_by_picture(
                read_own(options.data, options.source, strict=options.strict).records, options.held_out, seed
            )
            self.own = list(examples(own_lessons(learned), seed + 4))
            self.aside += examples(own_lessons(held), seed + 5, noisy=0.0)
            if not self.own:
                raise InputError(f"of {options.data} no answer stands among the words; name others with --from boxes")
        self.ranker = Ranker(self.chance["chance"].sample(self.found, min(len(self.found), 400)))
        start, rate = options.start or ("bundled" if options.data else ""), options.rate
        if start:
            self.ranker.load(ranker_weights() if start == "bundled" else ranker_weights(Path(start) / RANKER))
            rate /= 8
        self.modules["ranker"] = self.ranker
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=rate, weight_decay=1e-3))
        self.schedule = Schedule(warm_up=20 if start else 200, decay_from=0.2)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        number = round(self.options.batch * (1 - self.options.mix)) if self.own else 0
        chosen = self.chance["chance"].choices(self.own, k=max(1, number)) if self.own else []
        group = collate([*chosen, *self.chance["chance"].choices(self.found, k=self.options.batch - number)])
        return loss_of(self.ranker(group), group), {}

    def judge(self, at: Moment) -> JsonObject | None:
        """Shares of the questions whose answer holds the best word, and one of the best three phrases."""
        report = rank_report(self.aside, self.ranker)
        number = sum(row[0] for row in report.values())
        first, third = (sum(row[0] * row[place] for row in report.values()) / number for place in (1, 2))
        print(f"step {at.step}: best word {100 * first:.1f} %, best three phrases {100 * third:.1f} %", flush=True)
        own = {"own best": report[OWN][1], "own best three": report[OWN][2]} if OWN in report else {}
        return {"best": first, "best three": third, **own}

    def export(self) -> None:
        with whole_folder(self.options.target) as made:
            calibration = calibration_of(self.aside, self.ranker).astype(np.float32)
            kept: JsonObject = self.ranker.export() | {"calibration": calibration}
            np.savez_compressed(made / RANKER, **kept)
        report = rank_report(self.aside, self.ranker)
        told = {
            "pages": [path.name for path in self.options.pages],
            "aside": [path.name for path in self.options.aside],
        }
        plan = {name: value for name, value in plain(self.options).items() if name not in ("folder", "out")}
        rows = {family: [number, round(first, 4), round(third, 4)] for family, (number, first, third) in report.items()}
        write_json(
            self.options.target / "record.json",
            {
                "plan": plan | told,
                "questions": len(self.found) + len(self.own),
                "aside: n, best word, best three phrases": rows,
            },
        )


main = command(WordsTraining, WordsOptions, __doc__)

if __name__ == "__main__":
    door(main)
