"""`look`: from a picture and a question to an `Allocation`, in one call.

look("street.png", "What number is on the red sign?", budget=256)      → Allocation
examine("street.png", "What number is on the red sign?", keep=0.25)    → Look: also relevance, picture, seconds
prepare("street.png").look("the red sign"), .look("the blue sign")     → sensed once, asked many times

One picture, one question, the default strategy, a CPU: all of it is numpy and OpenCV, because importing torch takes
longer than everything else together. Other strategies and devices import torch when they are asked for.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .attending.distance import scaled_size
from .attending.frame import Frame
from .attending.grip import as_grip
from .attending.request import Request, check_device
from .attending.request import check_request as check_request
from .attending.strategies import DEFAULT_STRATEGY, without_torch
from .balancing.choosing import check_relevance as check_relevance
from .balancing.choosing import maps_of, resolve
from .core.checks import of_kind, shown
from .core.clock import timed
from .core.errors import InputError, naming_extras
from .core.values import DEFAULT_CELL, Allocation, Relevance
from .knowing.large import FINE_SIDE, LARGE_SIDE, TileReader, read_tiles
from .knowing.registry import as_relevance
from .knowing.scene import VIEW_SIDE, Scene
from .knowing.words.reading import with_words
from .pictures.document import Document, document_of
from .pictures.load import Picture, load_picture
from .pictures.pdf import PageList, PdfPage, PdfPlace, is_pdf, load_page
from .pictures.words import Words
from .pictures.words_files import as_words, words_beside
from .texture.type_height import letters_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .attending.document_look import DocumentLook
    from .attending.request import AnyOptions, Budget, Share, StrategyOptions

    class LookOptions(AnyOptions, total=False, closed=True):
        """The keywords of `look` beside picture, question, budget and keep."""

        strategy: str
        seed: int
        device: str
        cell: int
        canvas: tuple[int, int] | None
        levels: int | None
        relevance: object
        photos: bool
        ocr: bool
        words: object
        pages: PageList
        scale: float | str | None
        grip: object


KEYWORDS = ("device", "relevance", "photos", "words", "pages", "grip")


@dataclass(frozen=True, eq=False)
class Look:
    """allocation, the relevance it came from, the picture (reduced, if large), and seconds for each stage."""

    allocation: Allocation
    relevance: Relevance
    picture: Picture
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a reader should know about the picture, the relevance and the budget."""
        return tuple(dict.fromkeys((*self.picture.notes, *self.relevance.notes, *self.allocation.notes)))

    def timed(self, stage: str, seconds: float) -> Look:
        return replace(self, seconds={**self.seconds, stage: seconds})


def look(
    image: object,
    query: str,
    budget: Budget | None = None,
    keep: Share | None = None,
    strategy: str = DEFAULT_STRATEGY,
    seed: int = 0,
    *,
    device: str = "cpu",
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    relevance: object = "auto",
    photos: bool = True,
    ocr: bool = True,
    words: object = None,
    pages: PageList = None,
    scale: float | str | None = None,
    grip: object = None,
    **options: Unpack[StrategyOptions],
) -> Allocation | Any:
    """Decide where the visual tokens of a picture go for one question.

    Args:
        image: A path, PIL image, numpy array, torch tensor or bytes (see `load_picture`); or a document: a PDF, a TIFF
            with several frames, a folder, a list.
        query: The question.
        budget: Tokens that may be spent, or a share such as "25%". Above the full count means all of the picture.
        keep: The budget as a share of the full count; a quarter by default.
        strategy: How relevance becomes regions: a name of `arr_coc.attending.strategies`.
        seed: For strategies that draw lots.
        device: "cpu", "cuda", "cuda:1", "mps".
        cell: Pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level of detail.
        relevance: Who says where to look. "auto" takes the words of the picture where they are known. Else it weighs
            the learned scorer, words by OCR, the photo map and "look" by what picture and question are like. Or any
            name of `registry.source_names()`, the folder of a trained scorer, a function of (picture (H, W, 3),
            question), or a map.
        photos: Whether the photo map may take part.
        ocr: Whether "auto" may read the words of a page by OCR, where that is installed and pays; a note tells the
            seconds.
        words: Those of the picture with their boxes: a list, a file, `Words`. A page of a PDF brings its own, and so
            does a picture with a file of words beside it.
        pages: Of a document, such as "2-5,7" or 3; all by default.
        scale: From how far the picture is read: how many times as large, or "auto", by its letters and the grip.
        grip: Of the model that will read it: its name, its folder, a grip.json or a `Grip`. With one, scale "auto" is
            the default.
        **options: What a strategy takes by name, such as `criterion` (quadtree) or `boxes` (oracle).

    Returns:
        An `Allocation`; of a document with several pages, a `DocumentAllocation` with one budget over all of them. Its
        first note says which source decided, and why.

    Raises:
        InputError: In one line, for whatever cannot be used.

    Example:
        >>> look("street.png", "What number is on the red sign?", budget=64).tokens  # doctest: +SKIP
        64
    """
    how: LookOptions = {"device": device, "cell": cell, "canvas": canvas, "levels": levels, "relevance": relevance}
    how |= {"strategy": strategy, "seed": seed, "photos": photos, "words": words, "pages": pages}
    how |= {"ocr": ocr, "scale": scale, "grip": grip, **options}
    return examine(image, query, budget, keep, **how).allocation


