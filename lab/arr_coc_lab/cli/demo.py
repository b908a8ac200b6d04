"""`arr-coc demo`: the library at work on the pictures that come with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.folders import EXAMPLES
from arr_coc.options import Options

from .tables import show, table

if TYPE_CHECKING:
    from arr_coc.core.values import JsonObject
    from arr_coc.looking import Look

app = typer.Typer(no_args_is_help=True)


@dataclass(frozen=True)
class Shown:
    """One bundled picture and two questions that should be answered from two different places of it."""

    picture: str
    questions: tuple[str, str]
    budget: int


SHOWN = (
    Shown("street.png", ("What does the pink sign say?", "What is on the brown sign?"), budget=40),
    Shown("chart.png", ("What is the value for 2017?", "What number is over 2013?"), budget=40),
    Shown("receipt.png", ("What is the date?", "What is the price of grapes?"), budget=40),
    Shown("form.png", ("Find the end date.", "What is entered as station?"), budget=40),
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
      arr-coc demo gallery --page gallery.md
      arr-coc demo zoo
    """


@app.command("answers")
def answers(
    keep: Annotated[float, typer.Option(help="Share of the visual tokens to spend.")] = 0.25,
    questions: Annotated[int, typer.Option(help="Of each example picture, the first so many.")] = 2,
    seed: Annotated[int, typer.Option(help="Of the freshly drawn pictures, one for each family.")] = 7,
    out: Annotated[Path, typer.Option(help="Folder for the results; made if missing.")] = Path("out/demo"),
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
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
    wait_asleep()
    from .demo_answers import run

    run(keep=keep, questions=questions, seed=seed, out=out, device=device, quiet=as_json)


@app.command("gallery")
def gallery(
    page: Annotated[Path, typer.Option(help="The page; pictures go into a folder beside it.")] = Path("out/gallery.md"),
    keep: Annotated[float, typer.Option(help="Share of the visual tokens to spend.")] = 0.125,
    seed: Annotated[int, typer.Option(help="Of the freshly drawn pictures, two for each family.")] = 7,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
) -> None:
    """A page of twenty-two pictures with question, answer, truth and what the model saw, right and wrong ones alike.

    \b
    Examples:
      arr-coc demo gallery
      arr-coc demo gallery --keep 0.25 --page gallery.md
    """
    wait_asleep()
    from tempfile import TemporaryDirectory

    from .demo_answers import run, write_gallery

    with TemporaryDirectory() as folder:
        found = run(keep=keep, questions=2, seed=seed, out=Path(folder), device=device, quiet=False, number=2)
        write_gallery(found, page)
    say(f"files: {page}")


@app.command("look")
def look(
    out: Annotated[Path, typer.Option(help="Folder for the results; made if missing.")] = Path("out/demo"),
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Four example pictures, two questions about each: the same budget, spent in different places.

    Writes for each question PICTURE.homunculus.N.png and PICTURE.allocation.N.json, and for each picture
    PICTURE.comparison.png. The bundled scorer reads the pictures; no language model is needed.
    """
    from arr_coc.looking import prepare

    started = perf_counter()
    examples = [shown.picture for shown in SHOWN]
    missing = [name for name in examples if not (EXAMPLES / name).is_file()]
    if missing:
        raise InputError(f"the example pictures {', '.join(missing)} are not installed; install arr-coc again")
    with progress(examples, "looking at", hidden=as_json) as advance:
        shown_all = []
        for shown in SHOWN:
            advance(shown.picture)
            prepared = prepare(EXAMPLES / shown.picture)  # sensed once, asked twice
            looks = [
                prepared.look(question, Options(budget=shown.budget, relevance="scorer"))
                for question in shown.questions
            ]
            shown_all.append(draw_looks(shown, looks, out))
    results = [result for one in shown_all for result in one["looks"]]
    if as_json:
        print_json({"looks": results, "comparisons": [one["comparison"] for one in shown_all]})
        return
    print_demo(results, [one["comparison"] for one in shown_all], perf_counter() - started)


def draw_looks(shown: Shown, looks: list[Look], out: Path) -> JsonObject:
    """Draw and write one picture's results; refuses an allocation that does not cost what was announced."""
    from arr_coc.app.cli.console import save_png
    from arr_coc.core.files import write_json
    from arr_coc.core.values import compare
    from arr_coc.draw import comparison, homunculus
    from arr_coc.packing.prices.counting import tokens_for

    stem = Path(shown.picture).stem
    first, second = looks
    moved = compare(first.allocation, second.allocation).moved
    results = []
    with writing(out):
        for number, one in enumerate(looks, start=1):
            allocation, question = one.allocation, one.relevance.query
            announced = tokens_for(one.picture.size, allocation.budget, strategy=allocation.strategy)
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


def print_demo(results: list[JsonObject], comparisons: list[dict[str, object]], seconds: float) -> None:
    columns = {"picture": "left", "question": "left"}
    columns |= dict.fromkeys(("budget", "tokens", "of full", "level 0"), "right")
    rows = [
        (
            result["picture"] if number % 2 == 0 else "",
            result["question"],
            *(str(result["budget"]), str(result["tokens"])),
            *(f"{100 * result['tokens'] / result['full']:.1f} %", str(result["finest"])),
        )
        for number, result in enumerate(results)
    ]
    show(table("Where the tokens go, without any model", columns, rows, sections=range(1, len(rows), 2)))
    say("Each costs exactly what tokens_for tells from the picture's size alone.")
    for one in comparisons:
        say(f"{one['picture']}: the question moves {one['moved']:.0f} tokens, side by side in {one['file']}")
    say(*(f"files: {', '.join(result['files'].values())}" for result in results), f"{seconds:.1f} s in all")
