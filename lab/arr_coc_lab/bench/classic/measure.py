"""Every map laid out by the same overlay at the same budget and read by the same reader on the same pictures; large
pictures by the classic scale, 64 to 400 tokens a patch, by the overlay and by shrinking them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch

from arr_coc.allocation.allocate_batch import allocate_batch
from arr_coc.allocation.frame import tokens_of
from arr_coc.allocation.overlay import overlay
from arr_coc.models.qwen3_vl.attention import dense_vision_attention
from arr_coc.models.tokens.patches import as_boxes

from ...train.outcomes import judge
from ...train.pictures import render_family
from ...train.rivals import Rivals, sharpened
from .maps import CONTROLS, OURS, TRAINED, choose_powers, maps_of, wanted_names
from .plan import SCALES, ClassicPlan, Record, step_name

if TYPE_CHECKING:
    from transformers import PreTrainedModel


UNTRAINED = "not among the rivals; train them (python -m arr_coc_lab.train.train_hypotheses) and give --rivals FOLDER"


@torch.no_grad()
def measure(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    advance: Callable[[str], None] = lambda step: None,
    keep: Callable[[Record], None] = lambda record: None,
) -> Record:
    """Read what the record lacks. keep: called after every batch."""
    usable, record.missing = wanted_names(plan.names)
    trained = [name for name in TRAINED if name in rivals.makers()]
    if not plan.names:
        record.missing |= {name: UNTRAINED for name in TRAINED if name not in trained}
    names = [OURS, *usable, *trained]
    began = perf_counter()
    if plan.each:
        choose_powers(record, rivals, plan, names)
    with dense_vision_attention(model):
        for large, family, start, count in plan.batches():
            if plan.seconds is not None and perf_counter() - began > plan.seconds:
                break
            advance(step_name(large, family, start))
            read = _read_large if large else _read
            if read(model, rivals, plan, record, names, family, start, count):
                keep(record)
    return record


def _read(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    names: Sequence[str],
    family: str,
    start: int,
    count: int,
) -> bool:
    """One batch of one family by every row that has not read it; False where none is left."""
    rows, cols = plan.size[0] // 32, plan.size[1] // 32
    budgets = [max(1, round(keep * rows * cols)) for keep in plan.keeps]
    wanted = {budget: [name for name in (*names, *CONTROLS[:-1]) if not record.has(f"{name}@{budget}", family, start)]
              for budget in budgets}  # fmt: skip
    full = not record.has(f"full@{rows * cols}", family, start)
    if not full and not any(wanted.values()):
        return False
    batch = render_family(family, count, plan.size, plan.seed, start, plan.device, None, plan.split)
    asked = {name for lacking in wanted.values() for name in lacking}
    asked = [name for name in names if name in asked or (name == OURS and "shuffled" in asked)]
    maps = {name: sharpened(one, *record.powers[name]) for name, one in maps_of(batch, rivals, asked).items()}
    for budget, lacking in wanted.items():
        made = {name: maps[name] for name in lacking if name in maps}
        leaves = {name: overlay(one, [budget] * count).cells for name, one in made.items()}
        flat = torch.ones(count, rows, cols, device=plan.device)
        seed = plan.seed + start + 7919 * plan.families.index(family)
        for name in (one for one in lacking if one in CONTROLS):
            given = allocate_batch(maps[OURS] if name == "shuffled" else flat, budget, strategy=name, seed=seed)
            leaves[name] = torch.from_numpy(np.stack([tokens_of(one) for one in given])).to(plan.device)
        if leaves:
            right = judge(model, batch, torch.stack(list(leaves.values()), dim=1)).right
            for place, name in enumerate(leaves):
                record.add(f"{name}@{budget}", family, start, right[:, place])
    if full:
        every = overlay(torch.ones(count, rows, cols, device=plan.device), [rows * cols] * count).cells
        record.add(f"full@{rows * cols}", family, start, judge(model, batch, every[:, None]).right[:, 0])
    return True


def _read_large(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: Record,
    names: Sequence[str],
    family: str,
    start: int,
    count: int,
) -> bool:
    """A few large pictures by the classic scale, by the overlay and by shrinking them, with our map."""
    lacking = {
        budget: [name for name in SCALES if not record.has(f"{name} scale@{budget}", family, start)]
        for budget in plan.large_budgets
    }
    if not any(lacking.values()):
        return False
    batch = render_family(family, count, plan.large_size, plan.seed, start, plan.device, None, plan.split)
    scores = rivals.scorer.score(batch.pictures, batch.question_ids)
    for budget, scales in lacking.items():
        for scale in scales:
            given = [tokens_of(one) for one in allocate_batch(scores, budget, strategy=scale)]
            found = np.stack([as_boxes(one) for one in given] if scale == "classic" else given)
            tokens = torch.from_numpy(found).to(plan.device)[:, None]
            record.add(f"{scale} scale@{budget}", family, start, judge(model, batch, tokens).right[:, 0])
    return True
