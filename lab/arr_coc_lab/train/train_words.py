"""`arr-coc train words`: train the network that chooses the words of a page that answer a question.

    arr-coc train words --pages 18000 --seconds 900 --out src/arr_coc/weights/words
    arr-coc train words --data invoices --steps 300 --rate 2e-4 --out mine     look(…, relevance="mine")

Pages are drawn first, by all processors; OCR reads them, and the scorer looks at each. Eleven layouts are held out; the
state that chooses best on them is exported.
"""

from __future__ import annotations

import os
import random
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.folders import whole_folder, write_json
from arr_coc.core.values import JsonObject
from arr_coc.knowing.words.chooser import BUCKETS, FEATURES, HEADS, MOST_PARTS, RELATIONS, WEIGHTS, spans_of, weights_of

from ..options import option
from .own_data import HELD_OUT, read_own, split_by_picture
from .run import Moment, Notes, RunOptions, Schedule, Training, command
from .word_lessons import Batch, WordPage, collate, example, foreign, other_pages, own_pages, pages

if TYPE_CHECKING:
    from collections.abc import Generator

    from accelerate import Accelerator

WIDTH, LAYERS, PIECES = 192, 6, 64
OTHERS, OTHERS_BESIDE_OWN = 0.15, 0.5  # share of questions about Needle World
FOREIGN = 0.12  # share of questions that the page does not answer
JUDGED = {"aside": False, "aside as read": True}  # whether the words come from OCR


class ChooserLayer(nn.Module):
    """Attention with the places and similarity of words, then two linear maps."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.look, self.mix = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.place = nn.Embedding(RELATIONS, HEADS)
        self.found, self.asked = nn.Linear(2, HEADS), nn.Linear(2, HEADS)
        self.after, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.Linear(3 * width, width)
        for part in (self.place, self.found, self.asked):
            nn.init.zeros_(part.weight)

    def bias(self, batch: Batch) -> Tensor:
        """Return the term added to attention scores, (B, HEADS, T, T)."""
        number, side = batch.there.shape
        whole = batch.match.new_zeros(number, side, side, HEADS)
        whole[:, MOST_PARTS:, MOST_PARTS:] = self.place(batch.relations.long()).to(whole.dtype)
        whole[:, :MOST_PARTS, MOST_PARTS:] = self.found(batch.match).to(whole.dtype)
        whole[:, MOST_PARTS:, :MOST_PARTS] = self.asked(batch.match).transpose(1, 2).to(whole.dtype)
        hidden = torch.where(batch.there, 0.0, -1e4)[:, None, None]
        return whole.permute(0, 3, 1, 2) + hidden

    def forward(self, states: Tensor, batch: Batch) -> Tensor:
        parts = self.look(self.norm(states)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        bias = self.bias(batch).to(parts.dtype)
        mixed = F.scaled_dot_product_attention(*parts, attn_mask=bias)
        states = states + self.mix(mixed.transpose(1, 2).flatten(2))
        return states + self.down(F.silu(self.up(self.after(states))))


class Chooser(nn.Module):
    """The network of `knowing.words.chooser` in torch. `save` writes the file that numpy reads."""

    def __init__(self, width: int = WIDTH, layers: int = LAYERS) -> None:
        super().__init__()
        self.pieces = nn.Embedding(BUCKETS, PIECES, padding_idx=0)
        nn.init.normal_(self.pieces.weight.data[1:], std=0.3)
        nn.init.zeros_(self.pieces.weight.data[0])
        self.spell, self.know = nn.Linear(PIECES, width), nn.Linear(FEATURES, width)
        self.layers = nn.ModuleList(ChooserLayer(width) for _ in range(layers))
        self.norm, self.say = nn.LayerNorm(width), nn.Linear(width, 5)

    def forward(self, batch: Batch, spelled_out: Tensor | None = None) -> Tensor:
        """Return start, right, below and named of every word, (B, N + 1, 4); the last row's start is "not read".
        spelled_out: (B, T) words with visible letters; the others are hidden, so that places are learned too."""
        count = (batch.grams > 0).sum(-1, keepdim=True).clamp_min(1)
        spelled = self.pieces(batch.grams).sum(2) / count.sqrt()
        if spelled_out is not None:
            spelled = spelled * spelled_out[..., None]
        states = self.spell(spelled) + self.know(batch.features)
        for layer in self.layers:
            states = layer(states, batch)
        said = self.say(self.norm(states)).float()
        there = batch.there.float()[:, :MOST_PARTS]
        none = (said[:, :MOST_PARTS, 4] * there).sum(1) / there.sum(1).clamp_min(1)
        words = said[:, MOST_PARTS:, :4].masked_fill(~batch.there[:, MOST_PARTS:, None], -1e4)
        last = torch.stack([none, *[torch.full_like(none, -1e4)] * 3], -1)
        return torch.cat([words, last[:, None]], 1)

    def save(self, path: Path, calibration: np.ndarray) -> None:
        kept = {name: value.detach().half().contiguous().cpu() for name, value in self.state_dict().items()}
        save_file(kept | {"calibration": torch.from_numpy(calibration.astype(np.float32))}, path)


def loss_of(found: Tensor, batch: Batch) -> Tensor:
    """Return the loss of the answer's begin, its continuation, and the words that name it."""
    begins = F.cross_entropy(found[:, :, 0], batch.start)
    goes_on = found.new_zeros(())
    for column, target in ((1, batch.right), (2, batch.below)):
        said = target >= 0
        each = F.binary_cross_entropy_with_logits(found[:, :-1, column], target.clamp_min(0).float(), reduction="none")
        goes_on = goes_on + (each * said).sum() / said.sum().clamp_min(1)
    named = F.binary_cross_entropy_with_logits(found[:, :-1, 3], batch.named, reduction="none")
    there = batch.there[:, MOST_PARTS:]
    return begins + goes_on + 0.5 * (named * there).sum() / there.sum()


