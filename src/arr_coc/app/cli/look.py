"""`arr-coc look`: where would the tokens go?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from ...errors import InputError


def command(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="IMAGE... QUERY", help="Files, folders or globs, then the question.", show_default=False
        ),
    ],
    query: Annotated[
        list[str] | None,
        typer.Option("--query", "-q", help="A question; may be repeated. All arguments are then pictures."),
    ] = None,
    budget: Annotated[int | None, typer.Option(help="Tokens that may be spent.", show_default=False)] = None,
    keep: Annotated[float | None, typer.Option(help="Share of the full count to spend. [default: 0.25]")] = None,
    strategy: Annotated[str, typer.Option(help="How relevance becomes regions.")] = "quadtree",
    relevance: Annotated[
        str, typer.Option(help="look: what is seen and what the question's words name; scorer: the learned one.")
    ] = "look",
    photos: Annotated[
        bool,
        typer.Option(help="Ask the photo map about things that it knows, where the extra photos is installed."),
    ] = True,
    compare: Annotated[
        str | None, typer.Option(metavar="A,B", help="Two strategies at equal tokens, side by side.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For strategies that draw lots.")] = 0,
    out: Annotated[Path, typer.Option(help="Folder for the results; made if missing.")] = Path("out"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> int:
    """Where would the tokens go? Needs no language model.

    Writes homunculus.png and allocation.json, and prints a table. Of several pictures, each gets its own files
    (NAME.homunculus.png, NAME.allocation.json), one that cannot be read is reported and the rest goes on.

    \b
    Examples:
      arr-coc look street.png "What number is on the red sign?"
      arr-coc look street.png "What number is on the red sign?" --budget 128 --out red
      arr-coc look street.png -q "the red sign" -q "the blue sign"
      arr-coc look street.png "the red sign" --relevance scorer
      arr-coc look photos "Where is the clock?" --keep 0.1 --no-photos
      arr-coc look "scans/*.png" "What is the total?" --compare quadtree,uniform
      arr-coc look form.png "What is the date?" --json | jq .looks[0].tokens
    """
    from .batch import Job, run_batch
    from .targets import expand

    images, queries = split_inputs(inputs, query)
    strategies = parse_compare(compare) if compare is not None else [strategy]
    if len(queries) > 1 and len(strategies) > 1:
        raise InputError("--compare takes one question; leave out --compare or all but one --query")
    job = Job(
        paths=expand(images),
        queries=queries,
        strategies=strategies,
        budget=budget,
        keep=keep,
        seed=seed,
        device=device,
        out=out,
        relevance=relevance,
        photos=photos,
    )
    report = run_batch(job, quiet=as_json)
    if as_json:
        json.dump(report.to_json(), sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        from .tables import print_report

        print_report(report)
    return report.exit_code


def split_inputs(inputs: list[str], query: list[str] | None) -> tuple[list[str], list[str]]:
    """The last argument is the question, unless questions are given by name."""
    if query:
        return inputs, query
    if len(inputs) < 2:
        raise InputError(f'no question was given for {inputs[0]}; write: arr-coc look {inputs[0]} "your question"')
    return inputs[:-1], inputs[-1:]


def parse_compare(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if len(names) != 2 or not all(names):
        raise InputError(f"--compare {text!r} does not name two strategies; write it like --compare quadtree,uniform")
    return names
