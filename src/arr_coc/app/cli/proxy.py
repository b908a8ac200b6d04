"""`arr-coc proxy`: in front of any API, with pictures packed by the question beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated

import typer

from .inputs import check_packages
from .options import AllowMedia, Listening, OwnTables, Port, Relevance, Scale, api_key, limits_of, with_options


@dataclass(frozen=True, kw_only=True)
class ProxyCommand(Listening):
    """What a proxy is started with."""

    upstream: Annotated[str, typer.Option(help="Where requests go: https://api.openai.com, http://127.0.0.1:11434, …")]
    budget: Annotated[
        str, typer.Option(help="Tokens of a picture, as its model counts, or a share; x-arr-coc-budget is another.")
    ] = "25%"
    model: Annotated[
        str | None, typer.Option("--for", help="How pictures are counted for models that no table knows.")
    ] = None
    own: OwnTables = None
    scale: Scale = None
    relevance: Relevance = "auto"
    allow_media: AllowMedia = None
    port: Port = 8010


@with_options(ProxyCommand)
def command(options: ProxyCommand) -> None:
    """Stand in front of an API: pictures are packed to a budget, everything else goes through as it is.

    Knows OpenAI's /v1/chat/completions and /v1/responses and Anthropic's /v1/messages, also where Ollama or vLLM speak
    them. Keys are passed on, never kept or logged. Answers stream through byte for byte. Where packing fails, the
    request goes on with its own pictures, and the header x-arr-coc-fallback says why. Clients may send
    x-arr-coc-budget: 400, or x-arr-coc: off. Also here: POST /v1/tokens, GET /v1/savings, /metrics, /health. Limits:
    upload and cache (megabytes), pixels (megapixels), pictures, batch, queue, seconds, look_seconds. Another --host
    needs a key in ARR_COC_API_KEY, which clients send as x-arr-coc-key. Needs 'arr-coc[proxy]'.

    \b
    Examples:
      arr-coc proxy --upstream https://api.openai.com --budget 400
      arr-coc proxy --upstream https://api.anthropic.com --budget 25%
      arr-coc proxy --upstream http://127.0.0.1:11434 --for qwen2.5-vl
    """
    check_packages("proxy", "fastapi", "uvicorn", "prometheus_client", "httpx")
    from ...looking import check_relevance
    from ...packing.prices.tables import load_tables
    from ..proxy.settings import LIMITS, ProxySettings, proxy_limits
    from ..web import Origins, check_exposure

    key = api_key()
    check_exposure(options.host, key)
    Origins(options.origins)
    check_relevance(options.relevance)
    given = limits_of(options.limit, LIMITS)
    own = {name: given.pop(name) for name in ("cache", "look_seconds") if name in given}
    settings = ProxySettings(
        options.upstream,
        options.budget,
        options.model,
        load_tables(options.own),
        scale=options.scale or "auto",
        relevance=options.relevance,
        media=tuple(options.allow_media or ()),
        limits=proxy_limits(**given),
        **own,
    )
    from ..proxy.api import run_proxy

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.proxy").setLevel(logging.INFO)

    def ready(address: str) -> None:
        print(f"{address} stands in front of {options.upstream} (Ctrl-C ends it)", flush=True)

    run_proxy(settings, host=options.host, port=options.port, key=key, origins=options.origins, ready=ready)
