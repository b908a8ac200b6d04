"""From a picture and a question to an `Answer`: look, foveate, and let a vision-language model speak.

eye = Eye.from_pretrained("mini")                     comes with the library; or a folder, or a name on the hub
eye.set_image("street.png")                           once: decoded, resized and cut into patches
eye.ask("What does the red sign say?", budget=64)     many times: every question gets an allocation of its own
for piece in eye.stream("What does it say?"): …       the same answer while it is spoken
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .attending import Frame
from .attending.strategies import DEFAULT_STRATEGY, check_strategy
from .backbones.attachment_plan import Plan, Settings, plan_prompt
from .backbones.base import backbone_for
from .backbones.query import PLACE, tokenize_prompt, without_markers
from .bundled import MINI, Calibration, ScorerRelevance, part_folder, scorer_beside
from .errors import InputError
from .knowing.registry import check_relevance
from .pictures import Picture
from .request import Request, check_request
from .sensing.pdf import load_page
from .sensing.words import Words, as_words
from .values import Allocation, Answer, Pass, Relevance

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import PreTrainedModel, ProcessorMixin
    from typing_extensions import Unpack

    from .backbones.base import Realized
    from .backbones.qwen3_vl_graph import Graphs
    from .request import Budget, Share, StrategyOptions

# (picture (3, height, width) in [0, 1], question) → where the question needs detail
RelevanceSource = Callable[["torch.Tensor", str], "Relevance | np.ndarray | torch.Tensor"]
# The keywords of `Eye.ask` beside those of the request.
KEYWORDS = ("query", "relevance", "allocation", "words", "max_new_tokens", "model", "device")
# What a picture and a model can offer to a source of relevance.
OFFERS = ("pixels", "texture", "model", "words")
# Characters of a question. A whole document does not belong into one: a language model reads it at every step.
LONGEST_QUESTION = 4000


@dataclass(frozen=True, eq=False)
class Looked:
    """A question that was looked at and is not yet answered. inputs: its whole prompt, (1, L). seconds: so far."""

    inputs: dict[str, Any]
    plan: Plan
    seconds: dict[str, float]


class Eye:
    """A model that looks before it answers.

    relevance: where detail should go, as for `attach`: "scorer" (the learned one), "glance", "detail", "look", any
    other source, or a function of (picture, question); "auto" takes the scorer where one was trained with the model, as
    with `mini`.
    scorer: that one. temperature: divides the logits before the uncertainty is read off them; 1 unless calibrated.
    levels: the coarsest level of detail; None leaves it to the allocator. strategy: what `ask` takes unless told; None
    is the library's default. graphs: single prompts run as CUDA graphs, captured when first needed; None does so where
    it is safe (a dense Qwen3-VL on one CUDA device).
    """

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
    ) -> None:
        if not temperature > 0:
            raise InputError(f"temperature must be above 0, got {temperature}")
        if isinstance(relevance, str):
            check_relevance(relevance, OFFERS if scorer is None else (*OFFERS, "scorer"))
        # Any: what a model can do depends on its class, and that is what the adapter knows.
        self.model: Any = model
        self.processor: Any = processor
        self.relevance = relevance
        self.scorer = scorer
        self.temperature = temperature
        self.levels = levels
        self.strategy = check_strategy(strategy or DEFAULT_STRATEGY)
        self.name = name or type(model).__name__
        self.backbone = backbone_for(model)
        self.backbone.check(model, processor)
        self._graphs = self._captured(graphs)
        self._picture: Picture | None = None
        self._words: Words | None = None
        self._pictured: dict[str, Any] = {}
        self._load_seconds = 0.0

    @classmethod
    def from_pretrained(cls, name: str = MINI, *, device: str = "cpu", **options: Any) -> Eye:
        """ "mini", which comes with the library, a stock model's folder, or its name on the hub.

        A calibration.json in the folder and a folder `scorer` beside it are used; options are those of the constructor.
        """
        from transformers import AutoModelForImageTextToText
        from transformers.utils import logging

        from .backbones import load_processor

        folder = part_folder(MINI) if name == MINI else Path(name)
        logging.disable_progress_bar()
        try:
            processor = load_processor(str(folder))
            # Half precision is slow on processors, and its sums are coarse.
            dtype = "float32" if device == "cpu" else "auto"
            model = AutoModelForImageTextToText.from_pretrained(str(folder), dtype=dtype)
        except (OSError, ValueError) as error:
            place = "folder" if folder.exists() else "name on the hub"
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

    def set_image(self, image: Any) -> Eye:
        """The picture that the next questions are about: path, PIL image, array or tensor."""
        from PIL import Image

        started = perf_counter()
        picture, self._words = load_page(image)
        pixels = self.processor.image_processor(images=[Image.fromarray(picture.pixels)], return_tensors="pt")
        self._pictured = {name: value for name, value in pixels.items() if hasattr(value, "to")}
        self._picture = picture
        self._load_seconds = perf_counter() - started
        return self

    def ask(
        self,
        query: str,
        budget: Budget | None = None,
        keep: Share | None = None,
        *,
        strategy: str | None = None,
        relevance: Any = None,
        allocation: Allocation | None = None,
        levels: int | None = None,
        seed: int = 0,
        words: Any = None,
        max_new_tokens: int = 64,
        **options: Unpack[StrategyOptions],
    ) -> Answer:
        """Answer one question about the picture, at most `budget` visual tokens (or `keep` of the full count; ¼).

        allocation: decided by the caller. strategy, relevance, levels: instead of the eye's own. words: of the picture,
        with their boxes, as for `look`; a page of a PDF brings its own. options: for the strategy, such as `boxes`
        (oracle).
        """
        from .decoding import generate

        how: dict[str, Any] = {"strategy": strategy, "levels": levels, "seed": seed, **options}
        looked = self.prepare(query, budget, keep, relevance=relevance, allocation=allocation, words=words, **how)
        with self._own_graphs() as graphs:
            with timed(looked.seconds, "encode"):
                realized = self.realize(looked, **({} if graphs is None else {"tower": graphs.tower}))
            with timed(looked.seconds, "answer"):
                said = generate(self.model, realized, max_new_tokens, graphs)
        text = self.processor.tokenizer.decode(said.ids[0][said.within[0]], skip_special_tokens=True).strip()
        sure = {"confidence": said.confidence, "entropy": said.entropy, "margin": said.margin}
        spent = self.visual_tokens(realized.inputs)
        return self.conclude(looked, text, spent, **{name: float(of(self.temperature)) for name, of in sure.items()})

    def stream(
        self,
        query: str,
        budget: Budget | None = None,
        keep: Share | None = None,
        *,
        max_new_tokens: int = 64,
        **how: Any,
    ) -> Generator[str, None, Answer]:
        """`ask`, in pieces of text as they are spoken; together they are the answer's text. The generator returns the
        `Answer`. A model that merges tokens behind its encoder speaks in one piece."""
        looked = self.prepare(query, budget, keep, **how)
        with timed(looked.seconds, "encode"):
            realized = self.realize(looked)
        return self._spoken(looked, realized, max_new_tokens)

    def _spoken(self, looked: Looked, realized: Realized, most: int) -> Generator[str, None, Answer]:
        from .decoding import Spelling, Sureness, end_tokens, steps

        spelling = Spelling(self.processor.tokenizer, end_tokens(self.model))
        sureness = Sureness(1, self.temperature, self.model.device)
        started = perf_counter()
        for step in steps(self.model, realized, most):
            sureness.add(*step)
            if piece := spelling.add(int(step[0])):
                yield piece
            if spelling.ended:
                break
        if piece := spelling.rest():
            yield piece
        looked.seconds["answer"] = perf_counter() - started
        return self.conclude(looked, spelling.text, self.visual_tokens(realized.inputs), **sureness.row(0))

    def prepare(
        self,
        query: str,
        budget: Budget | None = None,
        keep: Share | None = None,
        *,
        relevance: Any = None,
        allocation: Allocation | None = None,
        words: Any = None,
        look_for: str | None = None,
        **how: Any,
    ) -> Looked:
        """All of `ask` before the picture is encoded. look_for: what tokens are spent on, where that is not `query`."""
        if self._picture is None:
            raise InputError("no picture yet: call eye.set_image(image) before eye.ask(query)")
        check_request([query], budget, keep)
        check_question(query)
        own = {"levels": self.levels, "strategy": self.strategy}
        how = {**how, **{name: value for name, value in own.items() if how.get(name) is None}}
        known = self._words if words is None else as_words(words, self._picture.size)
        settings = Settings(
            Request.of(budget, keep, keywords=KEYWORDS, **how),
            query=look_for or query,
            allocation=allocation,
            relevance=self.relevance if relevance is None else relevance,
            scorer=self.scorer,
            words=known if known is not None and len(known) else None,
        )
        seconds = {"load": self._load_seconds}
        with timed(seconds, "read"):
            inputs = self._prompt(query)
            self._check(inputs)
        with timed(seconds, "look"):
            plan = plan_prompt(self.backbone, self.model, self.processor, inputs, settings)
        return Looked(inputs, plan, seconds)

    def realize(self, looked: Looked, **tower: Any) -> Realized:
        """The shortened prompt with its visual tokens."""
        plan = looked.plan
        return self.backbone.realize(
            self.model, looked.inputs, plan.allocations, relevance=plan.relevance, **plan.options, **tower
        )

    def conclude(
        self, looked: Looked, text: str, spent: int, *, confidence: float, entropy: float, margin: float
    ) -> Answer:
        """The answer to what was looked at. spent: what the prompt holds counts, not what was planned."""
        assert self._picture is not None
        seen, uncertainty = self._in_picture(looked.plan.allocations[0]), 1.0 - confidence
        only = Pass(seen, spent, text=text, uncertainty=uncertainty, entropy=entropy, margin=margin)
        full, notes = self.visual_tokens(looked.inputs), (*self._picture.notes, *looked.plan.notes)
        return Answer(text, uncertainty, (only,), looked.seconds, full, notes)

    def scored(self, query: str) -> Relevance | None:
        """The scorer's map of the picture, for drawing; None where no scorer belongs to the model."""
        if self._picture is None or not isinstance(self.scorer, ScorerRelevance):
            return None
        return self.scorer.of_pixels(self._picture.pixels, query)

    def visual_tokens(self, prompt: Mapping[str, Any]) -> int:
        return int((prompt["input_ids"] == self.backbone.image_token_id(self.model)).sum())

    def _prompt(self, query: str) -> dict[str, Any]:
        """The chat with one picture: patches are cut once, the text is set for every question."""
        import torch

        tokenizer = self.processor.tokenizer
        content = [{"type": "image"}, {"type": "text", "text": PLACE}]
        text = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        merge = getattr(self.processor.image_processor, "merge_size", None)
        grid = self._pictured.get("image_grid_thw")
        if merge is None or grid is None:
            from PIL import Image

            assert self._picture is not None
            picture = Image.fromarray(self._picture.pixels)
            text = text.replace(PLACE, without_markers(tokenizer, query))
            inputs = dict(self.processor(text=[text], images=[picture], return_tensors="pt"))
        else:
            tokens = int(torch.as_tensor(grid)[0].prod()) // merge**2
            token = self.processor.image_token
            ids = torch.tensor([tokenize_prompt(tokenizer, text.replace(token, token * tokens, 1), query)])
            inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **self._pictured}
        device = self.model.device
        return {name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()}

    def _check(self, inputs: Mapping[str, Any]) -> None:
        grids = self.backbone.grids(self.model, inputs)
        if len(grids) != 1:
            raise InputError(
                f"{self.name} shows this picture as {len(grids)} tiles or views, and one answer cannot tell where they "
                "lie; use attach(), which gives an allocation for each"
            )

    def _captured(self, wanted: bool | None) -> Graphs | None:
        """The graphs of this model, where they are wanted and possible."""
        from .backbones.qwen3_vl_graph import Graphs
        from .decoding import is_lean

        safe = is_lean(self.model) and Graphs.safe(self.model)
        if wanted and not safe:
            raise InputError(f"graphs=True needs a dense Qwen3-VL on one CUDA device, greedy; {self.name} is not")
        return None if wanted is False or not safe else Graphs(self.model)

    @contextmanager
    def _own_graphs(self) -> Generator[Graphs | None]:
        """The graphs while nobody else uses them; None where there are none, or another thread is at them."""
        if self._graphs is None or not self._graphs.busy.acquire(blocking=False):
            yield None
            return
        try:
            yield self._graphs
        finally:
            self._graphs.busy.release()

    def _in_picture(self, allocation: Allocation) -> Allocation:
        """The same regions in pixels of the picture as given: the model counts in those of its own canvas."""
        assert self._picture is not None
        canvas = allocation.canvas or (allocation.height, allocation.width)
        frame = Frame(self._picture.size, allocation.cell, canvas)
        return frame.allocation(
            allocation.leaf_cells(),
            allocation.scores,
            allocation.budget,
            allocation.strategy,
            counts=allocation.counts,
            sparse=allocation.sparse,
        )


