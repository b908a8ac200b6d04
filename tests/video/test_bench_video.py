"""The bench of clips: its measures agree with the library's own, and every table is made from one document."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
import torch
from clip_scenes import scene

from arr_coc.app.cli import main
from arr_coc.attending.allocate import allocate
from arr_coc.attending.overlay import overlay
from arr_coc.core.values import compare, token_density
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.spending import kept_share
from arr_coc_lab.bench.needle import Weights
from arr_coc_lab.bench.video import (
    FEWER,
    ClipPlan,
    cells,
    clips_document,
    document,
    held_share,
    measure_clips,
    measure_real_clips,
    real_clips,
    speed_rows,
    tables,
    with_the_rest,
)
from arr_coc_lab.classic.scorer import Scorer, ScorerConfig
from arr_coc_lab.statistics import paired_bootstrap
from arr_coc_lab.train.clip_allocations import leaves_by_level, neighbour_similarity
from arr_coc_lab.train.mini_model import MiniConfig, build_mini
from arr_coc_lab.train.temporal_model import TemporalBlend


@pytest.mark.parametrize("grid", [(16, 16), (7, 11)])
def test_density_and_similarity_are_those_of_the_allocations(grid: tuple[int, int]) -> None:
    maps = torch.rand(1, 3, *grid, generator=torch.Generator().manual_seed(1)) ** 3
    budget = round(grid[0] * grid[1] / 3)
    made = [allocate(one.numpy(), budget) for one in maps[0]]
    levels = [*leaves_by_level(overlay(maps[0], [budget] * 3), *grid)]
    for number, allocation in enumerate(made):
        density = sum(cells[number] / area for _, cells, area in levels)
        assert np.allclose(density, token_density(allocation), atol=1e-6)
        assert float(density.sum()) == pytest.approx(budget)
    expected = [compare(one, other).similarity for one, other in pairwise(made)]
    assert neighbour_similarity(maps, 1 / 3)[0].tolist() == pytest.approx(expected, abs=1e-5)
    # On ground of which a part is new: the batch and the stream's own measure say the same, and less than places alone.
    ground = torch.rand(1, 3, *grid, generator=torch.Generator().manual_seed(2))
    kept = [kept_share(*two, ground[0, time].numpy()) for time, two in enumerate(pairwise(made), 1)]
    assert neighbour_similarity(maps, 1 / 3, ground)[0].tolist() == pytest.approx(kept, abs=1e-5)
    assert all(one < other for one, other in zip(kept, expected, strict=True))


def test_a_small_run_fills_every_table() -> None:
    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=1, language_layers=1, heads=2, deepstack=(0,))).eval()
    weights = Weights(mini, Scorer(ScorerConfig(width=32)).eval(), 1.0, "tiny")
    readings = ("clearest", "pooled", "video")
    plan = ClipPlan(number=2, frames=3, size=(128, 128), batch=1, keeps=(1 / 16, 1 / 4), readings=readings)
    settings, so_far = TemporalSettings(), []
    outcomes = measure_clips(
        weights,
        TemporalBlend.of(settings).eval(),
        plan,
        lambda done, found: so_far.append((done, len(found.inside["ground"]))),
    )
    assert so_far == [(1, 1), (2, 3)], "what was found is handed over batch by batch"
    assert set(outcomes.tokens) == {(system, share * keep) for system, keep, share in cells(plan.keeps)}
    assert all(len(right) == 2 for right in outcomes.right.values())
    # No system gains by rounding, and the smaller share is really smaller, but not the floor.
    spent = {key: set(tokens) for key, tokens in outcomes.tokens.items()}
    assert spent["temporal", 1 / 4] == spent["frame by frame", 1 / 4] == spent["uniform", 1 / 4] == {12}
    assert spent["temporal", FEWER / 4] == {4}
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
    kept = [row.get("kept") for table in shown for row in table.rows if isinstance(row.get("kept"), bool)]
    assert len(kept) == 3 * 3 + 4, "bars at one budget only"


def test_a_run_stops_in_time_and_its_document_stands(tmp_path) -> None:
    """Parts measured on other machines or earlier stay where they are."""
    path = tmp_path / "video.json"
    speed = {"rows": [{"what": "later / first", "value": 0.2, "kept": True}], "facts": {}}
    path.write_text(json.dumps(document(speed=speed)))
    both = with_the_rest(path, document(real={"clips": {}}))
    assert both["speed"]["rows"] == speed["rows"]
    assert both["real"]["clips"] == {}
    assert both["clips"] is None
    path.write_text("{")
    assert with_the_rest(path, document())["speed"] is None


def test_tables_are_put_into_a_page_between_its_markers(tmp_path) -> None:
    page, saved = tmp_path / "page.md", tmp_path / "video.json"
    page.write_text("before\n<!-- video: begin -->\nold\n<!-- video: end -->\nafter\n")
    row = {"what": "later / first", "value": 0.2, "bar": "≤ 0.35", "kept": True}
    saved.write_text(json.dumps(document(speed={"rows": [row], "facts": {"clip": "31 frames"}})))
    with pytest.raises(SystemExit) as ended:
        main(["bench", "video", "--from", str(saved), "--page", str(page)])
    assert ended.value.code in (0, None)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "| later / first | 0.20 |" in text
    assert "clip: 31 frames" in text


def test_paired_differences_have_the_right_sign() -> None:
    better, worse = np.array([1.0] * 60 + [0.0] * 40), np.array([1.0] * 30 + [0.0] * 70)
    lead = paired_bootstrap(better, worse)
    value, low, high = lead.value, lead.low, lead.high
    assert value == pytest.approx(0.3)
    assert 0 < low < value < high


def test_real_clips_are_followed(tmp_path) -> None:
    from PIL import Image

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
