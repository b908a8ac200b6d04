"""`arr-coc train balancing`: learn the tensions, their effects and the weights of sources from a reader's answers.

    arr-coc train outcomes  --seconds 300 --device cuda --folder runs/outcomes --out OUT
    arr-coc train balancing --seconds 150 --device cuda --folder runs/outcomes --out OUT

The sources' maps of every drawn picture are computed once; then the numbers of a `Law` learn where the balanced map
should have its mass: by credit through the passes (from the same folder, if it has some) or with `--rule boxes`. Logits
of tensions have mean 0 and deviation 1 over questions of all kinds: *which* question explores is learned, and
separately, in `DOES`, how much that counts; otherwise a tension without gain on most pictures saturates. The
law that ships is judged as well, and the learned one with tensions of one half. OUT/balancing.json is the law;
OUT/record.json has the reader's score with the tokens of each, and how far the tensions move, by kind of picture.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.balancing.balance import Known, balance_ways
from arr_coc.balancing.choosing import knowns
from arr_coc.balancing.law import LAW_NAME, NUMBERS, Law, read_law
from arr_coc.core.folders import write_json
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.signs import CONSTANT, SIGNS, signs_of

from ..options import option
from ..worlds.needle import FAMILIES
from ..worlds.needle.batch import decode
from ..worlds.needle.clips import render_clip
from ..worlds.office import make_page
from .outcomes import load_reader, share_loss, shares_of
from .run import Moment, Notes, Schedule, Training, command, say_line
from .train_outcomes import CREDIT_SHARE, KEEPS, Drawn, Judge, OutcomeOptions, credited, draw, drawn_part

if TYPE_CHECKING:
    from accelerate import Accelerator

ASKED = ("scorer", "look")  # the sources to weigh; the centre always takes part
JUDGED = 140  # pictures of an evaluation during training
PAGE_QUESTIONS = 5  # questions of each page of the kind "small print"
DOES = ("steepness", "look")  # effects of the tensions
WHOLE = ("Describe the picture", "What is happening here?", "How many things are there?", "Summarize this")


@dataclass(frozen=True, kw_only=True)
class BalancingOptions(OutcomeOptions):
    """Options of the law."""

    rule: str = option("answers", "Learn from a reader's answers, or from boxes.", choices=("answers", "boxes"))
    taught: int = option(700, "Number of training pictures, of those with a credit.")
    batch: int = option(16, "Pictures a step.")
    kinds: int = option(100, "Questions of each kind for centring the tensions, and the same number for the report.")
    learned: tuple[str, ...] = option(("tensions", *DOES), "Numbers of the law to learn.", choices=NUMBERS)
    learning_rate: float = option(0.03, "Learning rate of AdamW.")


def known_of(drawn: Drawn, number: int) -> Known:
    """Return the sources' maps of one picture, at a quarter of the tokens."""
    pixels = drawn.asked.pictures[number].permute(1, 2, 0).contiguous().cpu().numpy()
    query = decode(drawn.asked.question_ids[number])
    return knowns(Scene(pixels, photos=False, share=KEEPS[0]), query, ASKED, learning=True)[0]


def every_known(drawn: Drawn) -> list[Known]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(partial(known_of, drawn), range(len(drawn))))


def centred(rows: Tensor, signs: Tensor) -> Tensor:
    """Normalise rows (3, 12) so that their logits have mean 0 and deviation 1 over signs (N, 12)."""
    logits = rows @ signs.T
    rows = rows / logits.std(1, keepdim=True).clamp_min(1e-9)
    constant = F.one_hot(torch.tensor(CONSTANT), len(SIGNS)).to(rows)
    return rows - (rows @ signs.T).mean(1, keepdim=True) * constant


def plain_law(law: Law) -> Law:
    return Law(**{name: getattr(law, name).detach().cpu().numpy().copy() for name in NUMBERS})


