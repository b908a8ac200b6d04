"""How long does the bundled scorer take on a GPU, as `attach` runs it, against the plain way to run it there?

    python benchmarks/scorer_gpu.py

Milliseconds a picture, medians over CUDA events, half precision on both sides. `plain`: the module under autocast.
`ours`: `bundled.gpu_scorer` (channels last, square kernels, a graph where there is one picture).
"""

from __future__ import annotations

import torch

from arr_coc.core.folders import SCORER, part_folder
from arr_coc.eye.timing import median_milliseconds
from arr_coc.relevance.scorer.source import gpu_scorer, load_scorer

CASES = ((1, 512), (1, 1024), (16, 1024), (1, 2048), (8, 2048))


@torch.inference_mode()
def main() -> None:
    folder = part_folder(SCORER)
    plain, ours = load_scorer(folder, "cuda"), gpu_scorer(folder, "cuda")
    print(torch.cuda.get_device_name(), torch.__version__)
    print("| pictures | side | plain, ms a picture | ours | times | largest difference |")
    print("|--:|--:|--:|--:|--:|--:|")
    generator = torch.Generator("cuda").manual_seed(0)
    for number, side in CASES:
        pictures = torch.rand(number, 3, side, side, generator=generator, device="cuda")
        ids = torch.randint(1, 90, (number, 96), generator=generator, device="cuda")

        def by_autocast(pictures: torch.Tensor = pictures, ids: torch.Tensor = ids) -> torch.Tensor:
            with torch.autocast("cuda", torch.bfloat16):
                return plain.score(pictures, ids)

        before = median_milliseconds(by_autocast, 15, cuda=True) / number
        after = (
            median_milliseconds(lambda pictures=pictures, ids=ids: ours.score(pictures, ids), 15, cuda=True) / number
        )
        apart = float((by_autocast() - ours.score(pictures, ids)).abs().max())
        print(f"| {number} | {side}² | {before:.2f} | {after:.2f} | {before / after:.2f} | {apart:.3f} |", flush=True)


if __name__ == "__main__":
    main()
