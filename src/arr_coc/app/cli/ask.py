"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from ...bundled import MINI
from ...errors import InputError

MOST_PASSES = 4


def command(
    image: Annotated[str, typer.Argument(help="The picture.", show_default=False)],
    query: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    model: Annotated[
        str, typer.Option("--model", "-m", help="mini, which comes with the library; a folder; a name on the hub.")
    ] = MINI,
    budget: Annotated[int | None, typer.Option(help="Visual tokens that may be spent.", show_default=False)] = None,
    keep: Annotated[float | None, typer.Option(help="Share of the full count to spend. [default: 0.25]")] = None,
    strategy: Annotated[str, typer.Option(help="How relevance becomes regions.")] = "quadtree",
    relevance: Annotated[
        str,
        typer.Option(
            help="scorer: the learned one; glance: the model's own attention; look: without a model; detail; auto: "
            "the scorer where one comes with the model, else a glance."
        ),
    ] = "auto",
    passes: Annotated[
        int, typer.Option(help="Look again, up to so many times, until sure; the budget is that of all passes.")
    ] = 1,
    explain: Annotated[
        bool, typer.Option(help="Tell the story pass by pass; with --out also strip.png and convergence.png.")
    ] = False,
    levels: Annotated[int | None, typer.Option(help="Coarsest level of detail.", show_default=False)] = None,
    new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 64,
    seed: Annotated[int, typer.Option(help="For strategies that draw lots.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write homunculus.png, allocation.json and answer.json there.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> int:
    """The answer, its uncertainty, the tokens it took, and the seconds of each stage.

    mini comes with the library and needs no network; it has only ever seen pictures like those of `arr-coc needle`.
    Other models are stock ones: Qwen3-VL is foveated before its encoder, other families are merged after theirs. A
    picture that a family cuts into several tiles or views is left to `arr_coc.attach`.

    \b
    Examples:
      arr-coc ask src/arr_coc/examples/street.png "What does the pink sign say?"
      arr-coc ask receipt.png "What is the date?" --budget 128 --out date
      arr-coc ask form.png "What is the title?" --keep 0.1 --json | jq .text
      arr-coc ask form.png "What is the date?" --passes 4 --explain --out story
      arr-coc ask street.jpg "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
    """
    from ...looking import check_device, check_request
    from ...pictures import load_picture
    from .bench import progress
    from .targets import writing

    wait_asleep()
    check_request([query], budget, keep)
    if not 1 <= passes <= MOST_PASSES:
        raise InputError(f"--passes {passes} is not possible; give 1 to {MOST_PASSES}")
    again = passes > 1 or explain
    if again and strategy != "quadtree":
        raise InputError(f"--strategy {strategy} cannot look again; leave it out with --passes and --explain")
    picture = load_picture(image)  # a wrong file should be told before a model is loaded
    check_device(device)
    with progress(["loading", "asking"], "", hidden=as_json) as advance:
        advance("loading")
        with uncollected():
            given: dict[str, Any] = {"device": device, "relevance": relevance}
            given |= {} if levels is None else {"levels": levels}
            esper = None
            if again:
                from ...esper import Esper

                esper = Esper.from_pretrained(model, **given)
                eye = esper.eye
            else:
                from ...asking import Eye

                eye = Eye.from_pretrained(model, **given)
        advance("asking")
        eye.set_image(picture.pixels)
        story = None
        if esper is not None:
            esper.set_image(picture.pixels)
            story = esper.examine(query, budget, keep, passes=passes, max_new_tokens=new_tokens)
            answer = story.answer
        else:
            answer = eye.ask(query, budget, keep, strategy=strategy, seed=seed, max_new_tokens=new_tokens)
    files: dict[str, str] = {}
    if out is not None:
        scored = eye.scored(query) if relevance in ("auto", "scorer") else None
        with writing(out):
            files = write_files(out, picture, answer, query, scored)
            if story is not None and explain:
                from ...esper.telling import write_story

                files |= write_story(story, out)
    if as_json:
        json.dump({**answer.to_json(), "model": model, "query": query, "files": files}, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
        return 0
    if story is not None and explain:
        from ...esper.telling import tell

        tell(story)
    print_answer(image, query, answer, files)
    return 0


def wait_asleep() -> None:
    """Let threads that wait for each other sleep instead of spin; only before torch is imported, and only by default.

    Spinning gains a few milliseconds on an idle machine. Beside one other busy process on two cores it was measured to
    turn an answer of 0.4 s into one of 3 to 13 s.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def uncollected() -> Generator[None]:
    """No garbage collection meanwhile: importing makes a great many objects, all of which stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def write_files(out: Path, picture: Any, answer: Any, query: str, relevance: Any = None) -> dict[str, str]:
    from ...draw import homunculus
    from ...files import replacing, write_json

    paths = {name: out / name for name in ("homunculus.png", "allocation.json", "answer.json")}
    with replacing(paths["homunculus.png"]) as temporary:
        homunculus(picture, answer.allocation, relevance, query).save(temporary)
    write_json(paths["allocation.json"], answer.allocation.to_json())
    write_json(paths["answer.json"], answer.to_json())
    return {name: str(path) for name, path in paths.items()}


def print_answer(image: str, query: str, answer: Any, files: dict[str, str]) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from .tables import seconds_line

    table = Table(show_header=False, title=f"{Path(image).name}: {escape(query)}", title_justify="left")
    table.add_row("answer", f"[bold]{escape(answer.text) or '(nothing)'}[/bold]")
    last = answer.passes[-1]
    details = f"entropy {last.entropy:.2f} nats, margin {last.margin:.2f}"
    table.add_row("uncertainty", f"{answer.uncertainty:.2f} ({details})")
    table.add_row("tokens", f"{answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)")
    table.add_row("seconds", seconds_line(answer.seconds))
    for name, path in files.items():
        table.add_row(name, escape(path))
    Console().print(table)
