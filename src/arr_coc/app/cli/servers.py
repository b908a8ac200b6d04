"""`arr-coc serve`, `proxy`, `mcp` and `microscope`: the commands that listen."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from .inputs import check_model, check_packages, check_record
from .options import Choices, Listening, Model, Record, limits_of, with_options


def secret(variable: str) -> str | None:
    """A secret of the environment, because other users can read a command line."""
    return os.environ.get(variable) or None


def log_requests(name: str) -> None:
    """One line on the standard error for each request."""
    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger(name).setLevel(logging.INFO)


def announce(words: str) -> None:
    """Print where a server is, once it is there."""
    print(f"{words} (Ctrl-C ends it)", flush=True)


@dataclass(frozen=True, kw_only=True)
class ServeCommand(Listening, Choices):
    """What a server is started with."""

    model: Model = MINI
    record: Record = None


@with_options(ServeCommand)
def serve(given: ServeCommand) -> None:
    """Answer OpenAI clients: POST /v1/chat/completions, GET /v1/models, /health, /metrics.

    A request may carry a field arr_coc with budget, query, relevance, strategy, words, allocation, want. The answer
    has a field arr_coc with tokens, full, uncertainty, seconds. Pictures come as data: URLs. The server can be reached
    from this machine only; another host needs a key in the variable ARR_COC_API_KEY, which clients must send.
    Limits: upload (megabytes), pixels (megapixels), pictures, pages, new_tokens, max_budget, queue, batch, seconds.
    Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc serve
      arr-coc serve --model ./my-qwen3-vl --set device=cuda --budget 256 --limit max_budget=1024
      arr-coc serve --set relevance=my-scorer --record asked.jsonl
      ARR_COC_API_KEY=… arr-coc serve --bind 0.0.0.0:8000
    """
    check_packages("serve", "fastapi", "uvicorn", "prometheus_client")
    from ..web import LIMITS, Limits, check_exposure

    key, (host, port) = secret("ARR_COC_API_KEY"), given.address(8000)
    check_exposure(host, key)
    limits, options = Limits(**limits_of(given.limit, LIMITS)), given.options
    check_record(given.record)
    check_model(given.model)
    from ..serve.api import serve as run

    log_requests("arr_coc.serve")
    run(
        given.model,
        host=host,
        port=port,
        key=key,
        limits=limits,
        record=given.record,
        options=options,
        ready=lambda address: announce(f"{given.model} answers at {address}v1"),
    )


@dataclass(frozen=True, kw_only=True)
class ProxyCommand(Listening, Choices):
    """What a proxy is started with."""

    upstream: Annotated[str, typer.Option(help="Where requests go: https://api.openai.com, http://127.0.0.1:11434, …")]
    model: Annotated[
        str | None, typer.Option("--for", help="How pictures are counted for models that no table knows.")
    ] = None
    fade: Annotated[
        int | None, typer.Option(min=1, help="Pictures of a conversation that stay sharp; older ones cost a quarter.")
    ] = None


@with_options(ProxyCommand)
def proxy(given: ProxyCommand) -> None:
    """Stand in front of an API: pictures are packed to a budget, everything else goes through as it is.

    Knows OpenAI's /v1/chat/completions and /v1/responses, Anthropic's /v1/messages and Gemini's generateContent, also
    where Ollama or vLLM speak them. Pictures keep their bytes for the rest of a conversation, so that prompt caches
    hold. Keys are passed on, never kept or logged. Answers stream through byte for byte, but for coordinates of tools
    that point, which are translated. Where packing fails, the request goes on with its own pictures, and the header
    x-arr-coc-fallback says why. Clients may send
    x-arr-coc-budget: 400, or x-arr-coc: off. Also here: GET /metrics, /health. Limits:
    upload and cache (megabytes), pixels (megapixels), pictures, batch, queue, seconds, look_seconds. Another host
    needs a key in ARR_COC_API_KEY, which clients send as x-arr-coc-key. Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc proxy --upstream https://api.openai.com --budget 400
      arr-coc proxy --upstream https://api.anthropic.com --budget 25%
      arr-coc proxy --upstream http://127.0.0.1:11434 --for qwen2.5-vl
    """
    check_packages("serve", "fastapi", "uvicorn", "prometheus_client", "httpx")
    from ...looking import check_relevance
    from ..proxy.packer import LIMITS, ProxySettings, proxy_limits
    from ..web import check_exposure

    key, (host, port) = secret("ARR_COC_API_KEY"), given.address(8010)
    check_exposure(host, key)
    options = given.options.default(relevance="auto", budget=0.25)
    check_relevance(options.relevance)
    limits = limits_of(given.limit, LIMITS)
    own = {name: limits.pop(name) for name in ("cache", "look_seconds") if name in limits}
    settings = ProxySettings(
        given.upstream,
        given.model,
        options=options,
        fade=given.fade,
        limits=proxy_limits(**limits),
        **own,
    )
    from ..proxy.api import run_proxy

    log_requests("arr_coc.proxy")
    run_proxy(
        settings,
        host=host,
        port=port,
        key=key,
        ready=lambda address: announce(f"{address} stands in front of {given.upstream}"),
    )


@dataclass(frozen=True, kw_only=True)
class McpCommand(Listening):
    """What the tools of an agent are started with."""

    root: Annotated[Path, typer.Option(help="The folder whose files may be read; nothing outside it.")] = Path(".")
    model: Annotated[str, typer.Option("--for", help="Whose visual tokens are counted.")] = "claude"


@with_options(McpCommand)
def mcp(given: McpCommand) -> None:
    """Tools for agents, by the Model Context Protocol: look_closer, ask_document and picture_cost.

    They speak on standard input and output. With --bind they are reached over HTTP at /mcp, from this machine only;
    another host needs a key in ARR_COC_API_KEY. Only files below --root are read. Limits: upload (megabytes), pixels
    (megapixels), pages, seconds. Needs 'arr-coc[mcp]'.

    \b
    Examples:
      arr-coc mcp --root ~/scans
      arr-coc mcp --root . --for gpt-4o --bind 8020
    """
    check_packages("mcp", "mcp")
    if not given.root.is_dir():
        raise InputError(f"--root {given.root} is no folder; give one that holds pictures or PDFs")
    from ..mcp import LIMITS, PORT, build_http, build_server
    from ..web import Limits, run

    limits = Limits(**limits_of(given.limit, LIMITS))
    server = build_server(given.root, given.model, limits)
    if given.bind is None:
        return server.run("stdio")
    key, (host, port) = secret("ARR_COC_API_KEY"), given.address(PORT)
    log_requests("arr_coc.mcp")
    return run(build_http(server, limits, host, key), host, port, lambda at: announce(f"Tools for agents at {at}mcp"))


@dataclass(frozen=True, kw_only=True)
class MicroscopeCommand(Listening, Choices):
    """What the page is started with."""

    model: Annotated[
        list[str] | None,
        typer.Option("--model", "-m", help="A model that visitors may choose; may be repeated. [default: mini]"),
    ] = None


@with_options(MicroscopeCommand)
def microscope(given: MicroscopeCommand) -> None:
    """A web page that shows what the library sees, decides and answers, for pictures, documents and clips.

    It can be reached from this machine only. Another host needs a password in the variable ARR_COC_PASSWORD;
    visitors are then asked for the name arr-coc and that password. Nothing is sent anywhere. Limits: upload
    (megabytes), pixels (megapixels), queue. Needs 'arr-coc[microscope]'.

    \b
    Examples:
      arr-coc microscope
      arr-coc microscope --bind 0
      arr-coc microscope --model mini --model ./my-qwen3-vl
      ARR_COC_PASSWORD=… arr-coc microscope --bind 0.0.0.0:7860
    """
    from ..microscope.desk import LIMITS, SECRET, PageLimits
    from ..web import check_exposure

    password, (host, port) = secret("ARR_COC_PASSWORD"), given.address(7860)
    check_exposure(host, password, *SECRET)
    limits, options = PageLimits(**limits_of(given.limit, LIMITS)), given.options
    for name in given.model or ():
        check_model(name)
    check_packages("microscope", "gradio")
    from ..microscope.serving import serve as run

    run(
        tuple(given.model or [MINI]),
        host=host,
        port=port,
        password=password,
        limits=limits,
        options=options,
        ready=lambda address: announce(f"The microscope is at {address}"),
    )
