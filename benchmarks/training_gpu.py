"""Where a training step's time goes: rendering, allocating and reading, by canvas. `--tiny` runs it on a CPU."""

from __future__ import annotations

import argparse
import random
import time

import torch

from arr_coc.backbones.qwen3_vl_attention import dense_vision_attention
from arr_coc.knowing.scorer import Scorer
from arr_coc.learning.allocations import Kind, make_leaves, tree_of
from arr_coc.learning.evaluate import FAMILIES
from arr_coc.learning.mini_model import MiniConfig, build_mini
from arr_coc.learning.pool import PicturePool
from arr_coc.learning.reading import DenseHeads, Reader, read
from arr_coc.learning.train_mini import LARGEST_BATCH, PIXELS_A_STEP, SHARES, Plan, compile_blocks, make_optimizers
from arr_coc.learning.twin import Twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--repeats", type=int, default=8)
    given = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() and not given.tiny else "cpu")
    torch.set_float32_matmul_precision("high")
    config = MiniConfig(width=64, heads=1) if given.tiny else MiniConfig()
    model, scorer, heads = build_mini(config).to(device), Scorer().to(device), DenseHeads(config.width).to(device)
    optimizers = make_optimizers(model, heads, scorer, Plan())
    pool, chance = PicturePool(FAMILIES, SHARES, 0, device), random.Random(0)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    twin = Twin(Reader(model, heads), dtype)
    worker, worker_heads = twin.worker.mini, twin.worker.heads
    if given.compile:
        compile_blocks(worker)
    generator = torch.Generator(device=device).manual_seed(0)

    def now() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    print("| canvas | kind | pictures | render ms | allocate ms | scorer ms | read ms | update ms | pictures/s |")
    print("|---" * 9 + "|")
    for size in ((128, 128), (256, 256), (512, 512), (768, 1024)):
        for kind in (Kind("full", 1, 1), Kind("uniform", 0.25, 1), Kind("oracle", 0.25, 1)):
            number = 7 if given.tiny else min(LARGEST_BATCH, PIXELS_A_STEP // (size[0] * size[1]))
            spent = [0.0] * 5
            for repeat in range(given.repeats + 1):
                marks = [now()]
                batch = pool.take(number, size, chance)
                marks.append(now())
                leaves = make_leaves(kind, batch, tree_of(size), generator, None)
                marks.append(now())
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    scorer(batch.pictures, batch.question_ids).float().mean().backward()
                marks.append(now())
                with dense_vision_attention(worker):
                    reading = read(worker, batch, leaves, worker_heads)
                    (reading.answer + reading.glyph + reading.thing).backward()
                marks.append(now())
                twin.pull_gradients()
                for optimizer in optimizers:
                    optimizer.step()
                    optimizer.zero_grad(set_to_none=True)
                twin.push_weights()
                marks.append(now())
                if repeat:
                    spent = [total + b - a for total, a, b in zip(spent, marks, marks[1:], strict=False)]
            each = [1000 * value / given.repeats for value in spent]
            print(
                f"| {size[0]}×{size[1]} | {kind.name} {kind.keep} | {len(batch)} | "
                + " | ".join(f"{value:.1f}" for value in each)
                + f" | {1000 * len(batch) / sum(each):.0f} |",
                flush=True,
            )
    if device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
