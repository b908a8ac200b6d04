"""A conversation about pictures: its turns, the prompt they make in a model's own chat template, and `Chat`.

chat = eye.chat("street.png")                              or eye.chat(), about the picture that the eye was shown
chat.ask("What does the pink sign say?", budget=96)
chat.show("menu.png").ask("What does that cost there?")    another picture; each question gets allocations of its own
chat.turns                                                 all that is remembered; eye.chat(turns=…) goes on from it
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..core.answer import Answer
from ..core.errors import InputError, shown
from ..knowing.words.answer import WordsAnswer
from ..options import Budget, Options, check_question
from ..pictures.load import Picture
from ..pictures.words import PromptWords, Words, as_words
from ..realizing.base import PromptPlan

SYSTEM, USER, ASSISTANT = "system", "user", "assistant"
# How a note begins that warns of pixels which no budget can show, and how much smaller a picture must have become.
LOST, KEPT_AREA = "detail was lost: ", 0.8
# Of all turns together.
LONGEST_CHAT = 32_000


@dataclass(frozen=True, eq=False)
class PictureView:
    """A picture as a model's processor shows it: made once, asked about many times.

    words: those that came with it. tensors: its patches and their grid. seconds: that loading took.
    """

    picture: Picture
    words: Words | None
    tensors: Mapping[str, Any]
    seconds: float


@dataclass(frozen=True)
class Turn:
    """role: "system", "user" or "assistant". parts: texts, and pictures where they are shown (a `PictureView`, or
    whatever an engine's `view` takes)."""

    role: str
    parts: tuple[Any, ...]

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def views(self) -> list[PictureView]:
        return [part for part in self.parts if isinstance(part, PictureView)]

    def showing(self, view: Callable[[Any], PictureView]) -> Turn:
        """Replace every picture by its `view`."""
        return replace(self, parts=tuple(part if isinstance(part, str) else view(part) for part in self.parts))


@dataclass(frozen=True, eq=False)
class ChatLook:
    """A conversation that was looked at and is not yet answered.

    inputs: its whole prompt, as the engine wants it. views: its pictures, in order. seconds: so far. question: the text
    of its last turn. full: visual tokens that its pictures would cost untouched. copied: the answer by the words of the
    page, where they are known and the model does not read them in its prompt. pages: of documents, the page of each
    view; of_pages: how many there are."""

    inputs: dict[str, Any]
    plan: PromptPlan
    seconds: dict[str, float]
    views: tuple[PictureView, ...]
    question: str = ""
    full: int = 0
    copied: WordsAnswer | None = None
    pages: tuple[int, ...] = ()
    of_pages: int = 0


def lost_detail(looked: ChatLook) -> tuple[str, ...]:
    """Return a line for every picture that the model's processor made smaller, whatever the budget is."""
    notes: list[str] = []
    if len(looked.views) != len(looked.plan.allocations):
        return ()  # tiles together show more than any of them
    for view, one in zip(looked.views, looked.plan.allocations, strict=True):
        (height, width), seen = view.picture.size, one.canvas or (one.height, one.width)
        kept = KEPT_AREA * height * width
        # A page that got an overview only is shown small, which another note says.
        if view.picture.pixels.size / 3 >= kept > seen[0] * seen[1]:
            name = f"{view.picture.name} has {width}×{height} pixels"
            notes.append(f"{LOST}{name} and is shown to the model as {seen[1]}×{seen[0]}; cut it, or show it nearer")
    return tuple(notes)


def check_turns(turns: Sequence[Turn]) -> str:
    """Return the question: the text of the last turn. Raises `InputError` if this is no conversation about pictures."""
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


def words_of(views: Sequence[PictureView], given: object) -> PromptWords:
    """Return the words of one picture, or a list for several, or None. given: instead of those that came
    with the pictures; for several pictures, one entry (or None) for each."""
    several = [given] * len(views) if given is None or len(views) == 1 else given
    if not isinstance(several, list | tuple) or len(several) != len(views):
        raise InputError(f"words= must be a list with one entry for each of {len(views)} pictures")
    known = [
        view.words if one is None else as_words(one, view.picture.size)
        for view, one in zip(views, several, strict=True)
    ]
    return one_or_several([one if one is not None and len(one) else None for one in known])


def one_or_several(words: list[Words | None]) -> PromptWords:
    """Return the words of one picture alone; of several a list, or None where there are none at all."""
    return words[0] if len(words) == 1 else words if any(one is not None for one in words) else None


class Chat:
    """Several turns about pictures, with an `Eye`. turns: all that was said; what fails adds nothing to it."""

    def __init__(self, eye: Any, turns: Sequence[Turn] = (), shown: Sequence[PictureView] = ()) -> None:
        self.eye = eye
        self.turns = tuple(turns)
        self._shown = tuple(shown)

    def show(self, image: object) -> Chat:
        """Add a picture, shown with the next question."""
        self._shown = (*self._shown, self.eye.view(image))
        return self

    def ask(self, query: str, budget: Budget | Sequence[int] | None = None, options: Options | None = None) -> Answer:
        """Ask like `Eye.ask`, with all earlier turns. budget: of each picture; a list: one for each."""
        turns = (*self.turns, Turn(USER, (*self._shown, query)))
        answer = self.eye.ask(turns, budget, options)
        self.turns, self._shown = (*turns, Turn(ASSISTANT, (answer.text,))), ()
        return answer
