"""`arr-coc demo answers`: questions, what mini says to them, and what is true."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from PIL.Image import Image

from arr_coc.answering.eye import Eye
from arr_coc.app.cli.console import print_json, progress, save_png, say, writing
from arr_coc.app.microscope.linking import EXAMPLES, example_questions
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI, SCORER, WEIGHTS
from arr_coc.core.values import JsonObject
from arr_coc.draw import AnswerPanel, answer_sheet, homunculus
from arr_coc.options import check_budget, check_device
from arr_coc.pictures.load import Picture, load_picture

from ..worlds.needle import FAMILIES, render
from ..worlds.needle.export import picture
from .tables import show, table

SIZE = (512, 512)


class Posed(NamedTuple):
    """name: of the files. picture: a path or a PIL image."""

    name: str
    image: Path | Image
    query: str
    truth: str


def examples(number: int) -> Iterator[Posed]:
    """The first `number` questions about each picture that comes with the library."""
    for name, asked in example_questions().items():
        for place, (query, truth) in enumerate(asked[:number], start=1):
            yield Posed(f"{Path(name).stem}.answer.{place}", EXAMPLES / name, query, truth)


def fresh(seed: int, number: int = 1) -> Iterator[Posed]:
    """The first pictures of every family's test split: held-out typefaces, and nobody looked whether they are easy."""
    for family in FAMILIES:
        batch = render(family, number, SIZE, seed, "test")
        for place in range(number):
            name = f"{family}.answer" + (f".{place + 1}" if place else "")
            yield Posed(name, picture(batch, place), batch.questions[place], batch.answers[place])


def run(
    *, keep: float, questions: int, seed: int, out: Path, device: str, quiet: bool, number: int = 1
) -> dict[str, object]:
    """Ask everything, write pages and JSON, print a table or the JSON."""
    check_budget(keep)
    check_device(device)
    if questions < 0:
        raise InputError(f"--questions {questions} is less than none; give 0 or more")
    started = perf_counter()
    posed = [*examples(questions), *fresh(seed, number)]
    with progress(["mini", *(one.name for one in posed)], "", hidden=quiet) as advance:
        advance("mini")
        eye = Eye.from_pretrained(device=device)
        asked, results = [], []
        for one in posed:
            advance(one.name)
            shown, result = ask_and_draw(eye, one, keep, out)
            asked.append(shown)
            results.append(result)
        page = out / "answers.png"
        right = sum(one.right for one in asked)
        title = f"{right} of {len(asked)} right, from {100 * keep:g} % of the visual tokens"
        document = {"answers": results, "right": right, "asked": len(asked), "page": str(page)}
        with writing(out):
            save_png(answer_sheet(asked, title), page)
            write_json(out / "answers.json", document)
    if quiet:
        print_json(document)
    else:
        print_answers(document, perf_counter() - started)
    return document


GALLERY_WIDTH = 960
BUNDLED = (WEIGHTS / MINI, WEIGHTS / SCORER)
NOT_CHOSEN = """Nobody chose them by whether `mini` reads them. They are the first two questions about each
example picture, and the first two pictures of each family of Needle World's test split. Each page shows the picture,
the relevance for the question, where the tokens went, and what the model saw."""


def write_gallery(document: JsonObject, page: Path) -> None:
    """A page of Markdown with every picture, its question, what was said and what is true; pictures lie in a folder
    beside it that is named after it."""
    from PIL import Image

    from arr_coc.core.files import replacing, write_text

    from ..bench.needle import digest

    pictures = page.with_suffix("")
    lines = ["# Gallery", "", f"{document['asked']} questions to `mini` (weights {digest(*BUNDLED)}). {NOT_CHOSEN}"]
    lines += ["", "```sh", f"arr-coc demo gallery --page {page.name}", "```", "", "| right | wrong |", "|--:|--:|"]
    lines += [f"| {document['right']} | {document['asked'] - document['right']} |"]
    with writing(pictures):
        for row in document["answers"]:
            file = pictures / f"{Path(row['file']).stem}.webp"
            with Image.open(row["file"]) as drawn, replacing(file) as temporary:
                height = round(drawn.height * GALLERY_WIDTH / drawn.width)
                drawn.convert("RGB").resize((GALLERY_WIDTH, height)).save(temporary, "WEBP", quality=72, method=6)
            verdict = "right" if row["right"] else f"wrong: it is {row['truth']}"
            lines += ["", f"## {row['picture']}: {row['query']}", ""]
            cost = f"{row['tokens']} of {row['full']} tokens"
            lines += [f"**{row['answer']}** ({verdict}), unsure {row['uncertainty']:.2f}, {cost}."]
            lines += ["", f"![{row['query']}]({pictures.name}/{file.name})"]
        write_text(page, "\n".join(lines) + "\n")


def ask_and_draw(eye: Eye, one: Posed, keep: float, out: Path) -> tuple[AnswerPanel, dict[str, object]]:
    shown: Picture = load_picture(one.image)
    answer = eye.set_image(shown.pixels).ask(one.query, budget=keep)
    asked = AnswerPanel(shown, one.query, answer, one.truth)
    file = out / f"{one.name}.png"
    page = homunculus(shown, answer.allocation, eye.scored(one.query), one.query, answer=answer, truth=one.truth)
    with writing(out):
        save_png(page, file)
    last = answer.passes[-1]
    return asked, {
        "picture": one.name.split(".")[0],
        "query": one.query,
        "answer": answer.text,
        "truth": one.truth,
        "right": asked.right,
        "tokens": answer.tokens,
        "full": answer.full,
        "seconds": sum(answer.seconds.values()),
        "uncertainty": answer.uncertainty,
        "entropy": last.entropy,
        "margin": last.margin,
        "file": str(file),
    }


def print_answers(document: JsonObject, seconds: float) -> None:
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
    say(
        f"{document['right']} of {document['asked']} right",
        f"all of them on one page: {document['page']}",
        f"a homunculus of each beside it; {seconds:.1f} s in all",
    )
