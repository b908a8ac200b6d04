"""The thread that owns the model: it takes waiting requests, looks at each, and answers them in one batch.

A batch is finished before the next begins. An error in one picture ends only its own request. Before every layer of the
model runs, the engine checks whether the result is still wanted, so that work for a client who left ends soon.
"""

from __future__ import annotations

import logging
import math
import os
import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from copy import copy
from dataclasses import dataclass
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, TypeVar

from ...answering.chat import ChatLook
from ...answering.decoding import Spelling, Sureness, is_lean, steps
from ...answering.eye import Eye
from ...core.answer import Answer
from ...core.errors import InputError, Stopped, check_stop, stopping
from ...core.values import timed
from ..web import Limits, Refused, crowded, too_late
from .chat import ChatRequest

if TYPE_CHECKING:
    from transformers import PreTrainedModel

log = logging.getLogger("arr_coc.serve")
# Seconds that the first request of a batch waits for others.
GATHER = 0.005
# Maximum padding of a batch in tokens: one long prompt makes every other as long.
MOST_PADDING = 4096
ENDING = Refused(503, "this server is shutting down")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Done:
    """A finished answer. finish: "stop" or "length". count: tokens of the answer with its end token. prompt: tokens of
    the shortened prompt with its text. batch: requests that were answered together."""

    answer: Answer
    finish: str
    count: int
    prompt: int
    batch: int


# Events of a request: pieces of its answer and then `Done`; or an error, which ends it.
Event = str | Done | Exception


class ServeJob:
    """One request in the engine. tell: called with its events, in the engine's thread. gone: its client has left.
    until: its deadline, by `monotonic`."""

    def __init__(self, asked: ChatRequest, tell: Callable[[Event], None], until: float = math.inf) -> None:
        self.asked, self.tell, self.until = asked, tell, until
        self.arrived, self.gone = monotonic(), False
        self.row: ServeRow | None = None  # what `look_ahead` prepared

    @property
    def over(self) -> bool:
        return self.gone or monotonic() > self.until


@dataclass(eq=False)
class ServeRow:
    """A job in a batch: its prepared pictures, and the answer so far. spent, prompt, batch: numbers of its answer."""

    job: ServeJob
    looked: ChatLook
    spelling: Spelling
    spent: int = 0
    prompt: int = 0
    batch: int = 1
    open: bool = True

    @property
    def tokens(self) -> int:
        return sum(one.tokens for one in self.looked.plan.allocations)

    def add(self, token: int) -> bool:
        """Add one token and send its text; return whether it is the last."""
        if self.job.over:
            self.open = False
            return False
        if (piece := self.spelling.add(token)) and self.looked.copied is None:
            self.job.tell(piece)
        self.open = not self.spelling.ended and len(self.spelling.ids) < self.job.asked.options.max_new_tokens
        return not self.open


def together(rows: Sequence[ServeRow]) -> list[list[ServeRow]]:
    """Group rows of similar length, so that padding one prompt to the longest of its group costs little."""
    groups: list[list[ServeRow]] = []
    for row in sorted(rows, key=lambda row: row.tokens):
        if not groups or sum(row.tokens - one.tokens for one in groups[-1]) > MOST_PADDING:
            groups.append([])
        groups[-1].append(row)
    return groups


@contextmanager
def asking_layers(model: PreTrainedModel) -> Generator[None]:
    """Make every layer of a model check, before it runs, whether its result is still wanted."""
    import torch

    layers = [one for several in model.modules() if isinstance(several, torch.nn.ModuleList) for one in several]
    hooks = [layer.register_forward_pre_hook(lambda *_: check_stop()) for layer in layers]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


