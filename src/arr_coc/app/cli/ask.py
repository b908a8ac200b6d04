"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.errors import InputError
from ...core.folders import MINI, part_folder
from ...core.unsure import UNSURE, is_unsure, sureness_words
from ...models.bundled import HUB_NAME
from .console import complain, print_json, progress, say, seconds_line, show, table, uncollected, wait_asleep, writing

MOST_PASSES = 4


def command(
    image: Annotated[
        str, typer.Argument(help="The picture, document or folder; - reads the standard input.", show_default=False)
    ],
    query: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    model: Annotated[
        str, typer.Option("--model", "-m", help="mini, which comes with the library; a folder; a name on the hub.")
    ] = MINI,
    budget: Annotated[
        str | None, typer.Option(metavar="TOKENS", help="Visual tokens to spend, 256 or 25%.", show_default=False)
    ] = None,
    keep: Annotated[
        str | None, typer.Option(metavar="SHARE", help="Share of the full count to spend. [default: 0.25]")
    ] = None,
    strategy: Annotated[
        str | None, typer.Option(help="How relevance becomes regions; the model's own by default.", show_default=False)
    ] = None,
    clusters: Annotated[
        str, typer.Option(help="With --strategy clusters: slic, sam, or the folder of a SAM.")
    ] = "slic",
    relevance: Annotated[
        str,
        typer.Option(
            help="scorer: the learned one; glance: the model's own attention; look: without a model; detail; auto: "
            "the scorer where one comes with the model, else a glance."
        ),
    ] = "auto",
    words: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Words of the picture: hOCR, ALTO, TSV or JSON.", show_default=False),
    ] = None,
    page: Annotated[int | None, typer.Option(help="One page of a PDF, from 1.", show_default=False)] = None,
    pages: Annotated[
        str | None,
        typer.Option(metavar="PAGES", help="Pages of a PDF or TIFF, such as 2-5,7. [default: all]", show_default=False),
    ] = None,
    passes: Annotated[
        int | None,
        typer.Option(
            help="Look again, up to so many times, until sure; the budget is that of all passes. [default: 1, or the "
            "preset's]",
            show_default=False,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        typer.Option(
            help="How to look again: two_pass, four_pass, saccades, esper (as tuned for the model).", show_default=False
        ),
    ] = None,
    tempering: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="With --passes: how much to explore, of train tempering.", show_default=False
        ),
    ] = None,
    first_look: Annotated[
        str | None,
        typer.Option(
            metavar="relevant|salient",
            help="With passes: what the first look follows, the question or what stands out. [default: relevant]",
            show_default=False,
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option(help="Tell the story pass by pass; with --out also strip.png and convergence.png.")
    ] = False,
    depth: Annotated[
        str | None,
        typer.Option(
            metavar="stock|spread|early",
            help="Route regions to encoder depths by relevance (Qwen3-VL); early: the rest skips its later blocks.",
            show_default=False,
        ),
    ] = None,
    levels: Annotated[int | None, typer.Option(help="Coarsest level of detail.", show_default=False)] = None,
    magnify: Annotated[
        float, typer.Option(help="Read the picture so many times as large, for small type; the tokens stay.")
    ] = 1.0,
    new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 64,
    seed: Annotated[int, typer.Option(help="For strategies that draw lots.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write NAME.homunculus.png, NAME.allocation.json and NAME.answer.json there.")
    ] = None,
    draw: Annotated[bool, typer.Option(help="With --out: draw the homunculus.")] = True,
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Append what was asked and decided to a file of yours; `arr-coc judge` says whether it was right.",
            show_default=False,
        ),
    ] = None,
    allow_url: Annotated[bool, typer.Option("--allow-url", help="Fetch a picture that is a web address.")] = False,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the answer and nothing else.")] = False,
    as_json: Annotated[bool, typer.Option("--json", "--jsonl", help="Only a line of JSON on the output.")] = False,
) -> int:
    """The answer, its uncertainty, the tokens it took, and the seconds of each stage.

    mini comes with the library and needs no network; it has only ever seen pictures drawn by `needle` and `pages`.
    Other models are stock ones: Qwen3-VL is foveated before its encoder, other families are merged after theirs. A
    picture that a family cuts into several tiles or views is left to `arr_coc.attach`.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --out date
      arr-coc ask form.png "What is the title?" --keep 0.1 --json | jq .text
      arr-coc ask form.png "What is the date?" --passes 4 --explain --out story
      arr-coc ask form.png "What is the date?" --preset two_pass --budget 64
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask street.jpg "What does the red sign say?" -m Qwen/Qwen3-VL-2B-Instruct --depth early
      arr-coc ask report.pdf "Who signed it?" --budget 256
      arr-coc ask report.pdf "Who signed it?" --page 3 --budget 128 --magnify 1.5
      arr-coc ask form.png "What is the date?" --record feedback.jsonl && arr-coc judge feedback.jsonl right
      cat receipt.png | arr-coc ask - "What is the total?" --budget 10% --quiet
    """
    from ...allocation.request import check_amount, check_depth, check_device, check_request
    from ...allocation.strategies import check_strategy
    from ...asking import QuickEye, ask, can_be_quick
    from ...eye.feedback import Feedback
    from ...pictures.document import document_of
    from ...pictures.load import magnified
    from ...pictures.pdf import is_pdf, load_page
    from ...pictures.words_files import as_words
    from .documents import answer_files
    from .inputs import check_clusters_of, check_model, expand, open_source, quiet_decoder, result_names
    from .look import chosen_pages

    wait_asleep()
    tokens, share = check_amount(budget, keep)
    check_request([query], tokens, share)
    if new_tokens < 1:
        raise InputError(f"--new-tokens {new_tokens} leaves no room for an answer; give at least 1")
    if passes is not None and not 1 <= passes <= MOST_PASSES:
        raise InputError(f"--passes {passes} is not possible; give 1 to {MOST_PASSES}")
    check_clusters_of([strategy], clusters)
    check_depth(depth)
    if strategy is not None:
        check_strategy(strategy)
    again = (passes or 1) > 1 or explain or preset is not None
    settings = None
    if preset is not None:
        from ...eye.pass_settings import as_settings

        settings = None if preset == "esper" else as_settings(preset)
    if first_look is not None and not again:
        raise InputError("--first-look is for several passes; give --passes or --preset with it")
    if tempering is not None and not again:
        raise InputError("--tempering is for looking again; give --passes as well")
    if again and strategy is not None:
        raise InputError(f"--strategy {strategy} cannot look again; leave it out with --passes, --preset and --explain")
    if again and depth is not None:
        raise InputError("--depth is for one look; leave it out with --passes, --preset and --explain")
    if again and magnify != 1:
        raise InputError("--magnify is for one look; leave it out with --passes, --preset and --explain")
    kept = Feedback.of(record)
    check_device(device)
    if not HUB_NAME.fullmatch(model):  # whether the hub has it is asked once the picture is known to be one
        check_model(model)
    source = open_source(image, allow_url)
    if page is not None or pages is not None or is_pdf(source.place):
        (source,) = expand([image], allow_url, chosen_pages(page, pages))
    document = document_of(source.place)
    if document is not None and len(document) > 1:
        refused = {"--passes, --preset and --explain": again, "--words": words is not None}
        refused |= {"--depth": depth is not None, "--magnify": magnify != 1, "--record": kept is not None}
        refused |= {"--clusters": clusters != "slic"}
        for name, given_too in refused.items():
            if given_too:
                raise InputError(f"{name} is for one picture, and this has {len(document)} pages; choose one: --page")
        check_model(model)
        asked: dict[str, Any] = {"device": device, "relevance": None if relevance == "auto" else relevance}
        asked |= {"levels": levels, "seed": seed, "max_new_tokens": new_tokens}
        asked |= {"model": model, "strategy": strategy}
        with progress(["reading"], "", hidden=as_json or quiet) as advance, uncollected():
            advance("reading")
            answer = ask(document, query, tokens, share, **asked)
        files = {} if out is None else answer_files(out, Path(document.name).stem, document, query, answer, draw)
        return tell_answer(document.name, query, answer, files, model, (as_json, quiet))
    if again and words is not None:
        raise InputError("--words cannot be read again and again; leave it out with --passes and --explain")
    with quiet_decoder(source):
        # A wrong file should be told before a model is loaded.
        picture, known = load_page(source.place)
    picture = magnified(picture, magnify)
    known = known if words is None else as_words(words, picture.size)
    check_model(model)
    with progress(["loading", "asking"], "", hidden=as_json or quiet) as advance:
        advance("loading")
        with uncollected():
            given: dict[str, Any] = {"device": device, "relevance": relevance}
            given |= {} if levels is None else {"levels": levels}
            given |= {} if depth is None else {"depth": depth}
            esper = None
            if again:
                from ...eye.esper import Esper

                own: dict[str, Any] = {} if first_look is None else {"glance": first_look}
                own |= {} if tempering is None else {"tempering": tempering}
                esper = Esper.from_pretrained(model, settings, **given, **own)
                eye = esper.eye
            elif depth is None and can_be_quick(
                model, device, picture.pixels.shape[:2], tokens, share, strategy=strategy, relevance=relevance
            ):
                eye = QuickEye(part_folder(MINI), relevance, levels)
            else:
                from ...eye.eye import Eye

                eye = Eye.from_pretrained(model, **given)
        advance("asking")
        eye.set_image(picture)
        story = None
        if esper is not None:
            esper.set_image(picture.pixels)
            lately = 0 if kept is None else kept.failures()
            most = passes if preset is not None else passes or 1
            story = esper.examine(query, tokens, share, passes=most, failures=lately, max_new_tokens=new_tokens)
            answer = story.answer
        else:
            how: dict[str, Any] = {"strategy": strategy, "seed": seed, "words": known}
            how |= {"clusters": clusters} if strategy == "clusters" else {}
            answer = eye.ask(query, tokens, share, max_new_tokens=new_tokens, **how)
    if kept is not None:
        answer = kept.noted(answer, query, picture, place=source.place, model=model)
    files: dict[str, str] = {}
    if out is not None:
        scored = eye.scored(query) if relevance in ("auto", "scorer") and draw else None
        with writing(out):
            (name,) = result_names([source])
            if draw:
                files = {"homunculus.png": draw_page(out, name, picture, answer, query, scored, known)}
            files |= write_files(out, name, answer)
            if story is not None and explain:
                from ...eye.story_drawing import write_story

                files |= write_story(story, out)
    if story is not None and explain and not as_json and not quiet:
        from ...eye.story import story_table

        show(story_table(story))
    return tell_answer(source.file, query, answer, files, model, (as_json, quiet))


