"""Documents in a request: the parts that bring them, and what may be said of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...core.errors import InputError
from ...pictures.document import Document
from .limits import Limits


def check_documents(own: Mapping[str, object], views: Sequence[object], limits: Limits) -> None:
    """What a request may say of documents, and how many pages they may have."""
    for name in ("words", "allocation", "readings"):
        if own.get(name) is not None:
            raise InputError(f"arr_coc.{name} is of pictures, and this request shows documents; leave it out")
    pages = sum(len(part) for part in views if isinstance(part, Document))
    if pages > limits.pages:
        raise InputError(f"the documents have {pages} pages; {limits.pages} are answered about at a time")


def file_data(given: Mapping[str, object]) -> str:
    """The data of a file part, as OpenAI's clients send it: file_data, a data: URL or plain base64."""
    if given.get("file_data") is None:
        raise InputError("a file must be sent with its file_data, as a data: URL; no files are kept here")
    data = given["file_data"]
    if not isinstance(data, str):
        raise InputError(f"file.file_data must be a text, got {type(data).__name__}")
    return data if data[:5].lower() == "data:" else f"data:application/pdf;base64,{data}"
