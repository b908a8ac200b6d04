"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from ...core.unsure import UNSURE, check_sureness, is_unsure, sureness_words, withheld
from ...realizing.bundled import HUB_NAME
from .console import complain, print_json, progress, say, seconds_line, show, table, uncollected, wait_asleep, writing
from .options import (
    Clusters,
    Device,
    Hints,
    NewTokens,
    Ocr,
    Page,
    Pages,
    Query,
    Readings,
    Scale,
    Seed,
    Share,
    Sureness,
    Tokens,
    WordsFile,
    with_options,
)

if TYPE_CHECKING:
    from rich.table import Table

    from ...answering.chat import AskOptions
    from ...answering.esper import Esper
    from ...answering.eye import Eye
    from ...answering.pass_settings import EsperSettings
    from ...answering.story import Story
    from ...core.values import Answer, Relevance
    from ...pictures.document import Document
    from ...pictures.load import Picture
    from ...pictures.words import Words
    from .inputs import PictureSource

    Amount = tuple[int | None, float | None]

MOST_PASSES = 4


@dataclass(frozen=True)
class AskCommand:
    """What one question is asked with."""

    image: Annotated[str, typer.Argument(help="The picture, document or folder; - reads the standard input.")]
    query: Query
    model: Annotated[
        str, typer.Option("--model", "-m", help="mini, which comes with the library; a folder; a name on the hub.")
    ] = MINI
    budget: Tokens = None
    keep: Share = None
    strategy: Annotated[
        str | None, typer.Option(help="How the tokens are placed: overlay, quadtree, … [default: the model's own]")
    ] = None
    clusters: Clusters = "slic"
    relevance: Annotated[
        str,
        typer.Option(
            help="Who says where to look. auto: the scorer where one comes with the model, else glance; scorer: a "
            "network that reads pages; glance: the model's own attention at a coarse first look; look: plain words of "
            "the question and what stands out; detail: wherever there is fine structure; …"
        ),
    ] = "auto"
    words: WordsFile = None
    hints: Hints = True
    ocr: Ocr = True
    page: Page = None
    pages: Pages = None
    passes: Annotated[
        int | None,
        typer.Option(
            help="Look again, up to so many times, until sure; the budget is that of all passes. It repairs a first "
            "look at the wrong place; else measured, no gain: one look with as many tokens reads 3 to 6 points more. "
            "[default: 1, or the preset's]",
        ),
    ] = None
    preset: Annotated[
        str | None,
        typer.Option(
            help="A whole way of looking. How to look again: two_pass, four_pass, saccades, esper (as tuned for the "
            "model); source: texture, clusters, three ways, tensions, 64 to 400 tokens a patch, passes."
        ),
    ] = None
    tempering: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="With --passes: a folder made by arr-coc train tempering."),
    ] = None
    first_look: Annotated[
        str | None,
        typer.Option(
            metavar="relevant|salient",
            help="With passes: what the first look follows, the question or what stands out. [default: relevant]",
        ),
    ] = None
    explain: Annotated[
        bool, typer.Option(help="Tell the story pass by pass; with --out also strip.png and convergence.png.")
    ] = False
    levels: Annotated[int | None, typer.Option(help="The coarsest level of detail that is used.")] = None
    scale: Scale = None
    magnify: Annotated[float | None, typer.Option(help="Another name for --scale.")] = None
    readings: Readings = 1
    new_tokens: NewTokens = 64
    min_sureness: Sureness = 0.0
    seed: Seed = 0
    out: Annotated[
        Path | None, typer.Option(help="Write NAME.homunculus.png, NAME.allocation.json and NAME.answer.json there.")
    ] = None
    draw: Annotated[bool, typer.Option(help="With --out: also draw the picture as the model saw it.")] = True
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Append what was asked and decided to a file of yours; `arr-coc judge` says whether it was right.",
        ),
    ] = None
    allow_url: Annotated[bool, typer.Option("--allow-url", help="Fetch a picture that is a web address.")] = False
    device: Device = "cpu"
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the answer and nothing else.")] = False
    as_json: Annotated[bool, typer.Option("--json", "--jsonl", help="Print one line of JSON and nothing else.")] = False

    @property
    def distance(self) -> float | str | None:
        """From how far it is read."""
        from ...attending.distance import check_scale, scale_of

        return check_scale(scale_of(self.scale, self.magnify))

    @property
    def again(self) -> bool:
        """Whether the picture is looked at in the passes of `Esper`."""
        from ...answering.pass_settings import PRESETS

        return (self.passes or 1) > 1 or self.explain or self.preset in PRESETS


