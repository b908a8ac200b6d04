"""What a request will cost in visual tokens, by sizes alone: nothing is looked at, and no model runs."""

from __future__ import annotations

from ...answering.eye import Eye
from ...answering.pages import as_document
from ...attending.document_look import document_budget
from ...attending.request import Request
from ...core.values import JsonObject
from ...pictures.document import Document
from .chat import ChatRequest


def count_tokens(eye: Eye, asked: ChatRequest) -> JsonObject:
    """Tokens of a request before it is answered.

    Args:
        eye: The model that would answer.
        asked: The request.

    Returns:
        tokens: visual ones at most. full: of whole pictures and pages. text: tokens of the words. pictures: of each.
    """
    merge = getattr(eye.processor.image_processor, "merge_size", 1)
    cell = getattr(eye.processor.image_processor, "patch_size", 16) * merge
    named = ("budget", "keep", "ceiling", "total")
    request = Request.of(**{name: asked.how[name] for name in named if asked.how.get(name) is not None})
    shown = [part for turn in asked.turns for part in turn.parts if not isinstance(part, str)]
    several = any(isinstance(part, Document) for part in shown)
    entries = [_entry(part, request, cell) for part in shown]
    full = sum(entry["full"] for entry in entries)
    if asked.how.get("allocation") is not None:
        tokens = sum(one.tokens for one in asked.how["allocation"])
    elif isinstance(request.budget, list | tuple):
        tokens = sum(min(entry["full"], one) for entry, one in zip(entries, request.budget, strict=False))
    elif request.total:
        tokens = document_budget(request, full, full)[0]
    else:
        tokens = sum(entry["tokens"] for entry in entries)
    texts = [part for turn in asked.turns for part in turn.parts if isinstance(part, str)]
    words = sum(len(eye.processor.tokenizer(text)["input_ids"]) for text in texts)
    notes = ["of documents only pages that get tokens are shown"] if several else []
    return {"tokens": tokens, "full": full, "text": words, "pictures": entries, "notes": notes}


def _entry(part: object, request: Request, cell: int) -> JsonObject:
    """One picture or document: a page has as many tokens as cells, which a model may resize a little."""
    document = as_document(part)
    full = sum(-(-page.size[0] // cell) * -(-page.size[1] // cell) for page in document)
    kind = "document" if isinstance(part, Document) else "picture"
    if isinstance(request.budget, list | tuple):
        return {"kind": kind, "pages": len(document), "full": full, "tokens": full}
    spent = document_budget(request, full, full)[0] if kind == "document" else request.tokens(full)
    return {"kind": kind, "pages": len(document), "full": full, "tokens": spent}
