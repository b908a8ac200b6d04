"""`arr-coc bench` and `arr-coc train`: arguments after the name of a suite or training are passed to it unchanged."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import typer

from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject
from arr_coc.knowing.language.tables import read_table

from ..bench.run import perform
from ..bench.suite import SUITES, Suite
from ..options import parse

bench, train = typer.Typer(no_args_is_help=True), typer.Typer(no_args_is_help=True)


def hand_on(app: typer.Typer, name: str, doc: str, run: Callable[[list[str]], object]) -> None:
    """Add a command that gets all of its arguments unparsed, also --help."""

    def command(context: typer.Context) -> None:
        run(context.args)

    command.__doc__ = doc
    unread = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(name, context_settings=unread, add_help_option=False)(command)


@bench.callback()
def _bench() -> None:
    """Run a benchmark: print tables; write rows and JSON to --out. Rerun the same command to resume an interrupted run;
    the first Ctrl-C shows partial results. Every suite takes --out, --json, --device, --workers and --seconds.

    \b
    Examples:
      arr-coc bench needle --quick
      arr-coc bench real --data documents:10
      arr-coc bench speed
    """


def add_suite(one: Suite) -> None:
    program = f"arr-coc bench {one.name}"
    about = one.help(program)

    def run(arguments: list[str]) -> None:
        perform(one, parse(one.options, arguments, about.replace("\b\n", ""), program), shown=True)

    hand_on(bench, one.name, about, run)


for _suite in SUITES:
    add_suite(_suite)


@train.callback()
def _train() -> None:
    """Train on your own pictures (--data), or train the bundled weights again. Rerun the same command to resume.

    \b
    Examples:
      arr-coc train mini --help
      arr-coc train mini --seconds 520 --total 1040 --folder runs/mini --out runs/mini/export
      arr-coc train scorer --data invoices --start bundled --seconds 420 --out my-scorer
      arr-coc train calibration --weights src/arr_coc/weights
    """


def add_training(name: str, training: JsonObject) -> None:
    """Return a command that passes its arguments to `main` of a module. training: its table in trainings.toml."""
    module, program = training["module"], f"arr-coc train {name}"

    def run(arguments: list[str]) -> None:
        if "no_data" in training and any(one.split("=")[0] == "--data" for one in arguments):
            raise InputError(f"train {name} takes no --data: {training['no_data']}")
        before, sys.argv[0] = sys.argv[0], program  # the beginning of its usage line
        try:
            import_module(f"arr_coc_lab.{module}").main(arguments)
        finally:
            sys.argv[0] = before

    head = f"{training['what']}\n\n\b\n"
    hand_on(train, name, head + "\n".join(["Examples:", *(f"  {program} {one}" for one in training["examples"])]), run)


for _name, _training in read_table(Path(__file__).with_name("trainings.toml")).items():
    add_training(_name, _training)
