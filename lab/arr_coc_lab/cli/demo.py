"""`arr-coc demo`: questions about the bundled pictures, with mini's answers and the right ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from arr_coc.app.cli.console import print_json, progress, save_png, say, wait_asleep, writing
from arr_coc.app.cli.options import OnlyJson, OutFolder
from arr_coc.options import check_budget, check_device

from .worlds import Device

if TYPE_CHECKING:
    from PIL.Image import Image

    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import JsonObject

SIZE, QUESTIONS = (512, 512), 2


class Posed(NamedTuple):
    """A question with its right answer. name: stem of the files. image: a path or a PIL image."""

    name: str
    image: Path | Image
    query: str
    truth: str


def command(
    keep: Annotated[float, typer.Option(help="Share of the visual tokens to spend.")] = 0.25,
    seed: Annotated[int, typer.Option(help="Seed of the drawn pictures, one for each family.")] = 7,
    out: OutFolder = Path("out/demo"),
    device: Device = "cpu",
    as_json: OnlyJson = False,
) -> None:
    """Ask mini about the example pictures and a newly drawn one of each family; show right and wrong answers.

    Writes PICTURE.answer.N.png for each question, answers.png with all of them, and answers.json. Questions are not
    selected by difficulty: the first ones about each example, and picture 0 of each family's test split for the seed.

    \b
    Examples:
      arr-coc demo
      arr-coc demo --keep 0.125 --seed 8 --out eighth
      arr-coc demo --json | jq '.answers[] | select(.right == false)'
    """
    check_budget(keep)
    check_device(device)
    wait_asleep()
    from arr_coc.answering.eye import Eye
    from arr_coc.core.folders import write_json

    from ..worlds.needle.export import contact_sheet

    posed, rows, drawn = list(pose(seed)), [], []
    with progress(len(posed), "asking", hidden=as_json) as advance, writing(out):
        eye = Eye.from_pretrained(device=device)
        for one in posed:
            advance()
            page, row = ask_and_draw(eye, one, keep, out)
            drawn.append(page)
            rows.append(row)
        captions = [f"{row['query']}\n{verdict(row)}" for row in rows]
        save_png(contact_sheet(drawn, captions, tile=480), out / "answers.png")
        right = sum(row["right"] for row in rows)
        document = {"answers": rows, "right": right, "asked": len(rows), "page": str(out / "answers.png")}
        write_json(out / "answers.json", document)
    print_json(document) if as_json else print_answers(document)


def pose(seed: int) -> Iterator[Posed]:
    """Return the first questions about each bundled picture, then those about the first picture of every family's test
    split, with held-out typefaces; no question is selected."""
    from arr_coc.core.folders import EXAMPLES

    from ..worlds.needle import FAMILIES, render
    from ..worlds.needle.export import picture

    for name, asked in json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8")).items():
        for place, one in enumerate(asked[:QUESTIONS], start=1):
            yield Posed(f"{Path(name).stem}.answer.{place}", EXAMPLES / name, one["query"], one["answer"])
    for family in FAMILIES:
        batch = render(family, 1, SIZE, seed, "test")
        yield Posed(f"{family}.answer", picture(batch, 0), batch.questions[0], batch.answers[0])


def ask_and_draw(eye: Eye, one: Posed, keep: float, out: Path) -> tuple[Image, JsonObject]:
    """Ask one question and draw what the model saw."""
    from arr_coc.draw import homunculus
    from arr_coc.pictures.load import load_picture

    shown = load_picture(one.image)
    answer, file = eye.set_image(shown.pixels).ask(one.query, keep), out / f"{one.name}.png"
    page = homunculus(shown, answer.allocation, eye.scored(one.query), one.query, answer=answer, truth=one.truth)
    save_png(page, file)
    row: JsonObject = {"picture": one.name.split(".")[0], "query": one.query, "answer": answer.text, "truth": one.truth}
    row |= {"right": answer.text == one.truth, "tokens": answer.tokens, "full": answer.full, "file": str(file)}
    return page, row | {"seconds": sum(answer.seconds.values()), "uncertainty": answer.uncertainty}


def verdict(row: JsonObject) -> str:
    return f"{row['answer']}: right" if row["right"] else f"{row['answer']}: wrong, it is {row['truth']}"


def print_answers(document: JsonObject) -> None:
    for row in document["answers"]:
        cost = f"{row['tokens']}/{row['full']} tokens, {row['seconds']:.2f} s, uncertainty {row['uncertainty']:.2f}"
        say(f"{row['picture']}: {row['query']}", f"    {verdict(row)} ({cost})")
    say(f"{document['right']} of {document['asked']} right; all of them on one page: {document['page']}")
