"""Which kernels a training step spends its time in, on a CUDA device: a look under the hood, not a table."""

from __future__ import annotations

import argparse
import random

import torch
from torch.profiler import ProfilerActivity, profile, record_function

from arr_coc.backbones.qwen3_vl_attention import dense_vision_attention
from arr_coc.learning.allocations import Kind, make_leaves, tree_of
from arr_coc.learning.evaluate import FAMILIES
from arr_coc.learning.mini_model import MiniConfig, build_mini
from arr_coc.learning.pool import PicturePool
from arr_coc.learning.reading import DenseHeads, Reader, read
from arr_coc.learning.train_mini import SHARES, compile_blocks
from arr_coc.learning.twin import Twin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--compile", action="store_true")
    given = parser.parse_args()
    device = torch.device("cpu" if given.tiny else "cuda")
    config = MiniConfig(width=64, heads=1) if given.tiny else MiniConfig()
    master = Reader(build_mini(config), DenseHeads(config.width)).to(device)
    twin = Twin(master)
    worker, heads = twin.worker.mini, twin.worker.heads
    if given.compile:
        compile_blocks(worker)
    generator = torch.Generator(device=device).manual_seed(0)
    chance = random.Random(0)
    activities = [ProfilerActivity.CPU] + ([] if given.tiny else [ProfilerActivity.CUDA])
    sort = "self_cpu_time_total" if given.tiny else "self_cuda_time_total"
    size, number = ((128, 128), 7) if given.tiny else ((512, 512), 144)
    pool = PicturePool(FAMILIES, SHARES, 0, device)

    def step() -> None:
        with record_function("## render"):
            batch = pool.take(number, size, chance)
            pool.waiting.clear()
        with record_function("## allocate"):
            leaves = make_leaves(Kind("full", 1, 1), batch, tree_of(size), generator, None)
        with dense_vision_attention(worker):
            with record_function("## forward"):
                reading = read(worker, batch, leaves, heads)
                loss = reading.answer + reading.glyph + reading.thing
            with record_function("## backward"):
                loss.backward()

    for _ in range(3):
        step()
    with profile(activities=activities) as recorded:
        step()
        if not given.tiny:
            torch.cuda.synchronize()
    print(recorded.key_averages().table(sort_by=sort, row_limit=45, max_name_column_width=70))


if __name__ == "__main__":
    main()
