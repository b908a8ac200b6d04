"""`arr-coc proxy`: in front of any API, with pictures packed by the question that stands beside them."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Annotated

import typer

from ...core.errors import InputError
from .options import AsLook, Crops, DrawnGrip, DrawnScale, OwnTables, PictureFormat, Port, with_options

PACKAGES = ("fastapi", "uvicorn", "prometheus_client", "httpx")


@dataclass(frozen=True)
class ProxyCommand:
    """What a proxy is started with."""

    upstream: Annotated[str, typer.Option(help="Where requests go: https://api.openai.com, http://127.0.0.1:11434, …")]
    budget: Annotated[
        str, typer.Option(help="Tokens of a picture, as its model counts, or a share; x-arr-coc-budget is another.")
    ] = "25%"
    model: Annotated[
        str | None, typer.Option("--for", help="How pictures are counted for models that no table knows.")
    ] = None
    own: OwnTables = None
    layout: Annotated[str, typer.Option(help="auto, crops, collage or overview.")] = "auto"
    crops: Crops = 3
    scale: DrawnScale = "auto"
    grip: DrawnGrip = None
    kind: PictureFormat = "auto"
    text: Annotated[bool, typer.Option(help="A line before packed pictures that says what they show.")] = True
    question: Annotated[
        str, typer.Option(help="Whose text decides: last (the user's last), or beside (in the picture's message).")
    ] = "last"
    price: Annotated[
        float | None, typer.Option(help="Price of a million input tokens: the money saved is shown too.")
    ] = None
    port: Port = 8010
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a key.")] = "127.0.0.1"
    api_key: Annotated[
        str | None, typer.Option(help="Clients must send it in x-arr-coc-key; better set ARR_COC_API_KEY.")
    ] = None
    allow_media: Annotated[
        list[str] | None, typer.Option(help="A host that pictures may be fetched from; may be repeated.")
    ] = None
    allow_origin: Annotated[list[str] | None, typer.Option(help="A site whose pages may ask; may be repeated.")] = None
    cache: Annotated[float, typer.Option(help="Packed pictures that are kept, in megabytes.")] = 256
    upload: Annotated[float, typer.Option(help="Largest request, in megabytes; others get 413.")] = 64
    pixels: Annotated[float, typer.Option(help="Larger pictures, in megapixels, are passed on unchanged.")] = 60
    pictures: Annotated[int, typer.Option(help="Requests with more pictures are passed on unchanged.")] = 32
    workers: Annotated[int, typer.Option(help="Pictures that are packed at once.")] = 2
    queue: Annotated[int, typer.Option(help="Requests that may be open; others get 429.")] = 256
    look_seconds: Annotated[float, typer.Option(help="A picture that takes longer to pack is passed on unchanged.")] = (
        30
    )
    seconds: Annotated[float, typer.Option(help="Longest silence of the upstream; then 504.")] = 600
    relevance: AsLook = "auto"


@with_options(ProxyCommand)
def command(options: ProxyCommand) -> None:
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
    from ...knowing.registry import check_relevance
    from ...packing.prices.tables import load_tables
    from ..proxy.settings import ProxySettings
    from ..serve.limits import Limits, check_exposure
    from ..web import Origins, whole_units
    from .microscope import check_port

    check_port(options.port)
    key = options.api_key or os.environ.get("ARR_COC_API_KEY") or None
    check_exposure(options.host, key)
    Origins(options.allow_origin or ())
    check_relevance(options.relevance)
    limits = Limits(
        upload=whole_units(options.upload, 2**20, "--upload"),
        pictures=options.pictures,
        queue=options.queue,
        pixels=whole_units(options.pixels, 1e6, "--pixels"),
        batch=options.workers,
        seconds=options.seconds,
    )
    settings = ProxySettings(
        options.upstream,
        options.budget,
        options.model,
        load_tables(options.own),
        cache=whole_units(options.cache, 2**20, "--cache") if options.cache else 0,
        look_seconds=options.look_seconds,
        seconds=options.seconds,
        limits=limits,
        layout=options.layout,
        crops=options.crops,
        scale=options.scale,
        grip=options.grip,
        kind=options.kind,
        text=options.text,
        question=options.question,
        price=options.price,
        media=tuple(options.allow_media or ()),
        relevance=options.relevance,
    )
    from ..proxy.api import run_proxy

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.proxy").setLevel(logging.INFO)

    def ready(address: str) -> None:
        print(f"{address} stands in front of {options.upstream} (Ctrl-C ends it)", flush=True)

    run_proxy(settings, host=options.host, port=options.port, key=key, origins=options.allow_origin or (), ready=ready)
