"""The doors of documents: commands, server, batch."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from small_pdf import small_pdf
from tiny_models import save_stock

from arr_coc import InputError, Options
from arr_coc.app.batch.looker import Looker, LookerOptions
from arr_coc.app.batch.rows import Store
from arr_coc.app.cli import main

pytest.importorskip("pypdfium2")
QUERY = "What is the total of 3?"


@pytest.fixture
def report(tmp_path: Path) -> Path:
    pages = tuple((f"72 {700 - n} Td (Total of {n}: {n}0.50) Tj", "") for n in range(1, 6))
    return small_pdf(tmp_path / "report.pdf", pages)


def run(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as stopped:
        main([*map(str, arguments)])
    said = capsys.readouterr()
    return int(stopped.value.code or 0), said.out, said.err


def test_look_at_a_report_has_one_budget_and_a_contact_sheet(capsys, report, tmp_path) -> None:
    out = tmp_path / "out"
    code, said, _ = run(capsys, "look", report, QUERY, "--budget", 48, "--json", "--out", out)
    (found,) = json.loads(said)["looks"]
    assert code == 0
    pages = {page["number"]: page["tokens"] for page in found["allocation"]["pages"]}
    assert found["tokens"] == sum(pages.values()) == 48
    assert max(pages, key=pages.get) == 3
    written = {path.name for path in out.iterdir()}
    assert written >= {"report.allocation.json", "report.pages.png"}
    assert Image.open(out / "report.pages.png").width == 1280
    code, said, _ = run(capsys, "look", report, QUERY, "--budget", 48, "--pages", "2-4", "--out", out)
    assert "of 5 pages" in said
    Image.new("RGB", (96, 64)).save(tmp_path / "a.png")
    line = ("look", report, tmp_path / "a.png", QUERY, "--budget", 48, "--json", "--out", out)
    assert [one["tokens"] for one in json.loads(run(capsys, *line)[1])["looks"]] == [48, 6]
    assert [one["tokens"] for one in json.loads(run(capsys, *line, "--set", "total=true")[1])["looks"]] == [48]


def test_ask_tells_the_page(capsys, report, tmp_path) -> None:
    out = tmp_path / "out"
    code, said, _ = run(
        capsys, "ask", report, QUERY, "--budget", 48, "--json", "--out", out, "--set", "max_new_tokens=4"
    )
    answer = json.loads(said)
    assert code == 0
    assert answer["of_pages"] == 5
    assert 3 in answer["pages"]
    assert answer["tokens"] <= 48
    (written,) = out.glob("*.allocation.json")
    pages = {page["number"]: page["tokens"] for page in json.loads(written.read_text())["pages"] if page["tokens"]}
    read = {page: step["tokens"] for page, step in zip(answer["pages"], answer["passes"], strict=True)}
    assert pages == read, "the file holds what was answered from"
    assert (out / "report.pages.png").exists()
    for wrong in (("--explain",), ("--pages", "9")):
        code, _, error = run(capsys, "ask", report, QUERY, *wrong)
        assert code == 2
        assert len(error.strip().splitlines()) == 1


def test_batch_rows_of_documents_tell_their_pages(report, tmp_path) -> None:
    Image.new("RGB", (96, 64)).save(tmp_path / "a.png")
    looker = Looker(LookerOptions(options=Options(budget=18)))
    row, other = (looker({"path": str(path), "query": QUERY}) for path in (report, tmp_path / "a.png"))
    assert row["tokens"] == 18 == sum(tokens for _, tokens in row["pages"]) == len(row["leaves"])
    assert row["unseen"] == 5 - len(row["pages"])
    assert not other["pages"]
    store = Store(tmp_path / "out", {})
    store.add([row | {"uncertainty": 0.9}, other])
    store.close()
    assert (store.counts["unsure"], store.counts["unseen"]) == (1, row["unseen"])


# ---- the server ------------------------------------------------------------------------------------------------------


def body(report: Path, *parts: Any, **own: Any) -> bytes:
    data = base64.b64encode(report.read_bytes()).decode()
    file = {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    content = [file, *parts, {"type": "text", "text": QUERY}]
    return json.dumps({"model": "tiny", "messages": [{"role": "user", "content": content}], "arr_coc": own,
                       "max_tokens": 2}).encode()  # fmt: skip


def test_the_server_reads_files(report, tmp_path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from arr_coc import Eye
    from arr_coc.app.serve.api import Engine, build_api

    eye = Eye.from_pretrained(str(save_stock(tmp_path / "stock")))
    eye.engine.name = "tiny"
    Image.new("RGB", (96, 64), "white").save(tmp_path / "a.png")
    data = base64.b64encode((tmp_path / "a.png").read_bytes()).decode()
    shown = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
    with TestClient(build_api(Engine(eye)), base_url="http://127.0.0.1") as client:
        headers = {"Content-Type": "application/json"}
        said = client.post("/v1/chat/completions", content=body(report, shown, budget=40, total=True), headers=headers)
        told = said.json()["arr_coc"]
        assert told["tokens"] == 40
        assert 3 in told["pages"]
        assert "warnings" not in told
        few = client.post("/v1/chat/completions", content=body(report, budget=6), headers=headers).json()["arr_coc"]
        assert any(line.startswith("without a token: page") for line in few["warnings"])
        for own, words in (({"words": []}, "documents"), ({"total": 3}, "total must be")):
            refused = client.post("/v1/chat/completions", content=body(report, **own), headers=headers)
            assert refused.status_code == 400
            assert words in refused.json()["error"]["message"]
        broken = report.with_name("broken.pdf")
        broken.write_bytes(report.read_bytes()[:70])
        assert client.post("/v1/chat/completions", content=body(broken), headers=headers).status_code == 400


def test_limits_hold_before_work(report) -> None:
    from arr_coc.app.serve.chat import read_chat
    from arr_coc.app.web import Limits

    with pytest.raises(InputError, match="5 pages; send at most 2"):
        read_chat(body(report), "tiny", Limits(pages=2))
