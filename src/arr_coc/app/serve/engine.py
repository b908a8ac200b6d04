"""One thread that owns the model: it takes what waits, looks at each, and answers all of them in one batch.

A batch is answered to its end before the next begins. What goes wrong with one picture ends one job.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import torch

from ...core.errors import InputError
from ...core.values import Answer
from ...eye.chat import Looked, joined
from ...eye.decoding import Spelling, Sureness, end_tokens, is_lean, steps
from ...eye.eye import Eye
from ...eye.sight import timed
from ...models.base import Realized
from .chat import Asked, Limits

log = logging.getLogger("arr_coc.serve")
# Seconds that the first of a batch waits for others.
GATHER = 0.005


class Full(Exception):
    """More requests wait than may. seconds: after which trying again is reasonable."""

    def __init__(self, seconds: int) -> None:
        super().__init__(seconds)
        self.seconds = seconds


class Closed(Exception):
    """The engine takes nothing more."""


@dataclass(frozen=True)
class Seen:
    """Where the tokens of a picture went, before a word is said. prompt: tokens of the shortened prompt with its text.
    full: visual tokens of the untouched one. batch: requests that are answered together."""

    tokens: int
    full: int
    prompt: int
    relevance: str
    batch: int


@dataclass(frozen=True)
class Done:
    """finish: "stop" or "length". count: tokens of the answer, the one that ends it included."""

    answer: Answer
    finish: str
    count: int


class Job:
    """One request on its way. tell: called from the engine's thread with `Seen`, then texts, then `Done`; or with an
    exception. gone: nobody listens any more."""

    def __init__(self, asked: Asked, tell: Callable[[Any], None]) -> None:
        self.asked, self.tell = asked, tell
        self.arrived, self.gone = perf_counter(), False


@dataclass(eq=False)
class Row:
    """A job in a batch: what was looked at, and what was said so far."""

    job: Job
    looked: Looked
    spelling: Spelling
    spent: int = 0
    open: bool = True


class Engine(threading.Thread):
    """eye: never shown a picture itself. observe: called with the size and the seconds of every batch."""

    def __init__(
        self, eye: Eye, limits: Limits | None = None, observe: Callable[[int, float], None] = lambda size, seconds: None
    ) -> None:
        super().__init__(name="arr-coc engine", daemon=True)
        self.eye, self.limits, self.observe = eye, limits or Limits(), observe
        self.ends = end_tokens(eye.model)
        self._jobs: deque[Job] = deque()
        self._changed = threading.Condition()
        self._closing = False
        self._took = 1.0

    @property
    def waiting(self) -> int:
        return sum(not job.gone for job in list(self._jobs))

    def submit(self, job: Job) -> None:
        """Raises `Full` or `Closed`."""
        with self._changed:
            self.check_room()
            self._jobs.append(job)
            self._changed.notify()

    def check_room(self) -> None:
        """Would a job be taken now? Raises `Full` or `Closed`."""
        if self._closing or not self.is_alive():
            raise Closed
        waiting = self.waiting
        if waiting >= self.limits.queue:
            raise Full(max(1, math.ceil(self._took * waiting / self.limits.batch)))

    def close(self, seconds: float | None = None) -> None:
        """Take nothing more, answer what waits, end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        if self.is_alive():
            self.join(seconds)

    def run(self) -> None:
        batch: list[Job] = []
        try:
            while batch := self._take():
                started = perf_counter()
                self._answer(batch)
                self._took = perf_counter() - started
                self.observe(len(batch), self._took)
        finally:  # whatever ended it, nobody waits for ever
            with self._changed:
                self._closing = True
                for job in (*batch, *self._jobs):
                    job.tell(Closed())
                self._jobs.clear()

    def _take(self) -> list[Job]:
        """The next batch; empty once there is nothing left to do."""
        with self._changed:
            while True:
                self._changed.wait_for(lambda: self._jobs or self._closing)
                if not self._closing:
                    self._changed.wait_for(lambda: len(self._jobs) >= self.limits.batch or self._closing, GATHER)
                batch: list[Job] = []
                while self._jobs and len(batch) < self.limits.batch:
                    job = self._jobs.popleft()
                    if not job.gone:
                        batch.append(job)
                if batch or self._closing:
                    return batch

    def _answer(self, batch: Sequence[Job]) -> None:
        rows = [row for job in batch if (row := self._attempt(job, self._look)) is not None]
        if len(rows) > 1 and is_lean(self.eye.model):
            try:
                self._speak(rows, len(batch))
                return
            except Exception as error:
                log.warning("a batch of %d is answered one by one: %s", len(rows), " ".join(f"{error!r}".split()))
        for row in rows:
            if row.open and not row.spelling.ids:
                self._attempt(row.job, lambda job, row=row: self._speak([row], 1))
            elif row.open:  # words are out that cannot be taken back
                row.job.tell(RuntimeError("the answer broke off"))

    def _attempt(self, job: Job, work: Callable[[Job], Any]) -> Any:
        """What goes wrong with one job is told to that one."""
        try:
            return work(job)
        except Exception as error:
            if not isinstance(error, InputError):
                log.exception("a request failed")
            job.tell(error)
            return None

    def _look(self, job: Job) -> Row:
        started = perf_counter()
        looked = self.eye.prepare(job.asked.turns, **job.asked.how)
        looked.seconds["wait"] = started - job.arrived
        return Row(job, looked, Spelling(self.eye.processor.tokenizer, self.ends, job.asked.stop))

    @torch.inference_mode()
    def _speak(self, rows: list[Row], batch: int) -> None:
        """Encode, and tell every row its words step by step."""
        eye, seconds = self.eye, {}
        with timed(seconds, "encode"):
            realized = eye.realize(joined([row.looked for row in rows]))
        self._tell_seen(rows, realized, batch)
        sureness = Sureness(len(rows), eye.temperature, eye.model.device)
        started = perf_counter()
        speaking = steps(eye.model, realized, max(row.job.asked.new_tokens for row in rows))
        step = next(speaking, None)
        while step is not None:
            within = [row.open for row in rows]
            sureness.add(*step, torch.tensor(within, device=eye.model.device))
            for number, (row, token) in enumerate(zip(rows, step.ids.tolist(), strict=True)):
                if row.open and self._word(row, token):
                    row.looked.seconds.update(seconds, answer=perf_counter() - started)
                    self._conclude(row, sureness.row(number))
            if not any(row.open for row in rows):
                return
            try:
                step = speaking.send(torch.tensor([not row.open for row in rows], device=eye.model.device))
            except StopIteration:
                step = None

    def _tell_seen(self, rows: Sequence[Row], realized: Realized, batch: int) -> None:
        visual = realized.inputs["input_ids"] == self.eye.backbone.image_token_id(self.eye.model)
        counts = visual.sum(1).tolist(), (realized.index >= 0).sum(1).tolist()
        for row, tokens, prompt in zip(rows, *counts, strict=True):
            row.spent = tokens
            notes = row.looked.plan.notes
            relevance = notes[0] if notes and notes[0].startswith("relevance") else "the caller's allocation"
            full = self.eye.visual_tokens(row.looked.inputs)
            row.job.tell(Seen(tokens, full, prompt, relevance, batch))

    def _word(self, row: Row, token: int) -> bool:
        """One token; True where it is the last."""
        if row.job.gone:
            row.open = False
            return False
        if piece := row.spelling.add(token):
            row.job.tell(piece)
        row.open = not row.spelling.ended and len(row.spelling.ids) < row.job.asked.new_tokens
        return not row.open

    def _conclude(self, row: Row, sure: dict[str, float]) -> None:
        spelling = row.spelling
        if piece := spelling.rest():
            row.job.tell(piece)
        answer = self.eye.conclude(row.looked, spelling.text, row.spent, **sure)
        row.job.tell(Done(answer, "stop" if spelling.ended else "length", len(spelling.ids)))
