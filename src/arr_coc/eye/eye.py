"""From a picture and a question to an `Answer`: look, foveate, and let a vision-language model speak.

eye = Eye.from_pretrained("mini")                     comes with the library; or a folder, or a name on the hub
eye.set_image("street.png")                           once: decoded, resized and cut into patches
eye.ask("What does the red sign say?", budget=64)     many times: every question gets an allocation of its own
for piece in eye.stream("What does it say?"): …       the same answer while it is spoken
answer = await eye.aask("What does it say?")          in a thread; several at once take turns
eye.ask_many(pictures, questions, budget=64)          one batch, the answers of one by one
eye.chat()                                            several turns: see `chat`
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Generator, Sequence
from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..allocation.request import check_decided
from ..core.checks import shown, whole
from ..core.errors import InputError
from ..core.values import Allocation, Answer
from .chat import SYSTEM, USER, Chat, ChatLook, Turn, View, joined
from .readings import check_readings, read_several
from .sight import Sight, timed

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..allocation.request import Budget, Share, StrategyOptions
    from ..models.base import Realized
    from .chat import AskOptions, ManyOptions
    from .decoding import Generated

# Questions that `ask_many` answers at once.
BATCH = 8


class Eye(Sight):
    """A model that looks before it answers.

    relevance: where detail should go, as for `attach`: "scorer" (the learned one), "glance", "detail", "look", any
    other source, or a function of (picture, question); "auto" takes the scorer where one was trained with the model, as
    with `mini`.
    scorer: that one. temperature: divides the logits before the uncertainty is read off them; 1 unless calibrated.
    levels: the coarsest level of detail; None leaves it to the allocator. strategy: what `ask` takes unless told; None
    is the library's default. graphs: single prompts run as CUDA graphs, captured when first needed; None does so where
    it is safe (a dense Qwen3-VL on one CUDA device). record: a file that keeps what was asked and decided (`feedback`).
    depth: route leaves to DeepStack depths (`DepthRouting`, or "stock", "spread", "early"); Qwen3-VL only.
    """

    def ask(
        self,
        query: str | Sequence[Turn],
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        *,
        strategy: str | None = None,
        relevance: Any = None,
        allocation: Allocation | Sequence[Allocation] | None = None,
        levels: int | None = None,
        seed: int = 0,
        words: Any = None,
        scale: float | str | None = None,
        readings: int = 1,
        max_new_tokens: int = 64,
        **options: Unpack[StrategyOptions],
    ) -> Answer:
        """Answer one question about the picture, at most `budget` visual tokens (or `keep` of the full count; ¼).

        query: or the turns of a whole conversation, with pictures of their own: then budget, allocation and words may
        be lists, one for each picture, the last turn's text decides where to look, and the answer has one pass for each
        picture.
        allocation: decided by the caller. strategy, relevance, levels: instead of the eye's own. words: of the picture,
        with their boxes, as for `look`; a page of a PDF brings its own. options: for the strategy, such as `boxes`
        (oracle).
        scale: from how far the picture is read: "auto", by the grip of the model and the size of its letters (the
        default where the grip is known), or how many times as large; 1 is as it is given. readings: where the answer is
        unsure, the picture is read again from the next distance, at most so often in all; the budget is that of all
        readings together, and the surest answer wins.
        """
        from .decoding import generate

        max_new_tokens = whole(max_new_tokens, "max_new_tokens", 1)
        how: dict[str, Any] = {"strategy": strategy, "levels": levels, "seed": seed, **options}
        if check_readings(readings) > 1:
            check_decided(allocation, readings=readings)
            given = {**how, "relevance": relevance, "words": words, "max_new_tokens": max_new_tokens}
            return read_several(self.ask, readings, query, budget, keep, scale, self.full_of(query), given)
        how["scale"] = scale
        looked = self.prepare(query, budget, keep, relevance=relevance, allocation=allocation, words=words, **how)
        with self._own_graphs(looked) as graphs:
            with timed(looked.seconds, "encode"):
                realized = self.realize(looked, **({} if graphs is None else {"tower": graphs.tower}))
            with timed(looked.seconds, "answer"):
                said = generate(self.model, realized, max_new_tokens, graphs)
        return self._answers([looked], realized, said)[0]

    def ask_many(
        self,
        images: Any,
        queries: str | Sequence[str],
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        *,
        batch: int = BATCH,
        **how: Unpack[ManyOptions],
    ) -> list[Answer]:
        """The answers of `ask` to many questions, `batch` at a time in one padded prompt; encoding and answering are
        timed for all of them together. The picture that was set stays.

        images, queries, budget: a list with one for each, or one for all. A model that merges tokens behind its encoder
        is asked one by one.
        """
        from .decoding import generate, is_lean

        batch, most = whole(batch, "batch", 1), whole(how.pop("max_new_tokens", 64), "max_new_tokens", 1)
        asked = paired(images, queries, budget)
        batch = batch if is_lean(self.model) else 1
        answers: list[Answer] = []
        for start in range(0, len(asked), batch):
            part = asked[start : start + batch]
            views = {
                id(image): View.of(self.processor, image) for image in {id(one[0]): one[0] for one in part}.values()
            }
            looked = [
                self.prepare((Turn(USER, (views[id(image)], query)),), one, keep, **how) for image, query, one in part
            ]
            seconds: dict[str, float] = {}
            with timed(seconds, "encode"):
                realized = self.realize(joined(looked))
            with timed(seconds, "answer"):
                said = generate(self.model, realized, most)
            for one in looked:
                one.seconds.update(seconds)
            answers += self._answers(looked, realized, said)
        return answers

    def aask(
        self,
        query: str | Sequence[Turn],
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        *,
        image: Any = None,
        **how: Unpack[AskOptions],
    ) -> Coroutine[Any, Any, Answer]:
        """`ask`, awaited: the loop goes on while one thread answers. Several at once take turns, each about the picture
        that was set when it was called, or about its own `image`."""
        own = copy(self)

        def work() -> Answer:
            return (own if image is None else own.set_image(image)).ask(query, budget, keep, **how)

        async def answer() -> Answer:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)

        return answer()

    def chat(self, image: Any = None, *, system: str | None = None, turns: Sequence[Turn] = ()) -> Chat:
        """A conversation of several turns. image: shown with its first question, else the picture that was set. system:
        said before all. turns: of an earlier conversation, to go on from."""
        if not isinstance(turns, Sequence) or not all(isinstance(turn, Turn) for turn in turns):
            raise InputError(f"turns= are those of an earlier conversation, a list of Turn, got {shown(turns)}")
        if not isinstance(system, str | None):
            raise InputError(f"system= is a text that is said before all, got {shown(system)}")
        said = (*(() if system is None else (Turn(SYSTEM, (system,)),)), *turns)
        view = self._view if image is None else View.of(self.processor, image)
        begins = view is not None and (image is not None or not any(turn.role == USER for turn in turns))
        return Chat(copy(self), said, (view,) if view is not None and begins else ())

    def _answers(self, looked: Sequence[ChatLook], realized: Realized, said: Generated) -> list[Answer]:
        """The answers to the rows of a batch."""
        spent = (realized.inputs["input_ids"] == self.backbone.image_token_id(self.model)).sum(1).tolist()
        sure = {"confidence": said.confidence, "entropy": said.entropy, "margin": said.margin}
        found = {name: of(self.temperature).tolist() for name, of in sure.items()}
        answers = []
        for row, one in enumerate(looked):
            ids = said.ids[row][said.within[row]]
            text = self.processor.tokenizer.decode(ids, skip_special_tokens=True).strip()
            answers.append(self.conclude(one, text, spent[row], **{name: of[row] for name, of in found.items()}))
        return answers

    def stream(
        self,
        query: str | Sequence[Turn],
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        **how: Unpack[AskOptions],
    ) -> Generator[str, None, Answer]:
        """`ask`, in pieces of text as they are spoken; together they are the answer's text. The generator returns the
        `Answer`. A model that merges tokens behind its encoder speaks in one piece."""
        most = whole(how.pop("max_new_tokens", 64), "max_new_tokens", 1)
        looked = self.prepare(query, budget, keep, **how)
        with timed(looked.seconds, "encode"):
            realized = self.realize(looked)
        return self._spoken(looked, realized, most)

    def _spoken(self, looked: ChatLook, realized: Realized, most: int) -> Generator[str, None, Answer]:
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


def paired(images: Any, queries: Any, budgets: Any) -> list[tuple[Any, str, Any]]:
    """(image, question, budget) of every question of a batch."""
    given = {"images": images, "queries": queries, "budget": budgets}
    listed = {name: value for name, value in given.items() if isinstance(value, list | tuple)}
    lengths = {name: len(value) for name, value in listed.items()}
    if len({*lengths.values()}) > 1 or not listed:
        told = ", ".join(f"{count} {name}" for name, count in lengths.items()) or "no list"
        raise InputError(f"images, queries and budget must be lists of one length, or one for all; got {told}")
    count = next(iter(lengths.values()))
    columns = [listed.get(name, [value] * count) for name, value in given.items()]
    return list(zip(*columns, strict=True))
