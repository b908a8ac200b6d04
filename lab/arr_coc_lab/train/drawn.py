"""Trainings on pictures that are drawn once, in equal parts of every family, and judged by what their maps cover."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.values import JsonObject

from .options import RunOptions, option
from .run import Moment, Schedule, Training


@dataclass(frozen=True, kw_only=True)
class DrawnOptions(RunOptions):
    """What every such training is asked."""

    pictures: int = option(1400, "drawn to learn from")
    judged: int = option(700, "validation pictures that are judged")
    batch: int = option(64, "pictures a step")
    learning_rate: float = option(2e-3, "of AdamW")
    judge_every: float = option(120.0, "seconds between judgements")


Drawn = TypeVar("Drawn", bound=DrawnOptions)


class DrawnTraining(Training[Drawn]):
    """Subclasses draw their pictures, then `begin`; they say the loss and the coverage."""

    def begin(self, schedule: Schedule, weight_decay: float, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        """Everything to its device, the optimizer, and the chance by which pictures are chosen."""
        for module in self.modules.values():
            module.to(self.device)
        learned = [one for one in self.parameters() if one.requires_grad]
        rate = self.options.learning_rate
        self.optimizers.append(torch.optim.AdamW(learned, lr=rate, weight_decay=weight_decay, betas=betas))
        self.schedule = schedule
        self.noise = self.generator("noise", self.options.seed, torch.device("cpu"))

    def choose(self, number: int) -> Tensor:
        """(batch,) places among `number` pictures."""
        return torch.randint(number, (self.options.batch,), generator=self.noise)

    def coverage(self) -> dict[str, np.ndarray]:
        """Of the validation pictures, by what is compared: the share of the needed ground that is seen in full."""
        raise NotImplementedError

    def judge(self, at: Moment) -> JsonObject:
        for module in self.modules.values():
            module.eval()
        found = {f"covered {name}": float(values.mean()) for name, values in self.coverage().items()}
        for module in self.modules.values():
            module.train()
        return found
