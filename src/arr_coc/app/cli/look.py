"""`arr-coc look`: where would the tokens go?"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...attending.strategies import DEFAULT_STRATEGY
from ...core.errors import InputError
from ...core.values import JsonObject
from .console import INTERRUPTED, complain, print_json, progress, save_png, say, writing
from .options import AllowUrl, Choices, Draw, OnlyJson, OutFolder, Pages, WordsFile, with_options

if TYPE_CHECKING:
    from ...attending.document_look import DocumentLook
    from ...looking import Look
    from .inputs import PictureSource


@dataclass(frozen=True, kw_only=True)
class LookCommand(Choices):
    """What pictures are looked at with."""

    inputs: Annotated[
        list[str],
        typer.Argument(metavar="IMAGE... QUERY", help="Files, folders, globs or -, then the question."),
    ]
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", help="A question; may be repeated. All arguments are then pictures."),
    ] = None
    words: WordsFile = None
    pages: Pages = None
    total: Annotated[
        bool, typer.Option("--total", help="One budget for all pictures together, as pages of one document.")
    ] = False
    compare: Annotated[
        str | None, typer.Option(metavar="A,B", help="Show two strategies side by side, at the same number of tokens.")
    ] = None
    grip: Annotated[
        str | None,
        typer.Option(metavar="MODEL", help="The model that will read it: letters get the size that it reads best."),
    ] = None
    out: OutFolder = Path("out")
    draw: Draw = True
    allow_url: AllowUrl = False
    as_json: OnlyJson = False


@with_options(LookCommand)
def command(options: LookCommand) -> int:
    """Show where the tokens of a picture would go for a question. Needs no model.

    For each picture it prints a line and writes two files: NAME.homunculus.png, the picture as a model would see it,
    and NAME.allocation.json, the decision. A picture that cannot be read is reported, and the others go on. A document
    with several pages has one budget over all of them; NAME.pages.png shows which pages got tokens.

    \b
    Examples:
      arr-coc look street.png "What number is on the red sign?"
      arr-coc look street.png "What number is on the red sign?" --budget 128 --out red
      arr-coc look street.png -q "the red sign" -q "the blue sign"
      arr-coc look street.png "the red sign" --relevance scorer
      arr-coc look scan.png "How much is the total?" --words scan.hocr
      arr-coc look report.pdf "Who signed it?" --pages 2-5 --budget 256
      arr-coc look a.png b.png c.pdf "Who signed it?" --total --budget 512
      arr-coc look "scans/*.png" "What is the total?" --compare quadtree,uniform
      arr-coc look form.png "What is the date?" --json | jq .looks[0].tokens
      cat form.png | arr-coc look - "What is the date?"
    """
    from ...attending.grip import as_grip
    from ...looking import check_relevance, check_request
    from ...pictures.document import Document
    from ...pictures.pdf import PdfPlace
    from .inputs import expand, result_names
    from .results import look_entry, print_look, print_summary, summary_row, write_look

    images, queries = split_inputs(options.inputs, options.query)
    strategies = (
        two_strategies(options.compare) if options.compare is not None else [options.strategy or DEFAULT_STRATEGY]
    )
    if len(queries) > 1 and len(strategies) > 1:
        raise InputError("--compare takes one question; leave out --compare or all but one --query")
    how = {**options.how, "relevance": options.relevance, "device": options.device, "words": options.words}
    how["grip"] = as_grip(options.grip)
    sources = expand(images, options.allow_url, options.pages, options.total)
    check_request(queries, *options.amount)
    known = options.words is not None or any(isinstance(source.place, PdfPlace | Document) for source in sources)
    check_relevance(options.relevance, ("pixels", "texture", *(("words",) if known else ())))
    if options.words is not None and len(sources) > 1:
        raise InputError(f"--words {options.words} is of one picture, not of {len(sources)}; give one picture")
    entries: list[JsonObject] = []
    rows: list[tuple[str, ...]] = []
    sheets: list[str] = []
    errors: list[dict[str, str]] = []
    code = 0
    with progress(len(sources), "looking", hidden=options.as_json or len(sources) == 1) as advance:
        try:
            for source, name in zip(sources, result_names(sources), strict=True):
                try:
                    looks = looks_at(source, queries, strategies, options.amount, how)
                except InputError as error:
                    errors.append({"image": source.name, "error": str(error)})
                    code = complain(str(error))
                    looks = []
                for number, look in enumerate(looks, start=1):
                    # Several questions are told apart by number, several strategies by name.
                    tag = f".{look.allocation.strategy}" if len(strategies) > 1 else f".{number}"
                    look, files = write_look(options.out, name, tag if len(looks) > 1 else "", look, options.draw)
                    if options.as_json:
                        entries.append(look_entry(source, look, files))
                    elif len(sources) == 1:
                        print_look(source.file, look, files)
                    else:
                        rows.append(summary_row(source, look))
                if len(looks) == 2 and options.draw:
                    sheets += draw_comparison(options.out, name, looks, queries, strategies)
                advance()
        except KeyboardInterrupt:
            code = INTERRUPTED
            complain(f"interrupted; what is done is in {options.out}")
    if options.as_json:
        print_json({"looks": entries, "comparisons": sheets, "errors": errors})
        return code
    if rows:
        print_summary(rows, len(sources), len(queries) > 1)
        say(f"files: {options.out}")
    say(*(f"side by side: {sheet}" for sheet in sheets[:3]))
    if errors and rows:
        say(f"{len(errors)} of {len(sources)} pictures could not be used; see above")
    return code


def split_inputs(inputs: list[str], query: list[str] | None) -> tuple[list[str], list[str]]:
    """The last argument is the question, unless questions are given by name."""
    if query:
        return inputs, query
    if len(inputs) < 2:
        raise InputError(f'no question was given for {inputs[0]}; write: arr-coc look {inputs[0]} "your question"')
    return inputs[:-1], inputs[-1:]


def two_strategies(text: str) -> list[str]:
    from ...attending.strategies import check_strategy

    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(f"--compare {text!r} does not name two strategies; write it like --compare quadtree,uniform")
    for name in names:
        check_strategy(name)
    return names


def looks_at(
    source: PictureSource,
    queries: list[str],
    strategies: list[str],
    amount: tuple[int | None, float | None],
    how: dict[str, Any],
) -> list[Look | DocumentLook]:
    """Every question with every strategy; a second strategy gets as many tokens as the first has spent."""
    from ...core.arrays import torch_threads
    from ...looking import prepare
    from .inputs import quiet_decoder

    with quiet_decoder(source):
        prepared = prepare(source.place)
    looks: list[Look | DocumentLook] = []
    with torch_threads(1):
        for query in queries:
            for number, strategy in enumerate(strategies):
                spent = (looks[-1].allocation.tokens, None) if number else amount
                chosen: dict[str, Any] = {**how, "strategy": strategy}
                looks.append(prepared.look(query, *spent, **chosen))
    return looks


def draw_comparison(
    out: Path, name: str, looks: list[Look | DocumentLook], queries: list[str], strategies: list[str]
) -> list[str]:
    """Draw two looks at one picture side by side; return the paths that were written."""
    from ...draw import comparison
    from ...looking import Look

    pictured = [look for look in looks if isinstance(look, Look)]
    if len(pictured) != 2:
        return []
    titles, title = (strategies, queries[0]) if len(strategies) > 1 else (queries, "")
    drawn = comparison(pictured[0].picture, [look.allocation for look in pictured], titles, title)
    with writing(out):
        save_png(drawn, out / f"{name}.comparison.png")
    return [str(out / f"{name}.comparison.png")]
