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


def with_options(kind: type[Options]) -> Callable[[Callable[[Options], object]], Callable[..., object]]:
    """Make a typer command of a function that takes the dataclass `kind`: one parameter for each of its fields."""

    def decorate(work: Callable[[Options], object]) -> Callable[..., object]:
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
        command.__doc__, command.__module__ = work.__doc__, work.__module__
        command.__dict__["__signature__"] = inspect.Signature(parameters)
        command.__annotations__ = hints
        return command

    return decorate


# ---- what several commands have --------------------------------------------------------------------------------------

Tokens = Annotated[
    str | None,
    typer.Option(metavar="TOKENS", help="Visual tokens to spend: a number such as 256, or a share such as 25%."),
]
Share = Annotated[
    str | None, typer.Option(metavar="SHARE", help="The same as a share of all tokens of the picture. [default: 0.25]")
]
Clusters = Annotated[
    str, typer.Option(help="With --strategy clusters, what finds them: slic, sam, or the folder of a SAM.")
]
Gaze = Annotated[
    str | None, typer.Option(metavar="Y,X", help="With --strategy clusters: where the eye rests, 0 to 1, as 0.5,0.25.")
]
WordsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="A file with the words of the picture and their places: hOCR, ALTO, TSV or JSON."
    ),
]
Hints = Annotated[
    bool, typer.Option(help="Let known words of a page (PDF, hOCR) help to read it, not only tell where to look.")
]
Ocr = Annotated[
    bool, typer.Option(help="Read the words of pages by OCR, where that is installed and pays; seconds a page, once.")
]
Sureness = Annotated[
    float, typer.Option("--min-sureness", metavar="0–1", help="Give no answer where the model is less sure than this.")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="auto|TIMES",
        help="Read the picture this many times as large. auto: so that its letters have the size that the model "
        "reads best. [default: auto where that size is known, see arr-coc calibrate]",
    ),
]
DrawnScale = Annotated[
    str,
    typer.Option(
        metavar="auto|TIMES",
        help="Draw the parts this many times as large. auto: so that their letters are read best.",
    ),
]
DrawnGrip = Annotated[
    str | None,
    typer.Option(
        metavar="MODEL",
        help="The model whose best size of letters counts. [default: that of --for where known, else a cautious one]",
    ),
]
OwnTables = Annotated[
    Path | None,
    typer.Option("--table", metavar="FILE.toml", help="Your own token tables; they count before the built-in ones."),
]
Crops = Annotated[int, typer.Option(help="The most parts that are enlarged, 1 to 3.")]
PictureFormat = Annotated[str, typer.Option("--format", help="auto, png, jpeg or webp.")]
AsLook = Annotated[str, typer.Option(help="As for arr-coc look.")]
Readings = Annotated[
    int, typer.Option(help="Read an unsure answer again at other sizes, up to so many times; all share the budget.")
]
Page = Annotated[int | None, typer.Option(help="One page of a PDF, from 1.")]
Pages = Annotated[
    str | None, typer.Option(metavar="PAGES", help="Pages of a PDF or TIFF, such as 2-5,7. [default: all]")
]
NewTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.")]
Seed = Annotated[int, typer.Option(help="For strategies that choose at random.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
ModelDevice = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; for the model.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results; made if missing.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only what went wrong.")]
OnlyJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Port = Annotated[int, typer.Option(help="Port to listen on; 0 takes any that is free.")]
Query = Annotated[str, typer.Argument(help="The question.")]
