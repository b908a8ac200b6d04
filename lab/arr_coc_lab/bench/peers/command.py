"""What both commands do: check what was asked for, measure or read it, and write what was wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError

from .report import fill_page, plain, plot, read_document, tables

QUICK_KEEPS = (1 / 4, 1 / 16)


def finish(given: Mapping[str, Any], tell: Callable[[str], None] = lambda line: None) -> dict[str, Any]:
    """given: n, quick, peers, family, keeps, weights, seed, device, batch, seconds, saved, page, plot, out; those that
    are missing or None are left to the defaults."""
    wanted = {name: value for name, value in given.items() if value is not None}
    document = read_document(wanted["saved"]) if "saved" in wanted else measured(wanted, tell)
    if "page" in wanted:
        fill_page(wanted["page"], document)
    if "plot" in wanted:
        plot(document, wanted["plot"])
    return document


def measured(wanted: Mapping[str, Any], tell: Callable[[str], None]) -> dict[str, Any]:
    for name in ("n", "batch", "seconds"):
        if name in wanted and wanted[name] <= 0:
            raise InputError(f"--{name} {wanted[name]:g} measures nothing; give more than 0")
    for keep in wanted.get("keeps", ()):
        if not 1 / 256 <= keep <= 1:
            raise InputError(f"--keeps {keep:g} is not a share of the 256 tokens; give 1/256 to 1, for example 0.125")
    from arr_coc.looking import check_device

    device = wanted.get("device", "cpu")
    check_device(device)
    out: Path | None = wanted.get("out")
    if out is not None and out.exists() and not out.is_dir():
        raise InputError(f"--out {out} is a file; give a folder")
    import torch

    from ..needle import Weights
    from .measure import AT_ONCE, KEEPS, MORE, NUMBER, QUICK_NUMBER, SEED, Plan, measure
    from .registry import QUICK, chosen_ways

    quick = wanted.get("quick", False)
    plan = Plan(
        ways=chosen_ways(wanted.get("peers") or (QUICK if quick else None)),
        number=wanted.get("n", QUICK_NUMBER if quick else NUMBER),
        families=chosen_families(wanted.get("family")),
        keeps=tuple(sorted(wanted.get("keeps", QUICK_KEEPS if quick else KEEPS), reverse=True)),
        more=MORE,
        seed=wanted.get("seed", SEED),
        at_once=wanted.get("batch", AT_ONCE["cpu" if torch.device(device).type == "cpu" else "cuda"]),
        seconds=wanted.get("seconds"),
    )
    return measure(Weights.load(wanted.get("weights"), device), plan, out, tell)


def chosen_families(names: list[str] | None) -> tuple[str, ...]:
    from ...train.evaluate import FAMILIES

    unknown = sorted(set(names or ()) - set(FAMILIES))
    if unknown:
        raise InputError(f"unknown family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}")
    return tuple(name for name in FAMILIES if not names or name in names)


def plain_text(document: Mapping[str, Any]) -> str:
    facts = [f"{name}: {value}" for name, value in document["facts"].items()]
    return "\n\n".join([*(plain(table) for table in tables(document)), "\n".join(facts)])
