"""Real commands in forks of one process, to be killed or starved of disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from fault_runs import Ended, Run
from PIL import Image
from tiny_models import picture

from arr_coc.knowing.scorer import Scorer, ScorerConfig
from arr_coc.lab.train.checkpoints import ship
from arr_coc.lab.train.mini_model import MiniConfig, build_mini

# Imported once, before all forks.
AHEAD = (
    *("arr_coc.asking", "arr_coc.esper.story", "arr_coc.video.watching", "arr_coc.lab.bench.pointing"),
    *("arr_coc.lab.train.train_mini", "arr_coc.lab.needle.export", "arr_coc.draw", "arr_coc.app.cli.batch"),
    *("transformers.models.qwen3_vl.modeling_qwen3_vl", "matplotlib.pyplot"),
)


@pytest.fixture(scope="session")
def zygote() -> Generator[subprocess.Popen[str]]:
    if sys.platform != "linux":
        pytest.skip("commands are killed in forks, which only Linux does safely with torch loaded")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(Path(__file__).with_name("zygote.py")), *AHEAD]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        yield process
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)


@pytest.fixture
def run(zygote: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `arr-coc` in a folder. event, delay: kill it (zygote.py). bytes: no file may grow larger."""

    def call(*arguments: object, **how: Any) -> Ended:
        assert zygote.stdin is not None
        assert zygote.stdout is not None
        printed = tmp_path / "printed.out", tmp_path / "printed.err"
        request = {"folder": str(tmp_path), "arguments": [str(one) for one in arguments], **how}
        request |= {"stdout": str(printed[0]), "stderr": str(printed[1])}
        zygote.stdin.write(json.dumps(request) + "\n")
        zygote.stdin.flush()
        answer = json.loads(zygote.stdout.readline())
        assert not answer["late"], f"{arguments} did not end"
        return Ended(answer["code"], answer["events"], *(path.read_text() for path in printed))

    return call


@pytest.fixture(scope="session")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture, a clip and a tiny model."""
    folder = tmp_path_factory.mktemp("things")
    Image.fromarray(np.asarray(picture(96, 128))).save(folder / "street.png")
    frames = [Image.fromarray(np.roll(np.asarray(picture(64, 96)), 3 * step, 1)) for step in range(3)]
    frames[0].save(folder / "clip.gif", save_all=True, append_images=frames[1:], duration=100)
    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=2, deepstack=(0,)))
    ship({"mini": mini, "scorer": Scorer(ScorerConfig(width=32))}, folder)
    return folder
