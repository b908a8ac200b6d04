"""`arr-coc demo`: the library at work on the pictures that come with it."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import typer

from ...errors import InputError
from .demo_zoo import zoo

app = typer.Typer(no_args_is_help=True)
app.command("zoo")(zoo)
EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Shown:
    """One bundled picture and two questions that should be answered from two different places of it."""

    picture: str
    questions: tuple[str, str]
    budget: int


# Without a model, a question acts through its plain words: colours, places, and whether something is to be read.
SHOWN = (
    Shown("street.png", ("What is on the red sign?", "What is on the blue sign?"), budget=60),
    Shown("chart.png", ("How high is the red bar?", "How high is the purple bar?"), budget=60),
    Shown("receipt.png", ("What date is at the top?", "What total is at the bottom?"), budget=120),
    Shown("form.png", ("What is written at the top left?", "What is written at the bottom right?"), budget=120),
)


@app.callback()
def demo() -> None:
    """The library at work on the pictures that come with it.

    \b
    Examples:
      arr-coc demo look
      arr-coc demo look --out demo
      arr-coc demo look --json | jq .looks[0].tokens
      arr-coc demo answers
      arr-coc demo answers --keep 0.125 --out eighth
      arr-coc demo zoo
    """


@app.command("answers")
def answers(
    keep: Annotated[float, typer.Option(help="Share of the visual tokens to spend.")] = 0.25,
    questions: Annotated[int, typer.Option(help="Of each example picture, the first so many.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the freshly drawn pictures, one for each family.")] = 7,
    out: Annotated[Path, typer.Option(help="Folder for the results; made if missing.")] = Path("out/demo"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Ask mini about the example pictures and about a fresh one of every family; right or wrong, all is shown.

    Writes PICTURE.answer.N.png for each question, answers.png with all of them, and answers.json. The questions were
    not chosen by whether mini can answer them: the first ones of each example, and picture 0 of each family's test
    split under the seed.

    \b
    Examples:
      arr-coc demo answers
      arr-coc demo answers --keep 0.125 --seed 8 --out eighth
      arr-coc demo answers --json | jq '.answers[] | select(.right == false)'
    """
    from .ask import wait_asleep

    wait_asleep()
    from .demo_answers import run

    run(keep=keep, questions=questions, seed=seed, out=out, device=device, quiet=as_json)


@app.command("look")
def look(
    out: Annotated[Path, typer.Option(help="Folder for the results; made if missing.")] = Path("out/demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Four example pictures, two questions about each: the same budget, spent in different places.

    Writes for each question PICTURE.homunculus.N.png and PICTURE.allocation.N.json, and for each picture
    PICTURE.comparison.png. Needs no model.
    """
    from ...looking import prepare
    from .bench import progress

    started = perf_counter()
    examples = [shown.picture for shown in SHOWN]
    missing = [name for name in examples if not (EXAMPLES / name).is_file()]
    if missing:
        raise InputError(f"the example pictures {', '.join(missing)} are not installed; install arr-coc again")
    with progress(examples, "looking at", hidden=as_json) as advance:
        found = []
        for shown in SHOWN:
            advance(shown.picture)
            prepared = prepare(EXAMPLES / shown.picture)  # sensed once, asked twice
            looks = [prepared.look(question, budget=shown.budget) for question in shown.questions]
            found.append(show(shown, looks, out))
    results = [result for results in found for result in results["looks"]]
    if as_json:
        json.dump({"looks": results, "comparisons": [one["comparison"] for one in found]}, sys.stdout)
        sys.stdout.write("\n")
        return
    print_demo(results, [one["comparison"] for one in found], perf_counter() - started)


def show(shown: Shown, looks: list[Any], out: Path) -> dict[str, Any]:
    """Draw and write one picture's results; refuses an allocation that does not cost what was announced."""
    from ...attending import tokens_for
    from ...draw import comparison, homunculus
    from ...files import write_json
    from ...values import compare
    from .batch import save_png
    from .targets import writing

    stem = Path(shown.picture).stem
    first, second = looks
    moved = compare(first.allocation, second.allocation).moved
    results = []
    with writing(out):
        for number, one in enumerate(looks, start=1):
            allocation, question = one.allocation, one.relevance.query
            announced = tokens_for(one.picture.size, allocation.budget)
            assert allocation.tokens == announced, f"{shown.picture}: {allocation.tokens} tokens, not {announced}"
            page, document = out / f"{stem}.homunculus.{number}.png", out / f"{stem}.allocation.{number}.json"
            save_png(homunculus(one.picture, allocation, one.relevance, question), page)
            write_json(document, allocation.to_json())
            results.append(
                {
                    "picture": shown.picture,
                    "question": question,
                    "budget": allocation.budget,
                    "announced": announced,
                    "tokens": allocation.tokens,
                    "full": allocation.full,
                    "finest": allocation.tokens_by_level().get(0, 0),
                    "moved": moved,
                    "files": {"homunculus": str(page), "allocation": str(document)},
                }
            )
        page = out / f"{stem}.comparison.png"
        save_png(comparison(first.picture, [one.allocation for one in looks], shown.questions), page)
    return {"looks": results, "comparison": {"picture": shown.picture, "moved": moved, "file": str(page)}}


def print_demo(results: list[dict[str, Any]], comparisons: list[dict[str, Any]], seconds: float) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Where the tokens go, without any model", title_justify="left", title_style="bold")
    for heading in ("picture", "question"):
        table.add_column(heading)
    for heading in ("budget", "tokens", "of full", "level 0"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, result in enumerate(results):
        table.add_row(
            result["picture"] if number % 2 == 0 else "",
            result["question"],
            *(str(result["budget"]), str(result["tokens"])),
            *(f"{100 * result['tokens'] / result['full']:.1f} %", str(result["finest"])),
            end_section=number % 2 == 1,
        )
    console = Console()
    console.print(table)
    console.print("Each costs exactly what tokens_for tells from the picture's size alone.", highlight=False)
    for one in comparisons:
        moved = f"the question moves {one['moved']:.0f} tokens, side by side in {one['file']}"
        console.print(f"{one['picture']}: {moved}", highlight=False, soft_wrap=True)
    for result in results:
        console.print(f"files: {', '.join(result['files'].values())}", highlight=False, soft_wrap=True)
    console.print(f"{seconds:.1f} s in all", highlight=False)
