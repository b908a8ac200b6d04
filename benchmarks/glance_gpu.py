"""What does a glance cost on a GPU, and what of it?

    python benchmarks/glance_gpu.py --seconds 120
    python benchmarks/glance_gpu.py --tiny          # on a CPU: does it run?

A Qwen3-VL with the shapes of 2B and random weights, one picture. `before`: every layer is run and read, for two tokens.
`plain`: the last token, and nothing behind the last layer that is read. `graph`: the same by CUDA graphs, as it runs
where the model allows it. Medians in milliseconds: `view`, the coarse leaves through the tower and the prompt through
the language model (`read_view`); `glance`, with the maps made of it (`glance_relevance`); `search`, all of
`plan_prompt`. The differences are those of the attention and of the maps from `before`.
"""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import torch
from arr_coc.realizing.glance import Glance, glance_layers, glance_relevance, read_view, view_levels
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from arr_coc.realizing.qwen3_vl.graph import Graphs
from gpu_program import GpuProgram

from arr_coc.answering.timing import MODELS, QUESTION, TINY, GpuCase, Stopwatch, build, write_report

SIDES = (1024, 2048)
BAR = {1024: 12.0}
STAGES = ("view", "glance", "search")


def heads_of(model: Any) -> tuple[tuple[int, int], ...]:
    """Eight heads in the middle of the depth, as a calibration finds them in places like these."""
    layers = model.config.get_text_config().num_hidden_layers
    return tuple((layer, head) for layer in (layers // 2, layers * 5 // 8) for head in range(4))


def measure(case: GpuCase, watch: Stopwatch) -> list[dict[str, Any]]:
    """All ways of one picture, with all heads of the later layers and with eight."""
    model, backbone = case.model, case.backbone
    levels = view_levels(backbone.grids(model, case.inputs), Glance())
    every = read_view(backbone, model, case.inputs, levels).weights[..., :1, :]
    rows = []
    for name, glance in (("all", Glance()), ("eight", Glance(heads=heads_of(model)))):
        layers = glance_layers(model, glance)
        expected = every[:, layers]
        if glance.heads is not None:
            by_layer = sorted(glance.heads, key=lambda pair: pair[0])
            expected = torch.stack([every[:, layer, head] for layer, head in by_layer], 1)[:, None]
        maps: dict[str, Any] = {}
        for way in ("before", "plain", "graph"):
            asked = (None, None) if way == "before" else (layers, glance.heads)
            row: dict[str, Any] = {"side": case.side, "heads": name, "way": way, "layers": len(layers)}
            with patch.object(Graphs, "safe", Graphs.safe if way == "graph" else staticmethod(lambda model: False)):
                row["view"] = watch(lambda asked=asked: read_view(backbone, model, case.inputs, levels, *asked))
                if way != "before":
                    row["glance"] = watch(
                        lambda glance=glance: glance_relevance(backbone, model, case.inputs, [QUESTION], glance)
                    )
                    row["search"] = watch(lambda glance=glance: case.plan(glance, case.full // 4))
                    found = read_view(backbone, model, case.inputs, levels, *asked).weights
                    row["apart"] = float((found - expected).abs().max())
                    maps[way] = glance_relevance(backbone, model, case.inputs, [QUESTION], glance).relevance[0].map
            rows.append(row)
        rows[-1]["maps_apart"] = float(abs(maps["graph"] - maps["plain"]).max())
    return rows


def table(rows: list[dict[str, Any]]) -> str:
    lines = [
        "| picture | heads | way | view, ms | glance | search | bar | attention apart | maps apart |",
        "|---|---|---|--:|--:|--:|--:|--:|--:|",
    ]
    for row in rows:
        times = " | ".join(f"{row[stage]:.1f}" if stage in row else "–" for stage in STAGES)
        apart = " | ".join(f"{row[key]:.1e}" if key in row else "–" for key in ("apart", "maps_apart"))
        bar = f"{BAR[row['side']]:g}" if row["way"] == "graph" and row["side"] in BAR else "–"
        lines.append(f"| {row['side']}² | {row['heads']} | {row['way']} | {times} | {bar} | {apart} |")
    return "\n".join(lines)


@torch.inference_mode()
def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = GpuProgram(__doc__, 120)
    options, device = parser.read(arguments)
    shape = TINY["tiny"] if options.tiny else MODELS["2B"]
    watch = Stopwatch(device, 0.0, 1) if options.tiny else Stopwatch(device, 0.3, 5)
    started = time.perf_counter()
    model = build(shape, device, torch.float32 if options.tiny else torch.bfloat16)
    report: dict[str, Any] = {"rows": [], "left_out": [], "done": False, "tables": {}}
    with dense_vision_attention(model):
        for side in (512,) if options.tiny else SIDES:
            if time.perf_counter() - started > options.seconds:
                report["left_out"].append(f"{side}²")
                continue
            report["rows"] += measure(GpuCase(model, side, 1, device, ("map",)), watch)
            report["tables"]["The glance, Qwen3-VL 2B, one picture"] = table(report["rows"])
            write_report(options.out, "glance", report, device)
    write_report(options.out, "glance", {**report, "done": True}, device)
    print(table(report["rows"]))
    return report


if __name__ == "__main__":
    main()
