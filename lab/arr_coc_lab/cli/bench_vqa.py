"""`arr-coc bench vqa`: a model on a public set, all tokens against ours against down-sampling at equal tokens."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.files import same_settings, write_json
from arr_coc.core.folders import MINI

if TYPE_CHECKING:
    from arr_coc.eye.eye import Eye

NAMES = ("docvqa", "chartqa", "textvqa", "vqav2", "infovqa", "vstar", "needle")


def vqa(
    data: Annotated[str, typer.Option(help="Parquet or jsonl as on the hub; a file, a folder or a pattern.")],
    task: Annotated[str, typer.Option(help=", ".join(NAMES))],
    model: Annotated[str, typer.Option("--model", "-m", help="mini, a folder, or a name on the hub.")] = MINI,
    keeps: Annotated[str, typer.Option(help="Shares of the full tokens.")] = "1/4",
    limit: Annotated[int | None, typer.Option(help="So many questions, drawn by the seed.", show_default=False)] = None,
    relevance: Annotated[str, typer.Option(help="Whose relevance is ours; see arr-coc ask.")] = "auto",
    strategy: Annotated[
        str | None, typer.Option(help="overlay or quadtree; the model's own by default.", show_default=False)
    ] = None,
    prompt: Annotated[
        str | None, typer.Option(help="What follows each question. [default: the task's; mini none]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the drawn questions and of the controls.")] = 0,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    out: Annotated[
        Path, typer.Option(help="Folder for answers.jsonl, vqa.json, vqa.md and worst.png; goes on where it stopped.")
    ] = Path("out/vqa"),
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """The untouched model, ours, and controls at as many tokens, question by question, with paired intervals.

    Columns are those of the public sets on the hub: image ({bytes, path}, bytes or a path), question (query, text),
    answers (answer, label). The question alone says where tokens go, not what follows it.

    \b
    Examples:
      arr-coc needle --family signs --n 40 --split test --out signs
      arr-coc bench vqa --data signs --task needle
      hf download lmms-lab/DocVQA --repo-type dataset --include "DocVQA/validation*" --local-dir docvqa
      arr-coc bench vqa --data "docvqa/DocVQA/*.parquet" --task docvqa --model Qwen/Qwen3-VL-2B-Instruct \\
        --device cuda --limit 500 --out out/docvqa
    """
    from arr_coc.allocation.request import check_device
    from arr_coc.app.cli.inputs import check_model
    from arr_coc.relevance.registry import check_relevance

    from .bench_real import parse_shares

    wait_asleep()
    if task not in NAMES:
        raise InputError(f"unknown --task {task!r}; choose from {', '.join(NAMES)}")
    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves nothing to ask; give at least 1")
    if strategy not in (None, "overlay", "quadtree"):
        raise InputError(f"--strategy {strategy} has no controls here; choose from overlay, quadtree")
    shares = parse_shares(keeps)
    if shares[0] >= 1:
        raise InputError(f"--keeps {keeps}: all tokens are asked anyway; give shares below 1")
    check_device(device)
    check_model(model)
    check_relevance(relevance, ("pixels", "texture", "model", "words", "scorer"))
    from ..bench.machine import machine_facts
    from ..bench.vqa import OURS, TASKS, Answers, Asking, Cell, cells_of, measure_vqa, questions_of
    from ..bench.vqa_report import narrow, score_table, verdict, worst_of, worst_sheet, write_page

    chosen = TASKS[task]
    said = (chosen.prompt if model != MINI else "") if prompt is None else prompt
    asking = Asking(chosen, said, strategy, seed)
    total = sum(1 for _ in questions_of(data, limit, seed))
    settings = {"task": task, "model": model, "relevance": relevance, "strategy": strategy, "prompt": said}

    @cache
    def eye() -> Eye:
        from arr_coc.eye.eye import Eye

        return Eye.from_pretrained(model, device=device, relevance=relevance)

    cells = cells_of(shares)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        same_settings(out / "settings.json", {**settings, "data": data, "seed": seed})
        answers = Answers(out / "answers.jsonl")
        with progress(total, "asking", hidden=as_json) as advance:
            names = measure_vqa(eye, questions_of(data, limit, seed), cells, asking, answers, advance)
        facts = {"model": f"{model} on {device}", "data": data, "seed": str(seed), "measure": chosen.measure}
        facts |= {"relevance": relevance, **machine_facts(("torch", "transformers"))}
        table = score_table(f"{task}: {model}", answers, names, cells, facts)
        worst = worst_of(answers, names, cells)
        sheet = out / "worst.png" if worst else None
        if sheet is not None:
            shown = (one for one in questions_of(data, limit, seed) if one.name in worst)
            worst_sheet(sheet, eye, shown, asking, Cell(OURS, shares[-1]), answers)
        found: dict[str, Any] = {"better than uniform": verdict(answers, names, cells), "worst": worst}
        document = {**table.to_json(), **found}
        write_json(out / "vqa.json", document)
        write_page(out / "vqa.md", table, sheet)
    if as_json:
        print_json(document)
        return
    show(narrow(table).to_rich())
    say(*(f"{key}: {value}" for key, value in table.facts.items()))
    say(*(f"ours above uniform at {keep}: {holds}" for keep, holds in found["better than uniform"].items()))
    say(f"page: {out / 'vqa.md'}")