@dataclass(frozen=True, kw_only=True)
class WordsOptions(RunOptions):
    """Options of this training."""

    seconds: float = option(900.0, "Time limit of this run in seconds, drawing included.")
    folder: Path = option(Path("runs/words"), "Folder for the checkpoint and the curve.")
    data: Path | None = option(None, "Your records instead of drawn pages: a folder, a .jsonl or a .parquet file.")
    start: Path | None = option(None, "Folder of a chooser of this size to start from; with --data, the bundled one.")
    source: str = option("words", "Find answers by words or boxes.", flag="--from", choices=("words", "boxes"))
    pages: int = option(18000, "Number of training pages to draw.")
    aside: int = option(400, "Number of pages with held-out layouts for evaluation.")
    others: int = option(100, "Pages of Needle World, for each of its families and sizes.")
    questions: int = option(8, "Questions about each page.")
    batch: int = option(64, "Questions a step.")
    rate: float = option(1e-3, "Learning rate of AdamW.")
    width: int = option(WIDTH, "Width of the network.")
    layers: int = option(LAYERS, "Layers of the network.")
    forget: float = option(0.25, "Share of words whose letters are hidden.")
    workers: int = option(max(1, (os.cpu_count() or 2) - 1), "Number of processes that draw pages.")

    def __post_init__(self) -> None:
        if not (self.pages > 0 and self.aside > 0 and 0 <= self.forget < 1):
            raise InputError(f"--pages {self.pages} and --aside {self.aside} must be above 0, --forget below 1")


class WordBatches(torch.utils.data.Dataset[Batch]):
    """Draw batches; number n of a seed is always the same."""

    def __init__(self, drawn: list[WordPage], others: list[WordPage], options: WordsOptions, first: int = 0) -> None:
        self.drawn, self.others, self.options, self.first = drawn, others, options, first

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> Batch:
        torch.set_num_threads(1)
        source = random.Random(f"words/{self.options.seed}/{self.first + index}")
        found, share = [], OTHERS if self.options.data is None else OTHERS_BESIDE_OWN
        for _ in range(self.options.batch):
            page = source.choice(self.others if self.others and source.random() < share else self.drawn)
            instead = foreign(page, source.choice(self.drawn)) if source.random() < FOREIGN else None
            found.append(example(page, source.randrange(len(page.asked)), source, instead=instead))
        return collate(found)


