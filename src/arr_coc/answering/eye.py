"""From a picture and a question to an `Answer`: look, foveate, and let a vision-language model speak.

eye = Eye.from_pretrained("mini")                     comes with the library; or a folder, or a name on the hub
eye.set_image("street.png")                           once: decoded, resized and cut into patches
eye.ask("What does the red sign say?", budget=64)     many times: every question gets an allocation of its own
for piece in eye.stream("What does it say?"): …       the same answer while it is spoken
eye.chat()                                            several turns: see `chat`
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from copy import copy
from dataclasses import replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ..attending.leaves import in_picture
from ..attending.strategies import DEFAULT_STRATEGY
from ..core.answer import Answer, Pass
from ..core.errors import InputError, naming_extras, of_kind, shown
from ..core.folders import MINI
from ..core.plugins import load_function
from ..core.values import Relevance
from ..knowing.registry import check_relevance
from ..knowing.scene import RelevanceSource, Scene
from ..knowing.scorer.source import ScorerRelevance, scorer_beside
from ..knowing.words.answer import copied_answer
from ..knowing.words.reading import with_words
from ..options import Budget, Options, as_options, check_device, check_question
from ..pictures.document import Document, PageList, document_of
from ..pictures.words import Words
from ..realizing.base import Settings
from ..realizing.bundled import Calibration, marked, model_folder
from .chat import SYSTEM, USER, Chat, ChatLook, PictureView, Turn, check_turns, lost_detail, one_or_several, words_of
from .decoding import DecodingStep, Spelling, Sureness
from .pages import ask_page_by_page, hints_of, open_pages, settled
from .record import Record

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    from transformers import PreTrainedModel, ProcessorMixin

    from ..pictures.load import Picture

# How a look by the scorer begins its first note.
BY_SCORER = "relevance 'scorer'"


class Eye:
    """A model that looks before it answers.

    Args:
        model: A stock vision-language model; or an engine (`stock.StockEngine`, or `light.LightEngine` without torch).
        processor: Of the model; none for an engine.
        relevance: Where detail should go, as for `attach`: "scorer" (the learned one), "glance", "detail", "look", any
            other source, or a function of (picture, question). "auto" takes the scorer trained with the model.
        scorer: That one.
        calibration: Measured temperature of the model's uncertainty, and the strategy and levels of its training.
        name: What messages call the model.
        record: A .jsonl file to which questions and answers are appended (`record`).

    Example:
        >>> Eye.from_pretrained("mini").set_image("street.png").ask("Read the pink sign.").text  # doctest: +SKIP
        'COFFEE'
    """

    def __init__(
        self,
        model: PreTrainedModel | object,
        processor: ProcessorMixin | None = None,
        *,
        relevance: str | RelevanceSource = "auto",
        scorer: RelevanceSource | None = None,
        calibration: Calibration | None = None,
        name: str = "",
        record: str | Path | None = None,
    ) -> None:
        if isinstance(relevance, str):
            check_relevance(relevance, model=True)
        self.relevance = relevance
        self.scorer = scorer
        self.calibration = Calibration() if calibration is None else of_kind(calibration, Calibration, "calibration")
        # Any: what only one of the engines has, its users know that they have it.
        self.engine: Any = model
        if processor is not None or not hasattr(model, "look"):
            with naming_extras():
                from .stock import StockEngine

            self.engine = StockEngine(model, processor, name=name)
        self.record = None if record is None else Record(record)
        self._view: PictureView | None = None
        self.document: Document | None = None

    @classmethod
    @naming_extras()
    def from_pretrained(cls, name: str = MINI, *, device: str = "cpu", **options: Any) -> Self:
        """Load a model.

        Args:
            name: "mini", which comes with the library, a stock model's folder, its name on the hub, or a folder of
                adapters (`train lora`, peft), whose model is loaded with them. A calibration.json in the folder and a
                folder `scorer` beside it are used.
            device: "cpu", "cuda", "cuda:1", "mps".
            **options: Those of the constructor.

        Returns:
            An `Eye`.

        Example:
            >>> eye = Eye.from_pretrained("mini").set_image("street.png")  # doctest: +SKIP
        """
        folder = model_folder(name)
        check_device(device)
        from .stock import ADAPTERS, StockEngine, adapted_model, with_adapters

        if os.path.isfile(folder / ADAPTERS):
            eye = cls.from_pretrained(adapted_model(folder), device=device, **options)
            eye.engine.model, eye.engine.name = with_adapters(eye.engine.model, folder), str(name)
            return eye
        engine = StockEngine.from_folder(folder, options.pop("name", str(name)), device)
        return cls(engine, **{**beside(folder), **options})

    @property
    def model(self) -> Any:
        return self.engine.model

    @property
    def processor(self) -> Any:
        return self.engine.processor

    def set_image(self, image: object, pages: PageList = None) -> Self:
        """Set the picture that the next questions are about.

        Args:
            image: A path, PIL image, array or tensor; or a document.
            pages: Of a document, such as "2-5".

        Returns:
            This eye.
        """
        document = document_of(image, pages)
        self._view, self.document = None, document if document is not None and len(document) > 1 else None
        if self.document is None:
            self._view = self.view(image if document is None else document.pages[0].place)
        return self

    def view(self, image: object) -> PictureView:
        """Return a picture (no document) as the model sees it."""
        return image if isinstance(image, PictureView) else self.engine.view(image)

    def prepare(
        self,
        query: str | Sequence[Turn],
        options: Options | None = None,
        *,
        look_for: str | None = None,
        pages_shown: int | None = None,
    ) -> ChatLook:
        """Do all that `ask` does before a picture is encoded; tokens are spent on `look_for`, or else the question."""
        options = as_options(options)
        if isinstance(query, str):
            query = (Turn(USER, (self.document or self.shown, query)),)
        question = check_turns(query)
        options.check_alone("allocation")
        trained = self.calibration
        options = options.default(levels=trained.levels, strategy=trained.strategy, relevance=self.relevance)
        opened = None
        documents = any(isinstance(part, Document) for turn in query for part in turn.parts)
        if options.allocation is None and documents:
            most = 1 if self.engine.taught_single_questions(self.scorer) else pages_shown
            here = replace(options, device=self.engine.device)
            opened = open_pages(query, look_for or question, here, self.scorer, most)
            query, options = opened.turns, opened.options
        turns = [turn.showing(self.view) for turn in query]
        settings = Settings(options, query=look_for or question, scorer=self.scorer)
        if opened is not None:
            looked = self.engine.look(turns, replace(settings, groups=opened.groups))
            looked.seconds["look"] += opened.seconds
            plan = replace(looked.plan, notes=opened.notes)
            return replace(looked, plan=plan, question=question, pages=opened.pages, of_pages=opened.of_pages)
        started = perf_counter()
        views = [view for turn in turns for view in turn.views]
        options = replace(options, words=words_of(views, options.words))
        options = options if options.allocation is not None else self._read(views, str(settings.query), options)
        reading, settings = perf_counter() - started, replace(settings, options=options)
        looked = self.engine.look(turns, settings)
        looked.seconds["look"] += reading
        tiled = len(looked.plan.allocations) != len(looked.views)
        helped = options.hints != "none" and options.words is not None and not tiled
        return self._hinted(looked, turns, settings) if helped else looked

    def _read(self, views: Sequence[PictureView], query: str, options: Options) -> Options:
        """Read words of pictures that bring none, where that pays; afterwards nothing is left to read."""
        known = options.words if isinstance(options.words, list) else [options.words] * len(views)
        # Words have their places in the whole picture, which is not what a tile shows.
        if self.engine.tiled or all(one is not None for one in known):
            return replace(options, ocr=False)
        read = []
        for view, one in zip(views, known, strict=True):
            lines = options.reads(self.engine.full_of(view), options.relevance)
            seen = view.tensors.get("canvas", view.picture.pixels)
            read.append(with_words(Scene(seen, one, scorer=self.scorer, page=view.picture.pixels, ocr=lines), query))
        words = one_or_several([scene.words for scene in read])
        return replace(options, words=words, ocr=any(scene.remark for scene in read))

    def _hinted(self, looked: ChatLook, turns: Sequence[Turn], settings: Settings) -> ChatLook:
        """Add what the words of its pages say to a look: text in the prompt, or an answer to copy."""
        words, allocations = settings.options.words, looked.plan.allocations
        if self.scorer is not None:  # taught with its scorer, and never with words in a prompt
            if not isinstance(words, Words) or len(turns) > 1:
                return looked
            (view,) = turns[0].views  # as it was given, not as it is read from another distance
            pointed = self.scored(str(settings.query), view)
            copied = copied_answer(words, looked.question, None if pointed is None else pointed.map)
            return replace(looked, copied=copied)
        text = hints_of(words, allocations)
        if not text:
            return looked
        last = replace(turns[-1], parts=(*turns[-1].parts, text))
        found = self.engine.look([*turns[:-1], last], settings.override(allocation=allocations))
        price = len(self.engine.tokenizer.encode(text, add_special_tokens=False))
        note = f"the words of the page that stand in detail are in the prompt: {price} text tokens"
        plan = replace(found.plan, notes=(*looked.plan.notes, note))
        seconds = {**looked.seconds, "read": looked.seconds.get("read", 0.0) + found.seconds.get("read", 0.0)}
        return replace(found, plan=plan, seconds=seconds, question=looked.question)

    def _sureness(self, looked: ChatLook, confidence: float) -> float:
        """Return how sure an answer of this probability is: less where the scorer was not sure of its place."""
        place, maps = self.calibration.place, looked.plan.relevance
        if place is None or not maps or not any(note.startswith(BY_SCORER) for note in looked.plan.notes):
            return confidence
        return place.sureness(confidence, max(float(np.max(np.asarray(one))) for one in maps))

    def conclude(
        self, looked: ChatLook, text: str, spent: int, *, confidence: float, entropy: float, margin: float
    ) -> Answer:
        """Build the answer to what `prepare` gave, of which `spent` visual tokens were really in the prompt."""
        uncertainty, planned, views = 1.0 - self._sureness(looked, confidence), looked.plan.allocations, looked.views
        if len(planned) != len(views):  # tiles, in pixels of their own; last the view that shows the whole picture
            whole = range(len(planned))[self.engine.backbone.whole_view]
            planned = [*planned[:whole], *planned[whole + 1 :], in_picture(planned[whole], views[0].picture.size)]
        else:
            planned = [in_picture(one, view.picture.size) for view, one in zip(views, planned, strict=True)]
        # What stands in the prompt beside the allocations' own tokens counts with the first picture.
        tokens = [spent - sum(one.tokens for one in planned[1:]), *(one.tokens for one in planned[1:])]
        sure = {"uncertainty": uncertainty, "entropy": entropy, "margin": margin}
        passes = tuple(Pass(one, count, text=text, **sure) for one, count in zip(planned, tokens, strict=True))
        shown = (marked(view.picture, self.scorer) for view in looked.views)
        notes = (*(note for picture in shown for note in picture.notes), *looked.plan.notes, *lost_detail(looked))
        pages: dict[str, Any] = {"pages": looked.pages, "of_pages": looked.of_pages}
        answer = Answer(text, uncertainty, passes, looked.seconds, looked.full, notes, **pages)
        if looked.copied is not None:
            answer = settled(answer, looked.copied, looked.question)
        return self.recorded(answer, looked.question, looked.views)

    def recorded(self, answer: Answer, query: str, views: Sequence[PictureView | None]) -> Answer:
        """Append an answer about one picture to the record, where there is one."""
        if self.record is not None and len(views) == 1 and views[0] is not None:
            self.record.add(answer, query, views[0].picture, self.engine.name)
        return answer

    def scored(self, query: str, view: PictureView | None = None) -> Relevance | None:
        """Return the scorer's map of a picture, the current one by default; None if the model has no scorer."""
        view = view or self._view
        if view is None or not isinstance(self.scorer, ScorerRelevance):
            return None
        return self.scorer(view.tensors.get("canvas", view.picture.pixels), query)

    def ask(
        self, query: str | Sequence[Turn], budget: Budget | Sequence[int] | None = None, options: Options | None = None
    ) -> Answer:
        """Answer one question about the picture.

        Args:
            query: The question; or the turns of a whole conversation with pictures of their own. Then budget,
                allocation and words may be lists, one for each picture, the last turn's text decides where to look, and
                the answer has one pass for each picture.
            budget: Visual tokens that may be spent, or a share such as "25%".
            options: Everything else; strategy, levels and relevance are the eye's own by default.

        Returns:
            An `Answer`.
        """
        options = as_options(options).override(budget=budget)
        if options.preset is not None:
            return self._by_preset(query, options)
        alone = self.engine.taught_single_questions(self.scorer) and isinstance(query, str)
        if self.document is not None and options.allocation is None and alone:
            return self._page_by_page(self.document, query, options)
        return self.answer(self.prepare(query, options), options.max_new_tokens)

    def _by_preset(self, query: str | Sequence[Turn], options: Options) -> Answer:
        """Answer one question about what is shown as a preset does; only the final answer is recorded."""
        options.check_alone("preset")
        function = load_function("arr_coc.answering.esper:find_preset")(options.preset)
        if not isinstance(query, str):
            raise InputError(f"preset {options.preset!r} answers one question, not a conversation")
        own = copy(self)
        own.record = None
        answer = function(own, check_question(query), replace(options, preset=None))
        return self.recorded(answer, query, [self._view])

    @property
    def shown(self) -> PictureView:
        """The current picture as the model sees it."""
        if self._view is None:
            raise InputError("no picture yet: call set_image(image) before asking")
        return self._view

    @property
    def full(self) -> int:
        """Visual tokens of the untouched current picture."""
        return self.engine.full_of(self.shown)

    def answer(self, looked: ChatLook, max_new_tokens: int = 64) -> Answer:
        """Answer what `prepare` gave, with at most `max_new_tokens` tokens."""
        spoken = self._spoken(looked, *self.engine.speak(looked, max_new_tokens))
        while True:
            try:
                next(spoken)
            except StopIteration as end:
                return end.value

    def _page_by_page(self, document: Document, query: str, options: Options) -> Answer:
        """Ask about the pages of a document one after another, until the answer is sure."""
        check_question(query)

        def asker(picture: Picture, words: Words | None, tokens: int, known: Relevance | None) -> Answer:
            own = copy(self).set_image(picture)
            return own.ask(query, options=replace(options, budget=tokens, relevance=known, words=words))

        plain = replace(options, strategy=DEFAULT_STRATEGY, strategy_options={}, device=self.engine.device)
        return ask_page_by_page(document, query, plain.default(relevance=self.relevance), self.scorer, asker)

    def chat(self, image: object = None, *, system: str | None = None, turns: Sequence[Turn] = ()) -> Chat:
        """Begin a conversation of several turns.

        Args:
            image: Shown with its first question; else the picture that was set.
            system: Said before all.
            turns: Of an earlier conversation, to go on from.

        Returns:
            A `Chat`.
        """
        if not isinstance(turns, list | tuple) or not all(isinstance(turn, Turn) for turn in turns):
            raise InputError(f"turns= must be a list of turns, got {shown(turns)}")
        said = turns if system is None else (Turn(SYSTEM, (of_kind(system, str, "system"),)), *turns)
        view = self._view if image is None else self.view(image)
        begins = image is not None or not any(turn.role == USER for turn in turns)
        return Chat(copy(self), said, (view,) if view is not None and begins else ())

    def stream(
        self, query: str | Sequence[Turn], budget: Budget | Sequence[int] | None = None, options: Options | None = None
    ) -> Generator[str, None, Answer]:
        """Answer as `ask` does, piece by piece while it is spoken; the generator returns the `Answer`."""
        options = as_options(options).override(budget=budget)
        if options.preset is not None:
            raise InputError("a preset cannot be streamed; call ask instead")
        looked = self.prepare(query, options)
        return self._spoken(looked, *self.engine.speak(looked, options.max_new_tokens))

    def _spoken(self, looked: ChatLook, speaking: Generator[DecodingStep], spent: int) -> Generator[str, None, Answer]:
        spelling, sureness = Spelling(self.engine.tokenizer, self.engine.ends), Sureness(self.calibration.temperature)
        started = perf_counter()
        for step in speaking:
            sureness.add(*step)
            if (piece := spelling.add(int(step.ids[0]))) and looked.copied is None:
                yield piece
            if spelling.ended:
                break
        if (piece := spelling.rest()) and looked.copied is None:
            yield piece
        looked.seconds["answer"] = perf_counter() - started
        answer = self.conclude(looked, spelling.text, spent, **sureness.row(0))
        if looked.copied is not None:  # which of the two it is was not known before
            yield answer.text
        return answer


def beside(folder: Path) -> dict[str, Any]:
    """Return what a training left in and beside the folder of a model, as arguments of `Eye`."""
    scorer = scorer_beside(folder)
    return {"calibration": Calibration.beside(folder), "scorer": None if scorer is None else ScorerRelevance(scorer)}
