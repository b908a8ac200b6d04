"""How much faster is a Qwen3-VL that is told where to look, before its encoder runs?

    PYTHONPATH=src python benchmarks/foveate_gpu.py            # one GPU, under four minutes
    PYTHONPATH=src python benchmarks/foveate_gpu.py --tiny     # the same code on a CPU, in seconds

Stock Hugging Face classes with the shapes of Qwen3-VL-2B and -8B and random weights (speed does not depend on them), in
bfloat16. From pictures on the device to the first token's logits, in four ways:

    full      every patch through the encoder
    before    quadtree leaves chosen before the encoder (ours)
    after     the encoder in full, its tokens merged by the same quadtree (ours, for families that allow no more)
    resize    the picture resized to as many tokens: the physical limit for that count

`chooser` is everything that only exists because of the choice: relevance map to cells, quadtree, mip pyramid, gather
(for `resize`: the resizing). `graph` is `before` with the vision tower captured in a CUDA graph, which an exact budget
makes possible: every picture then has the same shapes. Medians over CUDA events, after warm-up. JSON goes to $OUT (or
--out); the table is printed last.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
import transformers
from torch import Tensor

from arr_coc.attending import Frame, allocate_batch, build_tree, quadtree, to_cells
from arr_coc.backbones.qwen3_vl import VisualTokens, dense_vision_attention, encode_leaves, foveated_logits
from arr_coc.backbones.qwen3_vl_graph import TowerGraph
from arr_coc.realizing import LeafBatch, gather_leaf_patches, mip_pyramid
from arr_coc.realizing.merge import members_of_allocations, plan_members

CELL, MAP_SIDE, TEXT_TOKENS, LEVELS = 32, 64, 40, 3
KEEPS = (1.0, 1 / 2, 1 / 4, 1 / 8)


def text_shape(
    hidden: int, inner: int, layers: int, heads: int, vocabulary: int = 151936, head: int = 128
) -> dict[str, Any]:
    section = [head // 2 - 2 * (head * 5 // 32), head * 5 // 32, head * 5 // 32]
    return {
        "vocab_size": vocabulary,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": min(heads, 8),
        "head_dim": head,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 5e6,
            "mrope_section": section,
            "mrope_interleaved": True,
        },
    }


def vision_shape(depth: int, hidden: int, inner: int, out: int, heads: int, planes: list[int]) -> dict[str, Any]:
    return {
        "depth": depth,
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_heads": heads,
        "out_hidden_size": out,
        "deepstack_visual_indexes": planes,
    }


MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "2B": (text_shape(2048, 6144, 28, 16), vision_shape(24, 1024, 4096, 2048, 16, [5, 11, 17])),
    "8B": (text_shape(4096, 12288, 36, 32), vision_shape(27, 1152, 4304, 4096, 16, [8, 16, 24])),
}
TINY = {"tiny": (text_shape(64, 128, 4, 4, 256, 32), vision_shape(4, 64, 128, 64, 4, [0, 1, 2]))}


def build(shape: tuple[dict[str, Any], dict[str, Any]], device: torch.device, dtype: torch.dtype) -> Any:
    config = transformers.Qwen3VLConfig(text_config=shape[0], vision_config=shape[1])
    config.image_token_id = shape[0]["vocab_size"] - 1
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with device:
            return transformers.Qwen3VLForConditionalGeneration(config).eval()
    finally:
        torch.set_default_dtype(before)


class Stopwatch:
    """Median milliseconds of a call, by CUDA events where there are any."""

    def __init__(self, device: torch.device, seconds: float) -> None:
        self.cuda = device.type == "cuda"
        self.seconds = seconds

    def once(self, work: Callable[[], Any]) -> float:
        if not self.cuda:
            start = time.perf_counter()
            work()
            return 1000 * (time.perf_counter() - start)
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        first.record()
        work()
        last.record()
        last.synchronize()
        return first.elapsed_time(last)

    def __call__(self, work: Callable[[], Any]) -> float:
        first = self.once(work)
        # A second warm-up where it is cheap; what takes half a second has warmed up by itself.
        typical = self.once(work) if first < 500 else first
        runs = max(3, min(15, int(1000 * self.seconds / max(typical, 1e-3))))
        return statistics.median(self.once(work) for _ in range(runs))


class Case:
    """One model, one picture size, one batch: the stages, each a function of what the stage before it gave."""

    def __init__(self, model: Any, side: int, batch: int, device: torch.device) -> None:
        self.model, self.side, self.batch, self.device = model, side, batch, device
        self.grid = (side // CELL, side // CELL)
        random = torch.Generator(device=device).manual_seed(side + batch)
        self.pictures = torch.randn(batch, 3, side, side, generator=random, device=device)
        self.relevance = torch.rand(batch, MAP_SIDE, MAP_SIDE, generator=random, device=device) ** 4
        self.image = model.config.image_token_id

    def choose(self, tokens: int) -> tuple[Tensor, LeafBatch]:
        """Relevance of any resolution -> quadtree leaves -> patches, without leaving the device."""
        tree = build_tree(*self.grid, LEVELS)
        cells = to_cells(self.relevance, Frame((self.side, self.side), CELL))
        leaves = quadtree(cells, tree, tokens).cells
        batch = LeafBatch.equal(leaves, self.grid, tree.levels + 1)
        pyramid = mip_pyramid(self.pictures, batch.levels, CELL)
        return gather_leaf_patches(pyramid, batch.leaves, batch.owner), batch

    def whole(self, pictures: Tensor) -> tuple[Tensor, LeafBatch]:
        """Every level-0 cell of pictures that may have been resized."""
        rows, cols = pictures.shape[2] // CELL, pictures.shape[3] // CELL
        places = torch.stack(torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij"), -1).view(-1, 2)
        leaves = F.pad(places, (0, 1)).to(self.device).expand(len(pictures), -1, -1)
        batch = LeafBatch.equal(leaves, (rows, cols), 1)
        return gather_leaf_patches(mip_pyramid(pictures, 1, CELL), batch.leaves, batch.owner), batch

    def resize(self, tokens: int) -> tuple[Tensor, LeafBatch]:
        rows = round(tokens**0.5)
        size = rows * CELL, round(tokens / rows) * CELL
        return self.whole(F.interpolate(self.pictures, size, mode="bilinear", antialias=True, align_corners=False))

    def merge(self, tokens: VisualTokens, count: int) -> tuple[VisualTokens, LeafBatch]:
        """The same quadtree, applied to what the encoder made of the whole picture."""
        allocations = allocate_batch(
            self.relevance, count, image_size=(self.side, self.side), levels=LEVELS, strategy="quadtree"
        )
        plan = plan_members(members_of_allocations(allocations), "average")
        merged = VisualTokens(plan.apply(tokens.embeds), tuple(plan.apply(plane) for plane in tokens.planes))
        return merged, LeafBatch.of(allocations, self.device)

    def prefill(self, tokens: VisualTokens, batch: LeafBatch) -> Tensor:
        count = batch.counts[0]
        ids = torch.ones(self.batch, count + TEXT_TOKENS, dtype=torch.long, device=self.device)
        ids[:, 4 : 4 + count] = self.image
        return foveated_logits(self.model, ids, tokens, batch, logits_to_keep=1, use_cache=True)


def measure(case: Case, watch: Stopwatch, graphs: bool) -> list[dict[str, Any]]:
    """All ways and shares of one case. Every total is measured from end to end, not added up."""
    model = case.model
    full = case.grid[0] * case.grid[1]
    encode = partial(encode_leaves, model)
    rows: list[dict[str, Any]] = []

    def record(way: str, keep: float, choose: Callable[[], tuple[Tensor, LeafBatch]], run: Any = None) -> None:
        patches, batch = choose()
        tower = run or encode
        tokens = tower(patches, batch)
        rows.append(
            {
                "way": way,
                "keep": keep,
                "tokens": batch.counts[0],
                "chooser": watch(choose),
                "vision": watch(lambda: tower(patches, batch)),
                "prefill": watch(lambda: case.prefill(tokens, batch)),
                "total": watch(lambda: case.prefill(*_encode(tower, *choose()))),
            }
        )

    whole = partial(case.whole, case.pictures)
    record("full", 1.0, whole)
    full_patches, full_batch = whole()
    full_tokens = encode(full_patches, full_batch)
    for keep in KEEPS:
        count = round(full * keep)
        record("before", keep, partial(case.choose, count))
        if keep == 1:
            continue
        record("resize", keep, partial(case.resize, count))
        if graphs:
            record("graph", keep, partial(case.choose, count), TowerGraph(model, *case.choose(count)))
        merged, batch = case.merge(full_tokens, count)
        rows.append(
            {
                "way": "after",
                "keep": keep,
                "tokens": batch.counts[0],
                "chooser": watch(partial(case.merge, full_tokens, count)),
                "vision": rows[0]["vision"],
                "prefill": watch(partial(case.prefill, merged, batch)),
                "total": watch(lambda count=count: case.prefill(*case.merge(encode(*whole()), count))),
            }
        )
    return rows


def _encode(tower: Any, patches: Tensor, batch: LeafBatch) -> tuple[VisualTokens, LeafBatch]:
    return tower(patches, batch), batch


def table(results: list[dict[str, Any]]) -> str:
    """One line per way and share; speed-up against `full`, distance to `resize`, chooser per picture."""
    lines = [
        "| model | picture | batch | keep | way | tokens | chooser | vision | prefill | total | × full | vs resize |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for case in results:
        by = {(row["way"], row["keep"]): row for row in case["rows"]}
        base = by["full", 1.0]["total"]
        for row in case["rows"]:
            limit = by.get(("resize", row["keep"]))
            against = f"{row['total'] / limit['total'] - 1:+.0%}" if limit and row is not limit else "–"
            times = " | ".join(f"{row[stage]:.1f}" for stage in ("chooser", "vision", "prefill", "total"))
            lines.append(
                f"| {case['model']} | {case['side']}² | {case['batch']} | {row['keep']:g} | {row['way']} | "
                f"{row['tokens']} | {times} | {base / row['total']:.2f} | {against} |"
            )
    return "\n".join(lines)


def bars(results: list[dict[str, Any]], side: int, batch: int) -> list[dict[str, Any]]:
    """The three promises at a quarter of the tokens, for one size and batch."""
    checks = []
    for case in (item for item in results if item["side"] == side and item["batch"] == batch):
        by = {(row["way"], row["keep"]): row for row in case["rows"]}
        ours, limit, base = by["before", 0.25], by["resize", 0.25], by["full", 1.0]
        speed, above, choosing = (
            base["total"] / ours["total"],
            ours["total"] / limit["total"] - 1,
            ours["chooser"] / batch,
        )
        checks += [
            {
                "model": case["model"],
                "bar": "times faster than full",
                "value": speed,
                "wanted": "≥ 5",
                "met": speed >= 5,
            },
            {
                "model": case["model"],
                "bar": "above plain resizing",
                "value": above,
                "wanted": "≤ 0.15",
                "met": above <= 0.15,
            },
            {
                "model": case["model"],
                "bar": "chooser, ms a picture",
                "value": choosing,
                "wanted": "≤ 3",
                "met": choosing <= 3,
            },
        ]
    return checks


@torch.inference_mode()
def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="small shapes on the CPU: does it run?")
    parser.add_argument("--models", nargs="+", choices=[*MODELS], default=[*MODELS])
    parser.add_argument("--no-graph", action="store_true", help="leave CUDA graphs out")
    parser.add_argument("--seconds", type=float, default=0.25, help="time spent on each number, about")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))
    options = parser.parse_args(arguments)
    if not options.tiny and not torch.cuda.is_available():
        parser.error("no CUDA device here; --tiny runs on the CPU")

    device = torch.device("cpu" if options.tiny else "cuda")
    dtype = torch.float32 if options.tiny else torch.bfloat16
    shapes = TINY if options.tiny else {name: MODELS[name] for name in options.models}
    sides, batches = ((128,), (1, 2)) if options.tiny else ((1024, 2048), (1, 8))
    graphs = device.type == "cuda" and not options.no_graph
    watch = Stopwatch(device, 0.01 if options.tiny else options.seconds)
    started, results = time.perf_counter(), []
    for name, shape in shapes.items():
        model = build(shape, device, dtype)
        with dense_vision_attention(model):
            for side in sides:
                for batch in batches:
                    case = Case(model, side, batch, device)
                    rows = measure(case, watch, graphs=graphs and batch == 1)
                    results.append({"model": name, "side": side, "batch": batch, "rows": rows})
                    print(f"{name} {side}² batch {batch}: {time.perf_counter() - started:.0f} s", flush=True)
                    del case
        del model
        if device.type == "cuda":
            torch.cuda.empty_cache()
    report = {
        "device": torch.cuda.get_device_name() if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "dtype": str(dtype),
        "seconds": time.perf_counter() - started,
        "results": results,
        "bars": bars(results, sides[-1], batches[-1]),
    }
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "foveate_gpu.json").write_text(json.dumps(report, indent=1), encoding="utf-8")
    for check in report["bars"]:
        print(f"{check['model']} {check['bar']}: {check['value']:.2f} (wanted {check['wanted']})", flush=True)
    print(table(results))
    return report


if __name__ == "__main__":
    main()
