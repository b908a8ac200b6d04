"""A conversation about pictures: its turns, the prompt they make in a model's own chat template, and `Chat`.

chat = eye.chat("street.png")                              or eye.chat(), about the picture that the eye was shown
chat.ask("What does the pink sign say?", budget=96)
chat.show("menu.png").ask("What does that cost there?")    another picture; each question gets allocations of its own
chat.turns                                                 all that is remembered; eye.chat(turns=…) goes on from it
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..allocation.request import check_question
from ..core.checks import shown
from ..core.errors import InputError
from ..core.values import Allocation, Answer
from ..models.attachment_plan import PromptPlan
from ..models.query import PLACE, tokenize_prompt, without_markers
from ..pictures.load import Picture, processed
from ..pictures.pdf import load_page
from ..pictures.words import Words
from ..pictures.words_files import as_words
from ..sensing.type_height import TypeHeight, letters_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..allocation.request import AnyOptions, Budget, Share

    class SomeOptions(AnyOptions, total=False):
        """How to ask, beside how much may be spent."""

        strategy: str | None
        relevance: Any
        levels: int | None
        seed: int
        scale: float | str | None
        max_new_tokens: int

    class AskOptions(SomeOptions, total=False, closed=True):
        """The keywords of `Eye.ask`, and no others."""

        allocation: Allocation | Sequence[Allocation] | None
        words: Any
        readings: int

    class ManyOptions(SomeOptions, closed=True):
        """Those of `Eye.ask_many`, which hold for every picture."""


SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
# Of all turns together.
LONGEST_CHAT = 32_000


@dataclass(frozen=True, eq=False)
class View:
    """A picture as a model's processor shows it: made once, asked about many times.

    words: those that came with it. tensors: its patches and their grid. seconds: that loading took.
    """

    picture: Picture
    words: Words | None
    tensors: Mapping[str, Any]
    seconds: float

    @classmethod
    def of(cls, processor: Any, image: Any) -> View:
        """image: a path, PIL image, array, tensor or page."""
        started = perf_counter()
        picture, words = load_page(image)
        pixels = processed(processor.image_processor, picture)
        tensors = {name: value for name, value in pixels.items() if hasattr(value, "to")}
        return cls(picture, words, tensors, perf_counter() - started)

    @property
    def letters(self) -> TypeHeight:
        """How tall its letters are, by the words that came with it, or sensed."""
        return letters_of(self.picture.pixels, self.words, self.picture.size)


@dataclass(frozen=True)
class Turn:
    """role: "system", "user" or "assistant". parts: texts, and pictures (a `View`, or whatever `View.of` takes) where
    they are shown."""

    role: str
    parts: tuple[Any, ...]

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def views(self) -> list[View]:
        return [part for part in self.parts if isinstance(part, View)]

    def seen_by(self, processor: Any) -> Turn:
        """With every picture as a `View`."""
        seen = [part if isinstance(part, str | View) else View.of(processor, part) for part in self.parts]
        return replace(self, parts=tuple(seen))


@dataclass(frozen=True, eq=False)
class ChatLook:
    """A conversation that was looked at and is not yet answered. inputs: its whole prompt, (1, L). views: its pictures,
    in order. seconds: so far. question: the text of its last turn. full: visual tokens of the untouched prompt, where
    that is not this one: pictures may be seen from another distance."""

    inputs: dict[str, Any]
    plan: PromptPlan
    seconds: dict[str, float]
    views: tuple[View, ...]
    question: str = ""
    full: int | None = None


def check_turns(turns: Sequence[Turn]) -> str:
    """The question: the text of the last turn. Raises `InputError` where this is no conversation about pictures."""
    if not isinstance(turns, Sequence) or not all(isinstance(turn, Turn) for turn in turns):
        raise InputError(f"a question is a text or the turns of a conversation, got {shown(turns)}")
    if not turns or turns[-1].role != USER:
        raise InputError("the last turn must be the user's, with the question")
    for turn in turns:
        if turn.role not in (SYSTEM, USER, ASSISTANT):
            raise InputError(f"the role {turn.role!r} is unknown; use {SYSTEM}, {USER} or {ASSISTANT}")
        if turn.role != USER and not all(isinstance(part, str) for part in turn.parts):
            raise InputError(f"pictures are shown in turns of the user, not of the {turn.role}")
    if all(isinstance(part, str) for turn in turns for part in turn.parts):
        raise InputError("no picture is shown in this conversation; show at least one")
    check_question(turns[-1].text)
    written = sum(len(turn.text) for turn in turns)
    if written > LONGEST_CHAT:
        raise InputError(f"the conversation has {written} characters, more than {LONGEST_CHAT}; leave old turns out")
    return turns[-1].text


def words_of(views: Sequence[View], given: Any) -> Any:
    """The words of one picture, or a list for several; None where there are none. given: instead of those that came
    with the pictures; for several pictures, one entry (or None) for each."""
    several = [given] * len(views) if given is None or len(views) == 1 else given
    if not isinstance(several, list | tuple) or len(several) != len(views):
        raise InputError(f"words= must be a list with one entry for each of {len(views)} pictures")
    known = [
        view.words if one is None else as_words(one, view.picture.size)
        for view, one in zip(views, several, strict=True)
    ]
    found = [one if one is not None and len(one) else None for one in known]
    return found[0] if len(found) == 1 else found if any(one is not None for one in found) else None


def chat_inputs(processor: Any, turns: Sequence[Turn]) -> dict[str, Any]:
    """The prompt of a conversation whose pictures are views: patches were cut once, the text is set every time."""
    import torch

    tokenizer, chat = processor.tokenizer, chat_text(processor, turns)
    texts = [part for turn in turns for part in turn.parts if isinstance(part, str)]
    views = [view for turn in turns for view in turn.views]
    merge = getattr(processor.image_processor, "merge_size", None)
    if merge is None or any("image_grid_thw" not in view.tensors for view in views):
        from PIL import Image

        pictures = [Image.fromarray(view.picture.pixels) for view in views]
        plain = (without_markers(tokenizer, text) for text in texts)
        written = "".join(piece + text for piece, text in zip_longest(chat.split(PLACE), plain, fillvalue=""))
        return dict(processor(text=[written], images=pictures, return_tensors="pt"))
    token, before = processor.image_token, chat.split(processor.image_token)
    counts = [int(torch.as_tensor(view.tensors["image_grid_thw"])[0].prod()) // merge**2 for view in views]
    if len(before) != len(counts) + 1:
        raise InputError("the chat template of this model does not show every picture; show fewer")
    chat = "".join(piece + token * count for piece, count in zip_longest(before, counts, fillvalue=0))
    ids = torch.tensor([tokenize_prompt(tokenizer, chat, *texts)])
    tensors = {name: torch.cat([view.tensors[name] for view in views]) for name in views[0].tensors}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **tensors}


def chat_text(processor: Any, turns: Sequence[Turn]) -> str:
    """The conversation in the model's own template, PLACE for every text: what users write is never read as markers."""
    from jinja2 import TemplateError

    texts = sum(isinstance(part, str) for turn in turns for part in turn.parts)
    messages = [
        {
            "role": turn.role,
            "content": [
                {"type": "text", "text": PLACE} if isinstance(part, str) else {"type": "image"} for part in turn.parts
            ],
        }
        for turn in turns
    ]
    try:
        chat = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except TemplateError as error:
        raise InputError(f"the chat template of this model refuses these turns: {error}") from error
    if chat.count(PLACE) != texts:
        raise InputError("the chat template of this model leaves some of these turns out; ask without them")
    return chat


