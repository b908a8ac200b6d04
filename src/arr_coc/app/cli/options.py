"""Options of commands, those that several commands share declared once.

A command is a function of one dataclass, whose fields are annotated as typer annotates parameters: `Annotated[type,
typer.Option(help=…)]`. `with_options` makes a typer command of such a function. Whatever `arr_coc.options.Options` has
is set by `--set NAME=VALUE`, so that a new option is written there and nowhere else.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_type_hints

import typer

from ...core.errors import InputError
from ...core.runs import check_folder
from ...core.values import JsonObject

if TYPE_CHECKING:
    from ...options import Options

Given = TypeVar("Given")


def with_options(kind: type[Given]) -> Callable[[Callable[[Given], object]], Callable[..., object]]:
    """Make a typer command of a function that takes the dataclass `kind`: one parameter for each of its fields."""

    def decorate(work: Callable[[Given], object]) -> Callable[..., object]:
        def command(**given: object) -> object:
            return work(kind(**given))

        hints: dict[str, object] = get_type_hints(kind, include_extras=True)
        chosen: Any = kind
        parameters = [
            inspect.Parameter(
                item.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if item.default is MISSING else item.default,
                annotation=hints[item.name],
            )
            for item in fields(chosen)
        ]
        command.__doc__, command.__module__ = f"{work.__doc__}{names_for(kind)}", work.__module__
        command.__dict__["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = hints
        return command

    return decorate


def names_for(kind: type) -> str:
    """What `--set` takes, for the help of a command that has it."""
    if not issubclass(kind, Choices):
        return ""
    from ...options import described

    lines = (f"      {name:<17}{meaning.partition('. ')[0].rstrip('.')[:76]}" for name, meaning in described().items())
    return "\n".join(("\n\n    \b\n    Names for --set:", *lines, ""))


Query = Annotated[str, typer.Argument(help="The question.")]
Model = Annotated[str, typer.Option("--model", "-m", help="mini, which is included; a folder; or a name on the hub.")]
AnsweringModel = Annotated[str | None, typer.Option("--model", "-m", help="Also answer: mini, a folder, or a name.")]


def possible_folder(place: Path | None) -> Path | None:
    """Refuse a folder that cannot be one before the work, not after it."""
    if place is not None:
        check_folder(place)
    return place


OutFolder = Annotated[Path, typer.Option(help="Folder for the results; made if missing.", callback=possible_folder)]
OnlyJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Pages = Annotated[str | None, typer.Option(metavar="PAGES", help="Pages of a PDF, such as 3 or 2-5,7. [default: all]")]
Record = Annotated[
    Path | None, typer.Option(metavar="FILE.jsonl", help="Append what is asked and answered to a file of your own.")
]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """How much to spend, and everything else that `Options` has."""

    budget: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Visual tokens to spend: a number such as 256, or a share: 25%."),
    ] = None
    choices: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Set an option, such as relevance=scorer, device=cuda or scale=2; may be repeated.",
        ),
    ] = None

    @property
    def options(self) -> Options:
        """The options, checked; also whether the device can be used."""
        from ...options import Options, check_device, from_text

        options = Options.of(from_text(self.choices or ())).override(budget=self.budget)
        check_device(options.device)
        return options


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a server can be reached, and how much it takes."""

    bind: Annotated[
        str | None, typer.Option(metavar="[HOST:]PORT", help="Where to listen; a host of its own needs a secret.")
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Change a limit, such as queue=16 or upload=8; may be repeated."),
    ] = None

    def address(self, usual: int) -> tuple[str, int]:
        """Host and port; `usual` is the port where none is given."""
        host, _, port = (self.bind or str(usual)).rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise InputError(f"--bind {self.bind} is not [HOST:]PORT; write for example 127.0.0.1:{usual}")
        return host or "127.0.0.1", int(port)


# Units of limits on the command line: megabytes and megapixels.
UNITS = {"upload": 2**20, "cache": 2**20, "pixels": 1e6}


def limits_of(given: list[str] | None, known: tuple[str, ...]) -> JsonObject:
    """Read `--limit NAME=NUMBER`. known: the names that the command has."""
    limits = {}
    for text in given or ():
        name, _, value = text.partition("=")
        if name not in known:
            raise InputError(f"--limit {text} is unknown; choose from {', '.join(known)}")
        try:
            number = float(value) * UNITS.get(name, 1)
        except ValueError:
            raise InputError(f"--limit {text} is not a number; write it like --limit {name}=8") from None
        limits[name] = number if name.endswith("seconds") or not math.isfinite(number) else int(number)
    return limits
