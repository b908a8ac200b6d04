"""`arr-coc mcp`: tools for agents by the Model Context Protocol, such as looking closer. Needs 'arr-coc[mcp]'."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Awaitable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mcp.server.mcpserver import Context, Image, MCPServer
from mcp.server.mcpserver.exceptions import ToolError

from .. import __version__, ask
from ..core.errors import InputError
from ..options import Options
from ..packing.packed import caption, encode
from ..packing.prices.tables import table_for
from ..pictures.document import Document
from . import web
from .proxy.packer import PAGES_SHOWN, PackedSlot, Packer, PackJob, ProxyLimits, ProxySettings
from .proxy.protocols import Slot

LIMITS = ("upload", "pixels", "pages", "seconds")
Result = TypeVar("Result")


class AgentTools:
    """The tools, which read files below one folder. model: tokens are counted as this model does."""

    def __init__(self, root: Path, model: str, limits: web.Limits) -> None:
        self.root, self.limits, self.table = root.resolve(strict=True), limits, table_for(model)
        # Nothing is sent to this address; only the packer of the proxy is used.
        own = ProxyLimits(**vars(limits), look_seconds=limits.seconds)
        self.packer = Packer(ProxySettings("http://127.0.0.1", limits=own))

    def find(self, path: str) -> Path:
        """Return a file below the root that is not too large."""
        found, there = self.root, False
        with suppress(OSError, ValueError):  # names that no file can have
            found = (self.root / path).resolve()
            there = found.is_relative_to(self.root) and found.is_file()
        if not there:
            raise ToolError(f"{path!r} is not a file below {self.root}; give the path of one inside that folder")
        if found.stat().st_size > self.limits.upload:
            raise ToolError(f"{path} has more than {self.limits.upload / 2**20:g} MB; make it smaller")
        return found

    async def look_closer(self, path: str, question: str, context: Context, budget: int = 800) -> list[str | Image]:
        """See what a question needs of a picture or PDF: a small overview, and the details at a readable size.

        Use it instead of reading a large screenshot, scan, chart or PDF whole. The text says where every picture lies
        in the original: [x0, y0, x1, y1] in its pixels. budget: visual tokens to spend, of a PDF on each page.
        """
        place = self.find(path)

        async def look() -> PackedSlot:
            data = place.read_bytes()
            media = "application/pdf" if b"%PDF-" in data[:1024] else "image/png"
            slot = Slot({}, [], question, f"data:{media};base64,{b64encode(data).decode()}")
            options = Options(budget=budget, relevance="auto")
            return await self.packer.packed(PackJob(slot, self.table, options, alone=False, crowd=4))

        made = await working(context, look(), f"looking at {place.name}")
        if made.reason:
            raise ToolError(made.reason)
        if not made.files:
            pages = Document.of(place).pages[:PAGES_SHOWN]
            drawing = self.packer.timed(lambda: [encode(one.draw().pixels) for one in pages])
            files = await working(context, drawing, f"drawing {place.name}")
            return [f"Shown whole: {made.full} tokens.", *(Image(data=one, format="png") for one in files)]
        lines = [caption(made.pictures, made.sizes), f"{made.spent} of {made.full} tokens."]
        for number, one in enumerate(made.pictures, 1):
            y, x, tall, wide = one.source
            lines.append(f"Picture {number}: page {one.page + 1}, box {[x, y, x + wide, y + tall]}.")
        return ["\n".join((*lines, *made.texts)), *(Image(data=one, format=kind[6:]) for one, kind in made.files)]

    async def ask_document(self, path: str, question: str, context: Context) -> str:
        """Answer a question about a picture or PDF on this machine, by a small model; nothing is sent anywhere.

        It reads short answers: a number, a name, a date. The answer says how unsure it is; check what is unsure.
        """
        place = self.find(path)
        work = self.packer.timed(lambda: ask(place, question))
        answer = await working(context, work, f"reading {place.name}")
        return f"{answer.text}\nuncertainty: {answer.uncertainty:.0%}{'; '.join(('', *answer.notes))}"

    async def picture_cost(self, path: str, context: Context, model: str | None = None) -> str:
        """Say what a picture or PDF costs in visual tokens before it is sent to a model, such as gpt-4o."""
        place = self.find(path)

        def count() -> str:
            table = self.table if model is None else table_for(model)
            tokens = sum(table.tokens(page.size) for page in Document.of(place))
            return f"{tokens} tokens for {table.name}, {table.as_told}"

        return await working(context, self.packer.timed(count), f"counting {place.name}")


async def working(context: Context, work: Awaitable[Result], words: str) -> Result:
    """Await a tool's work and report progress; raise `ToolError` for input that the agent can correct."""
    try:
        await context.report_progress(0, 1, words)
        found = await work
        await context.report_progress(1, 1, "done")
        return found
    except InputError as error:
        raise ToolError(str(error)) from None


def build_server(root: Path, model: str, limits: web.Limits) -> MCPServer:
    """Build a server of the official package `mcp` with these tools."""
    words = f"Pictures and PDFs below {root.resolve()} can be looked at for few tokens. Paths are relative to it."
    server = MCPServer("arr-coc", instructions=words, version=__version__, log_level="WARNING")
    tools = AgentTools(root, model, limits)
    for tool in (tools.look_closer, tools.ask_document, tools.picture_cost):
        server.tool(structured_output=False)(tool)
    return server


def build_http(server: MCPServer, limits: web.Limits, host: str = web.LOOPBACK, key: str | None = None) -> web.Guard:
    """Serve the tools over HTTP at /mcp, behind `web.Guard`."""
    guard = web.Guard(server.streamable_http_app(host=host), host, key, limits)
    guard.log = logging.getLogger("arr_coc.mcp")
    return guard
