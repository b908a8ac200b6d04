"""`ask`: one question about one picture, answered from a budget of visual tokens."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import Any

from .answering.esper import find_preset
from .answering.eye import Eye
from .answering.light import can_be_quick, quick_eye
from .core.answer import Answer
from .core.errors import InputError, naming_extras
from .core.folders import MINI
from .core.plugins import is_installed
from .options import Budget, Options, as_options, check_device, check_question
from .pictures.document import PageList, document_of, load_page
from .realizing.bundled import model_folder


@naming_extras()
def ask(
    image: object,
    query: str,
    budget: Budget | None = None,
    *,
    model: str | Eye = MINI,
    relevance: object = None,
    words: object = None,
    pages: PageList = None,
    scale: float | str | None = None,
    device: str | None = None,
    options: Options | None = None,
) -> Answer:
    """Answer one question about one picture or document.

    Args:
        image: The picture or document, as for `look`.
        query: The question.
        budget: Maximum number of visual tokens, or a share such as "25%"; a document has one budget for all pages.
        model: "mini", which comes with the library, a folder, a name on the hub, or an `Eye`.
        relevance: The source that says where to look, as for `look`; the model's own by default.
        words: The words of the picture with their boxes, as for `look`.
        pages: The pages of a document to use, such as "2-5"; all by default.
        scale: Resize factor, as for `look`; "auto" by default if the letter sizes that the model reads are known.
        device: "cpu", "cuda", "cuda:1" or "mps".
        options: All other options, and defaults for the arguments above.

    Returns:
        An `Answer`: text, uncertainty, tokens, source, notes and seconds.

    Raises:
        InputError: For input that cannot be used; one line says what to change.

    Example:
        >>> ask("street.png", "What does the pink sign say?", budget=192).text  # doctest: +SKIP
        'COFFEE'
    """
    check_question(query)
    given = {"budget": budget, "relevance": relevance, "words": words, "scale": scale, "device": device}
    options = as_options(options).override(**given)
    if not hasattr(model, "set_image"):
        model_folder(model)
    options.check_alone("allocation")
    if options.preset is not None:
        find_preset(options.preset)
    check_device(options.device)
    document = document_of(image, pages)
    if document is not None and len(document) > 1:
        if options.allocation is not None or options.words is not None:
            raise InputError("allocation and words apply to one picture; this document has several pages")
        return _eye(model, options).set_image(document).ask(query, options=options)
    picture, known = load_page(image if document is None else document.pages[0].place)
    if options.preset is None:
        options = options.default(words=known)
    return _eye(model, options).set_image(picture).ask(query, options=options)


def _eye(model: str | Eye, options: Options) -> Any:
    """Return an `Eye` to set a picture on; `mini` runs without torch where possible."""
    if hasattr(model, "set_image"):
        return model
    if options.preset is None and can_be_quick(model, options):
        return quick_eye()
    return copy(_loaded(str(model), options.device))  # a copy: several threads may ask at once


def loaded_or_light(name: str, device: str, **options: Any) -> Eye:
    """Load a model; `mini` runs without torch if torch is not installed. options: arguments of `Eye`."""
    if name == MINI and device == "cpu" and not is_installed("torch"):
        return quick_eye(**options)
    return Eye.from_pretrained(name, device=device, **options)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> Eye:
    """Load a model, or return that of the last `ask`. Callers copy it and never set a picture on it."""
    return Eye.from_pretrained(name, device=device)