@naming_extras()
def examine(
    image: object, query: str, budget: Budget | None = None, keep: Share | None = None, **how: Unpack[LookOptions]
) -> Look | Any:
    """`look` with everything that led to it; the arguments are those of `look`. Of a document: a `DocumentLook`."""
    pages = how.pop("pages", None)
    if (document := document_of(image, pages)) is not None:
        return prepare(document).look(query, budget, keep, **how)
    if how.get("words") is None and (isinstance(image, PdfPage | PdfPlace) or is_pdf(image)):
        return prepare(image).look(query, budget, keep, **how)  # its words may be what the relevance needs
    request_of([query], budget, keep, **how)  # what is wrong whatever the picture is told before it is read
    return prepare(image).look(query, budget, keep, **how)


def prepare(image: object, pages: PageList = None) -> Prepared | Any:
    """Load a picture, or a page of a PDF, with its words where they come with it, once for any number of questions. Of
    a document with several pages: a `PreparedDocument`, none of its pages drawn yet."""
    started = perf_counter()
    document = document_of(image, pages)
    if document is not None and len(document) > 1:
        return PreparedDocument(document, perf_counter() - started)
    if document is not None:
        image = document.pages[0].source
    picture, words = load_page(image, longest_side=VIEW_SIDE)
    if words is None and (beside := words_beside(image)) is not None:
        words = as_words(beside, picture.size)
    fine = None
    if max(picture.size) > LARGE_SIDE and isinstance(image, str | os.PathLike | np.ndarray | Picture):
        fine = partial(load_picture, image, longest_side=FINE_SIDE)
    return Prepared(picture, perf_counter() - started, words, fine)


@dataclass(eq=False)
class Prepared:
    """A loaded picture; it is sensed when first looked at, and only once. words: where they came with it. fine: reads a
    very large one again, in more pixels."""

    picture: Picture
    load_seconds: float = 0.0
    words: Words | None = None
    fine: Callable[[], Picture] | None = None

    @cached_property
    def scene(self) -> Scene:
        return Scene(self.picture.pixels)

    @naming_extras()
    def look(
        self, query: str, budget: Budget | None = None, keep: Share | None = None, **how: Unpack[LookOptions]
    ) -> Look:
        """One question about this picture; the arguments are those of `arr_coc.look`."""
        given, relevance = how.get("words"), how.get("relevance", "auto")
        words = self.words if given is None else as_words(given, self.picture.size)
        words = words if words is not None and len(words) else None
        request = request_of([query], budget, keep, **{**how, "relevance": relevance, "words": words})
        grip = as_grip(how.get("grip"))
        device = how.get("device", "cpu")
        offered = {"words": words, "photos": of_kind(how.get("photos", True), bool, "photos"), "device": device}
        seconds = {"load": self.load_seconds}
        with timed(seconds, "import"):
            check_device(device)
            import_rooms(request.strategy, device, relevance)
        from .decide import View, attend

        full = Frame(self.picture.size, request.cell, request.canvas).full
        # A very large picture is read by the scorer in tiles, where small print is seen.
        scene = self.scene.varied(**offered, ocr=self.fine is None and request.reads(full, relevance))
        if scene.ocr:
            with timed(seconds, "read"):
                scene = with_words(scene)
                words = scene.words
        with timed(seconds, "choose"):
            source, note = resolve(relevance, scene, query)
        if "texture" in source.needs or request.strategy == "edge":
            seconds["sense"] = self.scene.sensed[1]
        with timed(seconds, "know"):
            known = as_relevance(maps_of(source, [scene], [query]).relevance[0], query, note)
            if self.fine is not None and source.name == "scorer":
                reader = TileReader(partial(maps_of, source), scene, query)
                known = read_tiles(known, self.fine().pixels, reader.score, reader.spell)
        with timed(seconds, "attend"):
            needed, told = self.scene.strategy_inputs(request.strategy, request.options)
            size, cell, canvas = self.picture.size, request.cell, request.canvas
            view = View(
                size,
                Frame(size, cell, canvas),
                lambda: letters_of(self.picture.pixels, words, size),
                lambda times: Frame(size, cell, scaled_size(canvas or size, times, 1 if canvas is None else cell)),
                grip,
            )
            seen = known.map if device == "cpu" else import_module("torch").from_numpy(known.map).to(device)
            allocation = attend([view], [seen], [request.tokens(full)], request, options=[needed])[0].allocation
            said = (*self.picture.notes, *known.notes, *request.notes(full), *allocation.notes, *told)
            allocation = replace(allocation, notes=tuple(dict.fromkeys(said)))
        return Look(allocation, known, self.picture, seconds)


