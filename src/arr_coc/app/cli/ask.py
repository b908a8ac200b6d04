"""`arr-coc ask`: answer with a vision-language model, within a budget of visual tokens."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...asking import Eye, ask
from ...core.answer import UNSURE, Answer, is_unsure, sureness_words
from ...core.folders import MINI, write_json
from ...core.values import DocumentAllocation, PageShare
from ...decide_document import listed
from ...looking import Prepared, prepare
from ...options import check_question
from ...pictures.document import Document
from .console import print_json, progress, say, seconds_line, wait_asleep, writing
from .inputs import PictureSource, check_model, expand
from .look import write_drawn
from .options import Choices, Model, OnlyJson, Pages, Query, Record, possible_folder, with_options


@dataclass(frozen=True, kw_only=True)
class AskCommand(Choices):
    """Arguments and options of `arr-coc ask`."""

    image: Annotated[str, typer.Argument(help="The picture, document or folder; - reads the standard input.")]
    query: Query
    model: Model = MINI
    pages: Pages = None
    out: Annotated[
        Path | None,
        typer.Option(
            help="Write NAME.homunculus.png, NAME.allocation.json and NAME.answer.json there.", callback=possible_folder
        ),
    ] = None
    record: Record = None
    as_json: OnlyJson = False


@with_options(AskCommand)
def command(given: AskCommand) -> None:
    """Answer a question about a picture or a document; print the answer, its uncertainty, tokens and time.

    The model mini is included and needs no network; it was trained on pictures drawn by `needle` and `pages` only.
    Other models come from the hub. Qwen3-VL saves tokens before its vision encoder, other families after it. The
    presets two_pass, four_pass and saccades look again while the answer is unsure.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --set preset=four_pass --out date
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask report.pdf "Who signed it?" --pages 3 --budget 128 --set scale=1.5
      cat receipt.png | arr-coc ask - "What is the total?" --budget 10% --json | jq -r .text
    """
    wait_asleep()
    options = given.options
    check_question(given.query)
    options.check_alone("preset")
    if os.path.isdir(given.image):
        source = PictureSource(given.image, Path(given.image), given.pages)
    else:
        (source,) = expand([given.image], given.pages, total=True)
    check_model(given.model)
    with progress(None, "asking", hidden=given.as_json):
        model = given.model
        if given.record is not None:
            model = Eye.from_pretrained(given.model, device=options.device, record=given.record)
        answer = ask(source.place, given.query, model=model, pages=source.pages, options=options)
    files = {} if given.out is None else write_answer(given.out, source, given.query, answer)
    if given.as_json:
        print_json({**answer.to_json(), "model": given.model, "query": given.query, "files": files})
    else:
        print_answer(source.file, given.query, answer, files)


def write_answer(out: Path, source: PictureSource, query: str, answer: Answer) -> dict[str, str]:
    """Write NAME.answer.json, and the regions that were answered from, drawn and as JSON; return the paths by kind."""
    from ...draw import document_sheet, homunculus

    prepared, name = prepare(source.place, source.pages), Path(source.file).stem
    if isinstance(prepared, Prepared):
        drawn = homunculus(prepared.picture, answer.allocation, None, query, answer=answer)
        files = write_drawn(out, name, {"homunculus": drawn}, answer.allocation)
    else:
        laid = pages_read(prepared.document, answer)
        files = write_drawn(out, name, {"pages": document_sheet(prepared.document, laid, query)}, laid)
    with writing(out):
        write_json(out / f"{name}.answer.json", answer.to_json())
    return {**files, "answer": str(out / f"{name}.answer.json")}


def pages_read(document: Document, answer: Answer) -> DocumentAllocation:
    """Return the pages of a document with the allocation each was read with, for drawing."""
    read = dict(zip(answer.pages, (step.allocation for step in answer.passes), strict=False))
    shares = tuple(PageShare(page.number, page.name, 0, read.get(page.number)) for page in document.pages)
    return DocumentAllocation(shares, answer.tokens, answer.allocation.strategy, document.name, document.of_pages)


def print_answer(name: str, query: str, answer: Answer, files: Mapping[str, str]) -> None:
    """Print the answer, its uncertainty and cost, its passes if there are several, and the notes."""
    last, sure = answer.passes[-1], sureness_words(answer.uncertainty).partition(",")[0]
    lines = [
        f"{name}: {query}",
        f"answer: {answer.text or '(nothing)'}",
        f"uncertainty: {answer.uncertainty:.2f} ({sure}; entropy {last.entropy:.2f} nats, margin {last.margin:.2f})",
        f"tokens: {answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)",
        seconds_line(answer.seconds),
    ]
    if answer.source != "pixels":
        lines.append(f"read from: {answer.source}")
    if answer.pages:
        pages = listed(sorted(set(answer.pages)))
        lines.append(f"pages: {pages} of {answer.of_pages}, the answer from {answer.pages[-1]}")
    elif len(answer.passes) > 1:
        lines += [
            f"pass {number}: {step.tokens} tokens, {100 * step.exploration:.0f} % explored: {step.text or '(nothing)'}"
            for number, step in enumerate(answer.passes, start=1)
        ]
    lines += [f"note: {note}" for note in answer.notes]
    lines += [f"unsure: {UNSURE}"] if is_unsure(answer.uncertainty) else []
    lines += [f"files: {', '.join(files.values())}"] if files else []
    say(*lines)
