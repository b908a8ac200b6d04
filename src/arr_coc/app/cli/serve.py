"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from ...core.errors import InputError
from .options import Device, Port, with_options

PACKAGES = ("fastapi", "uvicorn", "prometheus_client")


@dataclass(frozen=True)
class ServeCommand:
    """What a server is started with."""

    model: Annotated[str, typer.Option("--model", "-m", help="mini, a folder, or a name on the hub.")] = "mini"
    port: Port = 8000
    host: Annotated[str, typer.Option(help="Another address than this machine's own needs a key.")] = "127.0.0.1"
    api_key: Annotated[
        str | None, typer.Option(help="Clients must send it; better set ARR_COC_API_KEY, which nobody else can read.")
    ] = None
    budget: Annotated[
        str | None,
        typer.Option(help="Budget of requests that give none: tokens, or a share such as 25%. [default: 25%]"),
    ] = None
    max_budget: Annotated[
        int | None, typer.Option(help="Tokens that a picture may cost; larger budgets are lowered. [default: any]")
    ] = None
    allow_media: Annotated[
        list[str] | None,
        typer.Option(help="A host that pictures may be fetched from; may be repeated. [default: none]"),
    ] = None
    allow_origin: Annotated[
        list[str] | None,
        typer.Option(help="A site whose pages may ask, such as https://example.org; may be repeated. [default: none]"),
    ] = None
    batch: Annotated[int, typer.Option(help="Requests that are answered at once.")] = 8
    queue: Annotated[int, typer.Option(help="Requests that may wait; others get 429.")] = 64
    upload: Annotated[float, typer.Option(help="Largest request, in megabytes; others get 413.")] = 24
    pixels: Annotated[float, typer.Option(help="Largest sum of all pictures of a request, in megapixels.")] = 20
    pictures: Annotated[int, typer.Option(help="The most pictures of one request.")] = 8
    new_tokens: Annotated[int, typer.Option(help="Longest answer that may be asked for.")] = 512
    seconds: Annotated[float, typer.Option(help="Longest time for one request; then it gets 504.")] = 120
    relevance: Annotated[
        str,
        typer.Option(help="Who says where to look, where a request names nobody: a source, or the folder of a scorer."),
    ] = "auto"
    order: Annotated[
        str, typer.Option(help="overview_first: later questions about a picture use what was made of its overview.")
    ] = "raster"
    memory: Annotated[
        float, typer.Option(help="Megabytes kept of pictures for their next questions, by key; 0 for none.")
    ] = 256
    record: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.jsonl",
            help="Append what is asked and decided to a file of yours; clients judge by POST /v1/feedback.",
        ),
    ] = None
    device: Device = "cpu"


@with_options(ServeCommand)
def command(options: ServeCommand) -> None:
    """Answer OpenAI clients: POST /v1/chat/completions, GET /v1/models, /health, /metrics.

    A request may carry a field arr_coc with budget or keep, query, relevance, strategy, words, allocation, want. The
    answer has a field arr_coc with tokens, full, uncertainty, seconds. Pictures come as data: URLs. The server can be
    reached from this machine only; another --host needs a key. Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc serve
      arr-coc serve --model ./my-qwen3-vl --device cuda --budget 256
      arr-coc serve --relevance my-scorer --record feedback.jsonl
      ARR_COC_API_KEY=… arr-coc serve --host 0.0.0.0
    """
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise InputError(f"arr-coc serve needs {', '.join(missing)}; install: pip install 'arr-coc[serve]'")
    from ...answering.feedback import Feedback
    from ...attending.overlay import check_order
    from ...attending.request import Request, check_device
    from ..serve.limits import Limits, check_exposure
    from ..web import Origins, whole_units
    from .inputs import check_model
    from .microscope import check_port

    check_port(options.port)
    key = options.api_key or os.environ.get("ARR_COC_API_KEY") or None
    check_exposure(options.host, key)
    Request.of(options.budget)
    Origins(options.allow_origin or ())
    upload, pixels = whole_units(options.upload, 2**20, "--upload"), whole_units(options.pixels, 1e6, "--pixels")
    limits = Limits(
        upload=upload, pixels=pixels, pictures=options.pictures, max_budget=options.max_budget,
        new_tokens=options.new_tokens, queue=options.queue, batch=options.batch, seconds=options.seconds,
    )  # fmt: skip
    kept = Feedback.of(options.record)
    check_order(options.order)
    memory = whole_units(options.memory, 2**20, "--memory") if options.memory else 0
    check_device(options.device)
    check_model(options.model)
    from ..serve.api import serve

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.serve").setLevel(logging.INFO)

    def ready(address: str) -> None:
        print(f"{options.model} answers at {address}v1 (Ctrl-C ends it)", flush=True)

    serve(
        options.model,
        port=options.port,
        device=options.device,
        limits=limits,
        ready=ready,
        eye={"relevance": options.relevance, "record": kept, "order": options.order, "memory": memory},
        host=options.host,
        key=key,
        media=options.allow_media or (),
        default={} if options.budget is None else {"budget": options.budget},
        origins=options.allow_origin or (),
    )
