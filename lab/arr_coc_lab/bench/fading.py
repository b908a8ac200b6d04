"""`bench fading`: send recordings of drawn screens step by step through the proxy's packing, with and without fading.

Each request adds one screen with a question about it. After the last one, `mini` answers another question about every
screen that has faded by then, from the pictures that the request holds for it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import count, islice

from arr_coc.app.proxy.packer import Packer, ProxySettings
from arr_coc.app.proxy.protocols import FORMS, PROTOCOLS
from arr_coc.app.web import picture_bytes
from arr_coc.core.folders import MINI
from arr_coc.core.values import JsonObject
from arr_coc.options import Options
from arr_coc.packing.packed import encode
from arr_coc.packing.prices.tables import table_for
from arr_coc.pictures.load import load_picture

from ..worlds.office.world import Page, layout_names, make_page
from . import scores
from .report import Report, Score, machine_facts
from .rivals import means_table, read_by_stock
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import FadingOptions

SCREENS = "settings|dashboard|status_panel|mail|cart|shop|product_page|config_file|spreadsheet|booking"
STEPS, FADE = 20, 4
FADED = FADE * (STEPS // FADE - 1)
WAYS = {"as they were": None, f"--fade {FADE}": FADE}
BUDGET = "25%"


def plan(options: FadingOptions) -> Plan:
    keys = [[Key(f"{number} {step}", way) for way in WAYS for step in range(STEPS)] for number in range(options.n)]
    jobs = [Job(number, tuple(several)) for number, several in enumerate(keys)]
    kinds = [Score("exact", f"Exact match about the {FADED} older screens"), Score("anls", "ANLS about them")]
    facts = {"screens": f"{STEPS} a recording, at {BUDGET}", "seed": str(options.seed), **machine_facts()}
    names = {"tokens": "visual tokens", "cached": "of these cached", "missed": "cache misses"}

    def report(rows: list[BenchRow]) -> Report:
        return Report.of(rows, kinds, facts, ("", "screens"), [means_table("Of each request", rows, names)])

    return Plan(jobs, partial(recording, options.seed), report, {"seed": options.seed}, whole=False)


def recording(seed: int, number: int, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
    """Make the rows of one recording: the cost of each step, and the answer about its screen once it is older."""
    screens = list(islice(drawn_screens(seed, 1000 * number), STEPS))
    files = [encode(screen.pixels()) for screen in screens]
    for way, fade in WAYS.items():
        packer = Packer(ProxySettings("http://127.0.0.1", options=Options(relevance="auto", budget=BUDGET), fade=fade))
        steps: list[JsonObject] = []
        before: list[JsonObject] = []
        kept = 0
        for step in range(1, STEPS + 1):
            messages = conversation(screens[:step], files)
            asyncio.run(packer.request({"messages": messages}, PROTOCOLS[0], MINI, BUDGET))
            now = parts_in(messages)
            differ = (at for at, pair in enumerate(zip(now, before, strict=False)) if pair[0] != pair[1])
            same = next(differ, min(len(now), len(before)))
            costs = {"tokens": tokens_in(now), "cached": tokens_in(now[:same]), "missed": int(same < kept)}
            steps.append(costs)
            # Pictures added for the latest question are not sent again.
            before, kept = now, len(parts_in(messages[:-1]))
        packer.close()
        for step, (costs, screen) in enumerate(zip(steps, screens, strict=True)):
            found: dict[str, float] = {}
            if step < FADED:
                asked, shown = screen.questions[1], pictures_in(parts_in([messages[2 * step]]))
                said = read_by_stock([load_picture(picture_bytes(one)).pixels for one in shown], asked.text)
                found = {name: getattr(scores, name)(said, (asked.answer.text,)) for name in ("exact", "anls")}
            yield BenchRow("fading", f"{number} {step}", way, scores=found, extras=costs)


def drawn_screens(seed: int, first: int) -> Iterator[Page]:
    """Yield screens with at least two questions."""
    names = layout_names()
    chosen = (number for number in count(first) if re.match(SCREENS, names[number % len(names)]))
    return (page for number in chosen if len((page := make_page("train", seed, number)).questions) > 1)


def conversation(screens: Sequence[Page], files: Sequence[bytes]) -> list[JsonObject]:
    """Return the messages of a request: each screen with a question about it, and answers between them."""
    messages: list[JsonObject] = []
    for screen, data in zip(screens, files, strict=False):
        picture = FORMS["image_url"].written({"type": "image_url"}, data, "image/png")
        messages.append({"role": "user", "content": [picture, {"type": "text", "text": screen.questions[0].text}]})
        messages.append({"role": "assistant", "content": "Next."})
    return messages[:-1]


def parts_in(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """Yield the parts of messages in order."""
    every = [one["content"] if isinstance(one["content"], list) else [one] for one in messages]
    return [part for several in every for part in several]


def pictures_in(parts: Sequence[JsonObject]) -> list[str]:
    """Return the data: URLs of the pictures in parts."""
    return [FORMS["image_url"].read(one) for one in parts if one.get("type") == "image_url"]


def tokens_in(parts: Sequence[JsonObject]) -> int:
    return sum(map(tokens_of, pictures_in(parts)))


@lru_cache(maxsize=256)
def tokens_of(address: str) -> int:
    return table_for(MINI).tokens(load_picture(picture_bytes(address)).size)
