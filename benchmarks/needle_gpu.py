"""How many pictures a second the Needle World renderer makes, and whether every device draws the same ones.

    python benchmarks/needle_gpu.py            # on a CUDA device
    python benchmarks/needle_gpu.py --tiny     # on the processor, a few pictures

Prints one line per family and size, and a checksum of eight pictures per family that must agree between machines.
"""

from __future__ import annotations

import argparse
import json
import time
import zlib

import torch

from arr_coc_lab.worlds import needle

SIZES = {256: 2048, 512: 512}


def checksum(family: str, device: str, size: int) -> str:
    batch = needle.render(family, 8, (size, size), seed=1, device=device)
    parts = (batch.pictures, batch.question_ids, batch.answer_ids, batch.boxes, batch.cell_labels)
    value = 0
    for part in parts:
        value = zlib.crc32(part.cpu().contiguous().numpy().tobytes(), value)
    return f"{value:08x}"


def rate(family: str, device: str, size: int, number: int, seconds: float) -> float:
    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    needle.render(family, number, (size, size), device=device)
    wait()
    start, done = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        needle.render(family, number, (size, size), seed=2, device=device, start=done)
        wait()
        done += number
    return done / (time.perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="on the processor, eight pictures at a time")
    parser.add_argument("--seconds", type=float, default=2.0, help="time for each measurement")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    device = "cpu" if options.tiny else "cuda"
    if device == "cuda" and not torch.cuda.is_available():
        raise SystemExit("no CUDA device here; use --tiny")
    result: dict[str, dict[str, object]] = {}
    for family in needle.FAMILIES:
        row: dict[str, object] = {}
        for size, number in SIZES.items():
            row[f"pictures_per_second_{size}"] = round(
                rate(family, device, size, 8 if options.tiny else number, options.seconds), 1
            )
        row["checksum_256"] = checksum(family, device, 256)
        if device == "cuda":
            row["peak_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            torch.cuda.reset_peak_memory_stats()
        result[family] = row
        if not options.json:
            print(f"{family:9s}", "  ".join(f"{name} {value}" for name, value in row.items()), flush=True)
    if options.json:
        print(json.dumps({"torch": torch.__version__, "device": device, "families": result}, indent=1))


if __name__ == "__main__":
    main()
