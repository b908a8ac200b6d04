"""`arr-coc demo`: questions about the pictures that come with the library, what mini says to them, and what is true."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from arr_coc.app.cli.console import print_json, progress, save_png, say, wait_asleep, writing
from arr_coc.app.cli.options import OnlyJson, OutFolder, with_options
from arr_coc.core.errors import InputError

from .tables import show, table

if TYPE_CHECKING:
    from PIL.Image import Image

    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import JsonObject

    from .answer_sheet import AnswerPanel

SIZE = (512, 512)


@dataclass(frozen=True)
class DemoCommand:
    """What is asked."""

    keep: Annotated[float, typer.Option(help="Share of the visual tokens to spend.")] = 0.25
    questions: Annotated[int, typer.Option(help="How many questions about each example picture.")] = 2
    seed: Annotated[int, typer.Option(help="Of the freshly drawn pictures, one for each family.")] = 7
    out: OutFolder = Path("out/demo")
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu"
    as_json: OnlyJson = False


class Posed(NamedTuple):
    """A question with its true answer. name: of the files. image: a path or a PIL image."""

    name: str
    image: Path | Image
    query: str
    truth: str


@with_options(DemoCommand)
def command(options: DemoCommand) -> None:
    """Ask mini about the example pictures and about a fresh one of every family; right or wrong, all is shown.

    Writes PICTURE.answer.N.png for each question, answers.png with all of them, and answers.json. The questions were
    not chosen by whether mini can answer them: the first ones of each example, and picture 0 of each family's test
    split under the seed.

    \b
    Examples:
      arr-coc demo
      arr-coc demo --keep 0.125 --seed 8 --out eighth
      arr-coc demo --json | jq '.answers[] | select(.right == false)'
    """
    wait_asleep()
    from arr_coc.answering.eye import Eye
    from arr_coc.core.folders import write_json
    from arr_coc.options import check_budget, check_device

    from .answer_sheet import answer_sheet

    check_budget(options.keep)
    check_device(options.device)
    if options.questions < 0:
        raise InputError(f"--questions {options.questions} is less than none; give 0 or more")
    posed, out, rows, panels = [*examples(options.questions), *fresh(options.seed)], options.out, [], []
    with progress([one.name for one in posed], "", hidden=options.as_json) as advance, writing(out):
        eye = Eye.from_pretrained(device=options.device)
        for one in posed:
            advance(one.name)
            panel, row = ask_and_draw(eye, one, options.keep, out)
            panels.append(panel)
            rows.append(row)
        right = sum(panel.right for panel in panels)
        title = f"{right} of {len(panels)} right, from {100 * options.keep:g} % of the visual tokens"
        save_png(answer_sheet(panels, title), out / "answers.png")
        document = {"answers": rows, "right": right, "asked": len(rows), "page": str(out / "answers.png")}
        write_json(out / "answers.json", document)
    print_json(document) if options.as_json else print_answers(document)


def examples(number: int) -> Iterator[Posed]:
    """The first `number` questions about each picture that comes with the library."""
    from arr_coc.app.microscope.desk import example_questions
    from arr_coc.core.folders import EXAMPLES

    for name, asked in example_questions().items():
        for place, (query, truth) in enumerate(asked[:number], start=1):
            yield Posed(f"{Path(name).stem}.answer.{place}", EXAMPLES / name, query, truth)


def fresh(seed: int) -> Iterator[Posed]:
    """The first picture of every family's test split: held-out typefaces, chosen by no one."""
    from ..worlds.needle import FAMILIES, render
    from ..worlds.needle.export import picture

    for family in FAMILIES:
        batch = render(family, 1, SIZE, seed, "test")
        yield Posed(f"{family}.answer", picture(batch, 0), batch.questions[0], batch.answers[0])


def ask_and_draw(eye: Eye, one: Posed, keep: float, out: Path) -> tuple[AnswerPanel, JsonObject]:
    """Ask one question and draw what the model saw."""
    from arr_coc.draw import homunculus
    from arr_coc.pictures.load import load_picture

    from .answer_sheet import AnswerPanel

    shown = load_picture(one.image)
    answer = eye.set_image(shown.pixels).ask(one.query, keep)
    panel, file = AnswerPanel(shown, one.query, answer, one.truth), out / f"{one.name}.png"
    page = homunculus(shown, answer.allocation, eye.scored(one.query), one.query, answer=answer, truth=one.truth)
    save_png(page, file)
    row: JsonObject = {"picture": one.name.split(".")[0], "query": one.query, "answer": answer.text, "truth": one.truth}
    row |= {"right": panel.right, "tokens": answer.tokens, "full": answer.full, "file": str(file)}
    return panel, row | {"seconds": sum(answer.seconds.values()), "uncertainty": answer.uncertainty}


def print_answers(document: JsonObject) -> None:
    from rich.text import Text

    columns = {"picture": "left", "question": "fold", "answer": "fold", "truth": "fold", "": "left"}
    columns |= dict.fromkeys(("tokens", "s", "unsure"), "right")
    rows = [
        (
            *(row["picture"], row["query"], row["answer"], row["truth"]),
            Text("right", style="green") if row["right"] else Text("wrong", style="bold red"),
            *(f"{row['tokens']}/{row['full']}", f"{row['seconds']:.2f}", f"{row['uncertainty']:.2f}"),
        )
        for row in document["answers"]
    ]
    # A terminal of 80 columns has no room for lines between the columns.
    show(table("What mini answers", columns, rows, narrow=True))
    say(f"{document['right']} of {document['asked']} right; all of them on one page: {document['page']}")
