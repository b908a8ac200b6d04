"""Calls in forks of one process that has imported everything, and how they end."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from zygote import answer_requests

# Imported once, before all forks.
AHEAD = (
    *("arr_coc.answering.eye", "arr_coc.answering.story", "arr_coc.video.watching", "arr_coc_lab.calibrate.pointing"),
    *("arr_coc_lab.train.train_mini", "arr_coc_lab.train.calibration", "arr_coc_lab.worlds.needle.export"),
    *(f"arr_coc.app.cli.{name}" for name in ("ask", "batch", "look", "servers", "video")),
    *(f"arr_coc_lab.cli.{name}" for name in ("runs", "worlds")),
    *("transformers.models.qwen3_vl.modeling_qwen3_vl", "matplotlib.pyplot", "pyarrow.parquet"),
    *("rich.live", "rich.progress", "arr_coc.draw.film", "arr_coc.draw", "arr_coc_lab.worlds.office.export"),
)


class Ended(NamedTuple):
    """How a call ended. code: negative for the signal that ended it. events: what it did to files."""

    code: int
    events: int | None
    out: str
    err: str


class Going(NamedTuple):
    """A call that goes on. line: the first that it printed. ended: waits for it."""

    pid: int
    line: str
    ended: Callable[[], Ended]


Run = Callable[..., Ended]


class Zygote:
    """The process (zygote.py): a fork of this one, made before tests start threads."""

    def __init__(self) -> None:
        (asked, ask), (hear, told) = os.pipe(), os.pipe()
        with warnings.catch_warnings(action="ignore"):  # of pytest-xdist's thread, which only reads
            self.pid = os.fork()
        if not self.pid:
            for mine in (ask, hear):
                os.close(mine)
            try:
                answer_requests(asked, told, AHEAD)
            finally:
                os._exit(0)
        for its in (asked, told):
            os.close(its)
        self.ask, self.hear = os.fdopen(ask, "w"), os.fdopen(hear)

    def call(self, folder: Path, *arguments: object, **how: Any) -> Ended:
        """Run `arr-coc` in a folder. call: "module:function" instead. path: where its module lies. environment: more of
        it. event, delay: kill it. bytes: no file may grow larger. seconds: after which it is given up."""
        printed = folder / "printed.out", folder / "printed.err"
        request = {"folder": str(folder), "arguments": [str(one) for one in arguments], **how}
        request |= {"stdout": str(printed[0]), "stderr": str(printed[1]), "pid": str(folder / "printed.pid")}
        self.ask.write(json.dumps(request) + "\n")
        self.ask.flush()
        answer = json.loads(self.hear.readline())
        assert not answer["late"], f"{arguments} did not end"
        return Ended(answer["code"], answer["events"], *(path.read_text(errors="replace") for path in printed))

    @contextmanager
    def going(self, folder: Path, *arguments: object, **how: Any) -> Iterator[Going]:
        """The same, for commands that go on until they are told to end. The others wait for that."""
        with ThreadPoolExecutor(1) as aside:
            ended = aside.submit(self.call, folder, *arguments, **how)
            said, out = "", folder / "printed.out"
            while "\n" not in said:
                assert not ended.done(), ended.result()
                time.sleep(0.02)
                said = out.read_text() if out.exists() else ""
            yield Going(int((folder / "printed.pid").read_text()), said.splitlines()[0], ended.result)

    def close(self) -> None:
        self.ask.close()
        self.hear.close()
        os.waitpid(self.pid, 0)
