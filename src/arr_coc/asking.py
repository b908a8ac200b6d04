"""`ask`: one question about one picture, answered from a budget of visual tokens."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .answering.esper import find_preset
from .answering.eye import Eye
from .answering.hints import check_hints
from .answering.light import can_be_quick, quick_eye
from .answering.pages import ask_page_by_page
from .attending.request import Request, check_decided, check_device, check_question, check_request
from .attending.strategies import DEFAULT_STRATEGY
from .balancing.document import PageOffers
from .core.checks import of_kind, whole
from .core.errors import InputError, naming_extras
from .core.folders import MINI, part_folder
from .core.values import Allocation, Answer
from .knowing.scorer.source import ScorerRelevance, scorer_beside
from .pictures.document import Document, document_of
from .pictures.pdf import PageList, load_page
from .realizing.bundled import model_folder

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .attending.request import Budget, Share, StrategyOptions
    from .core.values import Relevance
    from .pictures.load import Picture
    from .pictures.words import Words


@naming_extras()
def ask(
    image: object,
    query: str,
    budget: Budget | None = None,
    keep: Share | None = None,
    *,
    model: str | Eye = MINI,
    device: str = "cpu",
    strategy: str | None = None,
    relevance: object = None,
    allocation: Allocation | None = None,
    levels: int | None = None,
    seed: int = 0,
    words: object = None,
    hints: str | None = None,
    ocr: bool = True,
    max_new_tokens: int = 64,
    scale: float | str | None = None,
    pages: PageList = None,
    preset: str | None = None,
    **options: Unpack[StrategyOptions],
) -> Answer:
    """Answer one question about one picture or document.

    Args:
        image: As for `look`.
        query: The question.
        budget: Visual tokens that may be spent, or a share such as "25%"; of a document, over all of its pages.
        keep: The budget as a share of the full count; a quarter by default.
        model: "mini", which comes with the library, a folder, a name on the hub, or an `Eye`.
        device: "cpu", "cuda", "cuda:1", "mps".
        strategy: Instead of the model's own.
        relevance: Who says where to look, as for `look`; instead of the model's own.
        allocation: Decided by the caller.
        levels: The coarsest level of detail.
        seed: For strategies that draw lots.
        words: Those of the picture with their boxes, as for `look`.
        hints: "words", the default, lets known words help to answer; "none" lets them only point.
        ocr: As for `look`; what OCR has read helps to answer, too, unless hints is "none".
        max_new_tokens: The longest answer.
        scale: From how far to read: "auto", the default where the grip of the model is known, or a number.
        pages: Of a document, such as "2-5".
        preset: A whole way of looking, which decides strategy, relevance and passes: "source", "two_pass", …
        **options: What a strategy takes by name.

    Returns:
        An `Answer`: text, uncertainty, tokens, source, notes and seconds.

    Raises:
        InputError: In one line, for whatever cannot be used.

    Example:
        >>> ask("street.png", "What does the pink sign say?", budget=192).text  # doctest: +SKIP
        'COFFEE'
    """
    check_request([query], budget, keep)
    check_question(query)
    check_hints(hints)
    if not hasattr(model, "set_image"):
        model_folder(model)
    check_decided(allocation, budget=budget, keep=keep, strategy=strategy, relevance=relevance)
    if preset is not None:
        find_preset(preset)
    how: dict[str, Any] = {"levels": levels, "seed": seed, "scale": scale, "ocr": ocr}
    # Told before a model is loaded; options are those of a strategy that only the model may know.
    laid = {"strategy": DEFAULT_STRATEGY} if strategy is None else {"strategy": strategy, **options}
    Request.of(budget, keep, **how, **laid)
    max_new_tokens = whole(max_new_tokens, "max_new_tokens", 1)
    check_device(device)
    if allocation is not None:
        of_kind(allocation, Allocation, "allocation")
    chosen: dict[str, object] = {"strategy": strategy, "relevance": relevance, "allocation": allocation}
    document = document_of(image, pages)
    if document is not None and len(document) > 1:
        if allocation is not None or words is not None or preset is not None:
            raise InputError("allocation, words and preset apply to one picture; this document has several pages")
        how |= {"strategy": strategy, "hints": hints, "max_new_tokens": max_new_tokens, **options}
        return _ask_document(document, query, (budget, keep), model, device, relevance, how)
    image = image if document is None else document.pages[0].source
    picture, known = load_page(image)
    how |= {
        **chosen,
        "words": known if words is None and preset is None else words,
        "hints": hints,
        "max_new_tokens": max_new_tokens,
        "preset": preset,
        **options,
    }
    if preset is None and can_be_quick(model, device, picture.pixels.shape[:2], budget, keep, **chosen):
        return quick_eye().set_image(picture).ask(query, budget, keep, **how)
    # A copy: several threads may ask at once.
    eye: Any = model if hasattr(model, "set_image") else copy(_loaded(str(model), device))
    return eye.set_image(picture).ask(query, budget, keep, **how)


def _ask_document(
    document: Document,
    query: str,
    amount: tuple[Budget | None, Share | None],
    model: Any,
    device: str,
    relevance: object,
    how: dict[str, Any],
) -> Answer:
    """All pages of one prompt, or where `mini` is asked, page by page and without torch where that will do."""
    if not (isinstance(model, str) and model == MINI):
        eye = model if hasattr(model, "set_image") else copy(_loaded(str(model), device))
        return eye.set_image(document).ask(query, *amount, relevance=relevance, **how)
    scorer = scorer_beside(part_folder(MINI))
    offers = PageOffers(device=device, scorer=None if scorer is None else ScorerRelevance(scorer))

    def asker(picture: Picture, words: Words | None, tokens: int, known: Relevance | None) -> Answer:
        size, strategy = picture.pixels.shape[:2], how["strategy"]
        quick = can_be_quick(model, device, size, tokens, strategy=strategy)
        reader = quick_eye() if quick else copy(_loaded(str(model), device))
        return reader.set_image(picture).ask(query, tokens, relevance=known, words=words, **how)

    laid = {name: how[name] for name in ("levels", "seed") if how[name] is not None}
    request = Request.of(*amount, **laid)
    return ask_page_by_page(document, query, request, "auto" if relevance is None else relevance, offers, asker)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> Eye:
    """The model of the last `ask`, so that the next one does not read it again. Never shown a picture itself."""
    return Eye.from_pretrained(name, device=device)
