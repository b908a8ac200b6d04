"""`arr-coc proxy`: in front of any API, with pictures packed by the question beside them."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Annotated

import typer

from .inputs import check_packages
from .options import AllowMedia, Choices, Listening, api_key, limits_of, with_options


@dataclass(frozen=True, kw_only=True)
class ProxyCommand(Listening, Choices):
    """What a proxy is started with."""

    upstream: Annotated[str, typer.Option(help="Where requests go: https://api.openai.com, http://127.0.0.1:11434, …")]
    model: Annotated[
        str | None, typer.Option("--for", help="How pictures are counted for models that no table knows.")
    ] = None
    allow_media: AllowMedia = None


@with_options(ProxyCommand)
def command(given: ProxyCommand) -> None:
    """Stand in front of an API: pictures are packed to a budget, everything else goes through as it is.

    Knows OpenAI's /v1/chat/completions and /v1/responses and Anthropic's /v1/messages, also where Ollama or vLLM speak
    them. Keys are passed on, never kept or logged. Answers stream through byte for byte. Where packing fails, the
    request goes on with its own pictures, and the header x-arr-coc-fallback says why. Clients may send
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

    key, (host, port) = api_key(), given.address(8010)
    check_exposure(host, key)
    options = given.options.default(relevance="auto", budget=0.25)
    check_relevance(options.relevance)
    limits = limits_of(given.limit, LIMITS)
    own = {name: limits.pop(name) for name in ("cache", "look_seconds") if name in limits}
    settings = ProxySettings(
        given.upstream,
        given.model,
        options=options,
        media=tuple(given.allow_media or ()),
        limits=proxy_limits(**limits),
        **own,
    )
    from ..proxy.api import run_proxy

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.proxy").setLevel(logging.INFO)

    def ready(address: str) -> None:
        print(f"{address} stands in front of {given.upstream} (Ctrl-C ends it)", flush=True)

    run_proxy(settings, host=host, port=port, key=key, ready=ready)
