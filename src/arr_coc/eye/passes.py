"""The loop: look, answer, look again where it pays, for a batch of pictures of one size.

`Esper` runs it for one picture, the bench for hundreds; both see the same numbers. Works from transformers 5.17 on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..allocation.tree import Tree
from ..models.qwen3_vl.encode import VisualTokens
from ..models.tokens.patches import LeafBatch, Pyramid, match_leaves
from ..relevance.look.arousal import arousal_of, modulate
from .decoding import Generated
from .looks import Looks, first_look, look_again
from .pass_answers import LookAnswer, Memory, answer_look, attention_layers
from .pass_prompt import Prompts
from .pass_settings import EsperSettings
from .steering import Traces, glimpse, next_map, traces
from .vision_memory import TowerMemory, encode_block, interleave, picture_pyramid

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# (number of the pass, from 1; uncertainty after the pass before; its change) → exploration, each (B,)
Explore = Callable[[Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Job:
    """B pictures of one size, each with its question.

    pyramid: of the pictures, normalised as the processor does it. relevance: (B, rows, cols) in [0, 1]. glance: the map
    of the first look where it is another one, for example one that has not read the question. stakes: (B,), or None
    where nobody is to be alarmed. failures: recent wrong answers.
    """

    pyramid: Pyramid
    prompts: Prompts
    relevance: Tensor
    tree: Tree
    glance: Tensor | None = None
    stakes: Tensor | None = None
    failures: int = 0

    @classmethod
    def of(cls, model: PreTrainedModel, pictures: Tensor, prompts: Prompts, relevance: Tensor, tree: Tree) -> Job:
        """pictures: (B, C, H, W), normalised."""
        return cls(picture_pyramid(model, pictures, tree.levels), prompts, relevance, tree)

    def repeated(self, times: int) -> Job:
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
class PassRecord:
    """One pass of B pictures.

    looks: all that has been seen by then. tokens: (B,) visual tokens that this pass read. exploration, arousal,
    uncertainty: (B,). steered: (B, rows, cols), the map that the look followed. point: (B, 2), the cell it was gathered
    around, -1 where it was not. said, traces: what came out. seconds: by stage.
    """

    looks: Looks
    tokens: Tensor
    exploration: Tensor
    arousal: Tensor
    steered: Tensor
    point: Tensor
    generated: Generated
    uncertainty: Tensor
    traces: Traces
    seconds: dict[str, float]


def run_passes(
    model: PreTrainedModel,
    job: Job,
    budgets: tuple[int | Tensor, int],
    settings: EsperSettings,
    explore: Explore,
    *,
    temperature: float = 1.0,
    most: int = 64,
    stop_early: bool = True,
) -> list[PassRecord]:
    """All passes of a batch. budgets: tokens of the first look (one number or (B,)), and of each later one.

    stop_early: a picture that is sure enough gets no more tokens; without, all go through all passes, and what early
    stopping would have done can be read off the records.
    """
    tree, grid = job.tree, (job.tree.rows, job.tree.cols)
    batch, device = len(job.relevance), job.relevance.device
    layers = attention_layers(model, settings.layers)
    uncertainty, trend = torch.ones(batch, device=device), torch.zeros(batch, device=device)
    fixated = torch.zeros_like(job.relevance)
    going = torch.ones(batch, dtype=torch.bool, device=device)
    reader = _Reader(model, job, settings)
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
                job.relevance, looks.levels(), records[-1].traces, exploration, arousal, fixated, settings
            )
            looks = look_again(looks, steered, budgets[1] * going.long())
            if looks.blocks[-1].shape[1] == 0:
                break
            if settings.fovea is not None:
                fixated = torch.maximum(fixated, glimpse(point, grid, settings.fovea) * going[:, None, None])
        seconds = {"look": perf_counter() - started}
        spoken, tokens = reader.read(looks, most, layers, seconds)
        found = traces(spoken, temperature, grid)
        unsure = 1 - spoken.generated.confidence(temperature)
        trend, uncertainty = (unsure - uncertainty if records else trend), unsure
        records.append(
            PassRecord(
                looks, tokens, exploration, arousal, steered, point, spoken.generated, uncertainty, found, seconds
            )
        )
        if stop_early:
            going = going & ~enough(torch.stack([record.uncertainty for record in records], 1), settings)[:, -1]
            if not bool(going.any()):
                break
    return records


class _Reader:
    """Encodes what a look added and lets the model answer, in one of the layouts. State of one run only."""

    def __init__(self, model: PreTrainedModel, job: Job, settings: EsperSettings) -> None:
        self.model, self.job, self.layout = model, job, settings.layout
        self.grid = job.tree.rows, job.tree.cols
        self.memory = Memory(self.grid)
        self.tower = TowerMemory()
        self.encoded: list[VisualTokens] = []

    @torch.no_grad()
    def read(self, looks: Looks, most: int, layers: range, seconds: dict[str, float]) -> tuple[LookAnswer, Tensor]:
        """The answers, and the visual tokens (B,) that the language model had to read for them."""
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
        spoken = answer_look(self.model, self.memory, leaves, tokens, self.job.prompts, most=most, layers=layers)
        seconds["answer"] = perf_counter() - started
        return spoken, (leaves[..., 2] >= 0).sum(1)

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
