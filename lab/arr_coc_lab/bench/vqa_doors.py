"""`bench vqa --door pack|proxy`: the same questions to a model that nobody touches, at any address, with one's own key.

pack: pictures are packed here and sent to an OpenAI-compatible upstream, or read by the bundled model where none is
named. proxy: pictures are sent as they are to a running `arr-coc proxy`, with a budget in a header. Ways: the picture
as it is, ours, and the picture made smaller, at as many tokens by the model's table.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterator
from functools import cache, partial
from time import perf_counter
from typing import TYPE_CHECKING
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.packing.pack import pack
from arr_coc.packing.packed import encode
from arr_coc.packing.prices.tables import TokenTable, load_tables, table_for
from arr_coc.pictures.load import load_picture

from . import vqa
from .machine import machine_facts
from .options import VqaOptions
from .report import Report
from .run import BenchRun
from .suite import parse_shares
from .vqa import measure as measure_attached

if TYPE_CHECKING:
    from .pack_reading import StockReader

DOORS = ("attach", "pack", "proxy")
KEY = "OPENAI_API_KEY"
SECONDS = 300
# (pictures, text before them, question, headers) → what was said.
Ask = Callable[[list[np.ndarray], str, str, dict[str, str]], str]


def measure(options: VqaOptions, run: BenchRun) -> Report:
    """`bench vqa`, by the door that was asked for."""
    return measure_attached(options, run) if options.door == "attach" else measure_door(options, run)


def measure_door(options: VqaOptions, run: BenchRun) -> Report:
    """Ask what is not answered yet, and tell the table."""
    shares, table = checked_door(options)
    task = vqa.TASKS[options.task]
    conditions = vqa.conditions_at(shares, (vqa.OURS, vqa.SMALLER))
    prompt = options.prompt if options.prompt is not None else "" if options.model == MINI else task.prompt
    questions = list(vqa.questions_of(options.data, options.limit, options.seed))
    ask = at_address(options, task) if options.upstream else by_the_bundled(task)
    settings = {"task": options.task, "model": options.model, "door": options.door, "upstream": options.upstream}
    with run.answers("door_", settings={**settings, "data": options.data, "seed": options.seed}) as answers:
        work = partial(asked_at, ask, task=task, prompt=prompt, table=table, options=options)
        answers.fill(run.each(answers.waiting(questions, conditions), work, "asking"))
    names = [question.name for question in questions]
    facts = {"model": options.model, "door": options.door, "tokens": f"{table.name}, {table.as_told}"}
    facts |= {"measure": task.measure, "seed": str(options.seed), **machine_facts(())}
    made = vqa.score_table(
        f"{options.task}: {options.model} by the door {options.door}", answers, names, conditions, facts
    )
    better = vqa.verdict(answers, names, conditions, vqa.SMALLER)
    lines = [f"ours above the smaller picture at {keep}: {holds}" for keep, holds in better.items()]
    return Report({**made.to_json(), "better": better}, (vqa.narrow(made),), lines=lines, page=(made,), name="vqa_door")


def checked_door(options: VqaOptions) -> tuple[tuple[float, ...], TokenTable]:
    if options.door not in DOORS:
        raise InputError(f"unknown --door {options.door!r}; choose from {', '.join(DOORS)}")
    if options.task not in vqa.TASKS:
        raise InputError(f"unknown --task {options.task!r}; choose from {', '.join(vqa.TASKS)}")
    if options.door == "proxy" and not options.upstream:
        raise InputError("--door proxy needs --upstream, the address of a running arr-coc proxy")
    if not options.upstream and options.model != MINI:
        raise InputError(f"--door pack asks {options.model} at an address; give it with --upstream")
    if options.upstream and not options.upstream.startswith(("http://", "https://")):
        raise InputError(f"--upstream {options.upstream} is no address; give one such as http://127.0.0.1:8010")
    return parse_shares(options.keeps), table_for(options.model, load_tables(None))


def asked_at(
    ask: Ask,
    job: tuple[vqa.Question, list[vqa.Condition]],
    task: vqa.VqaTask,
    prompt: str,
    table: TokenTable,
    options: VqaOptions,
) -> Iterator[dict[str, object]]:
    """One row for each condition."""
    question, conditions = job
    picture = load_picture(question.image)
    full = table.tokens(picture.size)
    for condition in conditions:
        started, budget = perf_counter(), max(1, int(condition.keep * full + 1e-9))
        pictures, text, headers, tokens = [picture.pixels], "", {"x-arr-coc": "off"}, full
        if condition.way == vqa.SMALLER:
            shown = pack(picture, "?", budget, model=table, layout="overview")
            pictures, tokens = [one.pixels for one in shown.pictures], shown.tokens
        elif condition.way == vqa.OURS and options.door == "pack":
            marks = options.model != MINI
            shown = pack(picture, question.bare, budget, model=table, relevance=options.relevance, marks=marks)
            pictures, text, tokens = [one.pixels for one in shown.pictures], shown.text, shown.tokens
        elif condition.way == vqa.OURS:
            headers, tokens = {"x-arr-coc-budget": str(budget)}, budget
        said = ask(pictures, "" if options.model == MINI else text, question.text + prompt, headers)
        score = round(task.metric(said, question.answers), 5)
        own = {"question": question.name, "cell": condition.name, "said": said, "true": list(question.answers)}
        yield {**own, "score": score, "tokens": tokens, "full": full, "seconds": round(perf_counter() - started, 4)}


def by_the_bundled(task: vqa.VqaTask) -> Ask:
    """The bundled model by its stock class."""

    @cache
    def reader() -> StockReader:
        from .pack_reading import StockReader

        return StockReader()

    return lambda pictures, text, question, headers: reader().say(pictures, question, task.new_tokens)[0]


def at_address(options: VqaOptions, task: vqa.VqaTask) -> Ask:
    """A server that speaks as OpenAI's does; the key is that of the variable OPENAI_API_KEY, and is kept nowhere."""
    base = str(options.upstream).rstrip("/").removesuffix("/v1")

    def ask(pictures: list[np.ndarray], text: str, question: str, headers: dict[str, str]) -> str:
        shown = [
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(data).decode()}}
            for data in (encode(pixels, "png") for pixels in pictures)
        ]
        content = [*([{"type": "text", "text": text}] if text else []), *shown, {"type": "text", "text": question}]
        body = {"model": options.model, "messages": [{"role": "user", "content": content}], "temperature": 0}
        own = {"content-type": "application/json", "authorization": f"Bearer {os.environ.get(KEY, 'none')}"}
        sent = json.dumps({**body, "max_tokens": task.new_tokens}).encode()
        try:
            request = Request(f"{base}/v1/chat/completions", sent, {**own, **headers})
            with urlopen(request, timeout=SECONDS) as answer:
                return str(json.load(answer)["choices"][0]["message"]["content"] or "").strip()
        except HTTPError as error:
            raise InputError(f"{base} answered {error.code}: {error.read(300).decode(errors='replace')}") from error
        except (URLError, OSError, ValueError, KeyError, IndexError, TypeError) as error:
            raise InputError(f"{base} gave no answer ({error}); is it an OpenAI-compatible server?") from error

    return ask
