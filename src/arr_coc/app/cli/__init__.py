"""The command line `arr-coc`: only the chosen command's module is imported.

To add a command: write a function in a module of this folder, and add one line to `COMMANDS`. Another package adds one
by an entry point of the group `arr_coc.commands`: its name is the command's, and it names a module with a function
`command` or, for a command with sub-commands, a typer `app`.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Annotated, Any, cast

import typer
from typer.main import get_command

from ...core.errors import InputError, naming_extras
from ...core.plugins import LAB, load_plugin, plugins
from ...pictures.opening import isolate
from .console import INTERRUPTED, complain, flush, plain_streams, unwritten

# Name → module and function, and its line in `arr-coc --help`, shown without importing the module; in this order.
COMMANDS = {
    "look": ("look:command", "Show where a picture's tokens would go; needs no model."),
    "ask": ("ask:command", "Answer a question about a picture, within a budget of tokens."),
    "batch": ("batch:command", "Look at, or ask about, many files; can be stopped and resumed."),
    "serve": ("servers:serve", "Run an OpenAI-compatible server with a budget in each request."),
    "proxy": ("servers:proxy", "Run a proxy that makes the pictures sent to an API cheaper."),
    "mcp": ("servers:mcp", "Give agents tools: look closer, ask, count."),
    "pack": ("pack:command", "Make the few small pictures that a question needs."),
    "video": ("video:command", "Show where the tokens of a video would go, frame by frame."),
    "microscope": ("servers:microscope", "Open a local web page that shows allocations and answers."),
    "doctor": ("doctor:command", "Check what is installed, what works and what is missing."),
}
GROUP = "arr_coc.commands"
# Commands of the laboratory, listed here so that `--help` need not import it and errors can name it.
IN_THE_LAB = {
    "demo": "Show the library at work on pictures that come with it.",
    "bench": "Run benchmarks; print tables and write JSON.",
    "train": "Train on your own pictures, or train mini and scorer again.",
    "calibrate": "Measure where a model looks and which letters it reads.",
    "needle": "Draw test pictures with small things, questions and answers.",
    "pages": "Draw test pages with words, questions and answers.",
}


def summaries() -> dict[str, str]:
    """Return command → line of help: the library's own, the laboratory's, then those of other packages."""
    own = {name: summary for name, (_, summary) in COMMANDS.items()}
    there = plugins(GROUP)
    lab = {name: summary for name, summary in IN_THE_LAB.items() if name in there}
    others = {name: f"From {point.value}." for name, point in there.items() if name not in (*own, *lab)}
    return {**own, **lab, **others}


def import_command(name: str) -> typer.Typer | Callable[..., object]:
    """Return a command's function or typer application; raise `InputError` if its package is not installed."""
    if name in COMMANDS:
        module, _, function = COMMANDS[name][0].partition(":")
        return getattr(import_module(f".{module}", __name__), function)
    point = plugins(GROUP).get(name)
    if point is None:
        raise InputError(f"arr-coc {name} is part of the laboratory; install it: {LAB}")
    return load_plugin(point)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 on success, 2 for input that cannot be used, 130 after Ctrl-C."""
    whole_process = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # typer exports no base class of its usage errors; it is the parent of BadParameter's parent.
    usage_error = cast("type[Exception]", typer.BadParameter.__mro__[2])
    plain_streams()
    if whole_process and chosen_of(arguments) in {*COMMANDS} - {"doctor", "video"}:
        isolate()
    try:
        with naming_extras():
            code = run(arguments or ["--help"])
    except InputError as error:
        code = complain(str(error))
    except usage_error as error:
        code = complain(_usage_line(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        code = unwritten(error)
    if whole_process and "triton" not in sys.modules:  # its nanobind reports uncollected objects on stderr
        gc.freeze()  # skip the last garbage collection, which would take seconds
    sys.exit(flush(code if isinstance(code, int) else 0))


def run(arguments: list[str]) -> object:
    """Call the command that `arguments` name; return its exit code."""
    group = get_command(build(arguments))
    return group(args=arguments, prog_name="arr-coc", standalone_mode=False)


def chosen_of(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def build(arguments: Sequence[str]) -> typer.Typer:
    """Build the application: the command that `arguments` name is imported, all others are a line of help."""
    app = typer.Typer(
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        add_completion=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_arr_coc)
    chosen, known = chosen_of(arguments), summaries()
    if chosen in IN_THE_LAB and chosen not in known:
        import_command(chosen)
    for name, summary in known.items():
        command = import_command(name) if name == chosen else None
        if command is None:
            app.command(name, help=summary)(_not_imported)
        elif isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name, epilog=getattr(command, "epilog", None))(command)
    return app


def _not_imported() -> None:
    raise AssertionError("only the command that was asked for is ever run")


def _print_version(wanted: bool) -> None:
    if wanted:
        from ... import __version__

        print(f"arr-coc {__version__}")
        raise typer.Exit


def _arr_coc(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Decide where a question needs a vision-language model's visual tokens, before any encoder runs."""


def _usage_line(error: Any) -> str:
    context = getattr(error, "ctx", None)
    where = context.command_path if context is not None else "arr-coc"
    return f"{' '.join(str(error.format_message()).split()).rstrip('.')}; see {where} --help"
