"""The hunt: many spoilt inputs in one watched process; every one gets a result or one line.

A hunter is a function that gets an empty folder and gives back a function: a source of chance → one case, which is a
description and a call. Case `n` of seed `s` is always the same one, so a finding is told by these two numbers:

    python tests/fuzz/fuzzing.py pictures 0 17 1      # seed 0, case 17, one of it

Rules of a case: it ends with a result or with `InputError` of one line; it takes at most 10 s of processor and 1 GB.
A hunter's call checks further rules of its own by `AssertionError`.
"""

from __future__ import annotations

import faulthandler
import importlib
import json
import os
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

Case = tuple[str, Callable[[], Any]]
Hunter = Callable[[Path], Callable[[random.Random], Case]]
HUNTERS = {
    "pictures": "hunt_files",
    "documents": "hunt_files",
    "words": "hunt_files",
    "pdfs": "hunt_files",
    "commands": "hunt_commands",
    "server": "hunt_web",
    "page": "hunt_web",
}
CPU_SECONDS, WALL_SECONDS, BYTES = 10, 120, 1 << 30
SHOWN = 300  # characters of a case that are told


def memory() -> tuple[int, int]:
    """Bytes that this process holds, and the most it held since `forget_peak`."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmRSS"].split()[0]) << 10, int(status["VmHWM"].split()[0]) << 10


def forget_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def try_case(call: Callable[[], Any]) -> str | None:
    """What is wrong with the case; None where a result or one line came."""
    from arr_coc.core.errors import InputError

    forget_peak()
    before, began = memory()[0], time.process_time()
    wrong = None
    try:
        call()
    except InputError as error:
        line = str(error)
        if not line.strip() or "\n" in line or len(line) > 2000:
            wrong = f"a bad line: {line!r}"
    except KeyboardInterrupt:
        raise
    except BaseException:
        wrong = traceback.format_exc()
    spent, grown = time.process_time() - began, memory()[1] - before
    if wrong is None and spent > CPU_SECONDS:
        wrong = f"took {spent:.1f} s of the processor"
    if wrong is None and grown > BYTES:
        wrong = f"grew by {grown / 2**30:.2f} GB"
    return wrong


def hunt_here(kind: str, seed: int, first: int, count: int, seconds: float, told: Path) -> None:
    """Cases one after another, until there were `count` or the time is over; findings as lines of JSON into a file."""
    sys.path.insert(0, str(Path(__file__).parent))
    warnings.simplefilter("ignore")
    source = getattr(importlib.import_module(HUNTERS[kind]), kind)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        draw = source(Path(folder))
        limit = memory()[0] + 6 * BYTES  # so that the machine lives on where a case does not keep to its gigabyte
        resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
        over = time.monotonic() + seconds
        with told.open("a") as file:

            def tell(**what: Any) -> None:
                file.write(json.dumps(what) + "\n")
                file.flush()

            for number in range(first, first + count):
                if time.monotonic() > over:
                    break
                faulthandler.dump_traceback_later(WALL_SECONDS, exit=True)
                description, call = draw(random.Random(f"{kind} {seed} {number}"))
                tell(case=number, description=description[:SHOWN])
                wrong = try_case(call)
                if wrong:
                    tell(found=number, description=description[:SHOWN], wrong=wrong[-2500:])
            faulthandler.cancel_dump_traceback_later()
            tell(done=True)
        os.chdir("/")


def hunt(zygote: Any, kind: str, seed: int, count: int, seconds: float) -> tuple[int, list[str]]:
    """How many cases were tried in processes of their own, and what was found. One that dies is a finding, and the hunt
    goes on behind it. zygote: forks them (tests/zygote)."""
    found, first, tried = [], 0, 0
    over = time.monotonic() + seconds
    with tempfile.TemporaryDirectory() as folder:
        environment = {"HF_ENDPOINT": "http://127.0.0.1:9", "XDG_CONFIG_HOME": folder, "ARR_COC_HOME": folder}
        how = {"call": "fuzzing:main", "path": [str(Path(__file__).parent)], "environment": environment}
        while tried < count and len(found) < 20:
            told = Path(folder) / f"told-{first}"
            left = over - time.monotonic()
            arguments = (kind, seed, first, count - tried, left, told)
            ended = zygote.call(Path(folder), *arguments, **how, seconds=left + 2 * WALL_SECONDS)
            lines = [json.loads(line) for line in told.read_text().splitlines()] if told.exists() else []
            tried += sum("case" in line for line in lines)
            troubles = [line for line in lines if "found" in line]
            found += [f"{kind} {seed} {one['found']}: {one['description']}\n{one['wrong']}" for one in troubles]
            said = ended.out + ended.err
            if "Traceback" in said and ended.code == 0:
                found.append(f"{kind} {seed}: a traceback was printed\n{said[-2500:]}")
            if lines and "done" in lines[-1]:
                break
            last = next((line for line in reversed(lines) if "case" in line), None)
            assert last is not None, f"the hunt for {kind} did not begin:\n{said[-3000:]}"
            died = f"the process ended with {ended.code}\n{said[-2500:]}"
            found.append(f"{kind} {seed} {last['case']}: {last['description']}\n{died}")
            first = last["case"] + 1
    return tried, found


def main(given: list[str]) -> None:
    report = Path(given[5]) if len(given) > 5 else Path(tempfile.mkdtemp()) / "told"
    hunt_here(given[0], int(given[1]), int(given[2]), int(given[3]), float(given[4]) if len(given) > 4 else 600, report)
    if len(given) <= 5:
        print(report.read_text())


if __name__ == "__main__":
    main(sys.argv[1:])
