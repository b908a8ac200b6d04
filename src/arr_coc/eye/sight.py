"""Everything of an `Eye` but its words: the model, the picture, where the tokens of a question go, what they cost.

`eye.Eye` adds the ways to ask; the server's engine prepares and concludes here and speaks by itself.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..allocation.frame import in_picture
from ..allocation.grip import Grip, as_grip
from ..allocation.request import ASK_KEYWORDS, Request, check_decided, check_device, check_request
from ..allocation.strategies import DEFAULT_STRATEGY, check_strategy
from ..core.checks import of_kind, positive, whole
from ..core.errors import InputError
from ..core.folders import MINI
from ..core.values import Answer, Pass, Relevance
from ..models.attachment import adapter_options
from ..models.attachment_plan import Settings, plan_prompt
from ..models.base import backbone_for, check_processor, unwrapped
from ..models.bundled import Calibration, as_trained, marked, model_folder
from ..models.tokens.depth import DepthRouting
from ..relevance.registry import check_relevance
from ..relevance.scorer.source import ScorerRelevance, scorer_beside
from .chat import USER, ChatLook, Turn, View, chat_inputs, check_turns, words_of
from .distances import seen_from
from .feedback import Feedback

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

    import numpy as np
    import torch
    from transformers import PreTrainedModel, ProcessorMixin

    from ..allocation.request import Share
    from ..models.base import Realized
    from ..models.qwen3_vl.graph import Graphs

ADAPTERS = "adapter_config.json"
# A tokenizer of so few words has one for each character.
MOST_CHARACTERS = 256
UNREAD = "what was said before was not read: {name} was taught single questions"
# (picture (3, height, width) in [0, 1], question) → where the question needs detail
RelevanceSource = Callable[["torch.Tensor", str], "Relevance | np.ndarray | torch.Tensor"]
# What a picture and a model can offer to a source of relevance.
OFFERS = ("pixels", "texture", "model", "words")


class Sight:
    """A model, and the picture that it was shown last; the arguments are told at `eye.Eye`."""

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        *,
        relevance: str | RelevanceSource = "auto",
        scorer: RelevanceSource | None = None,
        temperature: float = 1.0,
        levels: int | None = None,
        strategy: str | None = None,
        graphs: bool | None = None,
        name: str = "",
        record: Feedback | str | Path | None = None,
        depth: DepthRouting | str | None = None,
        grip: Grip | str | Path | None = None,
    ) -> None:
        if isinstance(relevance, str):
            check_relevance(relevance, OFFERS if scorer is None else (*OFFERS, "scorer"))
        # Any: what a model can do depends on its class, and that is what the adapter knows.
        self.model: Any = unwrapped(model)
        self.processor: Any = processor
        self.relevance = relevance
        self.scorer = scorer
        self.temperature = positive(temperature, "temperature")
        self.levels = None if levels is None else whole(levels, "levels")
        self.strategy = check_strategy(DEFAULT_STRATEGY if strategy is None else strategy)
        self.name = of_kind(name, str, "name") or type(model).__name__
        self.backbone = backbone_for(self.model)
        check_processor(processor)
        self.backbone.check(self.model, processor)
        self.record = Feedback.of(record)
        self.depth = DepthRouting.named(depth) if isinstance(depth, str) else depth
        if self.depth is not None and "depth" not in adapter_options(self.backbone):
            raise InputError(f"depth= is for Qwen3-VL, which foveates before its encoder; {self.name} does not")
        self.grip = self._grip_of(grip)
        self._graphs = self._captured(graphs)
        self._view: View | None = None
        # What is awaited takes turns here; copies of an eye, which share its weights, share it too.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="arr-coc eye")

    def __copy__(self) -> Self:
        """Another picture, the same weights, and the same turns for what is awaited."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        return made

    def __getstate__(self) -> dict[str, Any]:
        """All but what belongs to this process: the thread, and graphs of its device."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_thread", "_graphs")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _thread=ThreadPoolExecutor(1, thread_name_prefix="arr-coc eye"))
        self._graphs = self._captured(None)

    @classmethod
    def from_pretrained(cls, name: str = MINI, *, device: str = "cpu", **options: Any) -> Self:
        """ "mini", which comes with the library, a stock model's folder, its name on the hub, or a folder of adapters
        (`train lora`, peft), whose model is loaded with them.

        A calibration.json in the folder and a folder `scorer` beside it are used; options are those of the constructor.
        """
        folder = model_folder(name)
        check_device(device)
        from transformers import AutoModelForImageTextToText
        from transformers.utils import logging

        from ..models.qwen3_vl.processor import load_processor

        if os.path.isfile(folder / ADAPTERS):
            eye = cls.from_pretrained(adapted_model(folder), device=device, **options)
            eye.model, eye.name = with_adapters(eye.model, folder), str(name)
            return eye
        logging.disable_progress_bar()
        try:
            processor = load_processor(str(folder))
            # Half precision is slow on processors, and its sums are coarse.
            dtype = "float32" if device == "cpu" else "auto"
            model = AutoModelForImageTextToText.from_pretrained(str(folder), dtype=dtype)
        except (OSError, ValueError) as error:
            place = "folder" if os.path.exists(folder) else "name on the hub"
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load {name!r} as a {place} of a vision-language model: {reason}") from error
        calibration, scorer = Calibration.beside(folder), scorer_beside(folder)
        known: dict[str, Any] = {
            "temperature": calibration.temperature,
            "levels": calibration.levels,
            "strategy": calibration.strategy,
            "scorer": None if scorer is None else ScorerRelevance(scorer),
        }
        return cls(model.to(device).eval(), processor, name=str(name), **{**known, **options})

    def set_image(self, image: Any) -> Self:
        """The picture that the next questions are about: path, PIL image, array or tensor."""
        self._view = View.of(self.processor, image)
        return self

    def prepare(
        self,
        query: str | Sequence[Turn],
        budget: Any = None,
        keep: Share | None = None,
        *,
        relevance: Any = None,
        allocation: Any = None,
        words: Any = None,
        look_for: str | None = None,
        **how: Any,
    ) -> ChatLook:
        """All of `ask` before the picture is encoded. look_for: what tokens are spent on, where that is not the
        question."""
        if isinstance(query, str):
            if self._view is None:
                raise InputError("no picture yet: call eye.set_image(image) before eye.ask(query)")
            query = (Turn(USER, (self._view, query)),)
        question = check_turns(query)
        check_request([question], budget, keep)
        check_decided(allocation, budget=budget, keep=keep)
        own = {"levels": self.levels, "strategy": self.strategy}
        how = {**how, **{name: value for name, value in own.items() if how.get(name) is None}}
        request = Request.of(budget, keep, keywords=ASK_KEYWORDS, **how)
        turns = [turn.seen_by(self.processor) for turn in query]
        views = tuple(view for turn in turns for view in turn.views)
        settings = Settings(
            request,
            query=look_for or question,
            allocation=allocation,
            relevance=self.relevance if relevance is None else relevance,
            scorer=self.scorer,
            words=words_of(views, words),
            realize={} if self.depth is None else {"depth": self.depth},
        )
        seconds = {"load": sum(view.seconds for view in views)}
        with timed(seconds, "read"):
            inputs = self.prompt_of(turns)
            self._check(inputs, len(views))
        with timed(seconds, "look"):
            plan = plan_prompt(self.backbone, self.model, self.processor, inputs, settings)
            found = seen_from(self, turns, inputs, plan, settings)
        full = None
        if found is not None:
            full, (turns, inputs, plan) = self.visual_tokens(inputs), found
            views = tuple(view for turn in turns for view in turn.views)
        if len(turns) > 1 and self._taught_single_questions:
            plan = replace(plan, notes=(*plan.notes, UNREAD.format(name=self.name)))
        return ChatLook(inputs, plan, seconds, views, question, full)

    def prompt_of(self, turns: Sequence[Turn]) -> dict[str, Any]:
        """The model's inputs for turns whose pictures are views, on its device."""
        inputs = chat_inputs(self.processor, self._as_trained(turns))
        return {name: value.to(self.model.device) if hasattr(value, "to") else value for name, value in inputs.items()}

    @property
    def _taught_single_questions(self) -> bool:
        """A reader of characters with a scorer of this library's. A large model beside one was taught conversations."""
        return isinstance(self.scorer, ScorerRelevance) and len(self.processor.tokenizer) <= MOST_CHARACTERS

    def _as_trained(self, turns: Sequence[Turn]) -> list[Turn]:
        """Questions as the model knows them; where it knows no other, all pictures and the last turn."""
        known = [self._turn_as_trained(turn) for turn in turns]
        if not self._taught_single_questions:
            return known
        earlier = (view for turn in known[:-1] for view in turn.views)
        return [Turn(USER, (*earlier, *known[-1].parts))]

    def _turn_as_trained(self, turn: Turn) -> Turn:
        if turn.role != USER:
            return turn
        parts = (as_trained(part, self.scorer) if isinstance(part, str) else part for part in turn.parts)
        return replace(turn, parts=tuple(parts))

    def realize(self, looked: ChatLook, **tower: Any) -> Realized:
        """The shortened prompt with its visual tokens."""
        plan = looked.plan
        return self.backbone.realize(
            self.model, looked.inputs, plan.allocations, relevance=plan.relevance, **plan.options, **tower
        )

    def conclude(
        self, looked: ChatLook, text: str, spent: int, *, confidence: float, entropy: float, margin: float
    ) -> Answer:
        """The answer to what was looked at. spent: what the prompt holds counts, not what was planned."""
        uncertainty, planned = 1.0 - confidence, looked.plan.allocations
        # What stands in the prompt beside the allocations' own tokens counts with the first picture.
        tokens = [spent - sum(one.tokens for one in planned[1:]), *(one.tokens for one in planned[1:])]
        passes = tuple(
            Pass(
                in_picture(one, view.picture.size),
                count,
                text=text,
                uncertainty=uncertainty,
                entropy=entropy,
                margin=margin,
            )
            for view, one, count in zip(looked.views, planned, tokens, strict=True)
        )
        shown = (marked(view.picture, self.scorer) for view in looked.views)
        notes = (*(note for picture in shown for note in picture.notes), *looked.plan.notes)
        full = self.visual_tokens(looked.inputs) if looked.full is None else looked.full
        answer = Answer(text, uncertainty, passes, looked.seconds, full, notes)
        if self.record is None or len(looked.views) != 1:
            return answer
        return self.record.noted(answer, looked.question, looked.views[0].picture, model=self.name)

    def scored(self, query: str) -> Relevance | None:
        """The scorer's map of the picture, for drawing; None where no scorer belongs to the model."""
        if self._view is None or not isinstance(self.scorer, ScorerRelevance):
            return None
        return self.scorer.of_pixels(self._view.picture.pixels, query)

    def full_of(self, query: str | Sequence[Turn]) -> int:
        """Visual tokens of the untouched prompt of one picture; `InputError` where several are shown."""
        views = [self._view] if isinstance(query, str) else [view for turn in query for view in turn.views]
        if len(views) != 1 or views[0] is None:
            raise InputError(f"several readings are of one picture, and {len(views)} are shown; ask with readings=1")
        return self.visual_tokens(self.prompt_of([Turn(USER, (views[0], "?"))]))

    def visual_tokens(self, prompt: Mapping[str, Any]) -> int:
        return int((prompt["input_ids"] == self.backbone.image_token_id(self.model)).sum())

    def _check(self, inputs: Mapping[str, Any], pictures: int) -> None:
        grids = self.backbone.grids(self.model, inputs)
        if len(grids) != pictures:
            shown = "this picture" if pictures == 1 else f"these {pictures} pictures"
            raise InputError(
                f"{self.name} shows {shown} as {len(grids)} tiles or views, and one answer cannot tell where they "
                "lie; use attach(), which gives an allocation for each"
            )

    def _grip_of(self, given: Grip | str | Path | None) -> Grip | None:
        """What was given, or what was measured of this model; None where nothing was."""
        if given is not None:
            return as_grip(given)
        return Grip.known(getattr(self.model.config, "_name_or_path", "") or "")

    def _captured(self, wanted: bool | None) -> Graphs | None:
        """The graphs of this model, where they are wanted and possible."""
        from ..models.qwen3_vl.graph import Graphs
        from .decoding import is_lean

        wanted = None if wanted is None else of_kind(wanted, bool, "graphs")
        safe = is_lean(self.model) and Graphs.safe(self.model)
        if wanted and not safe:
            raise InputError(f"graphs=True needs a dense Qwen3-VL on one CUDA device, greedy; {self.name} is not")
        return None if wanted is False or not safe else Graphs(self.model)

    @contextmanager
    def _own_graphs(self, looked: ChatLook) -> Generator[Graphs | None]:
        """The graphs, of single pictures, while nobody else uses them; None where there are none, or another thread is
        at them."""
        if self._graphs is None or len(looked.views) > 1 or not self._graphs.busy.acquire(blocking=False):
            yield None
            return
        try:
            yield self._graphs
        finally:
            self._graphs.busy.release()


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Any:
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started


def adapted_model(folder: Path) -> str:
    """The model that a folder of adapters says it was trained for."""
    try:
        name = json.loads((folder / ADAPTERS).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder / ADAPTERS} does not name the model of its adapters; train them again") from error
    if not isinstance(name, str) or not name:
        raise InputError(f"{folder / ADAPTERS} does not name the model of its adapters; write it there")
    if os.path.isabs(name) and not os.path.isdir(name):
        raise InputError(f"the model of the adapters in {folder} is gone: {name}; put it back, or write its new place "
                         f"as base_model_name_or_path into {ADAPTERS}")  # fmt: skip
    return name


def with_adapters(model: Any, folder: Path) -> Any:
    """The model with the adapters of a folder merged into its weights."""
    try:
        peft: Any = import_module("peft")
    except ImportError as error:
        raise InputError(f"{folder} holds adapters, which need peft: pip install 'arr-coc[lora]'") from error
    try:
        return peft.PeftModel.from_pretrained(model, str(folder)).merge_and_unload().eval()
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the adapters of {folder} do not fit their model: {reason}") from error
