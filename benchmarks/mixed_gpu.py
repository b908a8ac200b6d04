"""Do CUDA graphs ever change or break an answer? Many sizes, budgets and threads, each asked with graphs and without.

    python benchmarks/mixed_gpu.py --asks 2000 --seconds 400
    python benchmarks/mixed_gpu.py --tiny          # a dozen on a CPU, where nothing is captured

Pages drawn anew are shown to the bundled `mini` at up to three times their size. Half of the sizes come again and
again, as photographs of one camera do, half never again. Every question goes to an eye with graphs and to one with
`graphs=False`; threads share both. Counted: errors, warnings, answers that are not the same, and the memory that the
device has given out, at each tenth of the way.
"""

from __future__ import annotations

import random
import threading
import time
import warnings
from collections import Counter
from copy import copy
from typing import Any

import torch
from gpu_program import GpuProgram
from PIL import Image, ImageDraw

import arr_coc
from arr_coc.answering.timing import write_report
from arr_coc.core.cuda_graph import CudaGraph

COMMON = ((640, 480), (800, 1000), (1024, 1024), (595, 842), (1240, 1754), (1500, 1000))
QUESTIONS = ("What stands at the top?", "What does it say?", "Which number is at the left?", "Read the last word.")


def page_of(random_source: random.Random, tiny: bool) -> Image.Image:
    """A white page with some words, of a common size or of any."""
    size = random_source.choice(COMMON)
    if random_source.random() < 0.5:
        size = random_source.randrange(300, 1300), random_source.randrange(300, 1900)
    width, height = (max(96, side // 6) for side in size) if tiny else size
    page = Image.new("RGB", (width, height), "white")
    draw = ImageDraw.Draw(page)
    for _ in range(12):
        place = random_source.randrange(width - 60), random_source.randrange(height - 20)
        ink, letters = (random_source.randrange(200), 0, 60), random_source.choice([14, 18, 24])
        draw.text(place, f"W{random_source.randrange(9999)}", fill=ink, font_size=letters)
    return page


class MixedRun:
    """eyes: with graphs, and without. Threads take the next number until all are asked or the time is over."""

    def __init__(self, eyes: tuple[Any, Any], asks: int, seconds: float, tiny: bool, first: int = 0) -> None:
        self.eyes, self.asks, self.tiny = eyes, asks, tiny
        self.until = time.perf_counter() + seconds
        self.lock = threading.Lock()
        self.next, self.asked = first, 0
        self.errors: list[str] = []
        self.unequal: list[str] = []
        self.memory: list[tuple[int, float]] = []

    def work(self) -> None:
        """One thread: pages, each by several questions."""
        eyes = tuple(copy(eye) for eye in self.eyes)
        while True:
            with self.lock:
                number, self.next = self.next, self.next + 1
            if not self.ask_about(eyes, random.Random(number)):
                return

    def ask_about(self, eyes: tuple[Any, ...], source: random.Random) -> bool:
        """Questions about one page, smaller and larger; whether there is more to do."""
        page = page_of(source, self.tiny)
        full = arr_coc.tokens_for((page.height, page.width))
        for times in (1, source.choice((1.5, 2)), 3) if not self.tiny else (1,):
            shown = page.resize((round(page.width * times), round(page.height * times)))
            box = {"strategy": "oracle", "boxes": [[0.2, 0.2, 0.4, 0.3]]}
            for how in ({}, {}, box):
                with self.lock:
                    if self.asked >= self.asks or time.perf_counter() > self.until:
                        return False
                    self.asked += 1
                    if self.asked % max(1, self.asks // 10) == 0:
                        self.memory.append((self.asked, reserved()))
                query = f"{source.choice(QUESTIONS)} {source.randrange(99)}"
                budget = min(1024, max(8, full // source.choice((4, 8, 16))))
                self.compare(eyes, shown, query, {"budget": budget, **how})
        return True

    def compare(self, eyes: tuple[Any, ...], page: Image.Image, query: str, how: dict[str, Any]) -> None:
        """One question to both eyes."""
        name = f"{page.size}, {how}"
        try:
            said = [eye.set_image(page).ask(query, **how) for eye in eyes]
        except Exception as error:
            line = " ".join(f"{name}: {error!r}".split())[:300]
            with self.lock:
                self.errors.append(line)
            return
        told = [(answer.text, answer.tokens) for answer in said]
        if told[0] != told[1]:
            with self.lock:
                self.unequal.append(f"{name}: {told[0]} with graphs, {told[1]} without")


def reserved() -> float:
    """GiB that the device has given to this process."""
    return torch.cuda.memory_reserved() / 2**30 if torch.cuda.is_available() else 0.0


def table(report: dict[str, Any]) -> str:
    memory = [f"{size:.1f}" for _, size in report["memory"]] or ["–"]
    return "\n".join(
        [
            "| asks | threads | graphs | errors | warnings | unequal | GiB given out, at each tenth | seconds |",
            "|--:|--:|--:|--:|--:|--:|---|--:|",
            f"| {report['asks']} | {report['threads']} | {report['graphs']} | {len(report['errors'])} "
            f"| {sum(report['warnings'].values())} | {len(report['unequal'])} | {', '.join(memory)} "
            f"| {report['seconds']:.0f} |",
        ]
    )


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 400)
    parser.add_argument("--asks", type=int, default=2000)
    parser.add_argument("--threads", type=int, default=3)
    parser.add_argument("--first", type=int, default=0, help="number of the first page; other numbers, other pages")
    options, device = parser.read(arguments)
    asks = min(options.asks, 12) if options.tiny else options.asks
    eyes = [arr_coc.Eye.from_pretrained("mini", device=device.type, graphs=graphs) for graphs in (None, False)]
    run = MixedRun((eyes[0], eyes[1]), asks, options.seconds, options.tiny, options.first)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        threads = [threading.Thread(target=run.work, daemon=True) for _ in range(options.threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(options.seconds + 60)
    stuck = sum(thread.is_alive() for thread in threads)
    errors = [*run.errors, *["a thread did not come back"] * stuck]
    said = Counter(" ".join(str(one.message).split())[:200] for one in told)
    report: dict[str, Any] = {"asks": run.asked, "wanted": asks, "threads": options.threads, "errors": errors}
    report |= {
        "warnings": dict(said),
        "unequal": run.unequal,
        "memory": run.memory,
        "graphs": CudaGraph.count,
    }
    report |= {"seconds": time.perf_counter() - started, "done": True}
    report["tables"] = {"Mixed sizes, budgets and threads, with graphs against `graphs=False`": table(report)}
    write_report(options.out, "mixed", report, torch.device(device))
    for line in [*errors[:10], *said, *run.unequal[:10]]:
        print(line)
    print(table(report))
    return report


if __name__ == "__main__":
    main()