@with_options(AskCommand)
def command(options: AskCommand) -> int:
    """Answer a question about a picture or a document. Tells how unsure the answer is, its tokens and its time.

    mini comes with the library and needs no network; it has only ever seen pictures drawn by `needle` and `pages`.
    Other models are those of the hub. With Qwen3-VL tokens are saved before the vision encoder, with other families
    after it. A picture that a family cuts into tiles and views has an allocation for each; its budget is that of all.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --out date
      arr-coc ask form.png "What is the title?" --keep 0.1 --json | jq .text
      arr-coc ask form.png "What is the date?" --passes 4 --explain --out story
      arr-coc ask form.png "What is the date?" --preset two_pass --budget 64
      arr-coc ask page.png "What is the date?" --preset source --keep 0.5
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask report.pdf "Who signed it?" --budget 256
      arr-coc ask report.pdf "Who signed it?" --page 3 --budget 128 --scale 1.5
      arr-coc ask receipt.jpg "What is the total?" --budget 192 --readings 3
      arr-coc ask form.png "What is the date?" --record feedback.jsonl && arr-coc judge feedback.jsonl right
      cat receipt.png | arr-coc ask - "What is the total?" --budget 10% --quiet
    """
    from ...answering.feedback import Feedback
    from ...attending.request import check_amount

    wait_asleep()
    amount = check_amount(options.budget, options.keep)
    check_options(options, amount)
    kept = Feedback.of(options.record)
    source, document = open_document(options)
    if document is not None:
        return ask_document(options, amount, document)
    picture, known = open_picture(options, source)
    with progress(["loading", "asking"], "", hidden=options.as_json or options.quiet) as advance:
        advance("loading")
        with uncollected():
            eye, esper = load_eye(options, picture, amount)
        advance("asking")
        eye.set_image(picture)
        story = None
        if esper is not None:
            esper.set_image(picture.pixels)
            lately = 0 if kept is None else kept.failures()
            most = options.passes if options.preset is not None else options.passes or 1
            story = esper.examine(
                options.query,
                *amount,
                passes=most,
                failures=lately,
                max_new_tokens=options.new_tokens,
                scale=options.distance,
            )
            answer = story.answer
        else:
            how: AskOptions = {"clusters": options.clusters} if options.strategy == "clusters" else {}
            how |= {"strategy": options.strategy, "seed": options.seed, "words": known}
            how |= {"scale": options.distance, "readings": options.readings, "ocr": options.ocr}
            how |= {"max_new_tokens": options.new_tokens}
            how |= {} if options.hints else {"hints": "none"}
            if options.preset is not None:
                how |= {"preset": options.preset, "words": None}
            answer = eye.ask(options.query, *amount, **how)
    answer = withheld(answer, options.min_sureness)
    if kept is not None:
        answer = kept.noted(answer, options.query, picture, place=source.place, model=options.model)
    files: dict[str, str] = {}
    if options.out is not None:
        files = write_results(options.out, options, source, eye, Answered(picture, known, answer, story))
    if story is not None and options.explain and not options.as_json and not options.quiet:
        show(story_table(story))
    return tell_answer(options, source.file, answer, files)


def tell_answer(options: AskCommand, name: str, answer: Answer, files: dict[str, str]) -> int:
    """The answer on the output."""
    if options.as_json:
        print_json({**answer.to_json(), "model": options.model, "query": options.query, "files": files})
    elif options.quiet:
        say(answer.text)
        if is_unsure(answer.uncertainty):
            complain(f"unsure: {UNSURE}")
    else:
        print_answer(name, options.query, answer, files)
    return 0


def ask_document(options: AskCommand, amount: Amount, document: Document) -> int:
    """One question about all pages of a document, from one budget."""
    from ...asking import ask
    from .documents import answer_files
    from .inputs import check_model

    story = options.explain or options.preset is not None or options.first_look or options.tempering is not None
    refused = {"--preset, --explain, --first-look and --tempering": story, "--words": options.words is not None}
    refused |= {"--readings": options.readings > 1}
    refused |= {"--record": options.record is not None, "--clusters": options.clusters != "slic"}
    for name, given in refused.items():
        if given:
            raise InputError(f"{name} is for one picture, and this has {len(document)} pages; choose one: --page")
    check_model(options.model)
    how: dict[str, Any] = {"relevance": None if options.relevance == "auto" else options.relevance}
    how |= {"levels": options.levels, "seed": options.seed, "max_new_tokens": options.new_tokens}
    how |= {"scale": options.distance, "device": options.device, "model": options.model, "strategy": options.strategy}
    how["ocr"] = options.ocr
    how |= {} if options.hints else {"hints": "none"}
    with progress(["reading"], "", hidden=options.as_json or options.quiet) as advance, uncollected():
        advance("reading")
        if options.again:
            from ...answering.esper import Esper

            esper = Esper.from_pretrained(options.model, device=options.device)
            looked = {name: how[name] for name in ("relevance", "max_new_tokens", "scale")}
            answer = esper.set_image(document).ask(options.query, *amount, passes=options.passes, **looked)
        else:
            answer = ask(document, options.query, *amount, **how)
        answer = withheld(answer, options.min_sureness)
    files: dict[str, str] = {}
    if options.out is not None:
        stem = Path(document.name).stem
        files = answer_files(options.out, stem, document, options.query, answer, options.draw)
    return tell_answer(options, document.name, answer, files)


