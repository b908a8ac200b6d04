"""The command line `arr-coc`: one file per command, and only the chosen command's file is imported.

To add a command: write `cli/NAME.py` with a function `command` (or, for a command with sub-commands, a typer `app`),
and add one line to `COMMANDS`. Another package adds one by an entry point of the group `arr_coc.commands`: its name is
the command's, and it names such a module.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType
from typing import Annotated, Any, NamedTuple, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from ...core.errors import InputError, naming_extras
from ...core.files import check_folder
from ...core.plugins import LAB, load_plugin, plugins
from .console import INTERRUPTED, complain, flush, plain_streams, unwritten


class Command(NamedTuple):
    """module: in this folder. summary: what `arr-coc --help` says, shown without importing the module."""

    module: str
    summary: str


# In the order in which `--help` lists them: what a user wants first.
COMMANDS: dict[str, Command] = {
    "look": Command("look", "Show where a picture's tokens would go; needs no model."),
    "ask": Command("ask", "Answer a question about a picture, within a budget of tokens."),
    "batch": Command("batch", "Look at, or ask about, many files; can be stopped and resumed."),
    "serve": Command("serve", "An OpenAI-compatible server with a budget in each request."),
    "proxy": Command("proxy", "Stand in front of an API and make its pictures cheaper."),
    "pack": Command("pack", "Make the few small pictures that a question needs."),
    "video": Command("video", "The same for clips: where tokens go, frame by frame."),
    "microscope": Command("microscope", "A web page on this machine that shows all of this."),
    "doctor": Command("doctor", "What is installed, what works, what is missing."),
}
GROUP = "arr_coc.commands"
# What the laboratory adds, so that a missing one can be named and `--help` imports nothing of it.
IN_THE_LAB = {
    "demo": "The library at work on the pictures that come with it.",
    "bench": "Measure: tables on the screen, JSON beside them.",
    "train": "Train on your own pictures, or train mini and scorer again.",
    "calibrate": "Measure where a model looks and which letters it reads.",
    "needle": "Draw test pictures with small things, questions and answers.",
    "pages": "Draw test pages with a browser, with questions and answers.",
}


def summaries() -> dict[str, str]:
    """Command → its line of help: the library's own, then the laboratory's, then those that other packages add."""
    own = {name: command.summary for name, command in COMMANDS.items()}
    there = plugins(GROUP)
    lab = {name: summary for name, summary in IN_THE_LAB.items() if name in there}
    others = {name: f"Of {point.value}." for name, point in there.items() if name not in IN_THE_LAB}
    return {**own, **lab, **others, **own}  # own twice: first in order, and not to be replaced


class Sections(TyperGroup):
    """The commands in their order, those of the laboratory and of other packages under a heading of their own."""

    def list_commands(self, ctx: object) -> list[str]:
        return [name for name in summaries() if name in self.commands]

    def format_commands(self, ctx: object, formatter: Any) -> None:
        names = self.list_commands(ctx)
        room = formatter.width - 6 - max(map(len, names))
        added = [name for name in names if name not in COMMANDS]
        for heading, part in (("Commands", list(COMMANDS)), ("Measuring and laboratory", added)):
            if part:
                with formatter.section(heading):
                    formatter.write_dl([(name, self.commands[name].get_short_help_str(room)) for name in part])


def import_command(name: str) -> ModuleType:
    """The module of a command; `InputError` in one line where its package is not installed."""
    if name in COMMANDS:
        return import_module(f".{COMMANDS[name].module}", __name__)
    point = plugins(GROUP).get(name)
    if point is None:
        raise InputError(f"arr-coc {name} is part of the laboratory; install it: {LAB}")
    return load_plugin(point)


# Set by a shell that wants to complete a line: `arr-coc --install-completion` tells it so.
COMPLETE = "_ARR_COC_COMPLETE"
# What a system says where nothing can be written.
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.EIO)


# What the program says where it is called with nothing.
FIRST_STEPS = """\
arr-coc decides where a question needs a vision-language model's visual tokens.

Five things to try:
  arr-coc look page.png "What is the total?"                  where the tokens would go; draws it
  arr-coc ask page.png "What is the total?"                   an answer, offline; of PDFs too
  arr-coc pack page.png "What is the total?" --for qwen3-vl   the few small pictures that an API needs
  arr-coc microscope --open                                   the same on a web page
  arr-coc doctor                                              what is installed, and what is missing

arr-coc --help lists all commands; arr-coc COMMAND --help explains one."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: 0 when all went well, 2 for input that cannot be used, 130 after Ctrl-C."""
    whole_process = arguments is None
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    # typer does not name the parent of all its usage errors in public; it is the parent of BadParameter's parent.
    usage_error = cast("type[Exception]", typer.BadParameter.__mro__[2])
    plain_streams()
    try:
        with naming_extras():
            if arguments or COMPLETE in os.environ:
                code = run(arguments)
            else:
                code = 0
                print(FIRST_STEPS)
    except InputError as error:
        code = complain(str(error))
    except usage_error as error:
        code = complain(_usage_line(error))
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except OSError as error:
        if error.filename is None:
            code = unwritten(error)
        elif error.errno in NO_ROOM:
            code = complain(
                f"cannot write {error.filename} ({error.strerror}); free some space or choose another place"
            )
        else:  # a mistake of ours, to be seen
            raise
    if whole_process:
        gc.freeze()  # what is left goes with the process; looking through it once more would take seconds
    sys.exit(flush(code if isinstance(code, int) else 0))


def run(arguments: list[str]) -> object:
    """Call the command that `arguments` name; its exit code."""
    completing = os.environ.get(COMPLETE)
    # A shell that wants completions calls the program without arguments and leaves its line in a variable.
    line = os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS") or ""
    words = line.split()[1:] if completing else arguments
    chosen = chosen_of(words)
    if not completing:
        check_out(chosen, arguments)
    group: Any = get_command(build(words))
    return group(args=arguments, prog_name="arr-coc", standalone_mode=False)


# Commands whose --out is a file.
TO_FILES = ("calibrate", "train")


def check_out(command: str | None, arguments: Sequence[str]) -> None:
    """Refuse a folder that cannot be one before anything is imported, not after all the work."""
    for number, argument in enumerate(arguments):
        name, sign, value = argument.partition("=")
        place = value if sign else next(iter(arguments[number + 1 :]), "")
        if name == "--out" and place and "\0" not in place:
            check_folder(os.path.dirname(place) or "." if command in TO_FILES else place)


def chosen_of(arguments: Sequence[str]) -> str | None:
    return next((argument for argument in arguments if not argument.startswith("-")), None)


def build(arguments: Sequence[str]) -> typer.Typer:
    """The application with the command that `arguments` name imported and all others as one line of help."""
    app = typer.Typer(
        cls=Sections,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_arr_coc)
    chosen = chosen_of(arguments)
    known = summaries()
    if chosen in IN_THE_LAB and chosen not in known:
        import_command(chosen)
    for name, summary in known.items():
        if name != chosen:
            app.command(name, help=summary)(_not_imported)
            continue
        module = import_command(name)
        if hasattr(module, "app"):
            app.add_typer(module.app, name=name)
        else:
            app.command(name)(module.command)
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
