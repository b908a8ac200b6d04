"""The one training loop: data → step → curve → judge → checkpoint → export; resumable, seeded, watched.

A training is a subclass of `Training`: it builds its modules and optimizers, says the loss of a step, and is run by
`train(MyTraining, options)`. Everything else has a default and may be replaced:

    @dataclass(frozen=True, kw_only=True)
    class MyOptions(RunOptions):
        batch: int = option(64, "pictures a step")

    class MyTraining(Training[MyOptions]):
        def __init__(self, options, devices):
            super().__init__(options, devices)
            self.modules["scorer"] = Scorer().to(self.device)
            self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=1e-3))
            self.schedule = Schedule(warm_up=50, decay_from=0.6)

        def loss(self, at):
            ...
            return loss, {"right": right}

    main = command(MyTraining, MyOptions, __doc__)

A run with `steps` that was killed and begun again ends with the same bits as one that was not: a checkpoint holds
weights, optimizers, every source of chance in `chance` and `generators`, the numbers in `done`, and whatever
`data_state` says about pictures made ahead.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json, writing
from arr_coc.core.plugins import load_function
from arr_coc.core.values import JsonObject

from .checkpoints import TrainingState, load_state, save_state, ship
from .curves import Writer, writers_of
from .devices import Devices
from .options import RunOptions, parse, plain

Own = TypeVar("Own", bound=RunOptions)
Notes = dict[str, Tensor]
DIGITS = 5


class Moment(NamedTuple):
    """step: steps done so far. since: of them, those since this training began (not the earlier one it started from).
    progress: share of the training that is over, in [0, 1]."""

    step: int
    since: int
    progress: float


@dataclass(frozen=True)
class Schedule:
    """Share of the full learning rate: up over `warm_up` steps, level, then from `decay_from` on half a cosine down to
    `floor`."""

    warm_up: int = 0
    decay_from: float = 1.0
    floor: float = 0.0

    def __call__(self, at: Moment) -> float:
        fall = (
            min(1.0, max(0.0, (at.progress - self.decay_from) / (1 - self.decay_from))) if self.decay_from < 1 else 0.0
        )
        warm = min(1.0, (at.since + 1) / self.warm_up) if self.warm_up else 1.0
        return warm * (self.floor + (1 - self.floor) * 0.5 * (1 + math.cos(math.pi * fall)))


class Training(Generic[Own]):
    """What is learned, from what, and how fast. Subclasses fill `modules`, `optimizers`, `schedule` and say `loss`.

    chance, generators: every source of chance, by name; a checkpoint keeps their states. done: plain numbers that a
    checkpoint and the record keep; `step`, `seconds` and `curve` are the loop's own.
    """

    title = ""
    aloud = True  # whether its points are told on the terminal
    apart = False  # whether each module's gradients are clipped by themselves

    def __init__(self, options: Own, devices: Devices) -> None:
        self.options, self.devices, self.device = options, devices, devices.device
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: list[torch.optim.Optimizer] = []
        self.schedule: Callable[[Moment], float] = Schedule()
        self.chance: dict[str, random.Random] = {"chance": random.Random(options.seed)}
        self.generators: dict[str, torch.Generator] = {}
        self.done: JsonObject = {"step": 0, "seconds": 0.0, "first": 0, "curve": []}

    def parameters(self) -> Iterator[nn.Parameter]:
        for module in self.modules.values():
            yield from module.parameters()

    def generator(self, name: str, seed: int, device: torch.device | None = None) -> torch.Generator:
        """A new source of chance that checkpoints keep."""
        self.generators[name] = torch.Generator(device=device or self.device).manual_seed(seed)
        return self.generators[name]

    # What a training says.

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        """The loss of a step and what the curve keeps about it."""
        raise NotImplementedError

    def step(self, at: Moment) -> Notes:
        """One update; the optimizers' rates are set."""
        loss, notes = self.loss(at)
        return {"loss": loss, "gradient": self.update(loss), **notes}

    def update(self, loss: Tensor) -> Tensor:
        """Every optimizer makes a step down the loss; returns the gradient's norm before it was clipped."""
        self.devices.backward(loss)
        norm = self.clip()
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def clip(self) -> Tensor:
        """Clip the gradients; returns their norm before, the first module's where each is clipped by itself."""
        several = [one.parameters() for one in self.modules.values()] if self.apart else [self.parameters()]
        return torch.stack([torch.as_tensor(self.devices.clip(one)) for one in several])[0]

    def point(self, at: Moment, means: dict[str, float]) -> JsonObject:
        """What a point of the curve says, from the means since the last; here is time to watch over the training."""
        return means

    def judge(self, at: Moment) -> dict[str, object] | None:
        """How well it does on pictures set aside; None where there are none."""
        return None

    def running(self) -> AbstractContextManager[object]:
        """What must hold while it trains: a thread that renders ahead, a way to attend."""
        return nullcontext()

    def data_state(self) -> object:
        """Plain values and tensors from which `load_data_state` finds the pictures that were made ahead."""
        return None

    def load_data_state(self, state: TrainingState) -> None: ...

    def resumed(self) -> None:
        """Called after a checkpoint was loaded."""

    def exports(self) -> dict[str, nn.Module]:
        """What `--out` gets, each loadable with from_pretrained; by default all modules."""
        return self.modules

    def record(self) -> dict[str, object]:
        """What record.json says."""
        return {"plan": plain(self.options), **self.done}

    def export(self) -> None:
        """Write what was trained, and its record."""
        ship(self.exports(), self.options.target)
        write_json(self.options.target / "record.json", self.record())

    def finish(self) -> None:
        """After the export: measurements and the like."""


