"""What does the second question about one picture cost on a GPU, with the shapes of Qwen3-VL 2B?

    python benchmarks/again_gpu.py --seconds 90
    python benchmarks/again_gpu.py --tiny          # on a CPU: does it run?

Random weights, as in `serve_gpu`; pages of 2048² that nobody saw before, five questions to each, from the decoded
picture to the last of a few tokens:

    ours, anew     a quarter of the tokens by the scorer, nothing kept between questions
    ours, again    the same, the overview first: its features and prompt, and what the scorer read of the page, are kept
    full, anew     every token
    full, again    every token, features and prompt kept: what a prefix cache gives
"""

from __future__ import annotations

import statistics
import time
from copy import copy
from typing import Any

from gpu_program import GpuProgram
from serve_gpu import EVERY, Pages, serving_eye

from arr_coc.answering.timing import write_report
from arr_coc.core.kept import ByteStore

QUARTER = {"keep": 0.25, "relevance": "scorer"}
WAYS: dict[str, tuple[dict[str, Any], bool]] = {
    "ours, anew": (QUARTER, False),
    "ours, again": ({**QUARTER, "order": "overview_first"}, True),
    "full, anew": (EVERY, False),
    "full, again": ({**EVERY, "order": "overview_first"}, True),
}
QUESTIONS = ("What is at the top?", "Which line is 12?", "What does the end say?", "Who signed it?", "What is due?")
BAR = 0.4  # the second question of the first, ours


def asked(eye: Any, page: Any, how: dict[str, Any], kept: bool, new_tokens: int) -> list[float]:
    """Seconds of each question about one page."""
    eye = copy(eye)
    eye.memory = ByteStore((4 << 30) if kept else 0)
    eye.set_image(page)
    found = []
    for question in QUESTIONS:
        started = time.perf_counter()
        eye.ask(question, max_new_tokens=new_tokens, **how)
        found.append(time.perf_counter() - started)
    return found


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| pages | way | first question, ms | second | fifth | second / first | pages asked |",
        "|---|---|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        times = " | ".join(f"{1000 * row[name]:.0f}" for name in ("first", "second", "fifth"))
        lines.append(f"| {row['pages']} | {row['way']} | {times} | {row['ratio']:.2f} | {row['n']} |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 90)
    parser.add_argument("--new-tokens", type=int, default=16, help="of each answer")
    options, device = parser.read(arguments)
    eye, side = serving_eye(device, options.tiny), 128 if options.tiny else 2048
    pages, rows = Pages(((side, side),)), []
    each, least = (0.0, 1) if options.tiny else (options.seconds / len(WAYS), 3)
    for way, (how, kept) in WAYS.items():
        for _ in range(1 if options.tiny else 3):  # graphs are captured, kernels compiled
            asked(eye, pages.next(), how, kept, options.new_tokens)
        started, found = time.perf_counter(), []
        while len(found) < least or time.perf_counter() - started < each * 0.6:
            found.append(asked(eye, pages.next(), how, kept, options.new_tokens))
        first, second, _, _, fifth = (statistics.median(column) for column in zip(*found, strict=True))
        row = {"pages": f"{side}²", "way": way, "first": first, "second": second, "fifth": fifth}
        rows.append({**row, "ratio": second / first, "n": len(found)})
        print(rows[-1], flush=True)
        report = {"rows": rows, "bar": BAR, "new_tokens": options.new_tokens, "done": len(rows) == len(WAYS)}
        title = f"Asking again, Qwen3-VL 2B, answers of {options.new_tokens} tokens"
        report["tables"] = {title: table(rows)}
        write_report(options.out, "again", report, device)
    print(table(rows))
    return report


if __name__ == "__main__":
    main()
