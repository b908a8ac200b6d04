"""The pictures, maps and runs behind `bench esper`: many pictures at once, through the loop that `Esper` runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.realizing.bundled import Calibration, model_folder
from torch import Tensor
from torch.nn import functional as F

from arr_coc.answering.decoding import end_tokens
from arr_coc.answering.esper import salient_map
from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.answering.passes import PassJob, PassRecord, Prompts, enough, smooth
from arr_coc.attending.frame import Frame, to_cells
from arr_coc.attending.tree import Tree, build_tree
from arr_coc.balancing.tempering import TemperingPolicy
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.pictures.load import load_picture

from ..classic.tempering import TemperingExamples, answers_right, run_passes
from ..statistics import paired, wilson
from ..worlds.needle import NORMAL, NeedleBatch, encode, render
from ..worlds.needle.batch import thing
from ..worlds.needle.draws import Draws
from ..worlds.needle.renderer import finish_batch, lay_out

if TYPE_CHECKING:
    from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
    from transformers import PreTrainedModel

    from ..classic.scorer import Scorer


SIZE = (512, 512)
# Small type, low contrast, near the edge, many candidates; families in which something must be found and read.
HARD_FAMILIES = ("cards", "forms", "signs", "zoo")
INGREDIENTS = "What are the ingredients in this snack?"
LONGEST_ANSWER = 33
# The scorer is blurred on purpose: over so many cells, and outshone by smooth noise that peaks higher than it does.
BLUR, NOISE_BLUR, NOISE_SHARE = 1.5, 1.5, 0.6
CELL = 32
# 1/8 of the 256 tokens of a picture first, then 1/16 in each later pass.
FIRST, LATER = 32, 16
TEST_SEED, VALIDATION_SEED, TRAINING_SEED, BLUR_SEED = 4817, 612, 613, 614
Advance = Callable[[str], None]


@dataclass(frozen=True)
class EsperModels:
    """What is measured: the shipped reader and scorer on one device."""

    reader: PreTrainedModel
    scorer: Scorer | ReadingScorer
    tokenizer: Any
    temperature: float
    levels: int
    device: torch.device

    @classmethod
    def load(cls, weights: Path | None = None, device: str = "cpu") -> EsperModels:
        from transformers import AutoTokenizer, Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        logging.disable_progress_bar()
        folder = model_folder(part_folder(MINI, weights))
        reader = Qwen3VLForConditionalGeneration.from_pretrained(folder).float().to(device).eval()
        scorer = load_scorer(part_folder(SCORER, weights), str(device))
        calibration = Calibration.beside(folder)
        return cls(
            reader,
            scorer,
            AutoTokenizer.from_pretrained(folder),
            calibration.temperature,
            3 if calibration.levels is None else calibration.levels,
            torch.device(device),
        )

    @property
    def tree(self) -> Tree:
        return build_tree(SIZE[0] // CELL, SIZE[1] // CELL, self.levels)


@dataclass(frozen=True)
class Scenes:
    """Pictures (B, 3, H, W) uint8 with questions and answers; question_ids: (B, L) for the scorer."""

    pictures: Tensor
    questions: list[str]
    answers: list[str]
    question_ids: Tensor

    def __len__(self) -> int:
        return len(self.questions)

    def part(self, start: int, stop: int) -> Scenes:
        at = slice(start, stop)
        return Scenes(self.pictures[at], self.questions[at], self.answers[at], self.question_ids[at])

    def chosen(self, places: Sequence[int]) -> Scenes:
        """Those at these places, in this order."""
        texts = ([several[place] for place in places] for several in (self.questions, self.answers))
        return Scenes(self.pictures[places], *texts, self.question_ids[places])


def scenes_of(batch: NeedleBatch, question: str | None = None) -> Scenes:
    """The pictures of a batch with their own questions, or with one for all."""
    ids, questions = batch.question_ids, batch.questions
    if question is not None:
        one = torch.tensor([encode(question)], device=ids.device)
        ids = F.pad(one, (0, ids.shape[1] - one.shape[1])).expand(len(batch), -1)
        questions = [question] * len(batch)
    return Scenes(batch.pictures, questions, batch.answers, ids)


def join_scenes(parts: Sequence[Scenes]) -> Scenes:
    return Scenes(
        torch.cat([part.pictures for part in parts]),
        [text for part in parts for text in part.questions],
        [text for part in parts for text in part.answers],
        torch.cat([part.question_ids for part in parts]),
    )


def hard_scenes(number: int, seed: int, split: str, device: torch.device, start: int = 0) -> Scenes:
    """Equally many of every hard family."""
    each = -(-number // len(HARD_FAMILIES))
    return join_scenes(
        [scenes_of(render(family, each, SIZE, seed, split, "hard", device, start * each)) for family in HARD_FAMILIES]
    )


def zoo_scenes(
    number: int, seed: int, device: torch.device, split: str = "test", cast: Sequence[str] = (), first: int = 0
) -> Scenes:
    """`number` zoo scenes of a seed whose question is about the ingredients, asked in one wording, from the `first` on.

    cast: things that must be in the picture, such as "tiger" or "bars".
    """
    # What is asked is known from the layout alone, so only the pictures that are wanted get painted.
    index = torch.arange((4 if not cast else 24) * (first + number) + 64, device=device)
    laid_out = lay_out("zoo", Draws.of(seed, split, "zoo", index), SIZE, split, NORMAL)
    wanted = laid_out.task == laid_out.tasks.index("ingredients")
    for name in cast:
        wanted &= torch.cat([(marks.classes == thing(name)) & marks.there for marks in laid_out.marks], 1).any(1)
    chosen = index[wanted][first : first + number]
    draws = Draws.of(seed, split, "zoo", chosen)
    scene = lay_out("zoo", draws, SIZE, split, NORMAL)
    return scenes_of(finish_batch(scene, draws, chosen, "zoo", split, seed, SIZE), INGREDIENTS)


def blurred(scores: Tensor, seed: int, start: int = 0) -> Tensor:
    """A scorer that is often wrong: its map blurred, more than half of it smooth noise; (B, rows, cols) in [0, 1].

    start: the first picture's number, so that its noise is the same in batches of any size.
    """
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(start + len(scores), *scores.shape[1:], generator=generator)[start:].to(scores)
    noise = smooth(noise, NOISE_BLUR).clamp_min(0)
    parts = (smooth(scores, BLUR), noise)
    scaled = [part / part.amax((1, 2), keepdim=True).clamp_min(1e-9) for part in parts]
    mixed = (1 - NOISE_SHARE) * scaled[0] + NOISE_SHARE * scaled[1]
    return mixed.clamp_(0, 1)  # last bits of the filter and of the sum may lie outside


def salient_cells(scenes: Scenes) -> Tensor:
    """(B, rows, cols): what stands out before the question is heard, as `Esper(glance="salient")` sees it."""
    frame = Frame(SIZE, CELL)

    def one(pixels: object) -> Tensor:
        found = torch.as_tensor(salient_map(load_picture(pixels)), dtype=torch.float32)[None]
        return to_cells(found.clamp(0, 1), frame)

    arrays = scenes.pictures.permute(0, 2, 3, 1).cpu().numpy()
    first = one(arrays[0])  # alone, because it imports rooms, and threads that import at once trip over each other
    with ThreadPoolExecutor() as pool:
        return torch.cat([first, *pool.map(one, arrays[1:])]).to(scenes.pictures.device)


# (a part of the scenes, the number of its first) → relevance (B, rows, cols)
Maps = Callable[[Scenes, int], Tensor]


@dataclass(frozen=True)
class QuestionSheet:
    """Scenes with what every run over them needs, made once.

    relevance: (N, rows, cols). answers: (N, A) int64, the true ones as tokens, 0 = padding. glance: the maps of the
    first look, where they are others.
    """

    scenes: Scenes
    relevance: Tensor
    prompts: Prompts
    answers: Tensor
    glance: Tensor | None = None

    @classmethod
    def of(cls, models: EsperModels, scenes: Scenes, maps: Maps, glance: Tensor | None = None) -> QuestionSheet:
        """maps: relevance of a part of the scenes, and where it starts."""
        step = batch_size(models)
        with measuring(models):
            parts = [maps(scenes.part(start, start + step), start).float() for start in range(0, len(scenes), step)]
        tokens = models.tokenizer(scenes.answers).input_ids
        answers = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in tokens], batch_first=True)
        prompts = Prompts.of(models.tokenizer, scenes.questions, models.device)
        return cls(scenes, torch.cat(parts), prompts, answers.to(models.device), glance)

    def __len__(self) -> int:
        return len(self.scenes)

    def examples(self, models: EsperModels, start: int = 0, stop: int | None = None) -> TemperingExamples:
        """A part of them, ready for `run_passes`. The pictures' pyramids are made anew: all would not fit a CPU."""
        at = slice(start, stop)
        pictures = self.scenes.pictures[at].float().div_(127.5).sub_(1)
        job = PassJob.of(models.reader, pictures, self.prompts.select(at), self.relevance[at], models.tree)
        glance = None if self.glance is None else self.glance[at]
        return TemperingExamples(replace(job, glance=glance), self.answers[at])