@dataclass(eq=False)
class PreparedDocument:
    """A document; its pages are read and drawn where a question needs them."""

    document: Document
    load_seconds: float = 0.0

    @naming_extras()
    def look(
        self, query: str, budget: Budget | None = None, keep: Share | None = None, **how: Unpack[LookOptions]
    ) -> DocumentLook:
        """One question about all pages, one budget; the arguments are those of `arr_coc.look`."""
        from .attending.document_look import look_through
        from .balancing.document import PageOffers

        relevance = how.get("relevance", "auto")
        if how.get("words") is not None:
            raise InputError(f"words= are of one picture, not of {len(self.document)} pages; leave them out")
        many = isinstance(relevance, list | tuple) or getattr(relevance, "ndim", 0) == 3
        known = {**how, "words": True, "relevance": "auto" if many else relevance}
        request = request_of([query], budget, keep, **known)
        if not without_torch(request.strategy):
            raise InputError(f"strategy {request.strategy!r} is for one picture; documents take overlay or quadtree")
        device = how.get("device", "cpu")
        check_device(device)
        offers = PageOffers(of_kind(how.get("photos", True), bool, "photos"), device)
        found = look_through(self.document, query, request, relevance, offers)
        if request.scale not in (None, 1.0) or how.get("grip") is not None:
            note = (
                "scale and grip are of one picture here: pages are laid as they are; ask reads each from its distance"
            )
            found = replace(found, allocation=replace(found.allocation, notes=(*found.notes, note)))
        return replace(found, seconds={"load": self.load_seconds, "import": 0.0, **found.seconds})


def request_of(queries: Sequence[str], budget: object = None, keep: object = None, **how: object) -> Request:
    """The request in the keywords of `look`, checked; also whether the relevance can be had."""
    check_request(queries, budget, keep)
    relevance = how.get("relevance", "auto")
    check_relevance(relevance, ("pixels", "texture", *(("words",) if how.get("words") is not None else ())))
    how = {name: value for name, value in how.items() if name not in KEYWORDS}
    request = Request.of(budget, keep, keywords=KEYWORDS, **how)
    if isinstance(request.budget, Sequence):
        raise InputError(f"budget={shown(request.budget)} is for several pictures; of one, give one number")
    return request


def import_rooms(strategy: str = DEFAULT_STRATEGY, device: str = "cpu", relevance: object = "auto") -> None:
    """What a look with this strategy will import anyway, so that its time can be told apart from the work's."""
    for room in (
        "texture.channels",
        *("knowing.language.lexical", "balancing.look", "attending.allocate"),
    ):
        import_module(f".{room}", __package__)
    if not without_torch(strategy) or device != "cpu":
        import_module(".attending.allocate_batch", __package__)
    if isinstance(relevance, str) and relevance == "scorer":
        # The bundled one; torch is for those of a user's own.
        import_module(".knowing.scorer.onnx_scorer", __package__)
