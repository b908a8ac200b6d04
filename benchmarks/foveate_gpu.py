"""How much faster is a Qwen3-VL that is told where to look, before its encoder runs, with the search for where counted?

    PYTHONPATH=src python benchmarks/foveate_gpu.py --seconds 140   # one GPU, the whole run within this
    PYTHONPATH=src python benchmarks/foveate_gpu.py --tiny          # the same code on a CPU, in seconds

Stock Hugging Face classes with the shapes of Qwen3-VL-2B and -8B and random weights (speed does not depend on them), in
bfloat16. From the processor's patches on the device to the first token, in these ways:

    full      every patch through the encoder
    map       leaves before the encoder by a map that is given: what foveating costs when the search is free
    scorer    the same, the map searched for by the bundled scorer
    glance    the same, by the model's own attention on a coarse view; its leaves that stay are not encoded again
    depth     as map, leaves of little relevance leave the encoder early (`DepthRouting(early=True)`)
    after     the encoder in full, its tokens merged by the same allocation
    resize    the picture resized to as many tokens: the physical limit for that count

`search` is planning: relevance, allocation (`plan_prompt`); `vision` is `realize`: pyramid, patches, tower, splicing;
`prefill` is the language model. These are the functions that `attach` and `ask` run, in their order. At batch 1 the
ways full, map, scorer and glance also run with tower and prompt as CUDA graphs (`+ graph`), as `Eye` runs them on a
GPU; tokens a second are those of an answer, with and without. Medians over CUDA events, after warm-up. JSON goes to
$OUT (or --out); the table is printed last.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from arr_coc.realizing.attachment_plan import PromptPlan
from arr_coc.realizing.base import Realized
from arr_coc.realizing.qwen3_vl.encode import VisualTokens, dense_vision_attention
from arr_coc.realizing.qwen3_vl.graph import Graphs
from arr_coc.realizing.tokens.depth import DepthRouting
from arr_coc.realizing.tokens.merge import members_of_allocations, plan_members
from arr_coc.realizing.tokens.patches import LeafBatch
from gpu_program import GpuProgram
from torch import Tensor

from arr_coc.answering.decoding import StockSpeaker, end_tokens, greedy_steps
from arr_coc.answering.timing import (
    CELL,
    KEEPS,
    MODELS,
    NEW_TOKENS,
    SOURCES,
    TINY,
    GpuCase,
    Stopwatch,
    build,
    time_way,
    time_ways,
    write_report,
)
from arr_coc.attending.allocate_batch import allocate_batch

CASES = ("1024x1", "1024x8", "2048x1", "2048x8")
STAGES = ("search", "vision", "prefill", "total")


class FoveateCase(GpuCase):
    """With the ways that only this benchmark compares."""

    def realize_by_depth(self, plan: PromptPlan) -> Realized:
        routing = {"relevance": plan.relevance, "depth": DepthRouting(early=True)}
        return self.backbone.realize(self.model, self.inputs, plan.allocations, **plan.options, **routing)

    def resized(self, tokens: int) -> dict[str, Tensor]:
        rows = round(tokens**0.5)
        size = rows * CELL, round(tokens / rows) * CELL
        return self.processed(F.interpolate(self.pictures, size, mode="bilinear", antialias=True, align_corners=False))

    def merged(self, realized: Realized, count: int) -> Realized:
        """The map's allocation, applied to what the encoder made of the whole picture."""
        tokens: VisualTokens = realized.notes["tokens"]
        allocations = allocate_batch(self.maps, count, image_size=(self.side, self.side), strategy="quadtree")
        plan = plan_members(members_of_allocations(allocations), "average")
        few = VisualTokens(plan.apply(tokens.embeds), tuple(plan.apply(plane) for plane in tokens.planes))
        return self.backbone.splice(self.model, self.inputs, LeafBatch.of(allocations, self.device), few)

    def decode(self, realized: Realized, graphs: Graphs | None) -> Tensor:
        """An answer of NEW_TOKENS tokens, from a prompt that is encoded already: (B, NEW_TOKENS)."""
        if graphs is None:
            speaker = StockSpeaker(self.model, self.first(realized))
            steps: Any = greedy_steps(speaker, end_tokens(self.model), NEW_TOKENS, check_every=8)
        else:
            steps = self.steps_by_graph(realized, graphs)
        return torch.stack([ids for ids, _ in steps], 1)


