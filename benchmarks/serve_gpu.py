"""How many requests a second does the engine behind `arr-coc serve` answer on a GPU, with a quarter of the tokens?

    python benchmarks/serve_gpu.py --seconds 300
    python benchmarks/serve_gpu.py --tiny          # on a CPU: does it run?

A Qwen3-VL with the shapes of 2B and random weights behind the server's own engine. Clients ask one question after the
other, each about a page that nobody saw before; nothing is kept between them. From the decoded picture to the last
token, the scorer counted:

    quarter    a quarter of the tokens, by the scorer; up to eight requests are answered at once
    full       every token, as the server treats it: what costs as much as many others is answered one by one
    together   every token, up to eight at once: what the same engine gives where that rule is off

`first`: seconds from a request to its first word, median and worst of ten. Sizes: all 2048², or mixed.
"""

from __future__ import annotations

import random
import statistics
import threading
import time
from itertools import count
from typing import Any

import numpy as np
import torch
from arr_coc.realizing.qwen3_vl.processor import load_processor
from gpu_program import GpuProgram
from PIL import Image, ImageDraw

from arr_coc import Eye
from arr_coc.answering.chat import USER, Turn
from arr_coc.answering.timing import MODELS, TINY, build, write_report
from arr_coc.app.serve.chat import ChatRequest, is_heavy
from arr_coc.app.serve.engine import Done, Engine, ServeJob
from arr_coc.app.web import Limits
from arr_coc.core.folders import MINI, part_folder
from arr_coc.pictures.load import load_picture

CLIENTS = (32, 8, 1)
# Where every token is kept, nobody needs to search.
EVERY = {"keep": 1.0, "relevance": "detail"}
WAYS: dict[str, dict[str, Any]] = {"quarter": {"keep": 0.25, "relevance": "scorer"}, "full": EVERY, "together": EVERY}
LETTERS = 98  # tokens of the alphabet that are written
MIXED = ((2048, 2048), (1024, 1024), (1240, 1754), (1600, 1200), (800, 1000))
QUESTION = "What does the line in the middle say?"
TOKENS = ("image_token_id", "video_token_id", "vision_start_token_id", "vision_end_token_id")


def serving_eye(device: torch.device, tiny: bool) -> Eye:
    """A model of random weights that speaks `mini`'s alphabet; its answers do not end by themselves."""
    from transformers import AutoConfig

    folder = part_folder(MINI)
    text, vision = TINY["tiny"] if tiny else MODELS["2B"]
    model = build((text, {**vision, "temporal_patch_size": 1}), device, torch.float32 if tiny else torch.bfloat16)
    known = AutoConfig.from_pretrained(str(folder))
    for name in TOKENS:
        setattr(model.config, name, getattr(known, name))
    model.config.text_config.eos_token_id = None
    with torch.no_grad():  # the first letter must be seen: no token beyond the alphabet is the likeliest
        model.lm_head.weight[LETTERS:] = 0
    return Eye(model, load_processor(str(folder)), relevance="scorer", memory=0, name="random weights")