@contextmanager
def torch_scope(seed: int | None = None, matmul: str | None = None, threads: int | None = None) -> Generator[None]:
    """torch's global settings for a while; afterwards everything is as it was: chance, the precision of products,
    threads, the default type, the wish for repeatable kernels."""
    precision, number = torch.get_float32_matmul_precision(), torch.get_num_threads()
    dtype, repeatable = torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()
    warn = torch.is_deterministic_algorithms_warn_only_enabled()
    with torch.random.fork_rng():
        try:
            if seed is not None:
                torch.manual_seed(seed)
            if matmul is not None:
                torch.set_float32_matmul_precision(matmul)
            if threads is not None:
                torch.set_num_threads(threads)
            yield
        finally:
            torch.set_float32_matmul_precision(precision)
            torch.set_num_threads(number)
            torch.set_default_dtype(dtype)
            torch.use_deterministic_algorithms(repeatable, warn_only=warn)


class Loop:
    """Runs one training; see the module."""

    def __init__(self, training: Training[Any], ships: bool = True) -> None:
        self.ships = ships
        self.training, self.options, self.devices = training, training.options, training.devices
        self.highest = [[group["lr"] for group in optimizer.param_groups] for optimizer in training.optimizers]
        self.recent: dict[str, list[Tensor]] = {}
        self.judged_at: tuple[int, float] | None = None
        self.writers: list[Writer] = []

    # ---- where it stands

    def moment(self) -> Moment:
        done, options = self.training.done, self.options
        since = done["step"] - done["first"]
        share = since / options.steps if options.steps else done["seconds"] / max(options.whole, 1e-9)
        return Moment(done["step"], since, min(1.0, share))

    def over(self, elapsed: float, taken: int) -> bool:
        """The steps or the time of the whole training are over, or the time of this run, but for one step."""
        return self.moment().progress >= 1 or (elapsed >= self.options.seconds and taken > 0)

    def state(self) -> dict[str, object]:
        training = self.training
        return {
            "modules": {name: module.state_dict() for name, module in training.modules.items()},
            "optimizers": [optimizer.state_dict() for optimizer in training.optimizers],
            "progress": training.done,
            "chance": {name: source.getstate() for name, source in training.chance.items()},
            "generators": {name: source.get_state() for name, source in training.generators.items()},
            "torch": torch.get_rng_state(),
            "recent": {name: [value.cpu() for value in values] for name, values in self.recent.items()},
            "judged": self.judged_at,
            "data": training.data_state(),
        }

    def save(self) -> None:
        if self.devices.is_main:
            save_state(self.options.folder, self.state())
            with writing(self.options.folder, "--folder"):
                write_json(self.options.folder / "curve.json", self.training.done["curve"])
            if self.ships and not self.options.steps:
                export(self.training)  # a machine may be taken away a minute before the end

    def resume(self) -> None:
        """Go on where the checkpoint stands, if there is one."""
        training, state = self.training, load_state(self.options.folder)
        if state is None:
            return
        try:
            for name, module in training.modules.items():
                module.load_state_dict(state["modules"][name])
            for optimizer, kept in zip(training.optimizers, state["optimizers"], strict=True):
                optimizer.load_state_dict(kept)
            training.done |= state["progress"]
            for name, source in training.chance.items():
                source.setstate(state["chance"][name])
            for name, generator in training.generators.items():
                generator.set_state(state["generators"][name])
        except (KeyError, ValueError, RuntimeError, TypeError) as error:
            reason = str(error).splitlines()[-1].strip()
            raise InputError(f"{self.options.folder} holds another training ({reason}); give a new --folder") from error
        torch.set_rng_state(state["torch"])
        self.recent = {name: [value.to(training.device) for value in kept] for name, kept in state["recent"].items()}
        self.judged_at = tuple(state["judged"]) if state["judged"] else None
        training.load_data_state(state["data"])
        training.resumed()

    # ---- what it does

    def run(self) -> None:
        training, options, done = self.training, self.options, self.training.done
        self.resume()
        before, first, began = done["seconds"], done["step"], perf_counter()
        saved = said = 0.0
        if self.devices.is_main:
            self.writers = writers_of(options.log, options.folder, training.title, plain(options), training.aloud)
        try:
            with training.running():
                while True:
                    elapsed = self.devices.agree(perf_counter() - began)
                    done["seconds"] = before + elapsed
                    over = self.over(elapsed, done["step"] - first)
                    self.judge(over)
                    if over or elapsed - saved >= options.checkpoint_every:
                        saved = elapsed
                        self.save()
                    if over:
                        break
                    self.take_step()
                    if options.steps or elapsed - said >= options.say_every:
                        said = elapsed
                        self.say()
        finally:
            for writer in self.writers:
                writer.close()
        self.devices.wait()

    def take_step(self) -> None:
        training, at = self.training, self.moment()
        share = training.schedule(at)
        for optimizer, rates in zip(training.optimizers, self.highest, strict=True):
            for group, highest in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = highest * share
        for name, value in training.step(at).items():
            self.recent.setdefault(name, []).append(value.detach().to(training.device))
        training.done["step"] += 1

    def say(self) -> None:
        """The means since the last time become a point of the curve."""
        means = {name: float(self.devices.mean(torch.stack(values).mean())) for name, values in self.recent.items()}
        self.recent.clear()
        self.add(self.training.point(self.moment(), means))

    def judge(self, over: bool) -> None:
        done, last = self.training.done, self.judged_at
        due = (
            last is None or done["seconds"] - last[1] >= self.options.judge_every or (over and last[0] != done["step"])
        )
        if due and self.devices.is_main:
            self.judged_at = done["step"], done["seconds"]
            found = self.training.judge(self.moment())
            if found:
                self.add(found)

    def add(self, values: Mapping[str, object]) -> None:
        done = self.training.done
        rounded = {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in values.items()}
        point = {"step": done["step"], "seconds": round(done["seconds"], 1), **rounded}
        done["curve"].append(point)
        for writer in self.writers:
            writer.add(point, self.moment().progress)