class WordsTraining(Training[WordsOptions]):
    """Train on questions about words, drawn evenly; judge on held-out layouts."""

    def __init__(self, options: WordsOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.others = list(other_pages(options.others, options.seed))
        if options.data is None:
            self.drawn, aside = self.draw("train", options.pages), self.draw("val", options.aside)
            aside += other_pages(6, options.seed + 1, "validation")
        else:
            records = read_own(options.data, options.source).records
            learned, held = split_by_picture(records, HELD_OUT, options.seed)
            self.drawn, aside = list(own_pages(learned)), list(own_pages(held))
            if not self.drawn or not aside:
                raise InputError(f"of {options.data} no answer stands among the words; name others with --from boxes")
        source = random.Random(options.seed)
        self.aside = [
            (page.layout, page.asked[which].kind, example(page, which, source, noisy=page.lines is not None))
            for page in aside for which in range(min(3, len(page.asked)))
        ]  # fmt: skip
        torch.manual_seed(options.seed)  # including the time for drawing
        self.chooser = Chooser(options.width, options.layers)
        if options.start is not None or options.data is not None:
            earlier = weights_of() if options.start is None else weights_of(options.start / WEIGHTS.name)
            held = {name: torch.from_numpy(value) for name, value in earlier.items() if name != "calibration"}
            self.chooser.load_state_dict(held)
        self.chooser.to(self.device)
        self.modules["chooser"] = self.chooser
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.rate, weight_decay=0.02))
        self.schedule = Schedule(warm_up=300, decay_from=0.3, floor=0.02)
        self.generator("forget", options.seed)
        self.best: dict[str, Tensor] = {}
        self.done["best"] = 0.0

    def draw(self, split: str, number: int) -> list[WordPage]:
        """Draw pages, at most for a third of the time of this run."""
        found: list[WordPage] = []
        options, began = self.options, perf_counter()
        for page in pages(split, options.seed + 1, range(number), options.questions, self.device, options.workers):
            found.append(page)
            if len(found) % 1000 == 0:
                print(f"drawing: {len(found)} of {number} pages", flush=True)
            if perf_counter() - began > options.seconds / 3:
                break
        return found

    @contextmanager
    def running(self) -> Generator[None]:
        workers = min(self.options.workers, 14)
        lessons = WordBatches(self.drawn, self.others, self.options, self.done["step"])
        loader = torch.utils.data.DataLoader(
            lessons, batch_size=None, num_workers=workers if workers > 1 else 0,
            pin_memory=self.device.type == "cuda", prefetch_factor=6 if workers > 1 else None,
            sampler=range(len(lessons)),
        )  # fmt: skip
        self.batches = iter(loader)
        yield
        del self.batches

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        batch = Batch(*(part.to(self.device, non_blocking=True) for part in next(self.batches)))
        chance = torch.rand(batch.there.shape, generator=self.generators["forget"], device=self.device)
        with self.accelerator.autocast():
            found = self.chooser(batch, chance > self.options.forget)
        right = (found[:, :, 0].argmax(1) == batch.start).float().mean()
        return loss_of(found, batch), {"right": right}

    @torch.no_grad()
    def answers(self) -> list[tuple[str, str, bool, float, bool]]:
        """Yield (layout, kind, right, sureness, whether its words come from OCR) of every held-out question."""
        self.chooser.eval()
        found = []
        for at in range(0, len(self.aside), 64):
            rows = self.aside[at : at + 64]
            batch = Batch(*(part.to(self.device) for part in collate([one for *_, one in rows])))
            logits = self.chooser(batch).float().cpu().numpy()
            for row, (layout, kind, one) in enumerate(rows):
                said = np.concatenate([logits[row, : len(one.board)], logits[row, -1:]])
                chosen, sure = spans_of(one.board, said)[0]
                wanted = set(one.onward[:, 0].tolist())
                found.append((layout, kind, set(chosen) == wanted and one.start >= 0, sure, one.read))
        self.chooser.train()
        return found

    def judge(self, at: Moment) -> JsonObject:
        """Return shares of right answers: of the drawn words, and of words by OCR if there are any."""
        rows = self.answers()
        right = {name: [row[2] for row in rows if row[-1] == read] for name, read in JUDGED.items()}
        found = {name: float(np.mean(part)) for name, part in right.items() if part}
        if sum(found.values()) > self.done["best"]:
            self.done["best"] = sum(found.values())
            self.best = {name: value.detach().clone() for name, value in self.chooser.state_dict().items()}
        return found

    def export(self) -> None:
        current = {name: value.detach().clone() for name, value in self.chooser.state_dict().items()}
        self.chooser.load_state_dict(self.best if self.best and not self.options.steps else current)
        rows = self.answers()
        calibration = fitted(np.array([row[3] for row in rows]), np.array([row[2] for row in rows], float))
        with whole_folder(self.options.target) as made:
            self.chooser.save(made / WEIGHTS.name, calibration)
        kinds = {kind: [row[2] for row in rows if row[1] == kind] for kind in sorted({row[1] for row in rows})}
        layouts = {name: [row[2] for row in rows if row[0] == name] for name in sorted({row[0] for row in rows})}
        table = {name: [len(right), round(float(np.mean(right)), 4)] for name, right in (kinds | layouts).items()}
        write_json(self.options.target / "record.json", {**self.record(), "aside": table, "pages": len(self.drawn)})
        self.chooser.load_state_dict(current)


def fitted(sure: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Fit slope and shift (2,) of the odds of being right over the network's odds."""
    odds = np.log(np.clip(sure, 1e-4, 1 - 1e-4) / (1 - np.clip(sure, 1e-4, 1 - 1e-4)))
    features, weights = np.stack([odds, np.ones_like(odds)], 1), np.array([1.0, 0.0])
    for _ in range(30):
        chance = 1 / (1 + np.exp(-features @ weights))
        slope = features.T @ (right - chance) - 0.1 * (weights - (1.0, 0.0))
        bend = (features * (chance * (1 - chance))[:, None]).T @ features + 0.1 * np.eye(2)
        weights = weights + np.linalg.solve(bend, slope)
    return weights


main = command(WordsTraining, WordsOptions, __doc__)
