"""What `mini` says about printed pages: the answers that `train calibration --print` fits its temperature on."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from arr_coc.answering.decoding import Generated
from arr_coc.attending.overlay import overlay
from arr_coc.realizing.query import pack, take

from ..train.calibration import ASKED, SaidAnswers, answer_batch, is_right
from ..train.mini_model import TURN_END
from ..train.print_world import PrintWorld
from ..train.reader_examples import ReaderBatch
from .needle import Weights


def answers_of(batch: ReaderBatch) -> Tensor:
    """(B, A) characters of the true answers of a batch with one question a picture, 0 = padding."""
    tails = batch.tails[:, 0].long()
    return take(tails, pack(batch.said[:, 0] & (tails != TURN_END), "right"))


@torch.inference_mode()
def print_answers(
    weights: Weights, world: PrintWorld, number: int, at_once: int = 16, size: tuple[int, int] = (512, 512)
) -> Iterator[SaidAnswers]:
    """What `mini` says to one question about each of `number` printed pages, in the cells that are asked aloud."""
    with weights.reading():
        for start in range(0, number, at_once):
            batch = world.render(min(at_once, number - start), size, start)
            which = torch.arange(start, start + len(batch), device=batch.pictures.device)
            batch = batch.one_question(which % batch.questions.shape[1])
            asked = batch.questions[:, 0].long()
            scores = weights.scorer.score(batch.pictures, asked).float()
            for system, keep in ASKED:
                shown = torch.ones_like(scores) if system == "full" else scores
                leaves = overlay(shown, [max(1, round(keep * scores[0].numel()))] * len(scores)).cells
                said = answer_batch(weights.mini, batch.pictures, asked, leaves)
                right = is_right(said, answers_of(batch)).cpu()
                kept = Generated(said.ids.cpu(), said.logits.cpu(), said.within.cpu())
                yield SaidAnswers("print", system, keep, kept, right)
