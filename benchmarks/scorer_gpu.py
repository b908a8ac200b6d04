"""How long does the bundled scorer take on a GPU, as `attach` runs it, against other ways to run it there?

    python benchmarks/scorer_gpu.py
    python benchmarks/scorer_gpu.py --tune       # and the kernel alone, with other tiles and numbers of warps
    python benchmarks/scorer_gpu.py --tiny       # on a CPU: does it run?

Milliseconds a picture, medians over CUDA events, half precision everywhere:

    autocast   the module as it is, under autocast
    before     as version 0.3.0 ran it: no cuDNN, norms in single precision, a graph where there is one picture
    plain      as ours, without the kernel (ARR_COC_KERNELS=0)
    ours       as `attach` runs it: depth-wise convolution, bias and norm as one kernel, graphs also of batches

Differences are the largest of any cell of any map: of ours and before, and of ours and the module in single precision.
`kernels`: what takes most of the time of ours on the device.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from gpu_program import GpuProgram
from torch import Tensor

from arr_coc.answering.timing import median_milliseconds, write_report
from arr_coc.core.cuda_graph import CudaGraph
from arr_coc.core.folders import SCORER, part_folder
from arr_coc.knowing.scorer.gpu_scorer import GpuPart, GpuScorer
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.knowing.scorer.swift import DepthwiseNorm, SwiftBlock, fused_depthwise, swift

CASES = ((1, 512), (1, 1024), (8, 1024), (1, 2048), (8, 2048))
# Milliseconds a picture, by number of pictures and side.
BARS = {(1, 1024): 1.5, (8, 1024): 0.8, (8, 2048): 2.6}
TILES = tuple((values, warps) for values in (1024, 2048, 4096, 8192) for warps in (2, 4, 8))
NARROW = ReadingScorerConfig(narrow=8, middle=24, wide=16, query_width=16, heads=2)
Given = tuple[Tensor, Tensor]


class RecordedBefore(GpuPart):
    """Recorded under the flags of its caller."""

    def __init__(self, work: Any, given: tuple[Tensor, ...]) -> None:
        self.inside = tuple(one.clone() for one in given)
        self.run = CudaGraph(lambda: work(*self.inside), given[0].device)


class ScorerBefore(GpuScorer):
    """What version 0.3.0 did: these flags, said so, turn cuDNN off."""

    def _run(self, work: Any, shape: Sequence[int], *given: Tensor) -> Tensor:
        cast: dict[str, Any] = {"dtype": torch.bfloat16, "cache_enabled": False}
        with torch.backends.cudnn.flags(benchmark=True), torch.autocast(given[0].device.type, **cast), torch.no_grad():
            key = (work.__name__, *(tuple(one.shape) for one in given))
            found = self.graphs.get(key, lambda: RecordedBefore(work, given)) if shape[0] == 1 else None
            return work(*given) if found is None else found(given)


def ways_of(device: torch.device, tiny: bool) -> tuple[Any, dict[str, Any]]:
    """The scorer in single precision, and the ways that are timed: each a function of pictures and questions. tiny: a
    narrow one of random weights, because half precision takes seconds on many a processor."""
    exact = ReadingScorer(NARROW).eval() if tiny else load_scorer(part_folder(SCORER), str(device))

    def by_autocast(pictures: Tensor, ids: Tensor) -> Tensor:
        with torch.autocast(device.type, torch.bfloat16):
            return exact.score(pictures, ids)

    plain = swift(exact, kernel=False).to(device)
    ways = {"before": ScorerBefore(plain), "plain": GpuScorer(plain), "ours": GpuScorer(swift(exact).to(device))}
    return exact, {"autocast": by_autocast, **{name: way.score for name, way in ways.items()}}


def slowest_kernels(work: Any, most: int = 14) -> list[dict[str, Any]]:
    """Where the time of one call goes on the device."""
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as seen:
        work()
        torch.cuda.synchronize()
    rows = [one for one in seen.key_averages() if getattr(one, "self_device_time_total", 0)]
    rows.sort(key=lambda one: -one.self_device_time_total)
    return [{"name": one.key[:90], "us": one.self_device_time_total, "calls": one.count} for one in rows[:most]]


def tuned(ours: ReadingScorer, given: Given, cuda: bool, until: float) -> list[dict[str, Any]]:
    """The kernel of each shape alone: by torch's operations, and with every tile that there is time for."""
    seen: dict[Any, tuple[DepthwiseNorm, Tensor]] = {}

    def remember(part: DepthwiseNorm, taken: tuple[Tensor, ...]) -> None:
        seen.setdefault((taken[0].shape[1], part.down, part.across), (part, taken[0].clone()))

    hooks = [
        block.spatial.register_forward_pre_hook(remember) for block in ours.modules() if isinstance(block, SwiftBlock)
    ]
    ours.score(*given)
    for hook in hooks:
        hook.remove()
    rows = []
    for (width, down, across), (part, features) in seen.items():
        row: dict[str, Any] = {"width": width, "kernel": f"{down}×{across}", "shape": list(features.shape)}
        row["plain"] = median_milliseconds(lambda part=part, x=features: part.norm(part.plain(x)), 10, cuda)
        row["tiles"] = {}
        for tile in TILES if cuda else ():
            if time.perf_counter() > until:
                break
            work = partial(fused_depthwise, features, part.taps, part.bias, part.norm.weight, (down, across), tile)
            try:
                row["tiles"][f"{tile[0]}/{tile[1]}"] = median_milliseconds(work, 10, cuda)
            except Exception as error:
                row["tiles"][f"{tile[0]}/{tile[1]}"] = " ".join(repr(error).split())[:120]
        rows.append(row)
        print(row, flush=True)
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| pictures | side | autocast, ms each | before | plain | ours | bar | before / ours | largest difference to "
        "before | to single precision |",
        "|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        bar = BARS.get((row["pictures"], row["side"]))
        lines.append(
            f"| {row['pictures']} | {row['side']}² | {row['autocast']:.2f} | {row['before']:.2f} "
            f"| {row['plain']:.2f} | {row['ours']:.2f} | {'–' if bar is None else f'{bar:g}'} "
            f"| {row['before'] / row['ours']:.2f} | {row['from_before']:.4f} | "
            f"{row['from_single']:.4f} |"
        )
    return "\n".join(lines)


