"""Options of commands: a dataclass each, from which typer makes the command line; those that many have, told once.

A field is annotated as typer wants a parameter to be: `Annotated[type, typer.Option(help=…)]`. `with_options` turns a
function of such a dataclass into a command.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

Options = TypeVar("Options")


def with_options(kind: type[Options]) -> Callable[[Callable[[Options], Any]], Callable[..., Any]]:
    """Make a typer command of a function that takes the dataclass `kind`: one parameter for each of its fields."""

    def decorate(work: Callable[[Options], Any]) -> Callable[..., Any]:
        def command(**given: Any) -> Any:
            return work(kind(**given))

        hints: dict[str, Any] = get_type_hints(kind, include_extras=True)
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
        command.__doc__, command.__module__ = work.__doc__, work.__module__
        command.__dict__["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = hints
        return command

    return decorate


# ---- what several commands have --------------------------------------------------------------------------------------

Tokens = Annotated[str | None, typer.Option(metavar="TOKENS", help="Tokens that may be spent, 256 or 25%.")]
Share = Annotated[str | None, typer.Option(metavar="SHARE", help="Share of the full count to spend. [default: 0.25]")]
Clusters = Annotated[str, typer.Option(help="With --strategy clusters: slic, sam, or the folder of a SAM.")]
Gaze = Annotated[
    str | None, typer.Option(metavar="Y,X", help="With --strategy clusters: where the eye rests, 0 to 1, as 0.5,0.25.")
]
WordsFile = Annotated[Path | None, typer.Option(metavar="FILE", help="Words of the picture: hOCR, ALTO, TSV or JSON.")]
Hints = Annotated[
    bool, typer.Option(help="Let known words of a page (PDF, hOCR) help to read it, not only tell where to look.")
]
Sureness = Annotated[
    float, typer.Option("--min-sureness", metavar="0–1", help="Say nothing where the model is less sure than this.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="auto|TIMES",
        help="From how far to read: so many times as large, or by the model's grip and the size of the letters. "
        "[default: auto where the grip is known]",
    ),
]
DrawnScale = Annotated[
    str,
    typer.Option(
        metavar="auto|TIMES",
        help="How large what is enlarged is drawn: so many times, or so that its letters are read best.",
    ),
]
DrawnGrip = Annotated[
    str | None,
    typer.Option(metavar="MODEL", help="Whose grip says what is read best. [default: the model's own, else cautious]"),
]
Readings = Annotated[
    int, typer.Option(help="Where unsure, read again from the next distance; the budget is that of all.")
]
Page = Annotated[int | None, typer.Option(help="One page of a PDF, from 1.")]
Pages = Annotated[
    str | None, typer.Option(metavar="PAGES", help="Pages of a PDF or TIFF, such as 2-5,7. [default: all]")
]
NewTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.")]
Seed = Annotated[int, typer.Option(help="For strategies that draw lots.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
ModelDevice = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; for the model.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results; made if missing.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but what went wrong.")]
OnlyJson = Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")]
Port = Annotated[int, typer.Option(help="0 takes any that is free.")]
Query = Annotated[str, typer.Argument(help="The question.")]
