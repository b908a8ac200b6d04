"""The tools for agents, by the official client: on standard input and output, and over HTTP."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from proxy_parts import running

pytest.importorskip("mcp", reason="mcp is not installed: pip install 'arr-coc[mcp]'")
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

EXAMPLES = Path(__file__).parents[2] / "src" / "arr_coc" / "examples"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    outside = tmp_path_factory.mktemp("desk")
    folder = outside / "root"
    folder.mkdir()
    shutil.copy(EXAMPLES / "receipt.png", folder / "receipt.png")
    shutil.copy(EXAMPLES / "receipt.png", outside / "secret.png")
    (folder / "way-out.png").symlink_to(outside / "secret.png")
    sheets = [Image.open(EXAMPLES / f"{name}.png").convert("RGB") for name in ("form", "receipt", "chart")]
    sheets[0].save(folder / "three.pdf", save_all=True, append_images=sheets[1:])
    return folder


def test_tools_on_standard_input(root: Path) -> None:
    asyncio.run(use_stdio(root))


async def use_stdio(root: Path) -> None:
    arguments = ["-m", "arr_coc", "mcp", "--root", str(root), "--limit", "pages=2"]
    steps: list[tuple[float, str | None]] = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        steps.append((done, message))

    async with Client(
        stdio_client(StdioServerParameters(command=sys.executable, args=arguments, env=dict(os.environ)))
    ) as client:
        tools = (await client.list_tools()).tools
        assert [one.name for one in tools] == ["look_closer", "ask_document", "picture_cost"]
        assert tools[0].input_schema["required"] == ["path", "question"]
        asked = {"path": "receipt.png", "question": "What is the total?", "budget": 200}
        seen = await client.call_tool("look_closer", asked, progress_callback=progress)
        assert not seen.is_error
        spent, full = map(int, re.findall(r"(\d+) of (\d+) tokens", text_of(seen))[0])
        assert spent <= 200 < full
        pictures = [one for one in seen.content if one.type == "image"]
        boxes = re.findall(r"Picture \d+: page 1, box \[(\d+), (\d+), (\d+), (\d+)\]", text_of(seen))
        assert len(pictures) == len(boxes) >= 2
        size = Image.open(root / "receipt.png").size
        assert all(int(x0) < int(x1) <= size[0] and int(y0) < int(y1) <= size[1] for x0, y0, x1, y1 in boxes)
        assert Image.open(io.BytesIO(base64.b64decode(pictures[0].data))).size < size
        assert steps == [(0, "looking at receipt.png"), (1, "done")]
        cost = text_of(await client.call_tool("picture_cost", {"path": "receipt.png", "model": "gpt-4o"}))
        assert re.match(r"\d+ tokens for gpt-4o", cost)
        for path in ("../secret.png", "way-out.png", "/etc/passwd", "none.png", "", "a\0", "x" * 5000):
            refused = await client.call_tool("look_closer", {**asked, "path": path})
            assert refused.is_error
            assert "is not a file below" in text_of(refused)
        assert "3 pages, more than 2" in text_of(await client.call_tool("look_closer", {**asked, "path": "three.pdf"}))
        assert "budget" in text_of(await client.call_tool("look_closer", {**asked, "budget": -1}))


def text_of(result: Any) -> str:
    return next(one.text for one in result.content if one.type == "text")


def test_tools_over_http(root: Path) -> None:
    from arr_coc.app.mcp import build_http, build_server
    from arr_coc.app.web import Limits

    async def use(address: str) -> tuple[str, Any]:
        async with Client(f"{address}/mcp") as client:
            asked = {"path": "receipt.png", "question": "What is the total?"}
            document = await client.call_tool("look_closer", {**asked, "path": "three.pdf", "budget": 60})
            whole = await client.call_tool("look_closer", {**asked, "path": "three.pdf", "budget": 9000})
            assert [one.mime_type for one in whole.content[1:]] == ["image/png"] * 3
            return text_of(await client.call_tool("ask_document", asked)), document

    server = build_server(root, "qwen3-vl", Limits())
    with running(build_http(server, Limits())) as address:
        answer, document = asyncio.run(use(address))
    assert "uncertainty:" in answer
    assert re.search(r"\d+ of \d+ tokens", text_of(document))
    assert "not shown as pictures" in text_of(document)