class Engine(threading.Thread):
    """The engine. eye: copied for each request, never given a picture itself. observe: called with the size of every
    batch. lookers: threads that look at the pictures of a batch, half as many as processors."""

    def __init__(self, eye: Eye, limits: Limits | None = None) -> None:
        super().__init__(name="arr-coc engine", daemon=True)
        self.eye, self.limits, self.model = eye, limits or Limits(), getattr(eye.engine, "model", None)
        self.ends, self.observe = eye.engine.ends, lambda amount: None
        self.lookers = max(1, (os.cpu_count() or 2) // 2)
        self._jobs: deque[ServeJob] = deque()
        self._changed = threading.Condition()
        self._batch: list[ServeJob] = []
        self._closing = False
        self._took = 1.0

    @property
    def waiting(self) -> int:
        return sum(not job.gone for job in list(self._jobs))

    def submit(self, job: ServeJob) -> None:
        """Queue a request; raises `Refused`."""
        with self._changed:
            self.check_room()
            self._jobs.append(job)
            self._changed.notify_all()

    def look_ahead(self, job: ServeJob) -> None:
        """Prepare a request with documents or large pictures in its own thread, so that no batch waits for it."""
        job.row = self._look(job)

    def check_room(self) -> None:
        """Raise `Refused` if a request cannot be queued now."""
        if self._closing or not self.is_alive():
            raise ENDING
        waiting = self.waiting
        if waiting >= self.limits.queue:
            raise crowded(max(1, math.ceil(self._took * waiting / self.limits.batch)))

    def close(self, seconds: float | None = None) -> None:
        """Accept no more requests, answer those that wait, and stop."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        if self.is_alive():
            self.join(seconds)

    def run(self) -> None:
        """Answer batch after batch until the engine is closed and its queue is empty."""
        try:
            with nullcontext() if self.model is None else asking_layers(self.model):
                while batch := self._take():
                    started = perf_counter()
                    self._answer(batch)
                    self._batch = []
                    self._took = perf_counter() - started
                    self.observe(len(batch))
        finally:  # for whatever reason it ends, every client gets an answer
            with self._changed:
                self._closing = True
                for job in (*self._batch, *self._jobs):
                    job.tell(ENDING)
                self._jobs.clear()

    def _take(self) -> list[ServeJob]:
        """Wait for the next batch; it is empty once the engine is closed and its queue is empty."""
        with self._changed:
            while not self._batch and (self._jobs or not self._closing):
                self._changed.wait_for(lambda: self._jobs or self._closing)
                self._changed.wait_for(lambda: len(self._jobs) >= self.limits.batch or self._closing, GATHER)
                waiting = [self._jobs.popleft() for _ in range(min(len(self._jobs), self.limits.batch))]
                self._batch = [job for job in waiting if not job.gone]
            return self._batch

    def _answer(self, batch: Sequence[ServeJob]) -> None:
        rows = self._looks(batch)
        lean = self.model is not None and is_lean(self.model)
        for group in together(rows) if lean else [[row] for row in rows]:
            if len(group) > 1:
                try:
                    self._speak(group, len(batch))
                    continue
                except Stopped:
                    continue
                except Exception as error:
                    log.warning("a batch of %d is repeated one by one: %s", len(group), " ".join(f"{error!r}".split()))
            for row in group:
                if row.open and not row.spelling.ids:
                    self._attempt(row.job, lambda job, row=row: self._speak([row], 1))
                elif row.open:  # part of the answer is already sent
                    row.job.tell(RuntimeError("the answer broke off"))

    def _attempt(self, job: ServeJob, work: Callable[[ServeJob], Result]) -> Result | None:
        """Report an error of one job to that job only."""
        try:
            return work(job)
        except Stopped:
            job.tell(too_late(self.limits.seconds))
            return None
        except Exception as error:
            if not isinstance(error, InputError):
                log.exception("a request failed")
            job.tell(error)
            return None

    def _looks(self, jobs: Sequence[ServeJob]) -> list[ServeRow]:
        """Prepare jobs, several at a time; return those without an error, in order."""
        if min(len(jobs), self.lookers) < 2:
            found = [self._attempt(job, self._look) for job in jobs]
        else:
            with ThreadPoolExecutor(min(len(jobs), self.lookers), "arr-coc look") as pool:
                # Each in a copy of this thread's context, which holds the condition to stop.
                begun = [pool.submit(copy_context().run, self._attempt, job, self._look) for job in jobs]
                found = [one.result() for one in begun]
        return [row for row in found if row is not None]

    def _look(self, job: ServeJob) -> ServeRow:
        if job.row is not None:
            return job.row
        waited = monotonic() - job.arrived
        with stopping(lambda: job.over):
            check_stop()
            looked = copy(self.eye).prepare(
                job.asked.turns, job.asked.options, look_for=job.asked.look_for, pages_shown=job.asked.pages_shown
            )
        looked.seconds["wait"] = waited
        return ServeRow(job, looked, Spelling(self.eye.engine.tokenizer, self.ends, job.asked.stop))

    def _speak(self, rows: list[ServeRow], batch: int) -> None:
        import torch

        from ...core.modules import using_gpu

        gone = stopping(lambda: all(row.job.over for row in rows))
        with torch.inference_mode(), gone, using_gpu(self.eye.model.device):
            self._spell(rows, batch)

    def _spell(self, rows: list[ServeRow], batch: int) -> None:
        """Encode, and send every row its words step by step."""
        import torch

        from ...answering.stock import joined

        eye, seconds = self.eye, {}
        with timed(seconds, "encode"):
            realized = eye.engine.realize(joined([row.looked for row in rows]))
        visual = realized.inputs["input_ids"] == eye.engine.backbone.image_token_id(eye.model)
        counts = visual.sum(1).tolist(), (realized.index >= 0).sum(1).tolist()
        for row, tokens, prompt in zip(rows, *counts, strict=True):
            row.spent, row.prompt, row.batch = tokens, prompt, batch
        sureness = Sureness(eye.calibration.temperature)
        started = perf_counter()
        most = max(row.job.asked.options.max_new_tokens for row in rows)
        speaking = steps(eye.model, realized, most, eye.engine.graphs)
        step = next(speaking, None)
        while step is not None:
            check_stop()
            within = [row.open for row in rows]
            sureness.add(*step, torch.tensor(within, device=eye.model.device))
            for number, (row, token) in enumerate(zip(rows, step.ids.tolist(), strict=True)):
                if row.open and row.add(token):
                    row.looked.seconds.update(seconds, answer=perf_counter() - started)
                    self._conclude(row, sureness.row(number))
            if not any(row.open for row in rows):
                return
            try:
                step = speaking.send(torch.tensor([not row.open for row in rows], device=eye.model.device))
            except StopIteration:
                step = None

    def _conclude(self, row: ServeRow, sure: dict[str, float]) -> None:
        spelling = row.spelling
        if (piece := spelling.rest()) and row.looked.copied is None:
            row.job.tell(piece)
        answer = self.eye.conclude(row.looked, spelling.text, row.spent, **sure)
        if row.looked.copied is not None:  # `conclude` may have taken the answer from the words of the page
            row.job.tell(answer.text)
        finish = "stop" if spelling.ended else "length"
        row.job.tell(Done(answer, finish, len(spelling.ids), row.prompt, row.batch))


class QuickEngine(Engine):
    """The engine of the bundled `mini` without torch: one request after the other."""

    def _speak(self, rows: list[ServeRow], batch: int) -> None:
        (row,), engine = rows, self.eye.engine
        with stopping(lambda: row.job.over):
            speaking, row.spent = engine.speak(row.looked, row.job.asked.options.max_new_tokens)
            row.prompt = len(engine.prompt_ids(row.looked.inputs["query"], row.spent))
            sureness, started = Sureness(self.eye.calibration.temperature), perf_counter()
            for step in speaking:
                check_stop()
                sureness.add(*step)
                if row.add(int(step.ids[0])):
                    break
            row.looked.seconds["answer"] = perf_counter() - started
            self._conclude(row, sureness.row(0))
