"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from .console import print_json, progress, uncollected, wait_asleep
from .options import Choices, Model, OnlyJson, Pages, Query, Record, with_options

if TYPE_CHECKING:
    from ...core.values import Answer
    from ...options import Options
    from ...pictures.document import Document
    from .inputs import PictureSource


@dataclass(frozen=True, kw_only=True)
class AskCommand(Choices):
    """What one question is asked with."""

    image: Annotated[str, typer.Argument(help="The picture, document or folder; - reads the standard input.")]
    query: Query
    model: Model = MINI
    pages: Pages = None
    min_sureness: Annotated[float, typer.Option(metavar="0–1", help="Give no answer where the model is less sure.")] = (
        0.0
    )
    out: Annotated[
        Path | None, typer.Option(help="Write NAME.homunculus.png, NAME.allocation.json and NAME.answer.json there.")
    ] = None
    record: Record = None
    as_json: OnlyJson = False


@with_options(AskCommand)
def command(given: AskCommand) -> int:
    """Answer a question about a picture or a document. Tells how unsure the answer is, its tokens and its time.

    mini is included and needs no network; it has only ever seen pictures drawn by `needle` and `pages`. Other models
    are those of the hub. With Qwen3-VL tokens are saved before the vision encoder, with other families after it. A
    preset looks again while the answer is unsure: two_pass, four_pass, saccades.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --out date
      arr-coc ask form.png "What is the title?" --budget 10% --json | jq -r .text
      arr-coc ask form.png "What is the date?" --set preset=four_pass
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask report.pdf "Who signed it?" --pages 3 --budget 128 --set scale=1.5
      arr-coc ask form.png "What is the date?" --record asked.jsonl
      cat receipt.png | arr-coc ask - "What is the total?" --budget 10%
    """
    from ...core.values import check_sureness, withheld
    from ...options import check_question
    from ...realizing.bundled import HUB_NAME
    from .inputs import check_model, check_record
    from .results import print_answer

    wait_asleep()
    options = given.options
    check_question(given.query)
    options.check_preset()
    check_sureness(given.min_sureness)
    check_record(given.record)
    if not HUB_NAME.fullmatch(given.model):  # the hub is asked once the picture is known to be one
        check_model(given.model)
    source, document = open_input(given)
    with progress(["asking"], "", hidden=given.as_json) as advance:
        advance("asking")
        with uncollected():
            if document is None:
                answer, files = ask_picture(given, options, source)
            else:
                answer, files = ask_document(given, options, document)
    answer = withheld(answer, given.min_sureness)
    if given.as_json:
        print_json({**answer.to_json(), "model": given.model, "query": given.query, "files": files})
    else:
        print_answer(document.name if document else source.file, given.query, answer, files)
    return 0


def open_input(given: AskCommand) -> tuple[PictureSource, Document | None]:
    """Where the picture is; and the document, where it has several pages."""
    from ...pictures.document import document_of
    from ...pictures.pdf import is_pdf
    from .inputs import expand, open_source

    source = open_source(given.image)
    if given.pages is not None or is_pdf(source.place):
        (source,) = expand([given.image], given.pages)
    document = document_of(source.place)
    return source, document if document is not None and len(document) > 1 else None


def ask_picture(given: AskCommand, options: Options, source: PictureSource) -> tuple[Answer, dict[str, str]]:
    """The answer about one picture, and the files that were written."""
    from ...asking import Eye, can_be_quick, quick_eye
    from ...pictures.pdf import load_page
    from ...pictures.words import as_words
    from .inputs import check_model, quiet_decoder, result_names
    from .results import write_answer

    with quiet_decoder(source):
        picture, words = load_page(source.place)
    words = words if options.words is None else as_words(options.words, picture.size)
    check_model(given.model)
    simple = options.preset is None and given.record is None
    if simple and can_be_quick(given.model, picture.pixels.shape[:2], options):
        eye = quick_eye()
    else:
        eye = Eye.from_pretrained(given.model, device=options.device, record=given.record)
    options = options if options.preset else options.override(words=words)
    answer = eye.set_image(picture).ask(given.query, options=options)
    if given.out is None:
        return answer, {}
    scored = eye.scored(given.query) if options.relevance in (None, "auto", "scorer") else None
    (name,) = result_names([source])
    return answer, write_answer(given.out, name, picture, answer, given.query, scored, words)


def ask_document(given: AskCommand, options: Options, document: Document) -> tuple[Answer, dict[str, str]]:
    """One question about all pages of a document, from one budget; and the files that were written."""
    from ...asking import ask
    from .inputs import check_model
    from .results import write_document_answer

    refused = {"words": options.words, "--record": given.record}
    for name, value in refused.items():
        if value is not None:
            raise InputError(f"{name} is for one picture, and this has {len(document)} pages; choose one: --pages 1")
    check_model(given.model)
    answer = ask(document, given.query, model=given.model, options=options)
    if given.out is None:
        return answer, {}
    return answer, write_document_answer(given.out, document, answer, given.query)