def measure(case: FoveateCase, watch: Stopwatch, graphs: Graphs | None) -> list[dict[str, Any]]:
    """All ways and shares of one case."""
    rows = time_ways(case, watch, graphs)
    for keep in KEEPS:
        count = round(case.full * keep)
        others = {
            "depth": (partial(case.plan, case.maps, count), case.realize_by_depth),
            "resize": (partial(case.resized, count), case.encode),
            "after": (lambda: case.inputs, lambda given, n=count: case.merged(case.encode(given), n)),
        }
        rows += (time_way(case, watch, (way, keep), (*stages, case.first)) for way, stages in others.items())
    return rows


def decoding(case: FoveateCase, watch: Stopwatch, graphs: Graphs | None) -> list[dict[str, Any]]:
    """Tokens a second of an answer, the prompt's own time taken off, after the full picture and a quarter of it."""
    rows = []
    prompts = {"full": case.encode(case.inputs), "map": case.realize(case.plan(case.maps, round(case.full / 4)))}
    for way, realized in prompts.items():
        plain = case.decode(realized, None)
        for name, using in [("", None), *([] if graphs is None else [(" + graph", graphs)])]:
            first = case.first if using is None else partial(case.first_by_graph, graphs=using)
            answer = watch(lambda realized=realized, using=using: case.decode(realized, using))
            alone = watch(lambda realized=realized, first=first: first(realized))
            rate = 1000 * case.batch * (NEW_TOKENS - 1) / max(answer - alone, 1e-6)
            # In half precision two kernels may differ in the last bit, and random weights have near ties.
            same = float((case.decode(realized, using) == plain).all(0).cummin(0).values.float().mean())
            row = {"way": way + name, "answer": answer, "prefill": alone, "tokens_per_second": rate}
            rows.append({**row, "same_as_without": same})
    return rows