def kernel_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| channels | kernel | by torch, ms | ours, ms | tile / warps |", "|--:|--:|--:|--:|--:|"]
    for row in rows:
        timed = {name: value for name, value in row["tiles"].items() if isinstance(value, float)}
        best = min(timed, key=timed.__getitem__, default=None)
        ours = ("–", "–") if best is None else (f"{timed[best]:.3f}", best)
        lines.append(f"| {row['width']} | {row['kernel']} | {row['plain']:.3f} | {ours[0]} | {ours[1]} |")
    return "\n".join(lines)


def given_of(number: int, side: int, device: torch.device) -> Given:
    """Pictures and one question for all of them."""
    random = torch.Generator().manual_seed(side + number)
    pictures = torch.rand(number, 3, side, side, generator=random)
    pictures[:, :, ::7, :] *= 0.2  # not only noise: maps of that are flat
    return pictures.to(device), torch.randint(1, 90, (1, 96), generator=random).to(device)


def measure(ways: dict[str, Any], exact: Any, case: tuple[int, int], device: torch.device) -> dict[str, Any]:
    """One row of the table."""
    number, side = case
    given, cuda = given_of(number, side, device), device.type == "cuda"
    row: dict[str, Any] = {"pictures": number, "side": side}
    maps = {}
    for name, way in ways.items():
        work = partial(way, *given)
        row[name] = median_milliseconds(work, 15 if cuda else 1, cuda, warm_up=4 if cuda else 0) / number
        maps[name] = work().float()
    single = exact.score(given[0][:1], given[1])
    row |= {f"from_{name}": float((maps["ours"] - maps[name]).abs().max()) for name in ("before", "plain")}
    row["from_single"] = float((maps["ours"][:1] - single).abs().max())
    try:
        row["kernels"] = slowest_kernels(partial(ways["ours"], *given)) if cuda else []
    except Exception as error:  # a profiler that does not work here costs no row
        row |= {"kernels": [], "unprofiled": " ".join(repr(error).split())[:200]}
    return row


@torch.inference_mode()
def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 150)
    parser.add_argument("--tune", action="store_true", help="time the kernel alone, with other tiles")
    options, device = parser.read(arguments)
    cases = [(1, 32), (2, 32)] if options.tiny else list(CASES)
    started = time.perf_counter()
    exact, ways = ways_of(device, options.tiny)
    report: dict[str, Any] = {"rows": [], "left_out": [], "tiles": [], "done": False, "tables": {}}
    for case in cases:
        if time.perf_counter() - started > options.seconds:
            report["left_out"].append(f"{case[0]} × {case[1]}²")
            continue
        report["rows"].append(measure(ways, exact, case, device))
        report["kernel_broken"] = DepthwiseNorm.broken
        report["tables"]["The scorer alone"] = table(report["rows"])
        write_report(options.out, "scorer", report, device)
    if options.tune:
        given, until = given_of(*cases[0 if options.tiny else 2], device), started + options.seconds
        report["tiles"] = tuned(swift(exact).to(device), given, not options.tiny, until)
        title = "Depth-wise convolution, bias and norm of the scorer, 1024² × 8"
        report["tables"][title] = kernel_table(report["tiles"])
    write_report(options.out, "scorer", {**report, "done": True}, device)
    if DepthwiseNorm.broken:
        print(f"the kernel was not used: {DepthwiseNorm.broken}")
    for row in report["rows"]:
        for one in row["kernels"]:
            print(f"{row['pictures']} × {row['side']}²: {one['us'] / 1000:.3f} ms, {one['calls']} calls, {one['name']}")
    for title, lines in report["tables"].items():
        print(f"{title}\n{lines}")
    return report


if __name__ == "__main__":
    main()
