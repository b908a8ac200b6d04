"""Which heads point: cells are found whatever a processor does to a picture, and a head that points is chosen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tiny_models import save_stock, tiny_model, tiny_processor

from arr_coc.app.cli import main
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.glance import Glance, find_glance
from arr_coc_lab.calibrate.pointing import HeadAttention, cell_edges, look, measure, needed_cells, select_heads
from arr_coc_lab.train.allocations import target_cells
from arr_coc_lab.worlds.needle import render

SIZE = (128, 192)


def test_cells_are_found_by_their_colours() -> None:
    """Two routes: from a picture of coordinates through the processor, and from the boxes and the grid alone."""
    edges = cell_edges(tiny_model(), tiny_processor(), SIZE)
    top, end = edges
    assert torch.allclose(top[0], torch.zeros(2), atol=0.01)
    assert torch.allclose(end[-1], torch.ones(2), atol=0.01)
    batch = render("forms", 6, SIZE, 3, "validation")
    agree = needed_cells(batch, *edges) == target_cells(batch, 4, 6).flatten(1)
    assert agree.float().mean() > 0.95  # colours have 256 steps, so a cell that a box just touches may differ


def planted(number: int = 40, layers: int = 3, heads: int = 2) -> HeadAttention:
    """One head of chance in each place, but head 1 of the second layer read looks at what is asked."""
    generator = torch.Generator().manual_seed(0)
    weights = torch.rand(number, layers, heads, 16, generator=generator)
    wanted = torch.randint(16, (number,), generator=generator)
    weights[torch.arange(number), 1, 1, wanted] += 2
    truth = torch.nn.functional.one_hot(wanted, 16).float()
    cells = torch.arange(16)
    plain = torch.rand(number, 16, generator=generator)
    return HeadAttention(weights, plain, truth, (4, 7, 9), torch.ones(16, dtype=torch.bool), cells, [(4, 4)], [0])


def test_the_head_that_points_is_chosen_and_heads_of_chance_are_not() -> None:
    found = planted()
    assert select_heads(found) == ((7, 1),)
    assert found.covered(found.weights[:, 1, 1]).mean() == 1
    assert found.covered(found.plain).mean() < 0.4
    hidden = torch.ones(16, dtype=torch.bool)
    hidden[:8] = False  # cells that show nothing of the picture are never among the best
    only = HeadAttention(found.weights, found.plain, found.truth, (4, 7, 9), hidden, found.cells, [(4, 4)], [0])
    assert only.covered(torch.ones(40, 16)).sum() == found.truth[:, 8:9].sum()


def test_a_model_is_measured_in_batches_of_any_size() -> None:
    model, processor = tiny_model(), tiny_processor()
    found, alone = (look(model, processor, number=7, size=SIZE, batch_size=step) for step in (4, 1))
    torch.testing.assert_close(found.weights, alone.weights, atol=1e-5, rtol=0)
    assert torch.equal(found.truth, alone.truth)
    document = measure(model, processor, number=14, size=SIZE)
    assert document["before"]["low"] <= document["before"]["mean"] <= document["before"]["high"]
    heads = tuple((layer, head) for layer, head in document["heads"])
    layers = model.config.get_text_config().num_hidden_layers
    assert heads
    assert all(0 <= layer < layers for layer, _ in heads)
    assert backbone_for(model).can_glance


def test_calibrate_writes_what_attach_and_ask_find(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from transformers import AutoModelForImageTextToText

    folder = save_stock(tmp_path / "model")
    found = {**measure(tiny_model(), tiny_processor(), number=7, size=SIZE), "points": True, "heads": [[2, 1], [3, 0]]}
    monkeypatch.setattr("arr_coc_lab.calibrate.pointing.measure", lambda *_, **__: found)
    with pytest.raises(SystemExit) as ended:
        main(["calibrate", "--model", str(folder), "--only", "glance", "--json"])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out)["file"] == str(folder / "glance.json")
    model = AutoModelForImageTextToText.from_pretrained(folder)
    assert find_glance(model) == Glance(heads=((2, 1), (3, 0)))
    (folder / "glance.json").unlink()
    found |= {"points": False}
    with pytest.raises(SystemExit):
        main(["calibrate", "--model", str(folder), "--only", "glance"])
    assert "No head looks at the answer" in capsys.readouterr().out
    assert not (folder / "glance.json").exists()
    for wrong in (["--n", "5"], ["--texts", "1"]):
        with pytest.raises(SystemExit) as ended:
            main(["calibrate", "--model", str(folder), *wrong])
        assert ended.value.code == 2
