"""Where a training step's time goes, by canvas and allocation: rendering, the model's pass, the whole step.

    python benchmarks/training_gpu.py                    # on a CUDA device
    python benchmarks/training_gpu.py --tiny             # on the processor, to see that it runs
    python benchmarks/training_gpu.py --width 448 --attention cudnn --sizes 512

`pass` is tower, language model and losses, forward and backward; `launched` is how long the processor needs to ask for
a whole step (drawing, cutting, pass, optimizers), `done` how long the device needs to do it: where the first is the
larger of the two, the device waits. TFLOP/s count the products and attentions of tower and language model alone, over
the time of the pass.
"""

from __future__ import annotations

import argparse
import itertools
import time
from contextlib import ExitStack
from pathlib import Path

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from arr_coc_lab.train import swift
from arr_coc_lab.train.allocations import KINDS as TRAINED
from arr_coc_lab.train.allocations import Kind, budget_of, coarsest_of, even_tree_of
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.evaluate import FAMILIES
from arr_coc_lab.train.mini_model import MiniConfig
from arr_coc_lab.train.reader import cut_blocks, letter_losses, reader_losses
from arr_coc_lab.train.reader_examples import LETTERS as LETTERS_ONLY
from arr_coc_lab.train.reader_examples import PRINT, QUESTIONS, TAIL, Origin, pictures_a_step
from arr_coc_lab.train.train_mini import MiniOptions, MiniTraining, PictureShelf

WORK = {
    "attention": ("flash", "sdpa", "attention", "dot_do_o"),
    "products": ("nvjet", "gemm", "cutlass", "cublas", "splitk"),
    "optimizers": ("multi_tensor", "fusedadam", "adam"),
}
FULL, LETTERS = TRAINED[0], Kind("letters", 1, 1)
KINDS = (LETTERS, FULL, Kind("uniform", 0.25, 1), Kind("overlay", 0.25, 1), Kind("overlay", 1 / 16, 1))
ORDERS = {
    "flash": [SDPBackend.FLASH_ATTENTION, SDPBackend.CUDNN_ATTENTION],
    "cudnn": [SDPBackend.CUDNN_ATTENTION, SDPBackend.FLASH_ATTENTION],
}


