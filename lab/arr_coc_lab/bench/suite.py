"""A benchmark as a file: `suites/NAME.toml` says what it is, what it is asked, what measures it, and its numbers.

    summary = "One line for arr-coc bench --help."
    about = "What a reader must know."                    examples = ["--quick", "--out out/bench"]
    options = "SpeedOptions"                              a dataclass of `bench.options`
    measure = "speed:measure"                             (options, run) → `report.Report`

Whatever else stands in it (data, systems, budgets, bars, columns) is for that module: `suite("needle")["bars"]`.
To add a benchmark, write such a file, its options, and a module with that function.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject

from . import options as bench_options
from .options import BenchOptions

SUITES = files("arr_coc_lab.bench") / "suites"


@dataclass(frozen=True)
class Suite:
    """One benchmark. values: everything in the file that the runner does not need."""

    name: str
    summary: str
    options: type[BenchOptions]
    measure: str
    about: str
    examples: tuple[str, ...]
    mark: str
    values: JsonObject

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def shares(self, name: str) -> tuple[float, ...]:
        """A list of shares such as ["1/4", "1/8"] as numbers."""
        return tuple(float(Fraction(one)) for one in self.values[name])

    def measuring(self) -> Callable[..., Any]:
        """The function that measures; its module is imported only now."""
        module, _, function = self.measure.partition(":")
        return getattr(import_module(f"arr_coc_lab.bench.{module}"), function)

    def help(self, program: str) -> str:
        """What `--help` says. program: how the command begins."""
        examples = [f"  {program} {example}".rstrip() for example in self.examples]
        parts = [self.summary, self.about, "\n".join(["\b", "Examples:", *examples]) if examples else ""]
        return "\n\n".join(part.strip() for part in parts if part)


@cache
def suite(name: str) -> Suite:
    """The benchmark of that name."""
    values = tomllib.loads((SUITES / f"{name}.toml").read_text(encoding="utf-8"))
    return Suite(
        name,
        values.pop("summary"),
        getattr(bench_options, values.pop("options")),
        values.pop("measure"),
        values.pop("about", ""),
        tuple(values.pop("examples", ())),
        values.pop("mark", name),
        values,
    )


def suites() -> list[Suite]:
    """All benchmarks, by name."""
    return [suite(path.name.removesuffix(".toml")) for path in sorted(SUITES.iterdir(), key=lambda one: one.name)]


# ---- what several of them ask ----------------------------------------------------------------------------------------


def parse_shares(text: str) -> tuple[float, ...]:
    """ "1/4 1/8" or "0.25,0.125" → shares, largest first."""
    try:
        shares = {float(Fraction(one)) for one in text.replace(",", " ").split()}
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f'--keeps {text!r} is no list of shares; give for example "1/4 1/8"') from error
    if not shares or not all(0 < share <= 1 for share in shares):
        raise InputError(f"--keeps {text!r} needs shares above 0 and at most 1")
    return tuple(sorted(shares, reverse=True))


def chosen_families(names: Iterable[str] | None) -> tuple[str, ...]:
    """All families of Needle World, or those that were named, in the order of the tables."""
    from ..train.evaluate import FAMILIES

    wanted = tuple(names or ())
    unknown = sorted(set(wanted) - set(FAMILIES))
    if unknown:
        raise InputError(f"unknown family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}")
    return tuple(name for name in FAMILIES if not wanted or name in wanted)
