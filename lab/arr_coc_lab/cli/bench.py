"""`arr-coc bench`: one command for each file in `bench/suites`, its options made from its dataclass."""

from __future__ import annotations

import typer

from ..bench.options import BenchOptions
from ..bench.run import RichScreen, perform
from ..bench.suite import Suite, suites
from ..options import typer_function

app = typer.Typer(no_args_is_help=True)


@app.callback(
    help="\n".join(
        [
            "Measure: tables on the screen, JSON beside them.\n\n\b\nExamples:",
            *(f"  arr-coc bench {one.name} {one.examples[0]}".rstrip() for one in suites() if one.examples),
        ]
    )
)
def bench() -> None:
    """Every bench takes --out, --page and --json; one that was stopped goes on from what is in --out. Those that go
    question by question also take --workers and --seconds, and tell what they have at the first Ctrl-C."""


def add_suite(one: Suite) -> None:
    """A command for one benchmark."""

    def call(options: BenchOptions) -> None:
        perform(one, options, RichScreen())

    app.command(one.name)(typer_function(one.options, call, one.help(f"arr-coc bench {one.name}")))


for _suite in suites():
    add_suite(_suite)
