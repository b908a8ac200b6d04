"""`ask`: one question about one picture, answered from a budget of visual tokens."""

from __future__ import annotations

import math
from copy import copy
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .answering.esper import find_preset
from .answering.eye import Eye
from .answering.light import can_be_quick, most_tokens, quick_eye
from .answering.pages import ask_page_by_page
from .balancing.document import PageOffers
from .core.answer import Answer
from .core.errors import InputError, naming_extras
from .core.folders import MINI, part_folder
from .knowing.scorer.source import ScorerRelevance, scorer_beside
from .options import Budget, Options, as_options, check_device, check_question
from .pictures.document import Document, PageList, document_of, load_page
from .realizing.bundled import model_folder

if TYPE_CHECKING:
    from .core.values import Relevance
    from .pictures.load import Picture
    from .pictures.words import Words


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
        image: As for `look`.
        query: The question.
        budget: Visual tokens that may be spent, or a share such as "25%"; of a document, over all of its pages.
        model: "mini", which comes with the library, a folder, a name on the hub, or an `Eye`.
        relevance: Who says where to look, as for `look`; the model's own by default.
        words: Those of the picture with their boxes, as for `look`.
        pages: Of a document, such as "2-5".
        scale: How many times as large the picture is read, or "auto"; "auto" where the grip of the model is known.
        device: "cpu", "cuda", "cuda:1", "mps".
        options: Everything else, and defaults for the arguments above.

    Returns:
        An `Answer`: text, uncertainty, tokens, source, notes and seconds.

    Raises:
        InputError: In one line, for whatever cannot be used.

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
        return _ask_document(document, query, model, options)
    picture, known = load_page(image if document is None else document.pages[0].place)
    if options.preset is None:
        options = options.default(words=known)
        if can_be_quick(model, picture.pixels.shape[:2], options):
            return quick_eye().set_image(picture).ask(query, options=options)
    # A copy: several threads may ask at once.
    eye: Any = model if hasattr(model, "set_image") else copy(_loaded(str(model), options.device))
    return eye.set_image(picture).ask(query, options=options)


def _ask_document(document: Document, query: str, model: Any, options: Options) -> Answer:
    """Show all pages in one prompt, or where `mini` is asked, page by page and without torch where that will do."""
    if options.preset is not None or not (isinstance(model, str) and model == MINI):
        eye = model if hasattr(model, "set_image") else copy(_loaded(str(model), options.device))
        return eye.set_image(document).ask(query, options=options)
    scorer = scorer_beside(part_folder(MINI))
    offers = PageOffers(device=options.device, scorer=None if scorer is None else ScorerRelevance(scorer))

    def asker(picture: Picture, words: Words | None, tokens: int, known: Relevance | None) -> Answer:
        own = replace(options, budget=tokens, relevance=known, words=words)
        quick = can_be_quick(model, picture.pixels.shape[:2], replace(own, relevance=None))
        reader = quick_eye() if quick else copy(_loaded(str(model), options.device))
        return reader.set_image(picture).ask(query, options=own)

    plain = Options(budget=options.budget, levels=options.levels, seed=options.seed)
    return ask_page_by_page(document, query, plain.override(relevance=options.relevance), offers, asker)


def loaded_or_light(name: str, device: str, **options: Any) -> Eye:
    """A model; `mini` without torch where that is not installed. options: of `Eye`."""
    if name == MINI and device == "cpu" and most_tokens() == math.inf:
        return quick_eye(**options)
    return Eye.from_pretrained(name, device=device, **options)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> Eye:
    """The model of the last `ask`, so that the next one does not read it again. Never shown a picture itself."""
    return Eye.from_pretrained(name, device=device)
