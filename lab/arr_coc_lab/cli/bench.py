"""`arr-coc bench`: one command for each suite, its options made from its dataclass."""

from __future__ import annotations

import typer

from ..bench.run import RichScreen, perform
from ..bench.suite import SUITES, BenchOptions, Suite
from ..options import typer_function

app = typer.Typer(no_args_is_help=True)


@app.callback(
    help="\n".join(
        [
            "Measure: tables on the screen, rows and JSON in --out.\n\n\b\nExamples:",
            *(f"  arr-coc bench {one.name} {one.examples[0]}".rstrip() for one in SUITES),
        ]
    )
)
def bench() -> None:
    """Every suite takes --out, --page, --json, --device, --workers and --seconds. A run that was stopped resumes from
    --out, and shows what it has at the first Ctrl-C."""


def add_suite(one: Suite) -> None:
    """A command for one suite."""

    def call(options: BenchOptions) -> None:
        perform(one, options, RichScreen())

    app.command(one.name)(typer_function(one.options, call, one.help(f"arr-coc bench {one.name}")))


for _suite in SUITES:
    add_suite(_suite)
