"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens."""

from __future__ import annotations

import logging
from dataclasses import dataclass

from ...core.folders import MINI
from .inputs import check_packages
from .options import AllowMedia, Choices, Listening, Model, Record, api_key, limits_of, with_options


@dataclass(frozen=True, kw_only=True)
class ServeCommand(Listening, Choices):
    """What a server is started with."""

    model: Model = MINI
    allow_media: AllowMedia = None
    record: Record = None


@with_options(ServeCommand)
def command(given: ServeCommand) -> None:
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
    from .inputs import check_model, check_record

    key, (host, port) = api_key(), given.address(8000)
    check_exposure(host, key)
    limits = Limits(**limits_of(given.limit, LIMITS))
    options = given.options
    check_record(given.record)
    check_model(given.model)
    from ..serve.api import serve

    logging.basicConfig(format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("arr_coc.serve").setLevel(logging.INFO)
    serve(
        given.model,
        host=host,
        port=port,
        key=key,
        media=given.allow_media or (),
        limits=limits,
        record=given.record,
        options=options,
        ready=lambda address: print(f"{given.model} answers at {address}v1 (Ctrl-C ends it)", flush=True),
    )
