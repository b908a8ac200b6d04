"""`look`: from a picture and a question to an `Allocation`, in one call.

look("street.png", "What number is on the red sign?", budget=256)      → Allocation
examine("street.png", "What number is on the red sign?")               → Look: also relevance, picture, seconds
prepare("street.png").look("the red sign"), .look("the blue sign")     → sensed once, asked many times

With the default strategy on a CPU all of it is numpy and OpenCV, because importing torch takes longer than everything
else together. Other strategies and devices import torch when they are used.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from .attending.distance import scaled_size
from .attending.frame import Frame
from .attending.grip import as_grip
from .attending.strategies import find_strategy
from .balancing.choosing import relevance_for
from .core.errors import InputError, naming_extras, shown
from .core.values import Allocation, Relevance, timed
from .decide import View, attend
from .knowing.registry import check_relevance, several_maps
from .knowing.scene import VIEW_SIDE, Scene
from .knowing.words.reading import with_words
from .options import Budget, Options, as_options, check_device, check_question
from .pictures.document import Document, PageList, document_of, load_page
from .pictures.load import Picture, load_picture
from .pictures.words import Words, as_words
from .texture.type_height import letters_of

if TYPE_CHECKING:
    from .decide_document import DocumentLook


# A picture whose longer side exceeds the first number is large; OCR then reads it at the second.
LARGE_SIDE, FINE_SIDE = 4096, 4608


@dataclass(frozen=True, eq=False)
class Look:
    """An allocation, the relevance it came from, the picture (reduced, if large), and the seconds of each stage."""

    allocation: Allocation
    relevance: Relevance
    picture: Picture
    seconds: Mapping[str, float] = field(default_factory=dict)

    @property
    def notes(self) -> tuple[str, ...]:
        """Return what the user should know about the picture, the relevance and the budget."""
        return self.allocation.notes


def look(
    image: object,
    query: str,
    budget: Budget | None = None,
    *,
    relevance: object = None,
    strategy: str | None = None,
    words: object = None,
    pages: PageList = None,
    scale: float | str | None = None,
    device: str | None = None,
    options: Options | None = None,
) -> Allocation | Any:
    """Decide where the visual tokens of a picture go for one question.

    Args:
        image: A path, PIL image, numpy array, torch tensor or bytes (see `load_picture`); or a document: a PDF, a
            folder, a list.
        query: The question.
        budget: Maximum number of tokens, or a share such as "25%" or 0.25; a quarter of the picture by default.
        relevance: The source that says where to look. "auto" uses the words of the picture if they are known;
            otherwise it weighs the learned scorer, OCR, the photo map and "look" by the kind of picture and question.
            Also any name of `registry.source_names()`, the folder of a trained scorer, a function of (picture
            (H, W, 3), question), or a map.
        strategy: How relevance becomes regions: a name in `arr_coc.attending.strategies`.
        words: The words of the picture with their boxes: a list, a file or `Words`. By default the text layer of a PDF
            page, or a file of words beside the picture.
        pages: The pages of a document to use, such as "2-5,7" or 3; all by default.
        scale: The factor by which the picture is resized before it is read, or "auto": by letter height and model.
        device: "cpu", "cuda", "cuda:1" or "mps".
        options: All other options, and defaults for the arguments above.

    Returns:
        An `Allocation`; for a document with several pages, a `DocumentAllocation` with one budget over all of them.
        Its first note says which source decided, and why.

    Raises:
        InputError: For input that cannot be used; one line says what to change.

    Example:
        >>> look("street.png", "What number is on the red sign?", budget=64).tokens  # doctest: +SKIP
        64
    """
    given = {"relevance": relevance, "strategy": strategy, "words": words, "scale": scale, "device": device}
    options = as_options(options).override(budget=budget, **given)
    return examine(image, query, options, pages).allocation


@naming_extras()
def examine(image: object, query: str, options: Options | None = None, pages: PageList = None) -> Look | Any:
    """Look, and return everything that led to the allocation; for a document, a `DocumentLook`."""
    check_question(query)
    return prepare(image, pages).look(query, as_options(options))


def prepare(image: object, pages: PageList = None) -> Prepared | Any:
    """Load a picture or PDF page, and its words if it brings them, once for any number of questions. A document with
    several pages becomes a `PreparedDocument`, whose pages are drawn later."""
    started = perf_counter()
    document = document_of(image, pages)
    if document is not None and len(document) > 1:
        return PreparedDocument(document)
    if document is not None:
        image = document.pages[0].place
    picture, words = load_page(image, longest_side=VIEW_SIDE)
    fine = None
    if max(picture.size) > LARGE_SIDE and isinstance(image, str | os.PathLike | np.ndarray | Picture):
        fine = partial(load_picture, image, longest_side=FINE_SIDE)
    return Prepared(picture, perf_counter() - started, words, fine)


@dataclass(eq=False)
class Prepared:
    """A loaded picture, analysed once, at the first look. words: those that came with it. fine: loads a very large
    picture again, at a higher resolution."""

    picture: Picture
    load_seconds: float = 0.0
    words: Words | None = None
    fine: Callable[[], Picture] | None = None

    @cached_property
    def scene(self) -> Scene:
        return Scene(self.picture.pixels)

    @naming_extras()
    def look(self, query: str, options: Options | None = None) -> Look:
        """Decide where the tokens of this picture go for one question."""
        options = as_options(options)
        words = (self.words if options.words is None else as_words(options.words, self.picture.size)) or None
        options = check_look(query, options)
        relevance, device, grip = options.relevance, options.device, as_grip(options.grip)
        seconds = {"load": self.load_seconds}
        check_device(device)

        size, cell, canvas = self.picture.size, options.cell, options.canvas
        frame = Frame(size, cell, canvas)
        offers = {"words": words, "photos": options.photos, "device": device}
        share = options.tokens(frame.full) / frame.full
        scene = replace(self.scene, **offers, share=share, law=options.balancing)
        if words is None and (lines := options.reads(frame.full, relevance)):
            with timed(seconds, "read"):
                # Reduced to a glance, a very large picture loses its small print; all of its lines are read instead.
                large = {"page": self.fine().pixels, "ocr": sys.maxsize} if self.fine is not None else {"ocr": lines}
                scene = with_words(replace(scene, **large), query)
                words = scene.words
        with timed(seconds, "know"):
            known = relevance_for(relevance, scene, query)
        with timed(seconds, "attend"):
            view = View(
                size,
                frame,
                lambda: letters_of(self.picture.pixels, words, size),
                lambda times: Frame(size, cell, scaled_size(canvas or size, times, 1 if canvas is None else cell)),
                grip,
            )
            (decision,) = attend([view], [known], [options.tokens(frame.full)], options, query)
            notes = (*self.picture.notes, *known.notes, *options.notes(frame.full), *decision.allocation.notes)
            allocation = replace(decision.allocation, notes=tuple(dict.fromkeys(notes)))
        return Look(allocation, known, self.picture, seconds)


@dataclass(eq=False)
class PreparedDocument:
    """A document whose pages are read and drawn only when a question needs them."""

    document: Document

    @naming_extras()
    def look(self, query: str, options: Options | None = None) -> DocumentLook:
        """Decide where the tokens go for one question, from one budget over all pages."""
        from .decide_document import look_through

        options = as_options(options)
        if options.words is not None:
            raise InputError(f"words apply to one picture, not to {len(self.document)} pages; leave words out")
        relevance = "auto" if options.relevance is None else options.relevance
        plain = options if several_maps(relevance) is None else replace(options, relevance="auto")
        checked = check_look(query, plain)
        if not find_strategy(checked.layout).without_torch:
            raise InputError(f"strategy {checked.layout!r} is for one picture; use overlay or quadtree for documents")
        check_device(options.device)
        return look_through(self.document, query, checked, relevance)


def check_look(query: str, options: Options) -> Options:
    """Check a question and its options, including whether the relevance source is available."""
    check_question(query)
    options = options.default(relevance="auto")
    check_relevance(options.relevance)
    if isinstance(options.budget, list):
        raise InputError(f"budget={shown(options.budget)} is for several pictures; give one number for one picture")
    return options
