"""`arr-coc bench real --ask`: what a model reads off real pictures, from all tokens and from few."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from arr_coc.app.cli.console import print_json, progress, say, show, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.files import same_settings, write_json

if TYPE_CHECKING:
    from arr_coc.eye.eye import Eye


def ask_real(
    data: Path,
    model: str,
    shares: tuple[float, ...],
    sources: tuple[str, ...],
    limits: dict[str, int],
    seed: int,
    out: Path,
    page: Path | None,
    as_json: bool,
) -> None:
    """Exact match and ANLS of every source, question by question; goes on where it stopped."""
    wait_asleep()
    if shares[0] >= 1:
        raise InputError("--keeps: all tokens are asked anyway; give shares below 1")
    from arr_coc.app.cli.inputs import check_model

    from ..bench.machine import machine_facts
    from ..bench.real_ask import READING, cells_for, reading_questions, tables_of, words_known
    from ..bench.table import fill_page
    from ..bench.vqa import Answers, Asking, measure_vqa
    from ..bench.vqa_report import narrow

    check_model(model)
    asked = reading_questions(data, limits, sources, seed)
    cells = cells_for(shares, words_known(asked))

    @cache
    def eye() -> Eye:
        from arr_coc.eye.eye import Eye

        return Eye.from_pretrained(model, relevance="scorer")

    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        same_settings(out / "ask_settings.json", {"model": model, "data": str(data), "seed": seed})
        answers = Answers(out / "real_answers.jsonl")
        with progress(len(asked), "asking", hidden=as_json) as advance:
            measure_vqa(eye, (one.question for one in asked), cells, Asking(READING, "", None, seed), answers, advance)
        facts = {"model": model, "relevance": "the scorer's", "seed": str(seed), **machine_facts(("torch",))}
        tables = tables_of(asked, answers, cells, facts)
        document = {"schema": 1, "tables": [table.to_json() for table in tables]}
        write_json(out / "real_ask.json", document)
    if page is not None:
        fill_page(page, "ask", *tables)
    if as_json:
        print_json(document)
        return
    show(*(narrow(table).to_rich() for table in tables))
    say(*(f"{key}: {value}" for key, value in tables[0].facts.items()))
    say(f"files: {out / 'real_ask.json'}")
