"""`arr-coc batch`: every row exactly once, whoever is killed on the way; and what it takes and refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_runs import (
    BROKEN,
    QUESTIONS,
    arguments,
    expected,
    rows_of,
    run_killed,
    still_alive,
    write_pictures,
    written,
)
from PIL import Image
from tiny_weights import signs

from arr_coc import Options, ask, look
from arr_coc.app.batch.engines import look_locally
from arr_coc.app.batch.looker import COLUMNS, Looker, LookerOptions, failed
from arr_coc.app.batch.rows import BatchRow, Store, Todo
from arr_coc.app.cli import main
from arr_coc.core.errors import InputError


def batch(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["batch", *map(str, arguments)])
    return int(stopped.value.code or 0)


def test_a_killed_worker_and_a_killed_driver_lose_and_double_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_pictures(tmp_path / "in", 29), tmp_path / "out"
    line = arguments(folder, out, "--workers", "2")
    orphans = run_killed(line, out, "spawn_main", (3, 9))
    before = rows_of(out)
    assert 0 < len(before) < len(expected(folder)), "killed in the middle"
    assert not still_alive(orphans), "workers end with their driver"
    assert batch(*line[4:], "--workers", "1", "--json") == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["before"] == len(before)
    assert summary["done"] == len(expected(folder)) - len(before)
    assert rows_of(out) == expected(folder)
    assert sum(bool(row["error"]) for row in written(out)) == len(QUESTIONS)
    assert not list(out.glob(".part-*"))


def test_rows_hold_what_a_single_look_and_a_single_answer_give(tmp_path: Path) -> None:
    street = tmp_path / "signs.png"
    Image.fromarray(signs()).save(street)
    store, looker = Store(tmp_path / "out", {}), Looker(LookerOptions(options=Options(budget=64)))
    store.add([looker({"path": str(street), "query": "the red sign"}), looker({"path": "nowhere.png", "query": "?"})])
    store.close()
    good, bad = written(tmp_path / "out")
    alone = look(street, "the red sign", 64)
    assert list(good) == list(bad) == list(COLUMNS)
    assert good["leaves"] == alone.leaf_cells().tolist()
    assert np.allclose(good["scores"], alone.scores, atol=1e-4)
    assert (good["tokens"], good["source"], good["error"]) == (alone.tokens, "scorer", "")
    assert (bad["tokens"], bad["uncertainty"]) == (0, None)
    assert "nowhere.png" in bad["error"]
    query = "What does the pink sign say?"
    found = Looker(LookerOptions("mini", Options(budget=24)))({"path": str(street), "query": query})
    answer = ask(street, query, 24)
    assert (found["text"], found["tokens"], found["source"]) == (answer.text, answer.tokens, "scorer")
    assert found["uncertainty"] == pytest.approx(answer.uncertainty, abs=1e-5)


@pytest.mark.parametrize("asking", [False, True])
def test_rows_are_read_from_where_they_are_told_and_say_so(asking: bool) -> None:
    street = Path(__file__).parents[2] / "src" / "arr_coc" / "examples" / "street.png"
    looker = Looker(LookerOptions("mini" if asking else None, Options(budget=24, scale=0.5, relevance="detail")))
    found = looker({"path": str(street), "query": "Who signed it?"})
    assert (found["error"], found["scale"], found["tokens"], found["full"]) == ("", 0.5, 24, 768)
    assert len(found["leaves"]) == 24
    assert max(max(leaf[:2]) for leaf in found["leaves"]) < 16  # of the 12 × 16 cells of half a picture


def test_a_picture_that_kills_is_a_row_with_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads it ends without a word; the worker goes on with the others."""
    (tmp_path / "lethal").mkdir()
    # What reads pictures ends, for one picture only.
    (tmp_path / "lethal" / "sitecustomize.py").write_text(
        "import os, PIL.Image\n"
        "real = PIL.Image.open\n"
        "PIL.Image.open = lambda place, *a, **k: os._exit(9) if 'lethal' in str(place) else real(place, *a, **k)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lethal"), prepend=":")
    names = ["a.png", "lethal.png", "b.png", "c.png"]
    for name in names:
        Image.new("RGB", (64, 64), "red").save(tmp_path / name)
    rows = iter([BatchRow(str(tmp_path / name), "what?") for name in names])
    found = [row for several in look_locally(rows, LookerOptions(), 1, 4) for row in several]
    assert sorted(Path(row["path"]).name for row in found) == sorted(names)
    assert [Path(row["path"]).name for row in found if row["error"]] == ["lethal.png"]
    assert "broke its reader" in next(row["error"] for row in found if row["error"])


