"""Which overview should an overlay have? Exact match of the bundled `mini` and scorer on validation pictures.

    python benchmarks/overlay_rule.py --n 40 --budgets 64 32 16 8 --rules quadtree quarter:4/3 4:4/3 0:4/3 quarter:0

A rule is the most tokens of the overview (`quarter`: a quarter of the budget), a colon, and what a coarse leaf gains of
its mean relevance (`attending.overlay.COARSE_GAIN`). All rules read the same pictures; a table is printed after
every round, so that a long run can be read before it ends.
"""

from __future__ import annotations

import argparse
from fractions import Fraction
from time import perf_counter

import numpy as np
import torch
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from torch import Tensor

from arr_coc.attending.overlay import overlay
from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc_lab.bench.needle import Weights
from arr_coc_lab.train.evaluate import FAMILIES
from arr_coc_lab.train.pictures import render_family
from arr_coc_lab.train.reader import read

SIZE = (512, 512)
ROUND = 10


def leaves_of(rule: str, scores: Tensor, budget: int) -> Tensor:
    """(B, rows, cols) scores → leaves (B, N, 3) by a rule."""
    if rule == "quadtree":
        tree = build_tree(*scores.shape[1:], 3)
        return quadtree(scores, tree, max(budget, tree.floor)).cells
    overview, _, gain = rule.partition(":")
    most = None if overview == "quarter" else int(overview)
    return overlay(scores, [budget] * len(scores), overview=most, coarse_gain=float(Fraction(gain))).cells


@torch.inference_mode()
def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=40, help="pictures of each family")
    parser.add_argument("--budgets", type=int, nargs="+", default=[64, 32, 16, 8])
    parser.add_argument("--rules", nargs="+", default=["quadtree", "quarter:4/3", "4:4/3", "0:4/3", "quarter:0"])
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    weights = Weights.load(device=given.device)
    right: dict[tuple[str, int], list[bool]] = {(rule, budget): [] for rule in given.rules for budget in given.budgets}
    began = perf_counter()
    with dense_vision_attention(weights.mini):
        for start in range(0, given.n, ROUND):
            for family in FAMILIES:
                count = min(ROUND, given.n - start)
                batch = render_family(family, count, SIZE, given.seed, start, given.device, None, "validation")
                scores = weights.scorer.score(batch.pictures, batch.question_ids)
                for rule, budget in right:
                    found = read(weights.mini, batch, leaves_of(rule, scores, budget))
                    right[rule, budget] += found.right.tolist()
            number = len(next(iter(right.values())))
            facts = f"n = {number}, seed {given.seed}, weights {weights.name}, {perf_counter() - began:.0f} s"
            print(f"\n{facts}; exact match %\n")
            print("| rule | " + " | ".join(map(str, given.budgets)) + " |\n|---" + "|--:" * len(given.budgets) + "|")
            for rule in given.rules:
                cells = (f"{100 * np.mean(right[rule, budget]):.1f}" for budget in given.budgets)
                print(f"| {rule} | " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
