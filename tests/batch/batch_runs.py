"""Batches run as a user runs them, killed on the way, and what they leave."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

QUESTIONS = ("Where is the red sign?", "What is blue?")
BROKEN = "broken.png"
# The command with small batches, which are written at once.
SMALL_PARTS = (
    "import sys, arr_coc.app.cli.batch as batch; from arr_coc.app.cli import main;"
    "batch.AT_ONCE, batch.WRITE_EVERY = 2, 0.0; main(sys.argv[1:])"
)


def write_pictures(folder: Path, number: int, size: tuple[int, int] = (96, 128)) -> Path:
    """So many pictures, and one file that is none."""
    folder.mkdir(parents=True)
    noise = np.random.default_rng(0).integers(0, 256, (number, *size, 3), dtype=np.uint8)
    for place, pixels in enumerate(noise):
        Image.fromarray(pixels).save(folder / f"{place:05d}.png", compress_level=0)
    (folder / BROKEN).write_bytes(b"not a picture")
    return folder


def expected(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((str(path), query) for path in folder.iterdir() for query in QUESTIONS)


def arguments(folder: Path, out: Path, *more: str) -> list[str]:
    asked = [word for query in QUESTIONS for word in ("-q", query)]
    given = ["batch", str(folder), *asked, "--out", str(out), "--budget", "4", *more]
    return [sys.executable, "-c", SMALL_PARTS, *given]


def written(out: Path) -> list[dict[str, Any]]:
    texts = [path.read_text(encoding="utf-8") for path in sorted(out.glob("part-*.jsonl"))]
    return [json.loads(line) for text in texts for line in text.split("\n") if line]


def rows_of(out: Path) -> Counter[tuple[str, str]]:
    return Counter((row["path"], row["query"]) for row in written(out))


def children(pid: int) -> dict[int, str]:
    """Processes below this one, at any depth → their command lines."""
    parents, lines = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                lines[int(entry.name)] = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except (OSError, IndexError):
                continue
    below, found = {pid}, {}
    while more := {child for child, parent in parents.items() if parent in below} - set(found):
        below |= more
        found |= {child: lines[child] for child in more}
    return found


def wait_for_parts(out: Path, number: int, driver: subprocess.Popen[bytes], seconds: float = 240) -> None:
    limit = time.monotonic() + seconds
    while len(list(out.glob("part-*.jsonl"))) < number:
        assert driver.poll() is None, "the run was over before it could be killed"
        assert time.monotonic() < limit, f"no {number} parts after {seconds} s"
        time.sleep(0.005)


def alive(pids: Iterable[int]) -> list[str]:
    """Which of these processes still are, as their status says; what is dead and only not yet counted is not."""
    found = []
    for pid in pids:
        try:
            status = Path(f"/proc/{pid}/status").read_text().splitlines()
        except OSError:
            continue
        found += [f"{pid} {status[0]}"] if not any(line.startswith("State:\tZ") for line in status) else []
    return found


def still_alive(pids: Iterable[int], seconds: float = 30) -> list[str]:
    """Those that have not ended by themselves in time."""
    limit = time.monotonic() + seconds
    while (left := alive(pids)) and time.monotonic() < limit:
        time.sleep(0.05)
    return left


def run_killed(line: list[str], out: Path, worker: str, parts: tuple[int, int]) -> list[int]:
    """Start a batch, kill a worker (found by what is in its command line) after the first so many parts, the driver
    after the second; the processes that were below it."""
    driver = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for_parts(out, parts[0], driver)
        below = children(driver.pid)
        workers = sorted(pid for pid, command in below.items() if worker in command)
        assert workers, below
        os.kill(workers[-1], signal.SIGKILL)
        wait_for_parts(out, parts[1], driver)
        below = children(driver.pid)
    finally:
        driver.kill()
        driver.wait()
    return list(below)
