"""The tab that shows what an API will see: the files hold what is shown, and the lines make it again."""

from __future__ import annotations

import base64
import io
import json
import zipfile
from dataclasses import replace

import pytest
from PIL import Image

from arr_coc.app.microscope.api_tab import APIS, show_packed, zip_file
from arr_coc.app.microscope.kit import json_file, png_file
from arr_coc.app.microscope.linking import PageState, read_link
from arr_coc.core.errors import InputError


def test_what_the_api_will_see(desk, tmp_path, monkeypatch):
    name = "needle:cards:1"
    source = desk.source(name)
    state = PageState(tab="api", picture=name, q=source.questions[0][0], model="mini", api="claude", keep=30.0)
    shown = show_packed(desk, str(source.path), state)
    packed = shown.kept
    assert packed.tokens <= 0.3 * packed.full
    assert f"{packed.tokens} of {packed.full}" in shown.html
    document = json.loads(zip_document := json_file(shown))
    assert json.loads(base64.b64decode(document["data"]))["tokens"] == packed.tokens
    assert zip_document
    assert Image.open(io.BytesIO(base64.b64decode(json.loads(png_file(shown))["data"]))).width > 100
    archive = zipfile.ZipFile(io.BytesIO(base64.b64decode(json.loads(zip_file(shown))["data"])))
    told = json.loads(archive.read("pack.json"))
    assert [one["file"] for one in told["pictures"]] == archive.namelist()[:-1]
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(compile(shown.lines, "exported", "exec"), names)
    assert names["packed"].to_json() == packed.to_json()
    assert (tmp_path / "packed" / "pack.json").exists()
    assert read_link({"tab": "api", "api": "claude", "drawn": "collage"})[0].drawn == "collage"
    with pytest.raises(InputError, match="question is empty"):
        show_packed(desk, str(source.path), replace(state, q=" "))
    with pytest.raises(InputError, match="there is nothing to export"):
        zip_file(None)


def test_every_table_is_offered():
    assert {"gpt-4o", "qwen3-vl", "gemini"} <= set(APIS)