def test_memory_does_not_grow_with_the_number_of_pictures(tmp_path: Path) -> None:
    """Peak memory of a worker's life after 5 and after 20 pictures of 1.7 MB each."""
    picture = tmp_path / "large.png"
    Image.effect_noise((768, 768), 60).convert("RGB").save(picture, compress_level=0)
    script = (
        "import resource, sys\n"
        "from arr_coc.app.batch.looker import Looker, LookerOptions\n"
        "from pathlib import Path\nfrom arr_coc import Options\n"
        "looker = Looker(LookerOptions(options=Options(budget=16, relevance='look')))\n"
        "data = Path(sys.argv[1]).read_bytes()\n"
        "for n in range(1, 21):\n"
        "    looker({'path': str(n), 'query': 'what?', 'data': data})\n"
        "    if n in (5, 20):\n"
        "        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(picture)], capture_output=True, check=True)
    before, after = map(int, done.stdout.split())
    assert after - before < 20_000, f"{before} and {after} kB"


def test_tables_bring_their_own_questions_and_pictures(tmp_path: Path) -> None:
    pa: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    Image.new("RGB", (40, 30), "blue").save(tmp_path / "a.png")
    lines = [{"path": "a.png", "query": "x?"}, {"image": "a.png", "question": "y?"}, {"path": "a.png"}]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    todo = Todo(str(tmp_path / "rows.jsonl"), ("z?",))
    assert [row.query for row in todo.rows()] == ["x?", "y?", "z?"]
    assert {row.path for row in todo.rows()} == {str(tmp_path / "a.png")}
    assert todo.count() == 3
    data = (tmp_path / "a.png").read_bytes()
    hub = [{"image": {"bytes": data, "path": "same.png"}, "question": f"{n}?"} for n in range(7)]
    parquet.write_table(pa.Table.from_pylist(hub), tmp_path / "hub.parquet", row_group_size=3)
    todo = Todo(str(tmp_path / "*.parquet"))
    rows = list(todo.rows())
    assert todo.count() == 7
    assert [row.query for row in rows] == [f"{n}?" for n in range(7)]
    assert len({row.path for row in rows}) == 7, "names inside the hub's pictures are not unique"
    assert all(row.data == data for row in rows)
    shares = [row for part in range(3) for row in todo.rows((part, 3))]
    assert sorted(shares) == sorted(rows)


def test_shares_of_a_folder_are_all_of_it_once(tmp_path: Path) -> None:
    folder = write_pictures(tmp_path / "in", 11, (8, 8))
    todo = Todo(str(folder), ("what?", "where?", "what?"))
    rows = list(todo.rows())
    assert len(rows) == todo.count() == 24
    assert sorted(row for part in range(4) for row in todo.rows((part, 4))) == sorted(rows)
    assert sorted(Todo(str(folder / "*.png"), todo.queries).rows()) == sorted(rows)


def test_a_row_that_comes_twice_is_written_once_also_after_a_restart(tmp_path: Path) -> None:
    def rows(*names: str) -> list[Any]:
        return [failed(name, 'what, "tokens": 3?', "") for name in names]

    store = Store(tmp_path, {"budget": 4})
    assert store.add(rows("a", "b", "a")) == 2
    with pytest.raises(InputError, match="another batch"):
        Store(tmp_path, {"budget": 4})
    store.close()
    store = Store(tmp_path, {"budget": 4})
    assert store.before == 2
    assert store.add(rows("b", "c")) == 1
    store.close()
    assert sorted(row["path"] for row in written(tmp_path)) == ["a", "b", "c"]
    with pytest.raises(InputError, match="budget 4"):
        Store(tmp_path, {"budget": 5})


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--engine", "abacus"), "engine"),
        (("--workers", "0"), "workers"),
        (("--budget", "0"), "budget"),
        (("--set", "scale=0"), "is not possible; give auto"),
        (("--set", "scale=nan"), "is not possible; give auto"),
        (("--set", "strategy=classic"), "leaves"),
        (("--set", "relevance=glance"), "glance"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    folder = write_pictures(tmp_path / "in", 1, (8, 8))
    assert batch(folder, "-q", "what?", "--out", tmp_path / "out", *more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_inputs_that_hold_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_pictures(tmp_path / "in", 1, (8, 8))
    (tmp_path / "empty").mkdir()
    (tmp_path / "torn.jsonl").write_text('{"path": "a.png"\n')
    (tmp_path / "none.jsonl").write_text("{}\n")
    for place in (folder, tmp_path / "nowhere", tmp_path / "empty", tmp_path / "torn.jsonl", tmp_path / "none.jsonl"):
        asked = () if place == folder else ("-q", "what?")
        assert batch(place, *asked, "--out", tmp_path / "out") == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert BROKEN in {path.name for path in folder.iterdir()}
