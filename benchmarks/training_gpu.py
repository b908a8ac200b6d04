"""Where a training step's time goes, by canvas and allocation: rendering, the reader's step, the scorer's.

    python benchmarks/training_gpu.py            # on a CUDA device
    python benchmarks/training_gpu.py --tiny     # on the processor, to see that it runs

`launched` is how long the processor needs to ask for a step, `done` how long the device needs to do it: where the first
is the larger of the two, the device waits.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import torch

from arr_coc_lab.train.allocations import Kind
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.evaluate import FAMILIES
from arr_coc_lab.train.mini_model import MiniConfig
from arr_coc_lab.train.reader_examples import pictures_a_step
from arr_coc_lab.train.train_mini import MiniOptions, MiniTraining

KINDS = (Kind("full", 1, 1), Kind("uniform", 0.25, 1), Kind("oracle", 0.25, 1), Kind("oracle", 1 / 16, 1))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny model and batch")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--profile", type=Path, help="write the operations of one 512² step there")
    given = parser.parse_args()
    plan = MiniOptions(scale=0.02 if given.tiny else 1.0)
    mini = MiniConfig(width=64, heads=1) if given.tiny else MiniConfig()
    training = MiniTraining(plan, Devices(), mini)
    training.done |= {"stage": 2, "step": 1}

    def now() -> float:
        if training.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    print("| canvas | at once | rendering ms | kind | pictures | launched ms | done ms | pictures/s |")
    print("|---" * 8 + "|")
    for size in ((128, 128), (256, 256), (512, 512)):
        each = training.pictures_at_once(size)

        def render(each=each, size=size) -> None:
            for turn in range(len(FAMILIES)):
                origin = training.source.choose(each, size, None, turn)
                training.store(origin, training.source.render(origin))

        render()
        start = now()
        render()
        rendering = (now() - start) / len(FAMILIES)
        for kind in KINDS:
            number = max(2, round(pictures_a_step(size, kind) * plan.scale))

            def step(size=size, kind=kind, number=number) -> None:
                batch = training.draw(size, number, every_question=kind.name == "full")
                training.learn(batch, kind)

            for _ in range(2):
                step()
            start = now()
            for _ in range(given.repeats):
                step()
            launched = (time.perf_counter() - start) / given.repeats
            done = (now() - start) / given.repeats
            print(
                f"| {size[0]}×{size[1]} | {each} | {1000 * rendering:.1f} | {kind.name} {kind.keep} | {number} | "
                f"{1000 * launched:.1f} | {1000 * done:.1f} | {number / done:.0f} |",
                flush=True,
            )
            if given.profile and size == (512, 512) and kind.name in ("full", "oracle"):
                with torch.profiler.profile() as profile:
                    step()
                    now()
                key = "self_device_time_total" if training.device.type == "cuda" else "self_cpu_time_total"
                text = profile.key_averages().table(sort_by=key, row_limit=30, max_name_column_width=60)
                with given.profile.open("a", encoding="utf-8") as file:
                    file.write(f"{kind}\n{text}\n")
    if training.device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")


if __name__ == "__main__":
    main()
