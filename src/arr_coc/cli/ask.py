"""`arr-coc ask`: the answer of a vision-language model, from a budget of visual tokens."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    image: Annotated[str, typer.Argument(help="The picture.", show_default=False)],
    query: Annotated[str, typer.Argument(help="The question.", show_default=False)],
    model: Annotated[
        str, typer.Option("--model", "-m", help="A name on the hub, or a folder that save_pretrained wrote.")
    ],
    budget: Annotated[int | None, typer.Option(help="Visual tokens that may be spent.", show_default=False)] = None,
    keep: Annotated[float | None, typer.Option(help="Share of the full count to spend. [default: 0.25]")] = None,
    strategy: Annotated[str, typer.Option(help="How relevance becomes regions.")] = "quadtree",
    relevance: Annotated[
        str, typer.Option(help="glance: the model's own attention; look: without a model; detail; auto.")
    ] = "auto",
    new_tokens: Annotated[int, typer.Option(help="Longest answer, in tokens.")] = 64,
    seed: Annotated[int, typer.Option(help="For strategies that draw lots.")] = 0,
    out: Annotated[
        Path | None, typer.Option(help="Write homunculus.png, allocation.json and answer.json there.")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> int:
    """The answer, its uncertainty, the tokens it took, and the seconds of each stage.

    The model is a stock one: Qwen3-VL is foveated before its encoder, other families are merged after theirs. A
    picture that a family cuts into several tiles or views is left to `arr_coc.attach`.

    \b
    Examples:
      arr-coc ask street.png "What does the red sign say?" --model Qwen/Qwen3-VL-2B-Instruct
      arr-coc ask receipt.png "What is the total?" -m ./my-model --budget 128 --out total
      arr-coc ask form.png "What is the date?" -m ./my-model --keep 0.1 --json | jq .text
    """
    from ..asking import Eye
    from ..looking import check_request
    from ..pictures import load_picture

    check_request([query], budget, keep)
    picture = load_picture(image)  # a wrong file should be told before a model is loaded
    eye = Eye.from_pretrained(model, device=device, relevance=relevance)
    answer = eye.set_image(picture.pixels).ask(
        query, budget, keep, strategy=strategy, seed=seed, max_new_tokens=new_tokens
    )
    files = write_files(out, picture, answer, query) if out is not None else {}
    if as_json:
        json.dump({**answer.to_json(), "model": model, "query": query, "files": files}, sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        print_answer(image, query, answer, files)
    return 0


def write_files(out: Path, picture: Any, answer: Any, query: str) -> dict[str, str]:
    from ..draw import homunculus
    from ..files import replacing, write_json

    paths = {name: out / name for name in ("homunculus.png", "allocation.json", "answer.json")}
    with replacing(paths["homunculus.png"]) as temporary:
        homunculus(picture, answer.allocation, None, query).save(temporary)
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
    table.add_row("uncertainty", f"{answer.uncertainty:.2f}")
    table.add_row("tokens", f"{answer.tokens} of {answer.full} ({100 * answer.tokens / answer.full:.1f} %)")
    table.add_row("seconds", seconds_line(answer.seconds))
    for name, path in files.items():
        table.add_row(name, escape(path))
    Console().print(table)
