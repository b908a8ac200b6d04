"""`bench pack` and `bench vqa --door`: a model that nobody touched, at equal tokens."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arr_coc_lab.bench.pack_reading import grouped, shown_by
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.packing.pack import PackPage
from arr_coc.packing.prices.tables import table_for
from arr_coc.pictures.load import load_picture
from arr_coc_lab.bench import pack_reading
from arr_coc_lab.bench.run import bench
from arr_coc_lab.bench.suite import suite


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Two families of one world, three questions each."""
    folder = tmp_path / "set"
    (folder / "img").mkdir(parents=True)
    lines = []
    for number in range(6):
        pixels = np.full((256, 320, 3), 240 - number, np.uint8)
        pixels[40:60, 200:260] = 20
        Image.fromarray(pixels).save(folder / "img" / f"{number}.png")
        source = f"world/{'ab'[number % 2]}"
        record = {"source": source, "image": f"img/{number}.png", "query": "What is it?", "answer": f"x{number}"}
        lines.append(json.dumps({**record, "boxes": [[0.6, 0.1, 0.8, 0.3]]}))
    (folder / "records.jsonl").write_text("\n".join(lines) + "\n")
    return folder


@pytest.mark.parametrize("way", [way for way in suite("pack")["ways"] if way != "attach"])
def test_every_way_keeps_to_the_tokens(way: str) -> None:
    page = PackPage(load_picture(np.full((256, 320, 3), 200, np.uint8)))
    relevance = np.zeros((8, 10), np.float32)
    relevance[1:3, 6:8] = 1
    for budget in (8, 10, 20, 40):
        shown = shown_by(way, page, "What is it?", budget, relevance)
        assert sum(table_for("mini").tokens((one.shape[0], one.shape[1])) for one in shown) <= budget


def test_fewer_questions_are_the_first_of_more(records: Path) -> None:
    def names(number: int) -> list[str]:
        options = suite("pack").options(data=(records,), n=number)
        return [one.name for _, found in grouped(records, options) for one in found]

    assert names(2) == names(6)[:2]
    assert len({name.rpartition(" ")[0] for name in names(2)}) == 2


class PlainReader:
    """Says the answer where it is shown a dark spot in full size."""

    def __init__(self, *given: Any) -> None:
        self.asked = 0

    def say_all(self, prompts: list[list[np.ndarray]], question: str) -> list[tuple[str, int]]:
        return [self.say(pictures) for pictures in prompts]

    def say(self, pictures: list[np.ndarray]) -> tuple[str, int]:
        table = table_for("mini")
        tokens = sum(table.tokens((one.shape[0], one.shape[1])) for one in pictures)
        seen = max(int((one[..., 0] < 40).sum()) for one in pictures)
        light = max(int(one.max()) for one in pictures)
        return (f"x{240 - light}" if seen >= 900 else "nothing"), tokens


def test_the_table_and_the_bars(records: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_reading, "StockReader", PlainReader)

    class PlainEye:
        @classmethod
        def from_pretrained(cls, *given: Any, **how: Any) -> Any:
            return cls()

        def set_image(self, picture: Any) -> Any:
            self.picture = picture
            return self

        def ask(self, question: str, budget: int, **how: Any) -> Any:
            from types import SimpleNamespace

            return SimpleNamespace(text=f"x{240 - int(self.picture.pixels.max())}", tokens=budget)

    monkeypatch.setattr("arr_coc.answering.eye.Eye", PlainEye)
    out = tmp_path / "out"
    report = bench("pack", data=(records,), n=6, keeps="1/4", out=out)
    found = {row["way"]: row for row in report.document["tables"][0]["rows"]}
    assert found["full"]["exact"]["value"] == 100
    assert found["pack"]["exact"]["value"] == 100
    assert found["smaller picture"]["exact"]["value"] == 0
    assert found["centre crop"]["exact"]["value"] == 0
    assert all(row["tokens"] <= 20 for way, row in found.items() if way != "full")
    bars = report.document["bars"]["world 0.25"]
    assert bars["of attach"]["value"] == 1
    assert bars["over smaller"]["value"] == 1
    assert (out / "pack.json").exists()
    again = (out / "pack_answers.jsonl").read_bytes()
    bench("pack", data=(records,), n=6, keeps="1/4", out=out)
    assert (out / "pack_answers.jsonl").read_bytes() == again


@pytest.fixture
def questions(records: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "vqa"
    shutil.copytree(records, folder)
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    (folder / "records.jsonl").unlink()
    told = [
        {"id": str(n), "image": row["image"], "question": row["query"], "answer": row["answer"]}
        for n, row in enumerate(rows)
    ]
    (folder / "set.jsonl").write_text("\n".join(map(json.dumps, told)) + "\n")
    return folder


@pytest.mark.parametrize("door", ["pack", "proxy"])
def test_doors_by_address(door: str, questions: Path, tmp_path: Path) -> None:
    pytest.importorskip("httpx")
    pytest.importorskip("prometheus_client")
    from proxy_parts import Upstream, pictures_of, running, sizes

    from arr_coc.app.proxy.api import build_proxy
    from arr_coc.app.proxy.settings import ProxySettings

    def answer(path: str, body: dict[str, Any]) -> dict[str, Any]:
        spent = sum(table_for("mini").tokens(size) for size in sizes(pictures_of(body)))
        return {"choices": [{"message": {"content": f"{spent} tokens"}}]}

    upstream = Upstream(answer=answer)
    how: dict[str, Any] = {"data": str(questions / "set.jsonl"), "task": "needle", "limit": 2, "relevance": "detail"}
    with running(upstream) as behind:
        settings = ProxySettings(behind, relevance="detail", text=False)
        with running(build_proxy(settings)) as address:
            there = address if door == "proxy" else behind
            report = bench("vqa", **how, door=door, upstream=there, out=tmp_path / "door")
    rows = {row["way"]: row for row in report.document["rows"]}
    assert rows["full"]["tokens"] == 80
    assert rows["ours"]["tokens"] <= 20
    said = [json.loads(line) for line in (tmp_path / "door" / "door_answers.jsonl").read_text().splitlines()]
    assert all(int(row["said"].split()[0]) <= 20 for row in said if row["cell"] != "full")


def test_doors_that_will_not_do(questions: Path) -> None:
    how: dict[str, Any] = {"data": str(questions / "set.jsonl"), "task": "needle"}
    for more, line in (
        ({"door": "window"}, "unknown --door"),
        ({"door": "proxy"}, "needs --upstream"),
        ({"door": "pack", "model": "gpt-4o"}, "give it with --upstream"),
        ({"door": "pack", "upstream": "x"}, "is no address"),
    ):
        with pytest.raises(InputError, match=line):
            bench("vqa", **how, **more)
