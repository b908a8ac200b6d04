"""`arr-coc proxy`: in front of any API, with pictures packed by the question that stands beside them."""

from __future__ import annotations

import logging
import os
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer

from ...core.errors import InputError
from .options import DrawnGrip, DrawnScale

PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "httpx")


def command(
    upstream: Annotated[str, typer.Option(help="Where requests go: https://api.openai.com, http://127.0.0.1:11434, …")],
    budget: Annotated[
        str, typer.Option(help="Tokens of a picture, as its model counts, or a share; x-arr-coc-budget is another.")
    ] = "25%",
    model: Annotated[
        str | None, typer.Option("--for", help="How pictures are counted for models that no table knows.")
    ] = None,
    own: Annotated[
        Path | None,
        typer.Option(
            "--table", metavar="FILE.toml", help="Your own token tables; they count before the built-in ones."
        ),
    ] = None,
    layout: Annotated[str, typer.Option(help="auto, crops, collage or overview.")] = "auto",
    crops: Annotated[int, typer.Option(help="The most parts that are enlarged, 1 to 3.")] = 3,
    scale: DrawnScale = "auto",
    grip: DrawnGrip = None,
    kind: Annotated[str, typer.Option("--format", help="auto, png, jpeg or webp.")] = "auto",
    text: Annotated[bool, typer.Option(help="A line before packed pictures that says what they show.")] = True,
    question: Annotated[
        str, typer.Option(help="Whose text decides: last (the user's last), or beside (in the picture's message).")
    ] = "last",
    price: Annotated[
        float | None, typer.Option(help="Price of a million input tokens: the money saved is shown too.")
    ] = None,
    port: Annotated[int, typer.Option(help="Port to listen on; 0 takes any that is free.")] = 8010,
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a key.")] = "127.0.0.1",
    api_key: Annotated[
        str | None, typer.Option(help="Clients must send it in x-arr-coc-key; better set ARR_COC_API_KEY.")
    ] = None,
    allow_media: Annotated[
        list[str] | None, typer.Option(help="A host that pictures may be fetched from; may be repeated.")
    ] = None,
    allow_origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may ask; may be repeated.")] = None,
    cache: Annotated[float, typer.Option(help="Packed pictures that are kept, in megabytes.")] = 256,
    upload: Annotated[float, typer.Option(help="Largest request, in megabytes; others get 413.")] = 64,
    pixels: Annotated[float, typer.Option(help="Larger pictures, in megapixels, are passed on unchanged.")] = 60,
    pictures: Annotated[int, typer.Option(help="Requests with more pictures are passed on unchanged.")] = 32,
    workers: Annotated[int, typer.Option(help="Pictures that are packed at once.")] = 2,
    queue: Annotated[int, typer.Option(help="Requests that may be open; others get 429.")] = 256,
    look_seconds: Annotated[
        float, typer.Option(help="A picture that takes longer to pack is passed on unchanged.")
    ] = 30,
    seconds: Annotated[float, typer.Option(help="Longest silence of the upstream; then 504.")] = 600,
    relevance: Annotated[str, typer.Option(help="As for arr-coc look.")] = "auto",
) -> None:
    """Stand in front of an API: pictures are packed to a budget, everything else goes through as it is.

    Knows OpenAI's /v1/chat/completions and /v1/responses, Anthropic's /v1/messages, Ollama's /api/chat. Keys are passed
    on, never kept or logged. Answers stream through byte for byte. Where packing fails, the request goes on with its
    own pictures, and the header x-arr-coc-fallback says why. Clients may send x-arr-coc-budget: 400, or x-arr-coc: off.
    Also here:
    POST /v1/tokens, GET /v1/savings, /metrics, /health. Needs 'arr-coc[proxy]'.

    \b
    Examples:
      arr-coc proxy --upstream https://api.openai.com --budget 400 --price 2.50
      arr-coc proxy --upstream https://api.anthropic.com --budget 25%
      arr-coc proxy --upstream http://127.0.0.1:11434 --for qwen2.5-vl
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(f"arr-coc proxy needs {', '.join(missing)}; install: pip install 'arr-coc[proxy]'")
    from ...pricing.tables import load_tables
    from ...relevance.registry import check_relevance
    from ..proxy.settings import ProxySettings
    from ..serve.limits import Limits, check_exposure
    from ..web import Origins, whole_units
    from .microscope import check_port

    check_port(port)
    key = api_key or os.environ.get("ARR_COC_API_KEY") or None
    check_exposure(host, key)
    Origins(allow_origin or ())
    check_relevance(relevance)
    sizes: dict[str, Any] = {"upload": whole_units(upload, 2**20, "--upload"), "pictures": pictures, "queue": queue}
    sizes |= {"pixels": whole_units(pixels, 1e6, "--pixels"), "batch": workers, "seconds": seconds}
    how: dict[str, Any] = {"layout": layout, "crops": crops, "scale": scale, "grip": grip, "kind": kind, "text": text}
    how |= {"question": question, "price": price, "media": tuple(allow_media or ()), "relevance": relevance}
    settings = ProxySettings(
        upstream,
        budget,
        model,
        load_tables(own),
        cache=whole_units(cache, 2**20, "--cache") if cache else 0,
        look_seconds=look_seconds,
        seconds=seconds,
        limits=Limits(**sizes),
        **how,
    )
    from ..proxy.api import run_proxy

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.proxy").setLevel(logging.INFO)

    def ready(address: str) -> None:
        print(f"{address} stands in front of {upstream} (Ctrl-C ends it)", flush=True)

    run_proxy(settings, host=host, port=port, key=key, origins=allow_origin or (), ready=ready)