def check_question(query: str) -> None:
    """A question that a model would choke on is refused before anything is loaded or looked at."""
    if len(query) > LONGEST_QUESTION:
        raise InputError(f"the question has {len(query)} characters, more than {LONGEST_QUESTION}; shorten it")


def ask(
    image: Any,
    query: str,
    budget: Budget | None = None,
    keep: Share | None = None,
    *,
    model: str | Eye = MINI,
    device: str = "cpu",
    strategy: str | None = None,
    relevance: Any = None,
    allocation: Allocation | None = None,
    levels: int | None = None,
    seed: int = 0,
    words: Any = None,
    max_new_tokens: int = 64,
    **options: Unpack[StrategyOptions],
) -> Answer:
    """One question about one picture; `model` is an `Eye`, "mini", a folder or a name on the hub. Several: `Eye`.

    The other arguments are those of `Eye.ask`.
    """
    check_request([query], budget, keep)
    check_question(query)
    how: dict[str, Any] = {"levels": levels, "seed": seed}
    # Told before a model is loaded; options are those of a strategy that only the model may know.
    Request.of(budget, keep, strategy=strategy or DEFAULT_STRATEGY, **how, **(options if strategy else {}))
    how |= {"strategy": strategy, "relevance": relevance, "allocation": allocation, "words": words, **options}
    how["max_new_tokens"] = max_new_tokens
    eye = model if isinstance(model, Eye) else copy(_loaded(model, device))  # a copy: several threads may ask at once
    return eye.set_image(image).ask(query, budget, keep, **how)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> Eye:
    """The model of the last `ask`, so that the next one does not read it again. Never shown a picture itself."""
    return Eye.from_pretrained(name, device=device)


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Any:
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started