def tell_answer(name: str, query: str, answer: Any, files: dict[str, str], model: str, only: tuple[bool, bool]) -> int:
    """The answer on the output. only: as JSON, and the text alone."""
    as_json, quiet = only
    if as_json:
        print_json({**answer.to_json(), "model": model, "query": query, "files": files})
    elif quiet:
        say(answer.text)
        if is_unsure(answer.uncertainty):
            complain(f"unsure: {UNSURE}")
    else:
        print_answer(name, query, answer, files)
    return 0


def write_files(out: Path, name: str, answer: Any) -> dict[str, str]:
    from ...core.files import write_json

    documents = {"allocation.json": answer.allocation.to_json(), "answer.json": answer.to_json()}
    for suffix, document in documents.items():
        write_json(out / f"{name}.{suffix}", document)
    return {suffix: str(out / f"{name}.{suffix}") for suffix in documents}


def draw_page(
    out: Path, name: str, picture: Any, answer: Any, query: str, relevance: Any = None, words: Any = None
) -> str:
    from ...draw import homunculus
    from .console import save_png

    page = out / f"{name}.homunculus.png"
    save_png(homunculus(picture, answer.allocation, relevance, query, answer=answer, words=words), page)
    return str(page)


def print_answer(name: str, query: str, answer: Any, files: dict[str, str]) -> None:
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
        ("tokens", f"{answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)"),
        *([("pages", pages_line(answer))] if answer.pages else []),
        ("seconds", seconds_line(answer.seconds)),
        *files.items(),
    ]
    show(table(f"{name}: {query}", {"what": "left", "value": "left"}, rows, headings=False))
    say(*(f"note: {note}" for note in answer.notes))
    if is_unsure(answer.uncertainty):
        say(f"unsure: {UNSURE}")
