"""`arr-coc serve`, `proxy`, `mcp` and `microscope`: the commands that start servers."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from ...core.values import JsonObject
from .inputs import check_model
from .options import Choices, Model, Record, with_options

if TYPE_CHECKING:
    from ..web import Application


# Units of limits on the command line: megabytes and megapixels.
UNITS = {"upload": 2**20, "cache": 2**20, "pixels": 1e6}


class Place(NamedTuple):
    """The address of a server. secret: the key or password that clients must send."""

    host: str
    port: int
    secret: str | None

    def serve(self, application: Application, words: Callable[[str], str], log: str = "", grace: int = 2) -> None:
        """Serve until interrupted. words: the line to print once it listens. log: the logger of requests."""
        from ..web import run

        if log:
            logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
            logging.getLogger(log).setLevel(logging.INFO)
        with suppress(KeyboardInterrupt):  # all requests have been answered by then
            run(application, self.host, self.port, lambda at: print(f"{words(at)} (Ctrl-C ends it)", flush=True), grace)


@dataclass(frozen=True, kw_only=True)
class Listening:
    """The address and the limits of a server."""

    bind: Annotated[
        str | None,
        typer.Option(metavar="[HOST:]PORT", help="Address to listen on; any but this machine's own needs a secret."),
    ] = None
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=NUMBER", help="Change a limit, such as queue=16 or upload=8; may be repeated."),
    ] = None

    def place(self, usual: int, kind: str = "key", variable: str = "ARR_COC_API_KEY") -> Place:
        """Return the address. usual: the default port. The secret comes from the environment, because other users can
        read a command line."""
        from ..web import check_exposure

        host, _, port = (self.bind or str(usual)).rpartition(":")
        if not port.isdigit() or int(port) > 65535:
            raise InputError(f"--bind {self.bind} is not [HOST:]PORT; write, for example, 127.0.0.1:{usual}")
        secret = os.environ.get(variable) or None
        check_exposure(host or "127.0.0.1", secret, kind, variable)
        return Place(host or "127.0.0.1", int(port), secret)

    def limits(self, known: tuple[str, ...]) -> JsonObject:
        """Parse `--limit NAME=NUMBER`. known: the names that the command accepts."""
        limits = {}
        for text in self.limit or ():
            name, _, value = text.partition("=")
            if name not in known:
                raise InputError(f"--limit {text} is unknown; choose from {', '.join(known)}")
            try:
                number = float(value) * UNITS.get(name, 1)
            except ValueError:
                raise InputError(f"--limit {text} is not a number; write it like --limit {name}=8") from None
            limits[name] = number if name.endswith("seconds") or not math.isfinite(number) else int(number)
        return limits


@dataclass(frozen=True, kw_only=True)
class ServeCommand(Listening, Choices):
    """Options of `arr-coc serve`."""

    model: Model = MINI
    record: Record = None


@with_options(ServeCommand)
def serve(given: ServeCommand) -> None:
    """Run an OpenAI-compatible server: POST /v1/chat/completions, GET /v1/models, /health, /metrics.

    A request may have a field arr_coc with budget, query, relevance, strategy, words, allocation, want. The answer has
    a field arr_coc with tokens, full, uncertainty, seconds. Pictures are sent as data: URLs. By default only this
    machine can reach the server; for others set the variable ARR_COC_API_KEY to a key, which clients must send.
    Limits: upload (megabytes), pixels (megapixels), pictures, pages, new_tokens, max_budget, queue, batch, seconds.
    Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc serve
      arr-coc serve --model ./my-qwen3-vl --set device=cuda --budget 256 --limit max_budget=1024
      arr-coc serve --set relevance=my-scorer --record asked.jsonl
      ARR_COC_API_KEY=… arr-coc serve --bind 0.0.0.0:8000
    """
    from ..web import LIMITS, Limits

    place, limits = given.place(8000), Limits(**given.limits(LIMITS))
    options = given.options.default(relevance="auto")
    check_model(given.model)
    from ...asking import loaded_or_light
    from ..serve.api import GRACE, build_api
    from ..serve.engine import Engine, QuickEngine

    eye = loaded_or_light(given.model, options.device, relevance=options.relevance, record=given.record)
    engine = (Engine if hasattr(eye.engine, "model") else QuickEngine)(eye, limits)
    api = build_api(engine, host=place.host, key=place.secret, budget=options.budget)
    place.serve(api, lambda at: f"{given.model} answers at {at}v1", "arr_coc.serve", GRACE)


@dataclass(frozen=True, kw_only=True)
class ProxyCommand(Listening, Choices):
    """Options of `arr-coc proxy`."""

    upstream: Annotated[str, typer.Option(help="The API to forward to, such as https://api.openai.com.")]
    model: Annotated[
        str | None, typer.Option("--for", help="Count tokens as this model does if that of a request is unknown.")
    ] = None
    fade: Annotated[
        int | None, typer.Option(min=1, help="Keep this many of the latest pictures sharp; older ones get a quarter.")
    ] = None


@with_options(ProxyCommand)
def proxy(given: ProxyCommand) -> None:
    """Run a proxy that makes the pictures sent to an API cheaper. Point your client at its address.

    Pictures and PDFs are reduced to the budget, guided by the question of the request; all else passes unchanged.
    Understands requests of OpenAI (chat, responses), Anthropic and Gemini, also those sent to Ollama or vLLM. Prompt
    caches stay valid, clicks of computer tools land where they should, and keys are passed on, never stored.

    A client may set a budget by the header x-arr-coc-budget: 400, or turn packing off by x-arr-coc: off. If packing
    fails, the request is forwarded unchanged, and the header x-arr-coc-fallback of the answer says why. By default only
    this machine can reach the proxy. With another host in --bind, set ARR_COC_API_KEY; clients send it as
    x-arr-coc-key. GET /metrics and /health are served, too. Limits: upload and cache (megabytes), pixels (megapixels),
    pictures, batch, queue, seconds, look_seconds. Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc proxy --upstream https://api.openai.com --budget 400
      arr-coc proxy --upstream https://api.anthropic.com --budget 25%
      arr-coc proxy --upstream http://127.0.0.1:11434 --for qwen2.5-vl
    """
    from ...looking import check_relevance
    from ..proxy.packer import LIMITS, ProxyLimits, ProxySettings

    place = given.place(8010)
    options = given.options.default(relevance="auto", budget=0.25)
    check_relevance(options.relevance)
    limits = ProxyLimits(**given.limits(LIMITS))
    settings = ProxySettings(given.upstream, given.model, options, given.fade, limits)
    from ..proxy.api import GRACE, build_proxy

    # The proxy already logs an answer that breaks off.
    logging.getLogger("uvicorn.error").addFilter(lambda one: "without completing" not in one.getMessage())
    api = build_proxy(settings, host=place.host, key=place.secret)
    place.serve(api, lambda at: f"{at} is a proxy for {given.upstream}", "arr_coc.proxy", GRACE)


@dataclass(frozen=True, kw_only=True)
class McpCommand(Listening):
    """Options of `arr-coc mcp`."""

    root: Annotated[Path, typer.Option(help="Folder whose files the tools may read.")] = Path(".")
    model: Annotated[str, typer.Option("--for", help="Count tokens as this model does, such as gpt-4o.")] = "claude"


@with_options(McpCommand)
def mcp(given: McpCommand) -> None:
    """Run a Model Context Protocol server with three tools for agents: look_closer, ask_document and picture_cost.

    Agents start this command themselves and talk to it on standard input and output. With --bind it serves HTTP at
    /mcp instead; a host other than this machine needs a key in ARR_COC_API_KEY. Only files below --root are read.
    Limits: upload (megabytes), pixels (megapixels), pages, seconds. Needs 'arr-coc[mcp]'.

    \b
    Examples:
      arr-coc mcp --root ~/scans
      arr-coc mcp --root . --for gpt-4o --bind 8020
    """
    if not given.root.is_dir():
        raise InputError(f"--root {given.root} is not a folder; give one with pictures or PDFs")
    from ..mcp import LIMITS, build_http, build_server
    from ..web import Limits

    limits = Limits(**given.limits(LIMITS))
    server = build_server(given.root, given.model, limits)
    if given.bind is None:
        return server.run("stdio")
    place = given.place(8020)
    api = build_http(server, limits, place.host, place.secret)
    return place.serve(api, lambda at: f"Tools for agents at {at}mcp", "arr_coc.mcp")


@dataclass(frozen=True, kw_only=True)
class MicroscopeCommand(Listening, Choices):
    """Options of `arr-coc microscope`."""

    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", metavar="MODEL", help="Model to offer; may be repeated. [default: mini]"),
    ] = None


@with_options(MicroscopeCommand)
def microscope(given: MicroscopeCommand) -> None:
    """Open a web page that shows what the library sees, decides and answers, for pictures, documents and clips.

    By default only this machine can reach it. For other hosts set the variable ARR_COC_PASSWORD; visitors then sign in
    with the name arr-coc and that password. Nothing is sent to the internet. Limits: upload (megabytes), pixels
    (megapixels), queue. Needs 'arr-coc[microscope]'.

    \b
    Examples:
      arr-coc microscope
      arr-coc microscope --bind 0
      arr-coc microscope --model mini --model ./my-qwen3-vl
      ARR_COC_PASSWORD=… arr-coc microscope --bind 0.0.0.0:7860
    """
    from ..microscope.desk import LIMITS, SECRET, Desk, PageLimits

    place, limits = given.place(7860, *SECRET), PageLimits(**given.limits(LIMITS))
    options, models = given.options, tuple(given.model or [MINI])
    for name in models:
        check_model(name)
    from ..microscope.serving import build_app, keep_swept

    desk = Desk(models, options)
    with keep_swept(desk):
        application = build_app(desk, host=place.host, password=place.secret, limits=limits)
        desk.warm_up()
        place.serve(application, lambda at: f"The microscope is at {at}")