def hard_sheet(models: EsperModels, number: int, split: str) -> QuestionSheet:
    """Hard pictures of a split with the scorer blurred, each split in its own way."""
    seed, blur = (TEST_SEED, BLUR_SEED) if split == "test" else (VALIDATION_SEED, BLUR_SEED + 1)
    return QuestionSheet.of(models, hard_scenes(number, seed, split, models.device), scorer_maps(models, blur))


def batch_size(models: EsperModels) -> int:
    return 1024 if models.device.type == "cuda" else 32


@dataclass(frozen=True)
class PassOutcomes:
    """Pictures down, passes across: right (N, P) bool, uncertainty and tokens (N, P), tokens of that pass alone."""

    right: Tensor
    uncertainty: Tensor
    tokens: Tensor
    exploration: Tensor

    def stopped(self, settings: EsperSettings) -> tuple[Tensor, Tensor, Tensor]:
        """Where early stopping would end: right (N,), tokens of all passes until then (N,), passes (N,)."""
        return self.at(passes_needed(self.uncertainty, settings) - 1)

    def at(self, last: Tensor | int) -> tuple[Tensor, Tensor, Tensor]:
        """After pass `last`, counted from 0, one number or one for each picture."""
        index = torch.as_tensor(last).expand(len(self.right))[:, None]
        total = self.tokens.cumsum(1).gather(1, index)[:, 0]
        return self.right.gather(1, index)[:, 0], total, index[:, 0] + 1


