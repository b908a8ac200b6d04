"""Drawing that can be recorded: the same pictures from a number on the device, and nothing is sent there meanwhile."""

from __future__ import annotations

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from arr_coc_lab.train.acceleration import BEFORE, Captured, RecordingRoom
from arr_coc_lab.train.evaluate import FAMILIES
from arr_coc_lab.train.print_world import PrintWorld
from arr_coc_lab.train.reader import glyph_loss
from arr_coc_lab.train.reader_examples import ReaderBatch, render_reader_batch
from arr_coc_lab.train.train_mini import text_of

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")


@pytest.fixture(scope="module")
def world() -> PrintWorld:
    return PrintWorld(None, "cpu", seed=5)


def drawn(world: PrintWorld, family: str, start: int | torch.Tensor) -> ReaderBatch:
    if family == "print":
        return world.render(2, (256, 256), start)
    if family == "letters":
        return text_of(world, 2, (256, 256), start)
    return render_reader_batch(family, 2, (128, 128), 3, start, "cpu", None, 3)


class Sendings(TorchDispatchMode):
    """Lists that become tensors, and numbers copied into one place: on a GPU each waits, and ends a recording."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        if name == "aten.lift_fresh.default" and args[0].dim() > 0:
            self.found.append(f"a list of {args[0].tolist()[:4]} …")
        if name == "aten.copy_.default" and args[0].dim() == 0:
            self.found.append("a number into one place")
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("family", [*FAMILIES, "print", "letters"])
def test_nothing_is_sent_while_drawing(world, family):
    first = drawn(world, family, 40)  # learns which chance is needed, and keeps its tables
    same = drawn(world, family, torch.tensor(40))
    with Sendings() as sendings:
        other = drawn(world, family, torch.tensor(42))
    assert sendings.found == []
    for name, value in vars(first).items():
        assert torch.equal(value, getattr(same, name)), name
    assert not torch.equal(first.pictures, other.pictures)


def test_small_type_does_not_drown_large():
    """A token of sixteen letters weighs four times as much as one of one, not sixteen times."""
    crowded = torch.zeros(1, 32, dtype=torch.int64)
    crowded[:, :16] = 5
    lonely = torch.zeros(1, 32, dtype=torch.int64)
    lonely[:, 0] = 5
    target = torch.cat([crowded, lonely])
    knows = torch.nn.functional.one_hot(target, 97).float() * 60
    without = []
    for token in range(2):
        logits = knows.clone()
        logits[token][target[token] > 0] = 0.0
        without.append(float(glyph_loss(logits, target)))
    assert without[0] / without[1] == pytest.approx(4, rel=1e-3)


@needs_gpu
def test_a_recording_gives_what_the_work_gives():
    captured = Captured(lambda given: {"made": given[0] * 2 + 1}, RecordingRoom())
    for number in range(BEFORE + 4):
        made = captured([torch.full((3,), number, device="cuda")])["made"]
        assert made.tolist() == [2 * number + 1] * 3
    assert captured.recording is not None
