"""Calls in forks of one process that has imported everything, and how they end."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

# Imported once, before all forks.
AHEAD = (
    *("arr_coc.asking", "arr_coc.esper.story", "arr_coc.video.watching", "arr_coc.lab.bench.pointing"),
    *("arr_coc.lab.train.train_mini", "arr_coc.lab.needle.export", "arr_coc.draw", "arr_coc.app.cli.batch"),
    *("transformers.models.qwen3_vl.modeling_qwen3_vl", "matplotlib.pyplot"),
)


class Ended(NamedTuple):
    """How a call ended. code: negative for the signal that ended it. events: what it did to files."""

    code: int
    events: int | None
    out: str
    err: str


Run = Callable[..., Ended]


class Zygote:
    """The process (zygote.py); started when the first call wants it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def call(self, folder: Path, *arguments: object, **how: Any) -> Ended:
        """Run `arr-coc` in a folder. call: "module:function" instead. path: where its module lies. environment: more of
        it. event, delay: kill it. bytes: no file may grow larger. seconds: after which it is given up."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        printed = folder / "printed.out", folder / "printed.err"
        request = {"folder": str(folder), "arguments": [str(one) for one in arguments], **how}
        request |= {"stdout": str(printed[0]), "stderr": str(printed[1])}
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert not answer["late"], f"{arguments} did not end"
        return Ended(answer["code"], answer["events"], *(path.read_text(errors="replace") for path in printed))


@contextmanager
def zygote_started() -> Generator[Zygote]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, str(Path(__file__).with_name("zygote.py")), *AHEAD]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env=environment, **pipes) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["ready"]
        yield Zygote(process)
        assert process.stdin is not None
        process.stdin.close()
        process.wait(30)
