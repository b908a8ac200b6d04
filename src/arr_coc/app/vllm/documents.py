"""PDFs in a chat with vLLM, which takes pictures only: opened at the pages that get tokens, before the request is sent.

    messages, kwargs = open_documents(messages, {"budget": 512, "total": True})
    llm.chat(messages, mm_processor_kwargs=kwargs)                                            inside a program
    client.chat.completions.create(…, messages=messages, extra_body={"mm_processor_kwargs": kwargs})

Pages come as pictures with page marks, "Page 3 of 30:", and the model is told which are not shown. One budget holds for
each document, or with `total` for all of them. Needs no vLLM.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image
from pydantic import ValidationError

from ...answering.chat import USER
from ...answering.pages import open_pages
from ...balancing.document import PageOffers
from ...core.errors import InputError
from ...core.values import JsonObject
from ...options import Options
from ...realizing.base import VisualGrid
from ...realizing.shared_budget import by_relevance
from ..serve.chat import Message, first_error, loaded
from ..web import Limits
from .wishes import DECIMALS, KEY, NO_QUESTION

if TYPE_CHECKING:
    from ...answering.chat import Turn
    from ...pictures.load import Picture

# What may be wished for documents.
WISHES = ("budget", "total", "relevance", "strategy", "scale")
CELL = 32


def open_documents(
    messages: Sequence[Mapping[str, object]], wish: JsonObject | None = None, *, limits: Limits | None = None
) -> tuple[list[dict[str, object]], dict[str, object]]:
    """A chat with PDFs as vLLM takes it.

    Args:
        messages: As OpenAI's clients send them; PDFs as `file` parts or as data: URLs of `image_url`.
        wish: budget, total, query, relevance, strategy, scale: as in docs/how-to/vllm.md.
        limits: Pages that are looked at and pictures that are shown; those of `arr-coc serve` by default.

    Returns:
        The messages with pages in place of documents, and `mm_processor_kwargs` with a wish for each picture.

    Example:
        >>> open_documents(messages, {"budget": 512, "total": True})  # doctest: +SKIP
    """
    limits = limits or Limits()
    own = {name: value for name, value in (wish or {}).items() if value is not None}
    query = own.pop("query", None)
    options = Options.for_client(own, WISHES, where=KEY)
    try:
        given = [Message.model_validate(one) for one in messages]
    except ValidationError as error:
        raise InputError(first_error(error)) from error
    turns = loaded(given, limits, ())
    asked = [part for turn in turns if turn.role == USER for part in turn.parts if isinstance(part, str)]
    question = query or (asked[-1] if asked else NO_QUESTION)
    opened = open_pages(turns, question, options.default(relevance="auto"), PageOffers(), limits.pictures)
    pictures = [part for turn in opened.turns for part in turn.parts if not isinstance(part, str)]
    grids = [
        VisualGrid(-(-high // CELL), -(-wide // CELL), high, wide)
        for high, wide in (one.pixels.shape[:2] for one in pictures)
    ]
    maps = [one.map for one in opened.options.relevance]
    budgets = by_relevance(maps, grids, opened.options, opened.groups)
    laid = {"query": question, **{name: own[name] for name in ("strategy", "scale") if name in own}}
    wishes = [
        {
            **{**laid, "budget": tokens, "relevance": np.round(one.astype(float), DECIMALS).tolist()},
            # A page that is shown small, for its overview, stays as it is.
            **({} if picture.pixels.shape[:2] == picture.size else {"scale": 1.0}),
        }
        for tokens, one, picture in zip(budgets, maps, pictures, strict=True)
    ]
    return [_message(turn) for turn in opened.turns], {KEY: wishes}


def _message(turn: Turn) -> dict[str, object]:
    parts = [{"type": "text", "text": part} if isinstance(part, str) else _picture(part) for part in turn.parts]
    return {"role": turn.role, "content": parts}


def _picture(picture: Picture) -> dict[str, object]:
    memory = io.BytesIO()
    Image.fromarray(picture.pixels).save(memory, "PNG", compress_level=1)
    data = base64.b64encode(memory.getvalue()).decode()
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}"}}
