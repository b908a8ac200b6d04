"""Time full40's torch channels and the pyramid on a GPU: one picture of 1024², and a batch of 32.

    python benchmarks/texture_gpu.py            # on a CUDA device
    python benchmarks/texture_gpu.py --tiny     # a smoke test, also on a CPU

Prints a table, and writes texture_gpu.json into the folder named by the environment variable OUT, where set.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable
from pathlib import Path

import torch
from arr_coc.texture.batch import sense
from arr_coc.texture.pyramid import pyramid

from arr_coc.answering.timing import median_milliseconds


def measure(batch: int, side: int, device: torch.device, repeats: int) -> list[dict[str, object]]:
    generator = torch.Generator().manual_seed(0)
    pictures = torch.rand((batch, 3, side, side), generator=generator).to(device)

    def channels(clusters: str | None) -> Callable[[], object]:
        return lambda: sense(pictures, "full40", backend="torch", clusters=clusters)

    texture = sense(pictures, "full40", backend="torch")
    stages: dict[str, Callable[[], object]] = {
        "channels": channels(None),
        "channels with SLIC": channels("slic"),
        "pyramid, 5 levels": lambda: pyramid(texture, backend="torch"),
    }
    return [
        {
            "batch": batch,
            "side": side,
            "stage": stage,
            "milliseconds": median_milliseconds(work, repeats, device.type == "cuda"),
        }
        for stage, work in stages.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tiny", action="store_true", help="64² and a batch of 2: only to see that it runs")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--repeats", type=int, default=20)
    given = parser.parse_args()
    device = torch.device(given.device)
    side, batches, repeats = (64, (1, 2), 2) if given.tiny else (1024, (1, 32), given.repeats)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    with torch.inference_mode():
        rows = [row for batch in batches for row in measure(batch, side, device, repeats)]
    print(f"{name}, torch {torch.__version__}, full40 at {side}², median of {repeats}")
    print(f"{'batch':>5}  {'stage':<20} {'ms':>9} {'ms a picture':>13}")
    for row in rows:
        milliseconds = float(str(row["milliseconds"]))
        each = milliseconds / int(str(row["batch"]))
        print(f"{row['batch']:>5}  {row['stage']:<20} {milliseconds:9.3f} {each:13.3f}")
    if os.environ.get("OUT"):
        result = {"device": name, "torch": torch.__version__, "repeats": repeats, "rows": rows}
        (Path(os.environ["OUT"]) / "texture_gpu.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