def joined(looked: Sequence[ChatLook]) -> ChatLook:
    """Prompts of one row each as one prompt of several, padded on the left."""
    import torch
    from torch.nn.functional import pad

    if len(looked) == 1:
        return looked[0]
    inputs = [one.inputs for one in looked]
    longest = max(one["input_ids"].shape[1] for one in inputs)
    together = {
        name: torch.cat(
            [
                pad(one[name], (longest - one[name].shape[1], 0))
                if name in ("input_ids", "attention_mask")
                else one[name]
                for one in inputs
            ]
        )
        for name in inputs[0]
    }
    plan = PromptPlan.joined([one.plan for one in looked])
    return ChatLook(together, plan, {}, tuple(view for one in looked for view in one.views))


class Chat:
    """Several turns about pictures, with an `Eye`. turns: all that was said; what fails adds nothing to it."""

    def __init__(self, eye: Any, turns: Sequence[Turn] = (), shown: Sequence[View] = ()) -> None:
        self.eye = eye
        self.turns = tuple(turns)
        self._shown = tuple(shown)

    def show(self, image: Any) -> Chat:
        """Another picture, shown with the next question."""
        self._shown = (*self._shown, View.of(self.eye.processor, image))
        return self

    def ask(
        self,
        query: str,
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        **how: Unpack[AskOptions],
    ) -> Answer:
        """As `Eye.ask`, with all that was said before. budget, keep: of each picture of the conversation; several
        budgets: one for each."""
        turns = self._with(query)
        return self._heard(turns, self.eye.ask(turns, budget, keep, **how))

    def stream(
        self,
        query: str,
        budget: Budget | Sequence[int] | None = None,
        keep: Share | None = None,
        **how: Unpack[AskOptions],
    ) -> Generator[str, None, Answer]:
        """As `Eye.stream`; a turn counts once it was heard to its end."""
        turns = self._with(query)
        return self._hearing(turns, self.eye.stream(turns, budget, keep, **how))

    def _with(self, query: str) -> tuple[Turn, ...]:
        return (*self.turns, Turn(USER, (*self._shown, query)))

    def _heard(self, turns: tuple[Turn, ...], answer: Answer) -> Answer:
        self.turns, self._shown = (*turns, Turn(ASSISTANT, (answer.text,))), ()
        return answer

    def _hearing(self, turns: tuple[Turn, ...], speaking: Generator[str, None, Answer]) -> Generator[str, None, Answer]:
        return self._heard(turns, (yield from speaking))
