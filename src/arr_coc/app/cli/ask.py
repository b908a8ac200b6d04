"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from .console import complain, print_json, progress, say, uncollected, wait_asleep
from .options import (
    AllowUrl,
    Choices,
    Draw,
    MinSureness,
    Model,
    NewTokens,
    OnlyJson,
    Pages,
    Query,
    Quiet,
    Record,
    WordsFile,
    with_options,
)

if TYPE_CHECKING:
    from ...answering.eye import Eye
    from ...core.values import Answer
    from ...pictures.document import Document
    from .inputs import PictureSource

MOST_PASSES = 4


@dataclass(frozen=True, kw_only=True)
class AskCommand(Choices):
    """What one question is asked with."""

    image: Annotated[str, typer.Argument(help="The picture, document or folder; - reads the standard input.")]
    query: Query
    model: Model = MINI
    words: WordsFile = None
    pages: Pages = None
    passes: Annotated[
        int | None,
        typer.Option(
            help="Look again, up to this many times in all, while unsure; the budget is that of all passes. It repairs "
            "a first look at the wrong place, and else gains nothing. [default: 1, or the preset's]",
        ),
    ] = None
    preset: Annotated[
        str | None, typer.Option(help="A whole way of looking: two_pass, four_pass, saccades, source.")
    ] = None
    new_tokens: NewTokens = 64
    min_sureness: MinSureness = 0.0
    out: Annotated[
        Path | None, typer.Option(help="Write NAME.homunculus.png, NAME.allocation.json and NAME.answer.json there.")
    ] = None
    draw: Draw = True
    record: Record = None
    allow_url: AllowUrl = False
    quiet: Quiet = False
    as_json: OnlyJson = False

    @property
    def in_passes(self) -> bool:
        """Whether `Esper` looks again."""
        return self.preset != "source" and (self.preset is not None or (self.passes or 1) > 1)


@with_options(AskCommand)
def command(options: AskCommand) -> int:
    """Answer a question about a picture or a document. Tells how unsure the answer is, its tokens and its time.

    mini is included and needs no network; it has only ever seen pictures drawn by `needle` and `pages`. Other models
    are those of the hub. With Qwen3-VL tokens are saved before the vision encoder, with other families after it.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --out date
      arr-coc ask form.png "What is the title?" --keep 0.1 --json | jq .text
      arr-coc ask form.png "What is the date?" --passes 4
      arr-coc ask page.png "What is the date?" --preset source --keep 0.5
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask report.pdf "Who signed it?" --pages 3 --budget 128 --scale 1.5
      arr-coc ask form.png "What is the date?" --record asked.jsonl
      cat receipt.png | arr-coc ask - "What is the total?" --budget 10% --quiet
    """
    from ...core.unsure import UNSURE, is_unsure, withheld
    from .results import print_answer

    wait_asleep()
    check_options(options)
    source, document = open_input(options)
    with progress(["asking"], "", hidden=options.as_json or options.quiet) as advance:
        advance("asking")
        with uncollected():
            answer, files = ask_document(options, document) if document else ask_picture(options, source)
    answer = withheld(answer, options.min_sureness)
    if options.as_json:
        print_json({**answer.to_json(), "model": options.model, "query": options.query, "files": files})
    elif options.quiet:
        say(answer.text)
        if is_unsure(answer.uncertainty):
            complain(f"unsure: {UNSURE}")
    else:
        print_answer(document.name if document else source.file, options.query, answer, files)
    return 0


def check_options(options: AskCommand) -> None:
    """Refuse what cannot be asked, before anything is loaded."""
    from ...asking import check_request
    from ...core.unsure import check_sureness
    from ...realizing.bundled import HUB_NAME
    from .inputs import check_model, check_record

    check_request([options.query], *options.amount)
    _ = options.how
    if options.new_tokens < 1:
        raise InputError(f"--new-tokens {options.new_tokens} leaves no room for an answer; give at least 1")
    if options.passes is not None and not 1 <= options.passes <= MOST_PASSES:
        raise InputError(f"--passes {options.passes} is not possible; give 1 to {MOST_PASSES}")
    check_sureness(options.min_sureness)
    check_record(options.record)
    check_preset(options)
    if not HUB_NAME.fullmatch(options.model):  # the hub is asked once the picture is known to be one
        check_model(options.model)


