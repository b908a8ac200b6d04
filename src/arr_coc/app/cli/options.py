"""Options of commands. Options that several commands share are declared here, once.

A command is a function of one dataclass, whose fields are annotated as typer annotates parameters: `Annotated[type,
typer.Option(help=…)]`. `with_options` makes a typer command of such a function.
"""

from __future__ import annotations

import inspect
import math
import os
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_type_hints

import typer

from ...core.errors import InputError

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


Query = Annotated[str, typer.Argument(help="The question.")]
Model = Annotated[str, typer.Option("--model", "-m", help="mini, which is included; a folder; or a name on the hub.")]
AnsweringModel = Annotated[str | None, typer.Option("--model", "-m", help="Also answer: mini, a folder, or a name.")]
Device = Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")]
OutFolder = Annotated[Path, typer.Option(help="Folder for the results; made if missing.")]
OnlyJson = Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only the answers, or only what went wrong.")]
AllowUrl = Annotated[bool, typer.Option("--allow-url", help="Fetch inputs that are web addresses.")]
Draw = Annotated[bool, typer.Option(help="Draw the picture as the model sees it; else only write JSON.")]
Pages = Annotated[
    str | None, typer.Option(metavar="PAGES", help="Pages of a PDF or TIFF, such as 3 or 2-5,7. [default: all]")
]
WordsFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Words of the picture and their places: hOCR or JSON.")
]
NewTokens = Annotated[int, typer.Option(help="Longest answer, in tokens.")]
MinSureness = Annotated[float, typer.Option(metavar="0–1", help="Give no answer where the model is less sure.")]
Ocr = Annotated[bool, typer.Option(help="Read the words of pages by OCR, where it is installed and pays.")]
Relevance = Annotated[
    str, typer.Option(help="Which source says where to look: auto, scorer, photos, words, look, detail, glance, …")
]
Scale = Annotated[
    str | None,
    typer.Option(
        metavar="auto|TIMES",
        help="Read the picture this many times as large. auto: so that its letters have the size that the model "
        "reads best. [default: auto where that size is known]",
    ),
]
Budget = Annotated[
    str | None, typer.Option(metavar="TOKENS", help="Visual tokens to spend: a number such as 256, or a share: 25%.")
]
Record = Annotated[
    Path | None, typer.Option(metavar="FILE.jsonl", help="Append what is asked and answered to a file of your own.")
]
OwnTables = Annotated[
    Path | None, typer.Option("--table", metavar="FILE.toml", help="Your own token tables; they are searched first.")
]


Port = Annotated[int, typer.Option(min=0, max=65535, help="0 takes any free port.")]
AllowMedia = Annotated[
    list[str] | None, typer.Option(help="A host that pictures may be fetched from; may be repeated.")
]


@dataclass(frozen=True, kw_only=True)
class Spending:
    """How much to spend, and where to look."""

    budget: Budget = None
    keep: Annotated[
        str | None, typer.Option(metavar="SHARE", help="The budget as a share of all tokens. [default: 0.25]")
    ] = None
    relevance: Relevance = "auto"
    scale: Scale = None
    device: Device = "cpu"

    @property
    def amount(self) -> tuple[int | None, float | None]:
        """Budget and keep, checked."""
        from ...attending.request import check_amount

        return check_amount(self.budget, self.keep)


@dataclass(frozen=True, kw_only=True)
class Choices(Spending):
    """What `look`, `ask` and `batch` share."""

    strategy: Annotated[
        str | None, typer.Option(help="How tokens are placed: overlay, quadtree, uniform, … [default: the model's own]")
    ] = None
    levels: Annotated[int | None, typer.Option(help="The coarsest level of detail.")] = None
    ocr: Ocr = True
    seed: Annotated[int, typer.Option(help="For strategies that choose at random.")] = 0

    @property
    def how(self) -> dict[str, Any]:
        """Keywords of `ask`, checked as far as that needs no picture; relevance and device are not among them."""
        from ...attending.distance import check_scale
        from ...attending.request import check_device
        from ...attending.strategies import check_strategy

        check_device(self.device)
        if self.strategy is not None:
            check_strategy(self.strategy)
        laid = {"strategy": self.strategy, "levels": self.levels, "seed": self.seed}
        return {**laid, "scale": check_scale(self.scale), "ocr": self.ocr}


@dataclass(frozen=True, kw_only=True)
class Listening:
    """Where a server can be reached, and by whom."""

    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a secret.")] = "127.0.0.1"
    allow_origin: Annotated[
        list[str] | None, typer.Option(help="A site whose pages may ask, such as https://example.org; may be repeated.")
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Change a limit, such as queue=16 or upload=8; may be repeated."),
    ] = None

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(self.allow_origin or ())


# Units of limits on the command line: megabytes and megapixels.
UNITS = {"upload": 2**20, "cache": 2**20, "pixels": 1e6}


def limits_of(given: list[str] | None, known: tuple[str, ...]) -> dict[str, Any]:
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


def api_key() -> str | None:
    """The key that clients must send: from the environment, because other users can read a command line."""
    return os.environ.get("ARR_COC_API_KEY") or None