def check_options(options: AskCommand, amount: Amount) -> None:
    """What cannot be asked is told before anything is loaded."""
    from ...answering.pass_settings import PRESETS
    from ...answering.presets import find_preset
    from ...answering.readings import check_readings
    from ...attending.request import check_device, check_request
    from ...attending.strategies import check_strategy
    from .inputs import check_clusters_of, check_model

    check_request([options.query], *amount)
    if options.new_tokens < 1:
        raise InputError(f"--new-tokens {options.new_tokens} leaves no room for an answer; give at least 1")
    if options.passes is not None and not 1 <= options.passes <= MOST_PASSES:
        raise InputError(f"--passes {options.passes} is not possible; give 1 to {MOST_PASSES}")
    check_sureness(options.min_sureness)
    check_clusters_of([options.strategy], options.clusters)
    if options.strategy is not None:
        check_strategy(options.strategy)
    if options.preset is not None:
        find_preset(options.preset)
        if not (own := options.preset in PRESETS) and options.again:
            raise InputError(f"--preset {options.preset} looks by itself; leave out --passes and --explain")
        decided = {"strategy": options.strategy, "words": options.words, "relevance": options.relevance}
        if not own and any(value not in (None, "auto") for value in decided.values()):
            raise InputError(f"--preset {options.preset} decides --strategy, --relevance and --words by itself")
    one_look = "is for one look; leave it out with --passes, --preset and --explain"
    if options.first_look is not None and not options.again:
        raise InputError("--first-look is for several passes; give --passes or --preset with it")
    if options.tempering is not None and not options.again:
        raise InputError("--tempering is for looking again; give --passes as well")
    if options.again and options.strategy is not None:
        raise InputError(
            f"--strategy {options.strategy} cannot look again; leave it out with --passes, --preset and --explain"
        )
    if check_readings(options.readings) > 1 and (options.again or options.preset is not None):
        raise InputError(f"--readings {one_look}")
    _ = options.distance
    check_device(options.device)
    if not HUB_NAME.fullmatch(options.model):  # whether the hub has it is asked once the picture is known to be one
        check_model(options.model)


def preset_of(options: AskCommand) -> EsperSettings | None:
    """The settings of the passes; None leaves them to the model."""
    if options.preset is None or options.preset == "esper":
        return None
    from ...answering.pass_settings import as_settings

    return as_settings(options.preset)


def open_document(options: AskCommand) -> tuple[PictureSource, Document | None]:
    """Where the picture is; and the document, where it has several pages."""
    from ...pictures.document import document_of
    from ...pictures.pdf import is_pdf
    from .inputs import expand, open_source
    from .look import chosen_pages

    source = open_source(options.image, options.allow_url)
    if options.page is not None or options.pages is not None or is_pdf(source.place):
        (source,) = expand([options.image], options.allow_url, chosen_pages(options.page, options.pages))
    document = document_of(source.place)
    return source, document if document is not None and len(document) > 1 else None


def open_picture(options: AskCommand, source: PictureSource) -> tuple[Picture, Words | None]:
    """The picture and its words. A wrong file should be told before a model is loaded."""
    from ...pictures.pdf import load_page
    from ...pictures.words_files import as_words
    from .inputs import check_model, quiet_decoder

    if options.again and options.words is not None:
        raise InputError("--words cannot be read again and again; leave it out with --passes and --explain")
    with quiet_decoder(source):
        picture, known = load_page(source.place)
    known = known if options.words is None else as_words(options.words, picture.size)
    check_model(options.model)
    return picture, known