class Pages:
    """Pages that are never the same twice: drawn once, then told apart by a few pixels."""

    def __init__(self, sizes: tuple[tuple[int, int], ...]) -> None:
        source = random.Random(0)
        self.drawn = [np.asarray(self.draw(source, *source.choice(sizes))) for _ in range(2 * len(sizes))]
        self.number = count(1)

    @staticmethod
    def draw(source: random.Random, width: int, height: int) -> Image.Image:
        page = Image.new("RGB", (width, height), "white")
        draw = ImageDraw.Draw(page)
        for _ in range(width * height // 20000):
            place = source.randrange(width), source.randrange(height)
            draw.text(place, f"Line {source.randrange(9999)} of a page", fill=(20, 20, 60), font_size=16)
        return page

    def next(self) -> np.ndarray:
        number = next(self.number)
        page = self.drawn[number % len(self.drawn)].copy()
        page[0, :24, 0] = [255 * (number >> bit & 1) for bit in range(24)]
        return page


class ServeRun:
    """Clients that ask for some seconds, and what they saw."""

    def __init__(self, engine: Engine, pages: Pages, way: str, new_tokens: int) -> None:
        self.engine, self.pages, self.way, self.new_tokens = engine, pages, way, new_tokens
        self.lock = threading.Lock()
        self.first: list[float] = []
        self.ends: list[float] = []
        self.batches: list[int] = []
        self.errors: list[str] = []

    def client(self, until: float) -> None:
        while time.perf_counter() < until:
            self.ask()

    def ask(self) -> None:
        """One request, until its last word."""
        picture = load_picture(self.pages.next())
        how, over = WAYS[self.way], threading.Event()
        heavy = is_heavy(how, [picture]) and self.way != "together"
        turns = (Turn(USER, (picture, QUESTION)),)
        asked = ChatRequest(turns, dict(how), new_tokens=self.new_tokens, heavy=heavy)
        started, words = time.perf_counter(), []

        def tell(item: Any) -> None:
            if isinstance(item, str) and not words:
                words.append(time.perf_counter() - started)
            if isinstance(item, Done | Exception):
                with self.lock:
                    if isinstance(item, Exception):
                        self.errors.append(" ".join(repr(item).split())[:200])
                    else:
                        self.ends.append(time.perf_counter())
                        self.first += words or [time.perf_counter() - started]
                over.set()
            elif hasattr(item, "batch"):
                with self.lock:
                    self.batches.append(item.batch)

        try:
            self.engine.submit(ServeJob(asked, tell))
        except Exception as error:
            with self.lock:
                self.errors.append(repr(error)[:200])
            time.sleep(0.05)
            return
        over.wait(120)


def measure(
    engine: Engine, pages: Pages, case: tuple[str, str, int], seconds: float, new_tokens: int
) -> dict[str, Any]:
    """One row: so many clients, for so many seconds, after one request each that does not count."""
    sizes, way, clients = case
    warm = ServeRun(engine, pages, way, new_tokens)
    for run, until in ((warm, 0.0), (ServeRun(engine, pages, way, new_tokens), seconds)):
        started = time.perf_counter()
        work = run.ask if run is warm else lambda run=run, end=started + until: run.client(end)
        threads = [threading.Thread(target=work, daemon=True) for _ in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(until + 150)
    took = max([*run.ends, started + seconds]) - started
    first = sorted(run.first) or [float("nan")]
    return {
        **{"sizes": sizes, "way": way, "clients": clients, "requests": len(run.ends), "seconds": took},
        "rate": len(run.ends) / took,
        "first": statistics.median(first),
        "first_worst": first[min(len(first) - 1, int(0.9 * len(first)))],
        "batch": statistics.mean(run.batches) if run.batches else 0.0,
        "errors": run.errors[:5],
        "warm_errors": warm.errors[:5],
    }


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| pages | clients | way | requests a second | × full | first word, s | worst of ten | in a batch | requests |",
        "|---|--:|---|--:|--:|--:|--:|--:|--:|",
    ]
    rates = {(row["sizes"], row["clients"]): row["rate"] for row in rows if row["way"] == "full"}
    for row in rows:
        base = rates.get((row["sizes"], row["clients"]))
        times = f"{row['rate'] / base:.2f}" if base else "–"
        lines.append(
            f"| {row['sizes']} | {row['clients']} | {row['way']} | {row['rate']:.2f} | {times} | {row['first']:.2f} | "
            f"{row['first_worst']:.2f} | {row['batch']:.1f} | {row['requests']} |"
        )
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 300)
    parser.add_argument("--each", type=float, default=10, help="seconds of each row")
    parser.add_argument("--new-tokens", type=int, default=16, help="of each answer")
    options, device = parser.read(arguments)
    started, eye = time.perf_counter(), serving_eye(device, options.tiny)
    engine = Engine(eye, Limits(new_tokens=512, queue=256, pixels=20_000_000))
    engine.start()
    pages = {"2048²": Pages(((2048, 2048),)), "mixed": Pages(MIXED)}
    if options.tiny:
        pages = {"128²": Pages(((128, 128),)), "mixed": Pages(((128, 96), (160, 128)))}
    clients = (2,) if options.tiny else CLIENTS
    cases = [(sizes, way, number) for sizes in pages for number in clients for way in WAYS]
    report: dict[str, Any] = {"rows": [], "left_out": [], "new_tokens": options.new_tokens, "done": False, "tables": {}}
    for case in cases:
        if time.perf_counter() - started + options.each > options.seconds:
            report["left_out"].append(" ".join(map(str, case)))
            continue
        each = 0.1 if options.tiny else options.each
        report["rows"].append(measure(engine, pages[case[0]], case, each, options.new_tokens))
        row = report["rows"][-1]
        print({key: round(value, 2) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
        title = f"Serving Qwen3-VL 2B, answers of {options.new_tokens} tokens"
        report["tables"][title] = table(report["rows"])
        write_report(options.out, "serve", report, device)
    engine.close(30)
    write_report(options.out, "serve", {**report, "done": True}, device)
    print(table(report["rows"]))
    return report


if __name__ == "__main__":
    main()