class BalancingTraining(Training[BalancingOptions]):
    """The trainable numbers of a law; on the CPU, also if the reader is on a GPU."""

    def __init__(self, options: BalancingOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        began = perf_counter()
        options.folder.mkdir(parents=True, exist_ok=True)
        self.reader = load_reader(options.reader, self.device)
        drawn = draw(options.pictures, options.side, "train", options.seed, self.device, FAMILIES)
        shares, weights = shares_of(drawn.boxes), drawn.boxes.amax((1, 2))
        if options.rule == "answers":
            shares, weights = credited(self.reader, drawn, options, began + CREDIT_SHARE * options.seconds)
        taught = torch.where(weights > 0)[0][: options.taught]
        self.shares, self.weights = shares[taught].double().cpu(), weights[taught].double().cpu()
        self.knowns = every_known(drawn.take(taught))
        say_line({"doing": "learning", "pictures": len(taught), "seconds": round(perf_counter() - began, 1)})
        usual = read_law()
        self.numbers = nn.ParameterDict({name: nn.Parameter(torch.tensor(getattr(usual, name))) for name in NUMBERS})
        for name, number in self.numbers.items():
            number.requires_grad_(name in options.learned)
        self.signs = torch.tensor(np.concatenate([*signs_by_kind(options.kinds, options.side, 7, "train").values()]))
        # So close to zero that the first steps decide the direction.
        start = torch.randn(3, len(SIGNS), generator=torch.Generator().manual_seed(options.seed)).double() * 1e-3
        self.numbers["tensions"].data = start * (self.signs.std(0) > 0)
        self.modules["law"] = self.numbers
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.0))
        self.schedule = Schedule(warm_up=5, decay_from=0.4, floor=0.05)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        chance = self.chance["chance"]
        chosen = [chance.randrange(len(self.knowns)) for _ in range(self.options.batch)]
        return self.loss_of(chosen), {}

    @property
    def law(self) -> Law:
        """Return the current law, with gradients."""
        tensions = centred(self.numbers["tensions"], self.signs)
        return Law(**{**dict(self.numbers.items()), "tensions": tensions})

    def loss_of(self, chosen: Sequence[int]) -> Tensor:
        """Return the distance of the balanced maps of some pictures from their targets."""
        law, (rows, cols), maps = self.law, self.shares.shape[1:], []
        for one in chosen:
            found = balance_ways(self.knowns[one], law).map
            maps.append(F.adaptive_avg_pool2d(found[None, None], (rows, cols))[0, 0])
        log_mass = torch.stack(maps).clamp_min(1e-6).log()
        return share_loss(log_mass, self.shares[chosen], self.weights[chosen])

    @torch.no_grad()
    def judge(self, at: Moment) -> JsonObject:
        """Return the loss of the first pictures."""
        return {"taught": float(self.loss_of(range(min(JUDGED, len(self.knowns)))))}

    def export(self) -> None:
        write_json(self.options.target / LAW_NAME, plain_law(self.law).to_json())
        write_json(self.options.target / "record.json", self.record())

    def finish(self) -> None:
        """Judge both laws on test pictures: the answers, and the tensions."""
        laws = {"balancing, as it ships": read_law(), f"balancing, from {self.options.rule}": plain_law(self.law)}
        laws["balancing, tensions of one half"] = plain_law(replace(self.law, tensions=0 * self.law.tensions))
        kinds = signs_by_kind(self.options.kinds, self.options.side, self.options.seed)
        tests = Judge(self.options, self.reader, self.device, sets=("all",))
        test = tests.sets["all"]
        known = every_known(test)
        rows, cols = test.boxes.shape[1:]
        for name, law in laws.items():
            maps = (torch.tensor(balance_ways(one, law).map)[None].float() for one in known)
            cells = torch.cat([F.adaptive_avg_pool2d(one, (rows, cols)) for one in maps]).to(self.device)
            for keep in KEEPS:
                tests.judge_maps("all", name, keep, cells)
        self.done["judged"] = tests.rows()
        self.done["tensions"] = {name: spread_of(law, kinds) for name, law in laws.items()}
        self.export()


def signs_by_kind(each: int, side: int, seed: int, split: str = "test") -> dict[str, np.ndarray]:
    """Return the signs (each, 12) of questions by kind."""
    kinds = asked_by_kind(each, side, seed, split)
    return {kind: np.stack([signs_of(Scene(one[0]), one[1]) for one in several]) for kind, several in kinds.items()}


def asked_by_kind(each: int, side: int, seed: int, split: str) -> dict[str, list[tuple[np.ndarray, str]]]:
    """Yield pictures and questions by kind: small print, clutter, motion, one value, whole scene."""

    def asked(drawn: Drawn) -> list[tuple[np.ndarray, str]]:
        ids, pictures = drawn.asked.question_ids, drawn.asked.pictures.permute(0, 2, 3, 1).contiguous().numpy()
        return [(picture, decode(row)) for picture, row in zip(pictures, ids, strict=True)]

    def still(*families: str) -> list[tuple[np.ndarray, str]]:
        return asked(draw(each, side, split, seed + 2, torch.device("cpu"), families))

    pages = (
        make_page("train" if split == "train" else "val", seed, number) for number in range(-(-each // PAGE_QUESTIONS))
    )
    clips = [render_clip(family, range(-(-each // len(FAMILIES))), 2, (side, side), seed, split) for family in FAMILIES]
    kinds = {
        "small print": [(page.pixels(), one.text) for page in pages for one in page.questions[:PAGE_QUESTIONS]],
        "clutter": still("signs", "zoo"),
        "motion": [one for clip in clips for one in asked(drawn_part(clip.frames))[1::2]],
        "one value": still("cards", "receipts"),
        "whole scene": [
            (picture, WHOLE[number % len(WHOLE)]) for number, (picture, _) in enumerate(still("scenes", "charts"))
        ],
    }
    return {kind: several[:each] for kind, several in kinds.items()}


def spread_of(law: Law, kinds: Mapping[str, np.ndarray]) -> JsonObject:
    """Return the mean and standard deviation of each tension, by kind and of all."""
    every = {**kinds, "all": np.concatenate(list(kinds.values()))}
    return {
        kind: {
            name: {"mean": round(float(np.mean(own)), 3), "sd": round(float(np.std(own)), 3)}
            for name, own in law.named_tensions(signs.T).items()
        }
        for kind, signs in every.items()
    }


main = command(BalancingTraining, BalancingOptions, __doc__)