def check_preset(options: AskCommand) -> None:
    from ...asking import find_preset

    if options.preset is not None:
        find_preset(options.preset)
    if options.preset == "source" and options.passes is not None:
        raise InputError("--preset source decides how often it looks; leave out --passes")
    decided = {"--strategy": options.strategy, "--words": options.words}
    for name, value in decided.items():
        if value is not None and (options.in_passes or options.preset is not None):
            raise InputError(f"{name} {value} is for a single look; leave it out with --passes and --preset")
    if options.preset == "source" and options.relevance != "auto":
        raise InputError("--preset source decides --relevance by itself; leave it out")


def open_input(options: AskCommand) -> tuple[PictureSource, Document | None]:
    """Where the picture is; and the document, where it has several pages."""
    from ...pictures.document import document_of
    from ...pictures.pdf import is_pdf
    from .inputs import expand, open_source

    source = open_source(options.image, options.allow_url)
    if options.pages is not None or is_pdf(source.place):
        (source,) = expand([options.image], options.allow_url, options.pages)
    document = document_of(source.place)
    return source, document if document is not None and len(document) > 1 else None


def ask_picture(options: AskCommand, source: PictureSource) -> tuple[Answer, dict[str, str]]:
    """The answer about one picture, and the files that were written."""
    from ...pictures.pdf import load_page
    from ...pictures.words_files import as_words
    from .inputs import check_model, quiet_decoder, result_names
    from .results import write_answer

    with quiet_decoder(source):
        picture, words = load_page(source.place)
    words = words if options.words is None else as_words(options.words, picture.size)
    check_model(options.model)
    eye = load_eye(options, picture.pixels.shape[:2]).set_image(picture)
    how: dict[str, Any] = {"scale": options.how["scale"], "max_new_tokens": options.new_tokens}
    if options.in_passes:
        from ...answering.esper import Esper

        esper = Esper(eye, options.preset or "four_pass").set_image(picture)
        answer = esper.ask(options.query, *options.amount, passes=options.passes, **how)
    else:
        words = None if options.preset else words
        how = {**options.how, **how, "words": words, "preset": options.preset}
        answer = eye.ask(options.query, *options.amount, **how)
    if options.out is None:
        return answer, {}
    scored = eye.scored(options.query) if options.relevance in ("auto", "scorer") and options.draw else None
    (name,) = result_names([source])
    return answer, write_answer(options.out, name, picture, answer, options.query, options.draw, scored, words)


def load_eye(options: AskCommand, size: tuple[int, int]) -> Eye:
    """The model; the one without torch where that will do. size: of the picture."""
    from ...asking import Eye, can_be_quick, quick_eye

    simple = options.preset is None and not options.in_passes and options.record is None
    chosen: dict[str, Any] = {"strategy": options.strategy, "relevance": options.relevance}
    if simple and can_be_quick(options.model, options.device, size, *options.amount, **chosen):
        return quick_eye(options.relevance, options.levels)
    given: dict[str, Any] = {"relevance": options.relevance, "record": options.record}
    return Eye.from_pretrained(options.model, device=options.device, **given)


def ask_document(options: AskCommand, document: Document) -> tuple[Answer, dict[str, str]]:
    """One question about all pages of a document, from one budget; and the files that were written."""
    from ...asking import ask
    from .inputs import check_model
    from .results import write_document_answer

    refused = {"--preset": options.preset, "--words": options.words, "--record": options.record}
    for name, value in refused.items():
        if value is not None:
            raise InputError(f"{name} is for one picture, and this has {len(document)} pages; choose one: --pages 1")
    check_model(options.model)
    relevance = None if options.relevance == "auto" else options.relevance
    how: dict[str, Any] = {**options.how, "relevance": relevance, "max_new_tokens": options.new_tokens}
    if options.in_passes:
        from ...answering.esper import Esper

        looked = {name: how[name] for name in ("relevance", "scale", "max_new_tokens")}
        esper = Esper.from_pretrained(options.model, device=options.device).set_image(document)
        answer = esper.ask(options.query, *options.amount, passes=options.passes, **looked)
    else:
        answer = ask(document, options.query, *options.amount, model=options.model, device=options.device, **how)
    if options.out is None:
        return answer, {}
    return answer, write_document_answer(options.out, document, answer, options.query, options.draw)
