"""`lab.bench.depth` with a tiny untrained model: what it counts."""

from __future__ import annotations

from tiny_models import tiny_model, tiny_processor

from arr_coc.answering.eye import Eye
from arr_coc_lab.bench import depth
from arr_coc_lab.bench.run import program


def test_fewer_patches_pass_the_later_blocks_and_both_rows_are_there(monkeypatch, tmp_path, capsys) -> None:
    model, processor = tiny_model(), tiny_processor()
    monkeypatch.setattr(
        Eye, "from_pretrained", lambda name, depth=None: Eye(model, processor, depth=depth, relevance="look")
    )
    monkeypatch.setattr(depth, "SIZE", (128, 128))
    monkeypatch.setattr(depth, "BUDGET", 8)
    page = tmp_path / "page.md"
    page.write_text("<!-- depth: begin -->\n<!-- depth: end -->\n")
    program("depth")(["--number", "2", "--page", str(page)])
    assert "| early | 8 |" in page.read_text()
    plain, early = depth.depth_table(2).rows
    assert plain["blocks"] == 100.0
    assert early["blocks"].value < 100
    assert early["n"] == 2
    capsys.readouterr()
