"""Options of commands; those that several commands share are declared once.

A command is a function of one dataclass, whose fields are annotated as typer annotates parameters: `Annotated[type,
typer.Option(help=…)]`. `with_options` makes a typer command of such a function. `--set NAME=VALUE` sets any field of
`arr_coc.options.Options`, so a new option is added there and nowhere else.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, TypeVar, get_type_hints

import typer

from ...core.errors import InputError, shown
from ...core.runs import check_folder
from .inputs import check_record

if TYPE_CHECKING:
    from ...core.values import JsonObject
    from ...options import Options

Given = TypeVar("Given")


def with_options(kind: type[Given]) -> Callable[[Callable[[Given], object]], Callable[..., object]]:
    """Make a typer command of a function of the dataclass `kind`, with one parameter for each of its fields."""

    def decorate(work: Callable[[Given], object]) -> Callable[..., object]:
        def command(**given: object) -> object:
            return work(kind(**given))

        hints, given = get_type_hints(kind, include_extras=True), inspect.signature(kind).parameters.values()
        parameters = [one.replace(annotation=hints[one.name]) for one in given]
        command.__doc__, command.__module__ = work.__doc__, work.__module__
        command.__dict__.update(__signature__=inspect.Signature(parameters), epilog=names_for(kind))
        command.__annotations__ = hints
        return command

    return decorate


def names_for(kind: type) -> str:
    """List the names that `--set` takes, for the help of commands that have it."""
    if not issubclass(kind, Choices):
        return ""
    first = {name: shorten(text.partition(". ")[0], 76, placeholder=" …") for name, text in described().items()}
    return "\n".join(("\b\nNames for --set:", *(f"  {name:<17}{text}" for name, text in first.items())))


def described() -> dict[str, str]:
    """Return the name and meaning of every option, from the docstring of `Options`."""
    from ...options import Options

    text = (Options.__doc__ or "").partition("Args:\n")[2]
    entries = re.findall(r"^ {8}(\w+): (.*(?:\n {12}.*)*)", text, re.MULTILINE)
    return {name: " ".join(meaning.split()) for name, meaning in entries}


def from_text(pairs: Iterable[str]) -> JsonObject:
    """Parse ["levels=2", "ocr=false"] into {"levels": 2, "ocr": False}: values are JSON, or else text."""
    found: JsonObject = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not sign or not name.isidentifier():
            raise InputError(f"{shown(pair)} is not NAME=VALUE; write for example levels=2")
        try:
            found[name] = json.loads(value)
        except ValueError:
            found[name] = value
    return found


def possible_folder(place: Path | None) -> Path | None:
    """Check before the work, not after it, that a folder can be made."""
    if place is not None:
        check_folder(place)
    return place


Query = Annotated[str, typer.Argument(help="The question.")]
Model = Annotated[str, typer.Option("--model", "-m", help="mini (included), a folder, or a name on the hub.")]
AnsweringModel = Annotated[str | None, typer.Option("--model", "-m", help="Also answer, with mini, a folder or name.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results; created if missing.", callback=possible_folder)]
OnlyJson = Annotated[bool, typer.Option("--json", help="Print JSON only.")]
Pages = Annotated[str | None, typer.Option(metavar="PAGES", help="Pages of a PDF, such as 3 or 2-5,7. [default: all]")]
Record = Annotated[
    Path | None,
    typer.Option(metavar="FILE.jsonl", help="Append questions and answers to this file.", callback=check_record),
]


@dataclass(frozen=True, kw_only=True)
class Choices:
    """The budget, and `--set` for everything else in `Options`."""

    budget: Annotated[
        str | None,
        typer.Option(metavar="TOKENS", help="Visual tokens to spend: a number (256), a share (25%) or auto."),
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
        """Return the options, checked, including whether the device can be used."""
        from ...options import Options, check_device

        options = Options.of(from_text(self.choices or ())).override(budget=self.budget)
        check_device(options.device)
        return options
