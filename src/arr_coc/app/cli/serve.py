"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...core.folders import MINI
from .inputs import check_packages
from .options import (
    AllowMedia,
    Budget,
    Device,
    Listening,
    Model,
    Port,
    Record,
    Relevance,
    api_key,
    limits_of,
    with_options,
)


@dataclass(frozen=True, kw_only=True)
class ServeCommand(Listening):
    """What a server is started with."""

    model: Model = MINI
    port: Port = 8000
    budget: Budget = None
    relevance: Relevance = "auto"
    allow_media: AllowMedia = None
    record: Record = None
    device: Device = "cpu"


@with_options(ServeCommand)
def command(options: ServeCommand) -> None:
    """Answer OpenAI clients: POST /v1/chat/completions, GET /v1/models, /health, /metrics.

    A request may carry a field arr_coc with budget or keep, query, relevance, strategy, words, allocation, want. The
    answer has a field arr_coc with tokens, full, uncertainty, seconds. Pictures come as data: URLs. The server can be
    reached from this machine only; another --host needs a key in the variable ARR_COC_API_KEY, which clients must
    send. Limits: upload (megabytes), pixels (megapixels), pictures, pages, new_tokens, max_budget, queue, batch,
    seconds. Needs 'arr-coc[serve]'.

    \b
    Examples:
      arr-coc serve
      arr-coc serve --model ./my-qwen3-vl --device cuda --budget 256 --limit max_budget=1024
      arr-coc serve --relevance my-scorer --record asked.jsonl
      ARR_COC_API_KEY=… arr-coc serve --host 0.0.0.0
    """
    check_packages("serve", "fastapi", "uvicorn", "prometheus_client")
    from ...attending.request import Request, check_device
    from ..web import LIMITS, Limits, Origins, check_exposure
    from .inputs import check_model, check_record

    key = api_key()
    check_exposure(options.host, key)
    Request.of(options.budget)
    Origins(options.origins)
    limits = Limits(**limits_of(options.limit, LIMITS))
    check_record(options.record)
    check_device(options.device)
    check_model(options.model)
    from ..serve.api import serve

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.serve").setLevel(logging.INFO)
    serve(
        options.model,
        port=options.port,
        device=options.device,
        limits=limits,
        ready=lambda address: print(f"{options.model} answers at {address}v1 (Ctrl-C ends it)", flush=True),
        eye={"relevance": options.relevance, "record": options.record},
        host=options.host,
        key=key,
        media=options.allow_media or (),
        default={} if options.budget is None else {"budget": options.budget},
        origins=options.origins,
    )