def operations(mini: MiniConfig, leaves: int, questions: int) -> float:
    """Floating-point operations of tower and language model for one picture, forward and backward."""
    width, patches, before = mini.width, 4 * leaves, leaves + 4
    block = (4 + 2 * mini.widening) * width**2
    tower = patches * (2 * 768 * width + mini.vision_layers * (2 * block + 4 * patches * width))
    tower += leaves * 2 * 20 * width**2 * (1 + len(mini.deepstack))
    layer, after = (4 + 3 * mini.widening) * width**2, questions * TAIL
    language = mini.language_layers * (2 * layer * after + 4 * after * (before + TAIL / 2) * width)
    language += (mini.language_layers - 1) * (2 * layer * before + 2 * before**2 * width) + 6 * width**2 * before
    return 3 * (tower + (language if questions else 0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="a tiny model and batch")
    parser.add_argument("--repeats", type=int, default=8)
    parser.add_argument("--width", type=int, default=MiniConfig.width)
    parser.add_argument("--scale", type=float, default=1.0, help="of the batches")
    parser.add_argument("--sizes", type=int, nargs="+", default=[128, 256, 512])
    parser.add_argument("--kinds", type=int, default=len(KINDS), help="so many of the allocations")
    parser.add_argument("--eager", action="store_true", help="not compiled")
    parser.add_argument("--static", action="store_true", help="compiled for every shape anew")
    parser.add_argument("--attention", choices=ORDERS, default="flash")
    parser.add_argument("--profile", type=Path, help="write the operations of one 512² step there")
    parser.add_argument("--print", default="", help="an atlas of type: also time the drawing of its pages")
    parser.add_argument("--compile-times", action="store_true", help="also say what compiling took")
    given = parser.parse_args()
    scale = 0.02 if given.tiny else given.scale
    plan = MiniOptions(scale=scale, eager=given.eager, guide="", width=given.width, print=given.print)
    mini = MiniConfig(width=64, heads=1) if given.tiny else MiniConfig(width=given.width, heads=given.width // 64)
    training = MiniTraining(plan, Devices(), mini)
    training.done |= {"stage": 2, "step": 1}
    if given.static:
        swift.compile_pieces(dynamic=False)
    with ExitStack() as stack:
        if training.device.type == "cuda":
            rest = [SDPBackend.EFFICIENT_ATTENTION, SDPBackend.MATH]
            stack.enter_context(sdpa_kernel([*ORDERS[given.attention], *rest], set_priority=True))
        measure_drawing(training, given)
        measure(training, given)


def measure_drawing(training: MiniTraining, given: argparse.Namespace) -> None:
    """Milliseconds a picture of every family, one operation after the other and recorded."""
    drawn = [*FAMILIES, *((PRINT, LETTERS_ONLY) if given.print else ())]
    print("| canvas | family | first s | launched one by one, ms a picture | recorded, ms a picture |")
    print("|---" * 5 + "|")
    for side, family in itertools.product(given.sizes, drawn):
        origin = Origin(family, training.pictures_at_once((side, side)), (side, side), 0, None)

        def timed(draw, repeats: int = 3, origin=origin) -> float:
            if training.device.type == "cuda":
                torch.cuda.synchronize()
            start = time.perf_counter()
            for turn in range(repeats):
                draw(origin._replace(start=turn * origin.number))
            if training.device.type == "cuda":
                torch.cuda.synchronize()
            return (time.perf_counter() - start) / repeats

        source = training.source
        first = timed(lambda one, source=source: source.drawn(one, one.start), 2)
        alone = timed(lambda one, source=source: source.drawn(one, one.start))
        timed(source.render)
        recorded = timed(source.render)
        each = 1000 / origin.number
        print(f"| {side}² | {family} | {2 * first:.1f} | {each * alone:.2f} | {each * recorded:.2f} |", flush=True)


def kinds_of_work(profile: torch.profiler.profile) -> str:
    """Shares of the device's time: products, attention, everything else."""
    found = dict.fromkeys(("products", "attention", "optimizers", "the rest"), 0.0)
    for event in profile.key_averages():
        name, spent = event.key.lower(), event.self_device_time_total
        if event.device_type == torch.autograd.DeviceType.CPU or "#" in name:
            continue
        kind = next((k for k, words in WORK.items() if any(word in name for word in words)), "the rest")
        found[kind] += spent / 1000
    whole = sum(found.values()) or 1.0
    return ", ".join(f"{name} {spent:.1f} ms ({100 * spent / whole:.0f} %)" for name, spent in found.items())


def measure(training: MiniTraining, given: argparse.Namespace) -> None:
    plan, mini = training.plan, training.mini_config

    def now() -> float:
        if training.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    print(f"width {mini.width}, attention {given.attention}, {'eager' if given.eager else 'compiled'}")
    print("| canvas | at once | rendering ms | kind | pictures | first s | pass ms | TFLOP/s | launched ms | done ms | "
          "pictures/s |")  # fmt: skip
    print("|---" * 11 + "|")
    for side in given.sizes:
        size = side, side
        each = training.pictures_at_once(size)

        def render(each: int = each, size: tuple[int, int] = size) -> None:
            for turn in range(len(FAMILIES)):
                origin = training.source.choose(each, size, None, turn)
                training.store(origin, training.source.render(origin))

        render()
        start = now()
        render()
        rendering = (now() - start) / len(FAMILIES)
        for kind in KINDS[: given.kinds]:
            letters = kind is LETTERS
            way = FULL if letters else kind
            number = max(2, round(pictures_a_step(size, way) * plan.scale))

            def pass_only(material, letters: bool = letters) -> None:
                pages, blocks, patches = material
                if letters:
                    dense = letter_losses(training.twin.worker, pages, blocks, patches)
                    loss = dense.glyph + dense.thing + dense.patches
                else:
                    lesson = reader_losses(training.twin.worker, pages, blocks, patches)
                    loss = lesson.reading.answer + lesson.reading.glyph + lesson.reading.thing
                    loss = loss + lesson.patches + lesson.pointing + lesson.copying
                loss.backward()
                training.twin.pull_gradients()

            def draw(size=size, way=way, number=number, letters: bool = letters):
                pages = training.draw(PictureShelf(*size), number, every_question=way is FULL and not letters)
                blocks, _ = training.blocks(pages, way)
                return pages, blocks, cut_blocks(pages, blocks, coarsest_of(size) + 1, training.dtype, way.whole)

            def step(draw=draw, way=way, letters: bool = letters) -> None:
                if letters:
                    training.name_letters(*draw())
                else:
                    pages, blocks, patches = draw()
                    training.read_and_weigh(pages, blocks, patches)
                    training.update_reader()

            start = now()
            step()
            first = now() - start
            step()
            material = draw()
            pass_only(material)
            start = now()
            for _ in range(given.repeats):
                pass_only(material)
            passing = (now() - start) / given.repeats
            start = now()
            for _ in range(given.repeats):
                step()
            launched = (time.perf_counter() - start) / given.repeats
            done = (now() - start) / given.repeats
            questions = 0 if letters else QUESTIONS if way is FULL else 1
            work = number * operations(mini, budget_of(way, even_tree_of(size)), questions)
            print(
                f"| {side}² | {each} | {1000 * rendering:.1f} | {kind.name} {kind.keep:.3g} | {number} | {first:.1f} | "
                f"{1000 * passing:.1f} | {work / passing / 1e12:.0f} | {1000 * launched:.1f} | {1000 * done:.1f} | "
                f"{number / done:.0f} |",
                flush=True,
            )
            if given.profile and side == 512 and way is FULL:
                with torch.profiler.profile() as profile:
                    step()
                    now()
                key = "self_device_time_total" if training.device.type == "cuda" else "self_cpu_time_total"
                print(f"{kind.name}: {kinds_of_work(profile)}", flush=True)
                text = profile.key_averages().table(sort_by=key, row_limit=40, max_name_column_width=80)
                with given.profile.open("a", encoding="utf-8") as file:
                    file.write(f"{kind} width {mini.width} attention {given.attention}\n{text}\n")
    if training.device.type == "cuda":
        print(f"peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB")
    if given.compile_times:
        print(torch._dynamo.utils.compile_times("str"))


if __name__ == "__main__":
    main()
