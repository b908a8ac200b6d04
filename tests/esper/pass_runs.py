"""Passes with a model that remembers what it saw, for the tests of looking again."""

from __future__ import annotations

from typing import Any

from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.answering.passes import Explore, MemoryReader, PassJob, PassRecord, pass_loop


def run_passes(
    model: Any,
    job: PassJob,
    budgets: Any,
    settings: EsperSettings,
    explore: Explore,
    *,
    most: int = 64,
    stop_early: bool = True,
) -> list[PassRecord]:
    """`pass_loop` of one model. most: the longest answer, in tokens."""
    return pass_loop(MemoryReader(model, job, settings, 1.0, most), job, budgets, settings, explore, stop_early)