Made = TypeVar("Made", bound=Training[Any])


def export(training: Training[Any]) -> None:
    """Write what was trained so far where its options say."""
    with writing(training.options.target):
        try:
            training.export()
        except SafetensorError as error:  # its own writer says so of a disk that takes no more
            raise OSError(str(error)) from error


def train(
    kind: Callable[[Any, Devices], Made], options: RunOptions, ships: bool = True, matmul: str | None = "high"
) -> Made:
    """Build a training, run it to its end (from its checkpoint where there is one), and write what it made.

    ships: whether what was trained is written, at the end and (in a run by the clock) beside every checkpoint. matmul:
    precision of matrix products meanwhile; None leaves it.
    """
    with torch_scope(options.seed, matmul):
        devices = Devices(options.device)
        training = kind(options, devices)
        Loop(training, ships).run()
        for module in training.modules.values():
            module.eval()
        if ships and devices.is_main:
            export(training)
            with writing(options.target):
                training.finish()
        devices.close()
    return training


def command(
    kind: Callable[[Any, Devices], Training[Any]],
    options: type[RunOptions],
    doc: str | None,
    own: Callable[..., None] | str | None = None,
) -> Callable[..., None]:
    """The `main` of a training: its command line, `python -m arr_coc_lab.train.NAME`. own: the program, or
    "module:name" of it, that takes over where the line names records of the user's own (`own_data`)."""

    def main(arguments: Iterable[str] | None = None) -> None:
        given = sys.argv[1:] if arguments is None else list(arguments)
        if own is not None and any(one.split("=")[0] == "--data" for one in given):
            load_function(own)(given)
        else:
            train(kind, parse(options, given, doc))

    return main


def door(main: Callable[[], None]) -> None:
    """Run a module's `main` as a program: what a user got wrong is one line and exit code 2."""
    try:
        main()
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