def table(results: list[dict[str, Any]]) -> str:
    """One line per way and share; speed-up against `full` of the same kind, distance to `resize`, answer's speed."""
    lines = [
        "| model | picture | batch | keep | way | tokens | search | vision | prefill | total | × full | vs resize "
        "| tokens/s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in results:
        by = {(row["way"], row["keep"]): row for row in case["rows"]}
        said = {row["way"]: row["tokens_per_second"] for row in case["decoding"]}
        for row in case["rows"]:
            graph = " + graph" if row["way"].endswith(" + graph") else ""
            base = by["full" + graph, 1.0]["total"]
            limit = by.get(("resize", row["keep"]))
            against = f"{row['total'] / limit['total'] - 1:+.0%}" if limit and row is not limit else "–"
            times = " | ".join(f"{row[stage]:.1f}" for stage in STAGES)
            rate = said.get(row["way"]) if row["keep"] in (1.0, 0.25) else None
            lines.append(
                f"| {case['model']} | {case['side']}² | {case['batch']} | {row['keep']:g} | {row['way']} | "
                f"{row['tokens']} | {times} | {base / row['total']:.2f} | {against} | "
                f"{'–' if rate is None else f'{rate:.0f}'} |"
            )
    return "\n".join(lines)


def bars(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The promises at a quarter of the tokens: for the largest picture and batch, and for one picture with graphs."""
    checks = []

    def check(case: dict[str, Any], bar: str, value: float, wanted: float, above: bool) -> None:
        met = value >= wanted if above else value <= wanted
        sign = "≥" if above else "≤"
        name = f"{case['model']} {case['side']}² × {case['batch']}"
        checks.append({"case": name, "bar": bar, "value": value, "wanted": f"{sign} {wanted:g}", "met": met})

    for case in results:
        by = {(row["way"], row["keep"]): row for row in case["rows"]}
        if case["batch"] > 1:
            ours, limit, full = by["map", 0.25], by["resize", 0.25], by["full", 1.0]
            check(case, "times faster than full, map given", full["total"] / ours["total"], 5, True)
            if ("scorer", 0.25) in by:
                faster = full["total"] / by["scorer", 0.25]["total"]
                check(case, "times faster than full, by the scorer", faster, 5, True)
            check(case, "above plain resizing, map given", ours["total"] / limit["total"] - 1, 0.15, False)
        elif ("map + graph", 0.25) in by:
            full = by["full + graph", 1.0]["total"]
            for way in (way for way in SOURCES if (f"{way} + graph", 0.25) in by):
                faster = full / by[f"{way} + graph", 0.25]["total"]
                check(case, f"times faster than full, {way}, graphs on both sides", faster, 1, True)
    return checks


def report_of(results: list[dict[str, Any]], left_out: list[str], seconds: float) -> dict[str, Any]:
    """What is written: every number, the promises, and the table."""
    facts = {"seconds": seconds, "left_out": left_out, "results": results, "bars": bars(results), "done": True}
    return {**facts, "tables": {"Foveating Qwen3-VL, milliseconds of the whole batch": table(results)}}


@torch.inference_mode()
def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 140)
    parser.add_argument("--models", nargs="+", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--cases", nargs="+", default=CASES, help="side x batch, in this order")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=SOURCES, help="whose relevance")
    parser.add_argument("--no-graph", action="store_true", help="leave CUDA graphs out")
    parser.add_argument("--each", type=float, default=0.08, help="seconds spent on each number, about")
    options, device = parser.read(arguments)
    dtype = torch.float32 if options.tiny else torch.bfloat16
    shapes = TINY if options.tiny else {name: MODELS[name] for name in options.models}
    cases = [(128, 1), (128, 2)] if options.tiny else [tuple(map(int, one.split("x"))) for one in options.cases]
    watch = Stopwatch(device, 0.0, 1) if options.tiny else Stopwatch(device, options.each)
    started, results, left_out, report = time.perf_counter(), [], [], {}
    for name, shape in shapes.items():
        model = build(shape, device, dtype)
        with dense_vision_attention(model):
            for side, batch in cases:
                spent = time.perf_counter() - started
                longest = max((one["seconds"] for one in results), default=0.0)
                if spent + longest > options.seconds:
                    left_out.append(f"{name} {side}² batch {batch}")
                    continue
                case = FoveateCase(model, side, batch, device, options.sources)
                graphs = None if options.no_graph or batch > 1 else Graphs(model)
                rows, answers = measure(case, watch, graphs), decoding(case, watch, graphs)
                took = time.perf_counter() - started - spent
                results.append(
                    {"model": name, "side": side, "batch": batch, "seconds": took, "rows": rows, "decoding": answers}
                )
                print(f"{name} {side}² batch {batch}: {took:.0f} s, {spent + took:.0f} s so far", flush=True)
                report = report_of(results, left_out, time.perf_counter() - started)
                write_report(options.out, "foveate", {**report, "done": False}, device)
                del case, graphs
        del model
        if device.type == "cuda":
            torch.cuda.empty_cache()
    report = report_of(results, left_out, time.perf_counter() - started)
    write_report(options.out, "foveate", report, device)
    print(f"left out, the time was over: {', '.join(left_out) or 'nothing'}")
    for check in report["bars"]:
        print(f"{check['case']}: {check['bar']}: {check['value']:.2f} (wanted {check['wanted']})", flush=True)
    print(table(results))
    return report


if __name__ == "__main__":
    main()
