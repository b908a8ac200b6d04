"""On what a measurement was taken, how long calls take, and what a process costs."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import NamedTuple


def machine_facts(packages: tuple[str, ...] = ("torch", "opencv-contrib-python-headless", "numpy")) -> dict[str, str]:
    """Processor, system, versions and how busy the machine is; nothing that would name a person or a host."""
    facts = {
        "processor": f"{processor_name()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
    facts |= {name: _version(name) for name in packages}
    if hasattr(os, "getloadavg"):
        facts["load average at the start"] = f"{os.getloadavg()[0]:.1f}"
    return facts


def processor_name() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


# ---- Medians of repeated calls, after a warm-up, and two ways of doing one thing taken in turns ----------------------

WARM_UP = 2


def time_in_turns(works: Sequence[Callable[[], object]], repeats: int, warm_up: int = WARM_UP) -> list[float]:
    """The median seconds of each way; all take turns, so that whatever else the machine does hits all of them alike."""
    for _ in range(warm_up):
        for work in works:
            work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, seconds, strict=True):
            started = perf_counter()
            work()
            found.append(perf_counter() - started)
    return [median(found) for found in seconds]


@contextmanager
def processors(number: int) -> Generator[int]:
    """Use this many processors and threads, here and in child processes; yields how many there really are."""
    import cv2
    import torch

    threads = torch.get_num_threads(), cv2.getNumThreads()
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    used = min(number, len(allowed) if allowed is not None else os.cpu_count() or number)
    try:
        if allowed is not None:
            os.sched_setaffinity(0, sorted(allowed)[:used])
        torch.set_num_threads(used)
        cv2.setNumThreads(used)
        yield used
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)
        torch.set_num_threads(threads[0])
        cv2.setNumThreads(threads[1])


# ---- A whole command, as a user runs it: how long it took and how much memory it held at most ------------------------
# On Linux a child's peak memory begins with that of the process it was started from. A bench that holds textures of
# 160 MB would so count its own. Hence the command is started from a small interpreter: this very file, run as a script.

PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes on macOS, in KiB elsewhere


class CommandRun(NamedTuple):
    """What a command cost."""

    seconds: float
    peak_bytes: int


def run_command(command: Sequence[str]) -> CommandRun:
    """Run a command to its end; a failure raises RuntimeError with what the command said."""
    launcher = [sys.executable, "-I", "-S", __file__, *command]
    result = subprocess.run(launcher, capture_output=True, text=True, check=False)
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        raise RuntimeError(f"{' '.join(command)} ended with code {result.returncode}: {said}")
    found = json.loads(result.stdout.splitlines()[-1])
    return CommandRun(found["seconds"], found["peak_bytes"])


def _launch(command: Sequence[str]) -> int:
    """Run the command without its standard output, print seconds and peak memory, return its exit code."""
    silence = os.open(os.devnull, os.O_WRONLY)
    started = perf_counter()
    child = os.posix_spawnp(command[0], list(command), os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, silence, 1)])
    _, status, usage = os.wait4(child, 0)
    seconds = perf_counter() - started
    print(json.dumps({"seconds": seconds, "peak_bytes": usage.ru_maxrss * PEAK_UNIT}))
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(_launch(sys.argv[1:]))
