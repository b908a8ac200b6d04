"""The soak sees a leak, and takes wobble and warming up for none; a few real rounds of it run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import soak

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the process is weighed by /proc, which Linux has")


def weighed(megabytes: np.ndarray, handles: np.ndarray | None = None) -> list[dict[str, float]]:
    handles = np.full(len(megabytes), 9.0) if handles is None else handles
    return [{"megabytes": a, "handles": b, "threads": 4.0} for a, b in zip(megabytes, handles, strict=True)]


def test_a_leak_is_seen_and_noise_is_not() -> None:
    rounds = np.arange(80.0)
    wobble = 8 * np.sin(rounds * 7) + np.random.default_rng(0).normal(0, 6, 80)
    warming = 500 * (1 - np.exp(-rounds / 4))
    assert soak.judged(weighed(900 + wobble + warming))["flat"]
    assert not soak.judged(weighed(900 + wobble + warming + 0.8 * rounds))["flat"]
    jump = np.where(rounds > 70, 300.0, 0.0)  # one large thing late in the day is no slope
    assert soak.judged(weighed(900 + wobble + jump))["flat"]
    leaking = soak.judged(weighed(900 + wobble, 9 + rounds // 10))
    assert not leaking["judged"]["handles"]["flat"]
    assert leaking["judged"]["megabytes"]["flat"]


def test_handles_and_memory_are_really_weighed(tmp_path: Path) -> None:
    before = soak.weigh()
    held = [open(tmp_path / str(number), "w") for number in range(5)]  # noqa: SIM115
    filled = np.ones(40 << 20, np.uint8)
    after = soak.weigh()
    for file in held:
        file.close()
    assert after["handles"] == before["handles"] + 5
    assert 35 < after["megabytes"] - before["megabytes"] < 60
    del filled
    assert soak.weigh()["megabytes"] < after["megabytes"] - 30


def test_a_few_rounds_of_everything(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = soak.main(["--minutes", "0.01", "--steps", "1", "--out", str(tmp_path / "soak.json")])
    report = json.loads((tmp_path / "soak.json").read_text())
    assert report["rounds"] >= soak.LEAST_ROUNDS
    # So few rounds still warm up: what they hold in memory is no verdict, what they hold open is.
    assert report["judged"]["handles"]["flat"]
    assert report["judged"]["threads"]["flat"]
    assert code == (0 if report["flat"] else 1)
    assert "handles, first" in capsys.readouterr().out