def load_eye(options: AskCommand, picture: Picture, amount: Amount) -> tuple[Eye, Esper | None]:
    """The eye; and the `Esper` around it, where it is to look again."""
    from ...asking import Eye, can_be_quick, quick_eye

    given: dict[str, Any] = {"device": options.device, "relevance": options.relevance}
    given |= {} if options.levels is None else {"levels": options.levels}
    if options.again:
        from ...answering.esper import Esper

        given |= {} if options.first_look is None else {"glance": options.first_look}
        given |= {} if options.tempering is None else {"tempering": options.tempering}
        esper = Esper.from_pretrained(options.model, preset_of(options), **given)
        return esper.eye, esper
    quick = partial(can_be_quick, options.model, options.device, picture.pixels.shape[:2], *amount)
    if options.preset is None and quick(strategy=options.strategy, relevance=options.relevance):
        return quick_eye(options.relevance, options.levels), None
    return Eye.from_pretrained(options.model, **given), None


class Answered(NamedTuple):
    """A picture with its words, and what was said about it. story: where several passes were made."""

    picture: Picture
    words: Words | None
    answer: Answer
    story: Story | None


def write_results(out: Path, options: AskCommand, source: PictureSource, eye: Eye, said: Answered) -> dict[str, str]:
    """Write the page, the documents and the story; their paths by name."""
    from .inputs import result_names

    scored = eye.scored(options.query) if options.relevance in ("auto", "scorer") and options.draw else None
    files: dict[str, str] = {}
    with writing(out):
        (name,) = result_names([source])
        if options.draw:
            page = draw_page(out, name, said.picture, said.answer, options.query, scored, said.words)
            files = {"homunculus.png": page}
        files |= write_files(out, name, said.answer)
        if said.story is not None and options.explain:
            from ...answering.story_drawing import write_story

            files |= write_story(said.story, out)
    return files


def write_files(out: Path, name: str, answer: Answer) -> dict[str, str]:
    from ...core.files import write_json

    documents = {"allocation.json": answer.allocation.to_json(), "answer.json": answer.to_json()}
    for suffix, document in documents.items():
        write_json(out / f"{name}.{suffix}", document)
    return {suffix: str(out / f"{name}.{suffix}") for suffix in documents}


def draw_page(
    out: Path,
    name: str,
    picture: Picture,
    answer: Answer,
    query: str,
    relevance: Relevance | None = None,
    words: Words | None = None,
) -> str:
    from ...draw import homunculus
    from .console import save_png

    page = out / f"{name}.homunculus.png"
    save_png(homunculus(picture, answer.allocation, relevance, query, answer=answer, words=words), page)
    return str(page)


def story_table(story: Story, truth: str | None = None) -> Table:
    """One row for each pass: where it looked, what it cost, how much was exploration, what it said and how unsure."""
    from rich.text import Text

    from ...answering.story import place_words

    rows: list[Sequence[str | Text]] = [
        (
            str(number),
            place_words(story, note.point),
            f"{note.step.tokens}" if number == 1 else f"+{note.step.tokens}",
            f"{100 * note.step.exploration:.0f} %",
            note.mood,
            note.step.text or "(nothing)",
            f"{note.step.uncertainty or 0.0:.2f}",
            f"{1000 * sum(note.seconds.values()):.0f}",
        )
        for number, note in enumerate(story.passes, start=1)
    ]
    answer, said = story.answer, Text(story.answer.text, style="bold")
    spent, unsure = f"{answer.tokens}/{answer.full}", f"{answer.uncertainty:.2f}"
    rows.append(("all", story.ended, spent, "", "", said, unsure, ""))
    if truth is not None:
        right = "right" if answer.text == truth else "wrong"
        rows.append(("", "the truth", "", "", "", f"{truth} ({right})", "", ""))
    columns = {"pass": "right", "looked": "fold", "tokens": "right", "explored": "right", "mood": "fold"}
    columns |= {"said": "fold", "unsure": "right", "ms": "right"}
    return table(story.query, columns, rows, sections=[len(story.passes) - 1], narrow=True)


def print_answer(name: str, query: str, answer: Answer, files: dict[str, str]) -> None:
    from rich.text import Text

    from .documents import pages_line

    last = answer.passes[-1]
    details = f"entropy {last.entropy:.2f} nats, margin {last.margin:.2f}"
    rows = [
        ("answer", Text(answer.text or "(nothing)", style="bold")),
        (
            "uncertainty",
            f"{answer.uncertainty:.2f} ({sureness_words(answer.uncertainty).partition(',')[0]}; {details})",
        ),
        *((("read from", answer.source),) if answer.source != "pixels" else ()),
        ("tokens", f"{answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)"),
        *([("pages", pages_line(answer))] if answer.pages else []),
        ("seconds", seconds_line(answer.seconds)),
        *files.items(),
    ]
    show(table(f"{name}: {query}", {"what": "left", "value": "left"}, rows, headings=False))
    say(*(f"note: {note}" for note in answer.notes))
    if is_unsure(answer.uncertainty):
        say(f"unsure: {UNSURE}")
