"""The one loop of passes: look, answer, look again where it pays, for a batch of pictures of one size.

`pass_loop` decides where to look and when to stop. A reader answers: `MemoryReader` encodes only what a look added and
keeps what was seen (Qwen3-VL); `AskingReader` asks any `Eye` again with more leaves. `Esper` runs the loop for one
picture, the bench for hundreds; both see the same numbers. Works from transformers 5.17 on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from ..allocation.tree import Tree
from ..core.values import Answer
from ..models.qwen3_vl.encode import VisualTokens
from ..models.tokens.patches import LeafBatch, PatchPyramid, match_leaves
from ..relevance.look.arousal import arousal_of, modulate
from .decoding import Generated
from .looks import Looks, first_look, look_again
from .pass_answers import Memory, answer_look, attention_layers
from .pass_prompt import Prompts
from .pass_settings import EsperSettings
from .steering import Traces, glimpse, next_map, traces
from .vision_memory import TowerMemory, encode_block, interleave, picture_pyramid

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from ..allocation.frame import Frame
    from .eye import Eye

# (number of the pass, from 1; uncertainty after the pass before; its change) → exploration, each (B,)
Explore = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class PassMaps:
    """Where B pictures of one size may be looked at.

    relevance: (B, rows, cols) in [0, 1]. glance: the map of the first look where it is another one, for example one
    that has not read the question. stakes: (B,), or None where nobody is to be alarmed. failures: recent wrong answers.
    """

    relevance: Tensor
    tree: Tree
    glance: Tensor | None = None
    stakes: Tensor | None = None
    failures: int = 0


@dataclass(frozen=True, kw_only=True)
class PassJob(PassMaps):
    """B pictures of one size, each with its question. pyramid: of the pictures, normalised as the processor does it."""

    pyramid: PatchPyramid
    prompts: Prompts

    @classmethod
    def of(cls, model: PreTrainedModel, pictures: Tensor, prompts: Prompts, relevance: Tensor, tree: Tree) -> PassJob:
        """pictures: (B, C, H, W), normalised."""
        pyramid = picture_pyramid(model, pictures, tree.levels)
        return cls(pyramid=pyramid, prompts=prompts, relevance=relevance, tree=tree)

    def repeated(self, times: int) -> PassJob:
        """The same pictures several times over, one after the other; their pixels are kept once."""
        several = torch.arange(len(self.relevance), device=self.relevance.device).repeat(times)
        table = self.pyramid
        return replace(
            self,
            pyramid=replace(
                table, start=table.start[several], height=table.height[several], width=table.width[several]
            ),
            prompts=self.prompts.select(several),
            relevance=self.relevance[several],
            glance=None if self.glance is None else self.glance[several],
            stakes=None if self.stakes is None else self.stakes[several],
        )


@dataclass(frozen=True)
class LookReading:
    """What came of one look at B pictures. uncertainty, tokens: (B,), tokens being those that were read for it.
    generated: from which the words are decoded; answer: where an `Eye` was asked instead."""

    uncertainty: Tensor
    traces: Traces
    tokens: Tensor
    generated: Generated | None = None
    answer: Answer | None = None


class LookReader(Protocol):
    """Answers from all that was seen so far, and remembers what it needs for the next look."""

    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """The reading of the latest look; the seconds of its stages are written into `seconds`."""
        ...


@dataclass(frozen=True)
class PassRecord:
    """One pass of B pictures.

    looks: all that has been seen by then. exploration, arousal: (B,). steered: (B, rows, cols), the map that the look
    followed. point: (B, 2), the cell it was gathered around, -1 where it was not. reading: what came out. seconds: by
    stage.
    """

    looks: Looks
    exploration: Tensor
    arousal: Tensor
    steered: Tensor
    point: Tensor
    reading: LookReading
    seconds: dict[str, float]

    @property
    def generated(self) -> Generated:
        """The answers; only of a reader that decodes them itself."""
        assert self.reading.generated is not None
        return self.reading.generated

    @property
    def uncertainty(self) -> Tensor:
        return self.reading.uncertainty

    @property
    def tokens(self) -> Tensor:
        return self.reading.tokens


def run_passes(
    model: PreTrainedModel,
    job: PassJob,
    budgets: tuple[int | Tensor, int],
    settings: EsperSettings,
    explore: Explore,
    *,
    temperature: float = 1.0,
    most: int = 64,
    stop_early: bool = True,
) -> list[PassRecord]:
    """`pass_loop` with a model that remembers what it saw. most: the longest answer, in tokens."""
    reader = MemoryReader(model, job, settings, temperature, most)
    return pass_loop(reader, job, budgets, settings, explore, stop_early)


def pass_loop(
    reader: LookReader,
    job: PassMaps,
    budgets: tuple[int | Tensor, int],
    settings: EsperSettings,
    explore: Explore,
    stop_early: bool = True,
) -> list[PassRecord]:
    """All passes of a batch. budgets: tokens of the first look (one number or (B,)), and of each later one.

    stop_early: a picture that is sure enough gets no more tokens; without, all go through all passes, and what early
    stopping would have done can be read off the records.
    """
    tree, grid = job.tree, (job.tree.rows, job.tree.cols)
    batch, device = len(job.relevance), job.relevance.device
    uncertainty, trend = torch.ones(batch, device=device), torch.zeros(batch, device=device)
    fixated = torch.zeros_like(job.relevance)
    going = torch.ones(batch, dtype=torch.bool, device=device)
    records: list[PassRecord] = []
    for number in range(1, settings.passes + 1):
        started = perf_counter()
        with torch.no_grad():
            exploration = explore(torch.full((batch,), float(number), device=device), uncertainty, trend)
        # Before the first answer nobody is unsure: what alarms is the question alone.
        last = uncertainty if records else torch.zeros_like(uncertainty)
        arousal = (
            torch.zeros_like(last) if job.stakes is None else arousal_of(job.stakes, last, job.failures + 0 * last)
        )
        if not records:
            steered = job.relevance if job.glance is None else job.glance
            steered = modulate(steered, arousal) if settings.aroused else steered
            point = torch.full((batch, 2), -1, device=device)
            looks = first_look(steered, tree, budgets[0])
        else:
            looks = records[-1].looks
            steered, point = next_map(
                job.relevance, looks.levels(), records[-1].reading.traces, exploration, arousal, fixated, settings
            )
            looks = look_again(looks, steered, budgets[1] * going.long())
            if looks.blocks[-1].shape[1] == 0:
                break
            if settings.fovea is not None:
                fixated = torch.maximum(fixated, glimpse(point, grid, settings.fovea) * going[:, None, None])
        seconds = {"look": perf_counter() - started}
        reading = reader.read(looks, seconds)
        trend, uncertainty = (reading.uncertainty - uncertainty if records else trend), reading.uncertainty
        records.append(PassRecord(looks, exploration, arousal, steered, point, reading, seconds))
        if stop_early:
            going = going & ~enough(torch.stack([record.uncertainty for record in records], 1), settings)[:, -1]
            if not bool(going.any()):
                break
    return records


class MemoryReader:
    """Encodes what a look added and lets the model answer, in one of the layouts. State of one run only."""

    def __init__(
        self, model: PreTrainedModel, job: PassJob, settings: EsperSettings, temperature: float, most: int
    ) -> None:
        self.model, self.job, self.layout = model, job, settings.layout
        self.layers = attention_layers(model, settings.layers)
        self.temperature, self.most = temperature, most
        self.grid = job.tree.rows, job.tree.cols
        self.memory = Memory(self.grid)
        self.tower = TowerMemory()
        self.encoded: list[VisualTokens] = []

    @torch.no_grad()
    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """The answers, from the visual tokens that the layout lets the language model read anew."""
        started = perf_counter()
        if self.layout in ("append", "apart"):
            leaves = looks.blocks[-1]
            tokens = self._encode(leaves)
        else:
            leaves = looks.leaves()
            tokens = self._whole_tree(looks, leaves)
            self.memory = Memory(self.grid)
        seconds["encode"] = perf_counter() - started
        started = perf_counter()
        spoken = answer_look(
            self.model, self.memory, leaves, tokens, self.job.prompts, most=self.most, layers=self.layers
        )
        seconds["answer"] = perf_counter() - started
        return LookReading(
            1 - spoken.generated.confidence(self.temperature),
            traces(spoken, self.temperature, self.grid),
            (leaves[..., 2] >= 0).sum(1),
            spoken.generated,
        )

    def _encode(self, leaves: Tensor) -> VisualTokens:
        """New leaves, seeing those of earlier looks where the layout lets them."""
        tower = self.tower if self.layout in ("append", "rebuild") else None
        return encode_block(self.model, self.job.pyramid, leaves, self.grid, tower)

    def _whole_tree(self, looks: Looks, leaves: Tensor) -> VisualTokens:
        """The tokens of all leaves: encoded together, or looked up among what each look encoded."""
        if self.layout == "fresh":
            return self._encode(leaves)
        self.encoded.append(self._encode(looks.blocks[-1]))
        there = tuple(block[..., 2] >= 0 for block in looks.blocks)
        known = interleave(tuple(self.encoded), there)
        levels = self.job.pyramid.levels
        batches = [
            LeafBatch.equal(item, self.grid, levels).select((item[..., 2] >= 0).flatten())
            for item in (leaves, torch.cat(looks.blocks, 1))
        ]
        _, where = match_leaves(*batches)
        return VisualTokens(known.embeds[where], tuple(plane[where] for plane in known.planes))


class AskingReader:
    """Asks an `Eye` again with all leaves seen so far: for models that cannot keep what they have seen.

    Their attention is not shown here, so the next look goes by relevance, by the uncertainty of the whole answer and by
    ground not examined. Every pass counts in full.
    """

    def __init__(self, eye: Eye, frame: Frame, query: str, most: int) -> None:
        self.eye, self.frame, self.query, self.most = eye, frame, query, most

    def read(self, looks: Looks, seconds: dict[str, float]) -> LookReading:
        """One question about one picture, through `Eye.ask`."""
        leaves = looks.leaves()[0].numpy()
        allocation = self.frame.allocation(leaves, leaves[:, 2] * 0.0, len(leaves), "esper")
        answer = self.eye.ask(self.query, allocation=allocation, max_new_tokens=self.most)
        seconds.update(answer.seconds)
        # No place is known to be unsure or sure; halfway leaves the map as it is.
        nothing = torch.zeros(1, *self.frame.grid)
        unsure = torch.tensor([answer.uncertainty])
        unknown = Traces(nothing + 0.35, nothing, nothing)
        return LookReading(unsure, unknown, torch.tensor([answer.tokens]), answer=answer)


def enough(uncertainty: Tensor, settings: EsperSettings) -> Tensor:
    """Uncertainties (B, P) after each pass → (B, P) bool: whether a picture needs no further pass after this one."""
    done = uncertainty < settings.stop
    if settings.gain is not None:
        # Not after the second: where the first look was misled, one more try in vain is no reason to give up.
        done[:, 2:] |= uncertainty[:, 1:-1] - uncertainty[:, 2:] < settings.gain
    done[:, : settings.least - 1] = False
    return done


def passes_needed(uncertainty: Tensor, settings: EsperSettings) -> Tensor:
    """(B,) int64: after which pass early stopping would have ended a run without it; uncertainty: (B, P)."""
    done = enough(uncertainty, settings)
    done[:, -1] = True
    return done.long().argmax(1) + 1
