"""Learn how much to explore, from outcomes: was the answer right after looking again?

The policy's exploration is a number in (0, 1); in training its log-odds are drawn from a normal distribution around
what the policy says, several times for the same pictures. What did better than the rest of its
group becomes likelier.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...balancing.tempering import TemperingPolicy
from ...errors import InputError
from ...esper.passes import Job, PassRecord, run_passes
from ...esper.settings import EsperSettings

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Lesson:
    """Pictures with their questions, and the true answers' tokens (B, A) int64, 0 = padding."""

    job: Job
    answers: Tensor

    def repeated(self, times: int) -> Lesson:
        return Lesson(self.job.repeated(times), self.answers.repeat(times, 1))


@dataclass(frozen=True)
class Trial:
    """One run: what the policy was told, (passes, B) each, the log-odds that were drawn, the reward (B,)."""

    told: tuple[Tensor, Tensor, Tensor]
    drawn: Tensor
    reward: Tensor

    def parts(self, number: int) -> list[Trial]:
        """A run over a lesson repeated so often → one trial for each time."""
        told = zip(*(item.chunk(number, 1) for item in self.told), strict=True)
        return [
            Trial((first, second, third), drawn, reward)
            for (first, second, third), drawn, reward in zip(
                told, self.drawn.chunk(number, 1), self.reward.chunk(number), strict=True
            )
        ]


def answers_right(record: PassRecord, answers: Tensor, ends: Iterable[int]) -> Tensor:
    """(B,) bool: is what was said the true answer, token for token?"""
    said = record.generated.ids.masked_fill(~record.generated.within, 0)
    said = said.masked_fill(torch.isin(said, torch.tensor(list(ends), device=said.device)), 0)
    length = max(said.shape[1], answers.shape[1])
    said, answers = (torch.nn.functional.pad(item, (0, length - item.shape[1])) for item in (said, answers))
    return (said == answers).all(1)


def group_advantages(rewards: Tensor) -> Tensor:
    """(group, B) → the same, relative to the group's mean: what the same pictures got with other draws."""
    if len(rewards) < 2:
        raise InputError("a group needs at least two trials; with one there is nothing to compare it with")
    return rewards - rewards.mean(0, keepdim=True)


def log_odds(policy: TemperingPolicy, *told: Tensor) -> Tensor:
    """The centre of what is drawn; in full precision, though the models around it may run in half."""
    with torch.autocast(told[0].device.type, enabled=False):
        return torch.logit(policy(*(item.float() for item in told)), eps=1e-4)


def attempt(
    model: PreTrainedModel,
    lesson: Lesson,
    policy: TemperingPolicy,
    budgets: tuple[int, int],
    settings: EsperSettings,
    spread: float,
    generator: torch.Generator,
    **how: Any,
) -> Trial:
    """Run all passes with exploration drawn around the policy's; the reward is the share of later passes that were
    right, so that finding it early counts more than finding it late."""
    from ...decoding import end_tokens

    told: list[tuple[Tensor, Tensor, Tensor]] = []
    drawn: list[Tensor] = []

    def explore(number: Tensor, uncertainty: Tensor, trend: Tensor) -> Tensor:
        centre = log_odds(policy, number, uncertainty, trend)
        noise = torch.randn(len(centre), generator=generator).to(centre)
        told.append((number, uncertainty, trend))
        drawn.append(centre + spread * noise)
        return torch.sigmoid(drawn[-1])

    records = run_passes(model, lesson.job, budgets, settings, explore, stop_early=False, **how)
    right = torch.stack([answers_right(record, lesson.answers, end_tokens(model)) for record in records[1:]])
    inputs = [torch.stack(item) for item in zip(*told[: len(records)], strict=True)]
    return Trial((inputs[0], inputs[1], inputs[2]), torch.stack(drawn[: len(records)]), right.float().mean(0))


def policy_loss(policy: TemperingPolicy, trials: list[Trial], spread: float) -> Tensor:
    """Minus the advantage-weighted log-probability of what was drawn; the first pass explores nothing: left out."""
    advantages = group_advantages(torch.stack([trial.reward for trial in trials]))
    losses = []
    for trial, advantage in zip(trials, advantages, strict=True):
        told = (item[1:].flatten() for item in trial.told)
        centre = log_odds(policy, *told).view(trial.drawn[1:].shape)
        likely = -((trial.drawn[1:] - centre) ** 2) / (2 * spread**2)
        losses.append(-(advantage * likely.sum(0)).mean())
    return torch.stack(losses).mean()


def train_tempering(
    model: PreTrainedModel,
    lessons: Callable[[int], Lesson],
    budgets: tuple[int, int],
    settings: EsperSettings,
    *,
    steps: int,
    group: int = 4,
    spread: float = 1.0,
    rate: float = 0.02,
    seed: int = 0,
    policy: TemperingPolicy | None = None,
    watch: Callable[[int, float, TemperingPolicy], bool] | None = None,
    **how: Any,
) -> tuple[TemperingPolicy, list[float]]:
    """A learned policy, starting from the rule, and the mean reward of every step.

    lessons: by number of the step. watch: told of every step, its reward and the policy; where it says False, training
    ends.
    """
    from ...balancing.tempering import TemperingConfig

    torch.manual_seed(seed)
    device = next(model.parameters()).device
    policy = (policy or TemperingPolicy(TemperingConfig(learned=True))).to(device)
    optimizer = torch.optim.Adam(policy.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(seed)
    curve = []
    for step in range(steps):
        # All draws of the group in one batch: several small runs would cost several times as long on a GPU.
        lesson = lessons(step).repeated(group)
        trials = attempt(model, lesson, policy, budgets, settings, spread, generator, **how).parts(group)
        optimizer.zero_grad()
        policy_loss(policy, trials, spread).backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
        optimizer.step()
        curve.append(float(torch.stack([trial.reward for trial in trials]).mean()))
        if watch is not None and not watch(step, curve[-1], policy):
            break
    return policy.eval(), curve
