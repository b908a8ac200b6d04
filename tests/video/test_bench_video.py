"""The bench of clips: its measures agree with the library's own, and every table is made from one document."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from clip_scenes import scene

from arr_coc.attending import allocate
from arr_coc.attending.gains import node_sums
from arr_coc.attending.quadtree import select_splits
from arr_coc.attending.tree import build_tree
from arr_coc.bench.needle import Weights
from arr_coc.bench.video import clips_document, document, paired, tables, verdicts
from arr_coc.bench.video_clips import ClipPlan, cell_density, cells, measure_clips, neighbour_similarity
from arr_coc.bench.video_real import held_share, measure_real_clips
from arr_coc.bench.video_speed import speed_rows
from arr_coc.knowing.scorer import Scorer, ScorerConfig
from arr_coc.learning.mini_model import MiniConfig, build_mini
from arr_coc.values import compare, token_density
from arr_coc.video import TemporalBlend, TemporalSettings


@pytest.mark.parametrize("grid", [(16, 16), (7, 11)])
def test_density_and_similarity_are_those_of_the_allocations(grid: tuple[int, int]) -> None:
    tree = build_tree(*grid, 3)
    maps = torch.rand(1, 3, *grid, generator=torch.Generator().manual_seed(1)) ** 3
    budget = round(tree.full / 3)
    selected = select_splits(node_sums(maps[0], tree)[:, : len(tree.costs)], tree, budget)
    density = cell_density(selected, tree)
    made = [allocate(one.numpy(), budget, levels=3) for one in maps[0]]
    for number, allocation in enumerate(made):
        assert np.allclose(density[number], token_density(allocation), atol=1e-6)
    expected = [compare(one, other).similarity for one, other in pairwise(made)]
    assert neighbour_similarity(maps, tree, 1 / 3)[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_small_run_fills_every_table() -> None:
    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=1, language_layers=1, heads=2, deepstack=(0,))).eval()
    weights = Weights(mini, Scorer(ScorerConfig(width=32)).eval(), 1.0, "tiny")
    readings = ("clearest", "pooled", "video")
    plan = ClipPlan(number=2, frames=3, size=(128, 128), batch=1, keeps=(1 / 4,), readings=readings)
    settings = TemporalSettings()
    outcomes = measure_clips(weights, TemporalBlend.of(settings).eval(), plan)
    assert set(outcomes.tokens) == set(cells(plan.keeps))
    assert all(len(right) == 2 for right in outcomes.right.values())
    assert outcomes.found[1] == 1, "every second batch has a cut"
    assert outcomes.found[3] == 3
    found = document(clips=json.loads(json.dumps(clips_document(outcomes, plan, settings, "tiny"))))
    shown = tables(found)
    assert [table.title for table in shown][:3] == [
        "Needle clips",
        "Temporal allocation against the others, clip by clip",
        "Coherence and cuts",
    ]
    assert all(table.to_markdown().count("\n") > 2 for table in shown)
    assert len(verdicts(found)) == 3 * 3 + 4


def test_paired_differences_have_the_right_sign() -> None:
    better, worse = np.array([1.0] * 60 + [0.0] * 40), np.array([1.0] * 30 + [0.0] * 70)
    value, low, high = paired(better, worse)
    assert value == pytest.approx(0.3)
    assert 0 < low < value < high


def test_real_clips_are_followed(tmp_path) -> None:
    from PIL import Image

    from arr_coc.bench.video_real import real_clips

    lines = []
    for number, frame in enumerate(scene(1, 3, step=4)):
        Image.fromarray(frame).save(tmp_path / f"davis_card_{number:05d}.png")
        record = {"source": "davis", "image": f"davis_card_{number:05d}.png", "query": "Follow the red card."}
        lines.append(json.dumps({**record, "boxes": [[0.2, 0.2, 0.6, 0.5]]}))
    (tmp_path / "records.jsonl").write_text("\n".join(lines))
    clips = real_clips(tmp_path)
    assert [len(records) for records in clips.values()] == [3]
    found = measure_real_clips(clips, TemporalSettings())
    one = found["davis_card"]
    assert one["false_cuts"] == 0
    assert all(len(values) == 3 for values in one["coverage"].values())
    assert tables(document(real={"clips": found}))[0].rows[-1]["clip"] == "all"
    everything = np.ones((16, 16), dtype=np.float32)
    assert held_share(everything, np.array([[0.2, 0.2, 0.6, 0.5]]), (8, 8)) == 1
    assert held_share(0 * everything, np.array([[0.2, 0.2, 0.6, 0.5]]), (8, 8)) == 0


def test_speed_is_a_ratio_in_one_run() -> None:
    rows, _ = speed_rows(1, np.stack(scene(1, 4, step=2)))
    ratio = next(row for row in rows if row["what"] == "later / first")["value"]
    assert 0 < ratio.value < 1.5  # type: ignore[union-attr]
