"""Kinds of printed pages, each random in every size: every picture takes that of its own family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from ..constants import constant
from .bills import bills
from .charts import charts
from .fields import forms, tables
from .prose import dense, letters
from .setting import each, widened
from .sheets import Sheet, SheetStage

FAMILIES: dict[str, Callable[[SheetStage], Sheet]] = {
    "dense": dense,
    "forms": forms,
    "tables": tables,
    "bills": bills,
    "letters": letters,
    "charts": charts,
}
SHARES = {"dense": 0.22, "forms": 0.22, "tables": 0.13, "bills": 0.2, "letters": 0.13, "charts": 0.1}
# The judge's mixture is another one.
VAL_SHARES = {"dense": 0.2, "forms": 0.2, "tables": 0.2, "bills": 0.15, "letters": 0.15, "charts": 0.1}


def lay_out(stage: SheetStage, shares: dict[str, float]) -> tuple[Sheet, Tensor]:
    """Every picture's own family of those with a share, by chance: the sheet, and (B,) the number of the family."""
    names = [name for name in FAMILIES if shares.get(name, 0) > 0]
    ends = constant([shares[name] for name in names], device=stage.device).cumsum(0)
    pick = stage.draws.uniform("family")[:, 0] * ends[-1]
    family = torch.searchsorted(ends, pick.contiguous(), right=True).clamp_max(len(names) - 1)
    sheets = [FAMILIES[name](stage) for name in names]
    numbers = constant([list(FAMILIES).index(name) for name in names], device=stage.device)
    return chosen(sheets, family), numbers[family]


def chosen(sheets: list[Sheet], which: Tensor) -> Sheet:
    """Of each picture the sheet (B,) `which`."""
    if len(sheets) == 1:
        return sheets[0]
    row = torch.arange(len(which), device=which.device)

    def pick(*values: Tensor) -> Tensor:
        """Of (B, n, …) each, the shorter ones padded."""
        most = max(value.shape[1] for value in values)
        padded = [F.pad(value, (0, 0) * (value.dim() - 2) + (0, most - value.shape[1])) for value in values]
        return torch.stack(padded)[which, row]

    most = max(sheet.slots.row.shape[1] for sheet in sheets)
    sheets = [replace(sheet, slots=widened(sheet.slots, most)) for sheet in sheets]
    return each(lambda *parts: each(pick, *parts), *sheets)
