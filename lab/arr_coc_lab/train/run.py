"""One training loop on accelerate: draw, step, judge, save, export. An interrupted run resumes from its checkpoint.

A training is a subclass of `Training`. It builds its modules and optimizers and gives the loss of a step:

    @dataclass(frozen=True, kw_only=True)
    class MyOptions(RunOptions):
        batch: int = option(64, "Pictures a step.")

    class MyTraining(Training[MyOptions]):
        def __init__(self, options, accelerator):
            super().__init__(options, accelerator)
            self.modules["scorer"] = Scorer().to(self.device)
            self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=1e-3))
            self.schedule = Schedule(warm_up=50, decay_from=0.6)

        def loss(self, at):
            ...
            return loss, {"right": right}

    main = command(MyTraining, MyOptions, __doc__)

With `--steps`, a run that was killed and started again ends with the same bits as an unbroken one: a checkpoint holds
weights, optimizers, all random states, the numbers in `done`, and what `data_state` returns.
"""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.folders import write_json, writing
from arr_coc.core.values import JsonObject

from ..options import option, parse, plain
from .mini_model import TrainingState, ship

if TYPE_CHECKING:
    from accelerate import Accelerator

Notes = dict[str, Tensor]
DIGITS = 5
STATE = "training-0.pt"
LARGEST_GRADIENT = 1.0


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options of every training. total: seconds over which the learning rate falls; an interrupted run that is started
    again continues until `total` or `steps`, whichever is given."""

    seconds: float = option(480.0, "Time limit of this run in seconds, drawing included.")
    total: float = option(0.0, "Seconds of the whole training, over all runs; 0: those of this run.")
    steps: int = option(0, "Steps of the whole training, exactly repeatable; 0: use the time limit.")
    seed: int = option(0, "Seed of every random choice.")
    device: str = option("", "cpu, cuda or cuda:1; empty: a GPU if there is one.")
    folder: Path = option(Path("runs/train"), "Folder for the checkpoint and the curve.")
    out: Path | None = option(None, "Folder for the result. [$OUT, else export in --folder]")
    checkpoint_every: float = option(120.0, "Seconds between checkpoints; 0: after every step.")
    judge_every: float = option(60.0, "Seconds between evaluations on held-out pictures, if there are any.")
    say_every: float = option(10.0, "Seconds between points of the curve; with --steps, every step is one.")

    @property
    def whole(self) -> float:
        """Return the seconds of the whole training."""
        return self.total or self.seconds

    @property
    def target(self) -> Path:
        """Return the folder of the export."""
        return self.out or Path(os.environ.get("OUT") or self.folder / "export")


Own = TypeVar("Own", bound=RunOptions)


class Moment(NamedTuple):
    """The state of a step. step: number of steps done. since: steps since this training began (not the one it started
    from). progress: share of the training that is over, in [0, 1]."""

    step: int
    since: int
    progress: float


@dataclass(frozen=True)
class Schedule:
    """Share of the full learning rate: rises over `warm_up` steps, stays, then falls from `decay_from` on by half a
    cosine to `floor`."""

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
    """A training: modules, data and schedule. Subclasses fill `modules`, `optimizers`, `schedule` and define `loss`.

    chance, generators: every random source, by name; checkpoints store their states. done: plain numbers stored in
    checkpoints and the record; `step`, `seconds`, `first` and `curve` belong to the loop.
    """

    def __init__(self, options: Own, accelerator: Accelerator) -> None:
        self.options, self.accelerator, self.device = options, accelerator, accelerator.device
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
        """Return a new random source that checkpoints keep."""
        self.generators[name] = torch.Generator(device=device or self.device).manual_seed(seed)
        return self.generators[name]

    def fitting(self, most: int, each: float) -> int:
        """Return how many of `most` things of `seconds` each fit into a tenth of a run by the clock."""
        return most if self.options.steps else max(1, min(most, int(self.options.seconds / 10 / each)))

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        """Return the loss of a batch and what the curve keeps about it."""
        raise NotImplementedError

    def step(self, at: Moment) -> Notes:
        """Make one update; the learning rates are set."""
        loss, notes = self.loss(at)
        self.accelerator.backward(loss)
        return {"loss": loss, "gradient": self.update(), **notes}

    def update(self) -> Tensor:
        """Step every optimizer; return the norm of the gradient before it was clipped."""
        norm = nn.utils.clip_grad_norm_(self.parameters(), LARGEST_GRADIENT)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        return norm

    def point(self, at: Moment, means: dict[str, float]) -> JsonObject:
        """Return a point of the curve, from the means since the last one."""
        return means

    def judge(self, at: Moment) -> JsonObject | None:
        """Measure on held-out pictures; None if there are none."""
        return None

    def running(self) -> AbstractContextManager[object]:
        """Return a context that lasts while it trains, such as a thread that renders ahead."""
        return nullcontext()

    def data_state(self) -> object:
        """Return plain values and tensors from which `load_data_state` restores what was drawn ahead."""
        return None

    def load_data_state(self, state: TrainingState) -> None: ...

    def exports(self) -> dict[str, nn.Module]:
        """Return the modules to export to `--out`, each loadable with from_pretrained; by default all."""
        return self.modules

    def record(self) -> JsonObject:
        """Return the contents of record.json."""
        return {"plan": plain(self.options), **self.done}

    def export(self) -> None:
        """Write the trained modules, and the record."""
        ship(self.exports(), self.options.target)
        write_json(self.options.target / "record.json", self.record())

    def finish(self) -> None:
        """Run after the export: measurements and the like."""


@contextmanager
def torch_scope(seed: int | None = None, matmul: str | None = None, threads: int | None = None) -> Generator[None]:
    """Set torch's global settings for a while and restore all of them: random state, precision of products, threads,
    default type, deterministic kernels."""
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


@contextmanager
def accelerator_for(options: RunOptions) -> Generator[Accelerator]:
    """Yield the accelerator of one training: device, and bfloat16 on a GPU."""
    try:
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState
    except ImportError as error:
        raise InputError("training needs accelerate; install the extra: pip install 'arr-coc-lab[train]'") from error
    if ":" in options.device:
        torch.cuda.set_device(options.device)
    on_cpu = options.device == "cpu" or not torch.cuda.is_available()
    try:
        yield Accelerator(cpu=on_cpu, mixed_precision="no" if on_cpu else "bf16")
    finally:
        # Another training in this process may need another device.
        AcceleratorState._reset_state(reset_partial_state=True)


class Loop:
    """Run one training; see the module."""

    def __init__(self, training: Training[Any], began: float, now: JsonObject | None = None) -> None:
        self.training, self.options, self.accelerator = training, training.options, training.accelerator
        self.began, self.now = began, {} if now is None else now
        self.ahead = {"step": 0.0, "judgement": 0.0}  # seconds of one more, inside the time as well
        self.highest = [[group["lr"] for group in optimizer.param_groups] for optimizer in training.optimizers]
        self.recent: dict[str, list[Tensor]] = {}
        self.judged_at: tuple[int, float] | None = None
        # Checkpoints hold tensors and plain values only, so that a file from elsewhere cannot run code.
        self.accelerator.register_save_state_pre_hook(lambda models, weights, folder: self.write_state(Path(folder)))
        self.accelerator.register_load_state_pre_hook(lambda models, folder: self.read_state(Path(folder)))

    def moment(self) -> Moment:
        done, options = self.training.done, self.options
        since = done["step"] - done["first"]
        by_clock = (done["seconds"] + sum(self.ahead.values())) / max(options.whole, 1e-9)
        return Moment(done["step"], since, min(1.0, since / options.steps if options.steps else by_clock))

    def over(self, elapsed: float, taken: int) -> bool:
        """Tell whether steps or time of the whole training, or the time of this run, are over, except for one step."""
        return self.moment().progress >= 1 or (elapsed + sum(self.ahead.values()) >= self.options.seconds and taken > 0)

    def states(self) -> list[Path]:
        """List the folders of finished checkpoints, the latest last."""
        found = [path for path in self.options.folder.glob("state-*") if path.is_dir()]
        return sorted(found, key=lambda path: int(path.name.split("-")[1]))

    def save(self) -> None:
        """Write a checkpoint atomically, and remove the one before."""
        folder, done = self.options.folder, self.training.done
        earlier, temporary = self.states(), folder / ".state"
        final = folder / f"state-{done['step']}"
        with writing(folder, "--folder"):
            try:
                if final not in earlier:
                    self.accelerator.save_state(str(temporary))
            except (RuntimeError, OSError) as error:  # torch's own writer reports a full disk as a RuntimeError
                shutil.rmtree(temporary, ignore_errors=True)
                raise OSError(str(error).splitlines()[0]) from error
            if final not in earlier:
                temporary.rename(final)
            for old in earlier:
                if old != final:
                    shutil.rmtree(old)
            write_json(folder / "curve.json", done["curve"])
        if not self.options.steps:
            export(self.training)  # the machine may be stopped a minute before the end

    def write_state(self, folder: Path) -> None:
        training = self.training
        state = {
            "modules": {name: module.state_dict() for name, module in training.modules.items()},
            "optimizers": [optimizer.state_dict() for optimizer in training.optimizers],
            "progress": training.done,
            "chance": {name: source.getstate() for name, source in training.chance.items()},
            "generators": {name: source.get_state() for name, source in training.generators.items()},
            "recent": {name: [value.cpu() for value in values] for name, values in self.recent.items()},
            "judged": self.judged_at,
            "data": training.data_state(),
        }
        torch.save(state, folder / STATE)

    def read_state(self, folder: Path) -> None:
        training, path = self.training, folder / STATE
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except Exception as error:
            raise InputError(f"{path} is not a checkpoint of this training ({error}); give another --folder") from error
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
        self.recent = {name: [value.to(training.device) for value in kept] for name, kept in state["recent"].items()}
        self.judged_at = tuple(state["judged"]) if state["judged"] else None
        training.load_data_state(state["data"])

    def run(self) -> None:
        training, options, done = self.training, self.options, self.training.done
        if found := self.states():
            self.accelerator.load_state(str(found[-1]))
        before, first, saved, said = done["seconds"], done["step"], 0.0, 0.0
        with training.running():
            while True:
                elapsed = perf_counter() - self.began
                done["seconds"] = before + elapsed
                over = self.over(elapsed, done["step"] - first)
                self.now |= {"step": done["step"], "doing": "judging"}
                self.judge(over)
                self.now["doing"] = "saving" if over else "learning"
                if over or elapsed - saved >= options.checkpoint_every:
                    saved = elapsed
                    self.save()
                if over:
                    break
                self.take_step()
                if options.steps or elapsed - said >= options.say_every:
                    said = elapsed
                    self.say()

    def take_step(self) -> None:
        training, at, began = self.training, self.moment(), perf_counter()
        share = training.schedule(at)
        for optimizer, rates in zip(training.optimizers, self.highest, strict=True):
            for group, highest in zip(optimizer.param_groups, rates, strict=True):
                group["lr"] = highest * share
        for name, value in training.step(at).items():
            self.recent.setdefault(name, []).append(value.detach().to(training.device))
        training.done["step"] += 1
        self.ahead["step"] = perf_counter() - began

    def say(self) -> None:
        """Add the means since the last time to the curve."""
        means = {name: float(torch.stack(values).mean()) for name, values in self.recent.items()}
        self.recent.clear()
        self.add(self.training.point(self.moment(), means))

    def judge(self, over: bool) -> None:
        done, last = self.training.done, self.judged_at
        due = (
            last is None or done["seconds"] - last[1] >= self.options.judge_every or (over and last[0] != done["step"])
        )
        if due:
            self.judged_at, began = (done["step"], done["seconds"]), perf_counter()
            if found := self.training.judge(self.moment()):
                self.add(found)
            self.ahead["judgement"] = perf_counter() - began

    def add(self, values: Mapping[str, object]) -> None:
        done = self.training.done
        rounded = {name: round(value, DIGITS) if isinstance(value, float) else value for name, value in values.items()}
        point = {"step": done["step"], "seconds": round(done["seconds"], 1), **rounded}
        done["curve"].append(point)
        say_line(point)


def say_line(values: Mapping[str, object]) -> None:
    """Print one line of JSON, for people, logs and pipes."""
    print(json.dumps(values), flush=True)


@contextmanager
def heard(now: JsonObject, began: float, every: float) -> Generator[None]:
    """Log the current activity `now` at once and then at intervals: drawing and judging may take minutes."""
    over = threading.Event()

    def say() -> None:
        while not over.wait(max(every, 1)):
            say_line({**now, "seconds": round(perf_counter() - began, 1)})

    say_line(now)
    threading.Thread(target=say, daemon=True).start()
    try:
        yield
    finally:
        over.set()


Made = TypeVar("Made", bound=Training[Any])


def export(training: Training[Any]) -> None:
    """Export the current state."""
    with writing(training.options.target):
        try:
            training.export()
        except SafetensorError as error:  # its own writer reports a full disk this way
            raise OSError(str(error)) from error


def train(kind: Callable[[Any, Any], Made], options: RunOptions) -> Made:
    """Build a training, run it to its end (from its checkpoint if there is one), and export it; a run with a time limit
    also exports with every checkpoint."""
    began, now = perf_counter(), {"step": 0, "doing": "drawing and loading"}
    with heard(now, began, options.say_every), torch_scope(options.seed, "high"), accelerator_for(options) as made:
        training = kind(options, made)
        Loop(training, began, now).run()
        for module in training.modules.values():
            module.eval()
        export(training)
        with writing(options.target):
            training.finish()
    return training


def command(
    kind: Callable[[Any, Any], Training[Any]],
    options: type[RunOptions],
    doc: str | None,
    own: Callable[[Sequence[str]], None] | None = None,
) -> Callable[[Sequence[str]], None]:
    """Return the `main` of a training. own: the `main` for the user's own records (`own_data`), used with --data."""

    def main(arguments: Sequence[str]) -> None:
        if own is not None and any(one.split("=")[0] == "--data" for one in arguments):
            own(arguments)
        else:
            train(kind, parse(options, arguments, doc))

    return main
