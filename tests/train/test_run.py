"""The one training loop: resuming to the bit after a kill, options, schedules, writers, and nothing left behind."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from arr_coc.core.errors import InputError
from arr_coc_lab.options import option, parse, plain
from arr_coc_lab.train.run import Moment, RunOptions, Schedule, Training, torch_scope, train

# ---- a line through points: small enough to be trained thousands of times -------------------------------------------


@dataclass(frozen=True, kw_only=True)
class LineOptions(RunOptions):
    rate: float = option(0.1, "learning rate")
    slope: float = option(2.0, "of the line")
    fails_at: int = option(-1, "the step before which it ends")


class Line(Training[LineOptions]):
    """Learns a slope from noisy points; a point made ahead is kept for the next step."""

    def __init__(self, options: LineOptions, accelerator: Any) -> None:
        super().__init__(options, accelerator)
        self.modules["line"] = nn.Linear(1, 1)
        self.optimizers.append(torch.optim.Adam(self.parameters(), lr=options.rate))
        self.schedule = Schedule(3, 0.5, 0.1)
        self.noise = self.generator("noise", options.seed)
        self.ahead: list[float] = []
        self.judged: list[int] = []

    def loss(self, at: Moment) -> Any:
        if at.step == self.options.fails_at:
            raise ConnectionError
        if not self.ahead:
            self.ahead = [self.chance["chance"].uniform(-1, 1) for _ in range(4)]
        x = torch.tensor([[self.ahead.pop()]]) + 0.1 * torch.randn(8, 1, generator=self.noise)
        y = self.options.slope * x
        return (self.modules["line"](x) - y).square().mean(), {"x": x.mean()}

    def judge(self, at: Moment) -> dict[str, Any]:
        self.judged.append(at.step)
        return {"slope": float(self.modules["line"].weight.detach())}

    def data_state(self) -> list[float]:
        return self.ahead

    def load_data_state(self, state: list[float]) -> None:
        self.ahead = list(state)


def weights_of(training: Training[Any]) -> list[torch.Tensor]:
    return [value.detach() for value in training.parameters()]


def without_seconds(curve: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in point.items() if name != "seconds"} for point in curve]


def test_a_run_that_was_stopped_ends_with_the_same_bits(tmp_path):
    options = LineOptions(steps=20, checkpoint_every=0, device="cpu", folder=tmp_path / "whole", seed=3)
    whole = train(Line, options)
    for stopped in (1, 7, 19):
        parts = replace(options, folder=tmp_path / str(stopped))
        with pytest.raises(ConnectionError):
            train(Line, replace(parts, fails_at=stopped))
        again = train(Line, parts)
        assert again.done["step"] == 20
        assert all(map(torch.equal, weights_of(whole), weights_of(again)))
        assert without_seconds(again.done["curve"]) == without_seconds(whole.done["curve"])
    other = train(Line, replace(options, folder=tmp_path / "other", seed=4))
    assert not torch.equal(weights_of(whole)[0], weights_of(other)[0])


def test_it_learns_is_judged_and_leaves_its_curve(tmp_path):
    training = train(Line, LineOptions(steps=200, device="cpu", folder=tmp_path))
    assert float(training.modules["line"].weight.detach()) == pytest.approx(2, abs=0.1)
    assert training.judged[0] == 0
    assert training.judged[-1] == 200
    curve = json.loads((tmp_path / "curve.json").read_text())
    assert [point["step"] for point in curve if "loss" in point] == list(range(1, 201))
    record = json.loads((tmp_path / "export" / "record.json").read_text())
    assert record["curve"] == curve
    assert record["plan"]["slope"] == 2
    assert record["step"] == 200
    again = train(Line, LineOptions(steps=200, device="cpu", folder=tmp_path))
    assert again.done["step"] == 200, "what is done is not done again"


def test_the_time_ends_a_run_but_not_before_a_step(tmp_path):
    training = train(Line, LineOptions(seconds=0.3, device="cpu", folder=tmp_path))
    assert training.done["step"] > 1
    assert 0.2 <= training.done["seconds"] < 5
    one = train(Line, LineOptions(seconds=0, steps=5, device="cpu", folder=tmp_path / "one"))
    assert one.done["step"] == 1


def test_drawing_and_both_judgements_are_inside_the_time_and_heard_of(tmp_path, capsys):
    class Slow(Line):
        def __init__(self, options: LineOptions, accelerator: Any) -> None:
            time.sleep(1.2)
            super().__init__(options, accelerator)

        def judge(self, at: Moment) -> Any:
            time.sleep(0.5)
            return super().judge(at)

    training = train(Slow, LineOptions(seconds=9, say_every=1, device="cpu", folder=tmp_path))
    assert training.done["seconds"] < 12, "drawing and both judgements included"
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert said[0] == {"step": 0, "doing": "drawing and loading"}
    assert said[1] == {**said[0], "seconds": said[1]["seconds"]}
    assert 0 < training.fitting(40, 0.1) < 40
    assert train(Line, LineOptions(steps=1, device="cpu", folder=tmp_path / "steps")).fitting(40, 99) == 40


def test_a_run_by_the_clock_that_dies_leaves_what_it_had_learned(tmp_path):
    options = LineOptions(seconds=60, checkpoint_every=0, device="cpu", folder=tmp_path, fails_at=7)
    with pytest.raises(ConnectionError):
        train(Line, options)
    assert json.loads((tmp_path / "export" / "record.json").read_text())["step"] == 7
    assert (tmp_path / "export" / "line.safetensors").is_file()


def test_another_trainings_folder_is_refused_in_one_line(tmp_path):
    train(Line, LineOptions(steps=1, device="cpu", folder=tmp_path))

    class Other(Line):
        def __init__(self, options: LineOptions, accelerator: Any) -> None:
            super().__init__(options, accelerator)
            self.modules["line"] = nn.Linear(2, 1)

    with pytest.raises(InputError, match="another training"):
        train(Other, LineOptions(steps=2, device="cpu", folder=tmp_path))
    (tmp_path / "state-1" / "training-0.pt").write_bytes(b"half a fi")
    with pytest.raises(InputError, match="not a checkpoint"):
        train(Line, LineOptions(steps=2, device="cpu", folder=tmp_path))


@given(st.floats(0, 1), st.integers(0, 500), st.integers(1, 100), st.floats(0, 0.99), st.floats(0, 1))
def test_a_schedule_stays_between_nothing_and_all(progress, step, warm_up, decay_from, floor):
    schedule = Schedule(warm_up, decay_from, floor)
    share = schedule(Moment(step, step, progress))
    assert 0 <= share <= 1 + 1e-12
    if step >= warm_up:
        assert share >= floor - 1e-12
        assert share >= schedule(Moment(step, step, 1.0)) - 1e-12
        assert progress > decay_from or share == pytest.approx(1)
    assert Schedule()(Moment(step, step, progress)) == 1


# ---- options ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Many(RunOptions):
    where: Path = option(help="required")
    source: str = option("boxes", "what from", flag="--from", choices=("boxes", "outcomes"))
    keeps: tuple[float, ...] = option((0.25,), "budgets")
    limit: float | None = option(None, "none")
    curriculum: bool = option(True, "off", flag="--static-only")


def test_a_command_line_says_what_a_program_says(capsys):
    line = "--where a --from outcomes --keeps 0.5 0.25 --keeps 1 --limit 3 --static-only --cpu --steps 9"
    given = parse(Many, line.split(), "words")
    assert given == Many(
        where=Path("a"), source="outcomes", keeps=(0.5, 0.25, 1), limit=3.0, curriculum=False, device="cpu", steps=9
    )
    assert parse(Many, ["--where", "a"], None) == Many(where=Path("a"))
    assert json.loads(json.dumps(plain(given)))["where"] == "a"
    for wrong in ([], ["--where", "a", "--from", "dreams"]):
        with pytest.raises(InputError, match="--help lists the options"):
            parse(Many, wrong, None)
    with pytest.raises(SystemExit):
        parse(Many, ["--help"], "what it is about")
    told = capsys.readouterr().out
    assert all(word in told for word in ("what it is about", "--checkpoint-every", "what from", "[0.25]"))


# ---- what is written beside -----------------------------------------------------------------------------------------


def test_accelerate_is_only_needed_where_a_training_runs(tmp_path):
    script = "import sys; sys.modules['accelerate'] = None\n"
    names = "outcomes, train_mini, train_prompts, train_scorer, train_video, train_words"
    script += f"from arr_coc_lab.train import {names}\n"
    script += "from arr_coc_lab.classic import phases\n"
    script += f"train_words.main(['--steps', '1', '--cpu', '--folder', {str(tmp_path)!r}])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert "training needs accelerate; install the extra" in done.stderr.splitlines()[-1]


# ---- nothing is left behind ------------------------------------------------------------------------------------------


def torch_globals() -> dict[str, Any]:
    return {
        "threads": torch.get_num_threads(),
        "matmul": torch.get_float32_matmul_precision(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warn only": torch.is_deterministic_algorithms_warn_only_enabled(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "torch": torch.get_rng_state().tolist(),
        "python": random.getstate(),
        "numpy": np.random.get_state()[1].tolist(),  # noqa: NPY002
    }


def test_a_training_leaves_torch_as_it_was(tmp_path):
    before = torch_globals()
    train(Line, LineOptions(steps=2, device="cpu", folder=tmp_path))
    assert torch_globals() == before


def disturb(threads: int) -> None:
    with torch_scope(5, "medium", threads=threads):
        assert (torch.get_float32_matmul_precision(), torch.get_num_threads()) == ("medium", threads)
        torch.set_default_dtype(torch.float64)
        torch.use_deterministic_algorithms(True)
        torch.rand(3)
        raise ConnectionError


def test_the_scope_restores_even_after_a_failure():
    before = torch_globals()
    with pytest.raises(ConnectionError):
        disturb(before["threads"] + 1)
    assert torch_globals() == before


# ---- killed without warning ----------------------------------------------------------------------------------------


def train_line(arguments: list[str]) -> None:
    train(Line, parse(LineOptions, arguments, None))


def line_state(folder: Path) -> dict[str, Any]:
    (found,) = folder.glob("state-*/training-0.pt")
    return torch.load(found, weights_only=True)


def test_a_killed_training_goes_on_to_the_bit(run, tmp_path):
    """The real thing: kill -9 in the middle of the steps, in a process of its own."""
    whole, killed = (
        ["--steps", "6", "--checkpoint-every", "0", "--cpu", "--folder", str(tmp_path / part)]
        for part in ("whole", "killed")
    )
    how = {"call": f"{__name__}:train_line"}
    left_alone = run(*whole, **how)
    assert left_alone.code == 0, left_alone.err
    assert run(*killed, **how, event=left_alone.events // 3).code == -9
    assert 0 < line_state(tmp_path / "killed")["progress"]["step"] < 6
    again = run(*killed, **how)
    assert again.code == 0, again.err
    first, second = line_state(tmp_path / "killed"), line_state(tmp_path / "whole")
    assert torch.equal(first["modules"]["line"]["weight"], second["modules"]["line"]["weight"])
    curves = [without_seconds(state["progress"]["curve"]) for state in (first, second)]
    assert curves[0] == curves[1]
