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

# Name → module and function, and what `arr-coc --help` says, shown without importing the module; in its order.
COMMANDS = {
    "look": ("look:command", "Show where a picture's tokens would go; needs no model."),
    "ask": ("ask:command", "Answer a question about a picture, within a budget of tokens."),
    "batch": ("batch:command", "Look at, or ask about, many files; can be stopped and resumed."),
    "serve": ("servers:serve", "An OpenAI-compatible server with a budget in each request."),
    "proxy": ("servers:proxy", "Stand in front of an API and make its pictures cheaper."),
    "mcp": ("servers:mcp", "Tools for agents: look closer, ask, count."),
    "pack": ("pack:command", "Make the few small pictures that a question needs."),
    "video": ("video:command", "The same for clips: where tokens go, frame by frame."),
    "microscope": ("servers:microscope", "A web page on this machine that shows all of this."),
    "doctor": ("doctor:command", "What is installed, what works, what is missing."),
}
GROUP = "arr_coc.commands"
# What the laboratory adds, so that a missing one can be named and `--help` imports nothing of it.
IN_THE_LAB = {
    "demo": "The library at work on the pictures that come with it.",
    "bench": "Measure: tables on the screen, JSON beside them.",
    "train": "Train on your own pictures, or train mini and scorer again.",
    "calibrate": "Measure where a model looks and which letters it reads.",
    "needle": "Draw test pictures with small things, questions and answers.",
    "pages": "Draw test pages with words, questions and answers.",
}


def summaries() -> dict[str, str]:
    """Command → its line of help: the library's own, then the laboratory's, then those that other packages add."""
    own = {name: summary for name, (_, summary) in COMMANDS.items()}
    there = plugins(GROUP)
    lab = {name: summary for name, summary in IN_THE_LAB.items() if name in there}
    others = {name: f"Of {point.value}." for name, point in there.items() if name not in (*own, *lab)}
    return {**own, **lab, **others}


def import_command(name: str) -> typer.Typer | Callable[..., object]:
    """A command's function or its typer application; `InputError` in one line where its package is not installed."""
    if name in COMMANDS:
        module, _, function = COMMANDS[name][0].partition(":")
        return getattr(import_module(f".{module}", __name__), function)
    point = plugins(GROUP).get(name)
    if point is None:
        raise InputError(f"arr-coc {name} is part of the laboratory; install it: {LAB}")
    return load_plugin(point)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 when all went well, 2 for input that cannot be used, 130 after Ctrl-C."""
    whole_process = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # typer does not name the parent of all its usage errors in public; it is the parent of BadParameter's parent.
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
    if whole_process and "triton" not in sys.modules:  # whose nanobind says on stderr what is not collected
        gc.freeze()  # what is left goes with the process; looking through it once more would take seconds
    sys.exit(flush(code if isinstance(code, int) else 0))


def run(arguments: list[str]) -> object:
    """Call the command that `arguments` name; its exit code."""
    group = get_command(build(arguments))
    return group(args=arguments, prog_name="arr-coc", standalone_mode=False)


def chosen_of(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application with the command that `arguments` name imported and all others as one line of help."""
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
            app.command(name)(command)
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