def run(
    models: EsperModels,
    sheet: QuestionSheet,
    budgets: tuple[int, int] | Tensor,
    settings: EsperSettings,
    tempering: TemperingPolicy | None = None,
) -> PassOutcomes:
    """All passes of all pictures, none stopped early.

    budgets: of the first look and the later ones; or one number for each picture (N,), for a single pass.
    """
    policy = (tempering or TemperingPolicy()).to(models.device)
    step, parts = batch_size(models), []
    for start in range(0, len(sheet), step):
        with measuring(models):
            examples = sheet.examples(models, start, start + step)
            spend = (budgets[start : start + step].to(models.device), 0) if isinstance(budgets, Tensor) else budgets
            records = run_passes(
                models.reader,
                examples.job,
                spend,
                settings,
                policy,
                temperature=models.temperature,
                most=LONGEST_ANSWER,
                stop_early=False,
            )
        parts.append(_columns(records, examples.answers, end_tokens(models.reader), settings.passes))
    right, uncertainty, tokens, exploration = (torch.cat(column) for column in zip(*parts, strict=True))
    return PassOutcomes(right, uncertainty, tokens, exploration)


def _columns(records: list[PassRecord], answers: Tensor, ends: Sequence[int], passes: int) -> list[Tensor]:
    """Right, uncertainty, tokens and exploration, (B, passes) each, on the CPU; a pass that found nothing more to see
    repeats the last one for no tokens."""
    missing = passes - len(records)
    right = [answers_right(record, answers, ends) for record in records]
    uncertainty = [record.uncertainty for record in records]
    tokens = [record.tokens for record in records]
    exploration = [record.exploration for record in records]
    columns = [right + right[-1:] * missing, uncertainty + uncertainty[-1:] * missing]
    columns += [tokens + [torch.zeros_like(tokens[0])] * missing, exploration + exploration[-1:] * missing]
    return [torch.stack(column, 1).cpu() for column in columns]


def measuring(models: EsperModels) -> ExitStack:
    """Half precision on a GPU, as the other benches measure."""
    stack = ExitStack()
    cuda = models.device.type == "cuda"
    stack.enter_context(torch.autocast(models.device.type, torch.bfloat16, enabled=cuda))
    stack.enter_context(torch.no_grad())
    return stack


def scorer_maps(models: EsperModels, blur_seed: int | None = None) -> Maps:
    """The scorer's maps, as they are or blurred on purpose; the noise depends on the seed and the place in the list."""

    def maps(part: Scenes, start: int) -> Tensor:
        scores = models.scorer.score(part.pictures, part.question_ids)
        return scores if blur_seed is None else blurred(scores, blur_seed, start)

    return maps


def flat_maps(part: Scenes, start: int) -> Tensor:
    """No map at all: with it, one pass is plain down-sampling."""
    rows, cols = SIZE[0] // CELL, SIZE[1] // CELL
    return torch.ones(len(part), rows, cols, device=part.pictures.device)


def share(right: Tensor) -> dict[str, float]:
    """Accuracy with its 95 % interval and n."""
    count = int(right.sum())
    low, high = wilson(count, len(right))
    return {"accuracy": count / len(right), "low": low, "high": high, "n": len(right)}


def points_between(first: Tensor, second: Tensor) -> dict[str, float]:
    """First minus second on the same pictures, in points of accuracy, with its 95 % interval."""
    found = paired(*(right.double().cpu().numpy() for right in (first, second)))
    return {"difference": found.value, "low": found.low, "high": found.high, "n": len(first)}


def passes_needed(uncertainty: Tensor, settings: EsperSettings) -> Tensor:
    """(B,) int64: after which pass early stopping would have ended a run without it; uncertainty: (B, P)."""
    done = enough(uncertainty, settings)
    done[:, -1] = True
    return done.long().argmax(1) + 1
