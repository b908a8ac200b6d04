"""What came of an allocation: a frozen reader answers from it, and the answer is right, partly right or wrong.

The reader's log-likelihood of the right answer may be added to the reward: it says how far from right a wrong answer
was, and whether a right one was luck. It knows the answer, as any reward does, but no box.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from ...errors import InputError
from ...realizing.patches import gather_leaf_patches, mip_pyramid
from .pictures import TrainingBatch, cut
from .prompts import chat_tail
from .reading import normalise_pictures
from .rewards import Outcome, outcome_reward, simple_reward
from .swift import run_language, run_tower

if TYPE_CHECKING:
    from transformers import PreTrainedModel

RewardForm = Literal["outcome", "simple"]
# A wrong answer with at least this share of its characters right is partly right.
PARTLY_FROM = 0.5
# Both forms of the reward are brought to this scale: right is +1.
SCALE = {"outcome": 1000.0, "simple": 100.0}


@dataclass(frozen=True)
class Judgement:
    """All (B, G). right: every character of the answer. share: of its characters that are right. log_likelihood: of
    the right answer, mean over its characters. confidence: geometric mean of the likeliest characters' chances."""

    right: Tensor
    share: Tensor
    log_likelihood: Tensor
    confidence: Tensor

    @property
    def outcome(self) -> Tensor:
        """(B, G) int64 of `Outcome`."""
        partly = (self.share >= PARTLY_FROM) & ~self.right
        return self.right.long() * int(Outcome.RIGHT) + partly.long() * int(Outcome.PARTLY)

    def reward(self, tokens: int, full: int, form: RewardForm = "outcome", likelihood_weight: float = 0.0) -> Tensor:
        """(B, G): the reward on the scale where right is +1, plus likelihood_weight × log_likelihood."""
        spent = torch.full_like(self.share, tokens)
        if form == "outcome":
            worth = outcome_reward(self.outcome, spent, full).total
        elif form == "simple":
            worth = simple_reward(self.outcome, spent, self.confidence).total
        else:
            raise InputError(f"unknown form of reward {form!r}; choose outcome or simple")
        return worth / SCALE[form] + likelihood_weight * self.log_likelihood


def answer_chances(
    model: PreTrainedModel,
    question_ids: Tensor,
    answer_ids: Tensor,
    patches: Tensor,
    leaves: Tensor,
    grid: tuple[int, int],
) -> tuple[Tensor, Tensor, Tensor]:
    """The right answers, teacher forced, by the swift path and with gradients: said (B, T − 1) bool, where their
    characters stand; wanted (C,), which they are; log-chances (C, vocabulary) of every character there.

    patches: of the leaves (B, N, 3) on a grid of (rows, cols) level-0 cells, in the order of `gather_leaf_patches`.
    """
    core: Any = model.model
    tails, said = chat_tail(question_ids, answer_ids)
    seen = run_tower(core.visual, patches, leaves, grid)
    hidden, _ = run_language(core, seen, tails[:, None], leaves, grid)
    said = said[:, 1:]
    chances = model.lm_head(hidden[:, :-1][said]).float().log_softmax(-1)
    return said, tails[:, 1:][said], chances


@torch.no_grad()
def judge(model: PreTrainedModel, batch: TrainingBatch, leaves: Tensor, most: int = 2048) -> Judgement:
    """Leaves (B, G, N, 3), G allocations of each picture → what the reader makes of each.

    The same as `reading.read` on pictures repeated G times, but the pictures and their mip levels are held once, and
    they are read by the swift path. most: readings at a time, for memory.
    """
    pictures = max(1, most // leaves.shape[1])
    if len(batch) > pictures:
        starts = range(0, len(batch), pictures)
        parts = [judge(model, cut(batch, at, at + pictures), leaves[at : at + pictures], most) for at in starts]
        return Judgement(*(torch.cat([getattr(part, name) for part in parts]) for name in Judgement.__annotations__))
    group = leaves.shape[1]
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    grid = batch.pictures.shape[2] // (merge * size), batch.pictures.shape[3] // (merge * size)
    levels = int(leaves[..., 2].max()) + 1
    pyramid = mip_pyramid(normalise_pictures(batch.pictures), levels, cell=merge * size, patch_size=size)
    owner = torch.arange(len(batch), device=leaves.device).repeat_interleave(group * leaves.shape[2])
    patches = gather_leaf_patches(
        pyramid, leaves.flatten(0, 2), owner, merge=merge, temporal=vision.temporal_patch_size
    )
    questions, answers = (ids.repeat_interleave(group, dim=0) for ids in (batch.question_ids, batch.answer_ids))
    said, wanted, chances = answer_chances(model, questions, answers, patches, leaves.flatten(0, 1), grid)
    best = chances.max(-1)
    owner = said.nonzero()[:, 0]

    def mean(values: Tensor) -> Tensor:
        total = torch.zeros(len(said), device=values.device).index_add_(0, owner, values)
        return (total / said.sum(1)).unflatten(0, (-1, group))

    good = best.indices == wanted
    wrong = torch.zeros(len(said), device=good.device).index_add_(0, owner, (~good).float())
    return Judgement(
        right=(wrong == 0).unflatten(0, (-1, group)),
        share=mean(good.float()),
        log_likelihood=mean(chances.gather(1, wanted[:, None])[:, 0]),
        confidence=mean(best.values).exp(),
    )


def load_reader(folder: Path, device: torch.device) -> PreTrainedModel:
    """A frozen reader: a stock checkpoint, or a training's export with one in `mini`; bfloat16 on a GPU, buffers
    float32."""
    from transformers import Qwen3VLForConditionalGeneration

    found = next((one for one in (folder, folder / "mini") if (one / "config.json").is_file()), None)
    if found is None:
        raise InputError(f"no reader in {folder}: expected an export of `train mini` or a checkpoint with config.json")
    loaded: Any = Qwen3VLForConditionalGeneration.from_pretrained(found, dtype=torch.float32)
    model = loaded.to(device).eval().requires_grad_(False)
    if device.type == "cuda":
        for parameter in model.parameters():
            parameter.data = parameter.data.to(torch.bfloat16)
    return model
