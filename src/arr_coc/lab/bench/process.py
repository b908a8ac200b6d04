"""A whole command, as a user runs it: how long it took and how much memory it held at most.

On Linux a child's peak memory begins with that of the process it was started from. A bench that holds textures of
160 MB would so count its own. Hence the command is started from a small interpreter: this very file, run as a script.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from time import perf_counter
from typing import NamedTuple

PEAK_UNIT = 1 if sys.platform == "darwin" else 1024  # ru_maxrss is in bytes on macOS, in KiB elsewhere


class Ran(NamedTuple):
    seconds: float
    peak_bytes: int


def run_command(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Ran:
    """Run a command to its end; a failure raises RuntimeError with what the command said."""
    launcher = [sys.executable, "-I", "-S", __file__, *command]
    result = subprocess.run(
        launcher, capture_output=True, text=True, check=False, env=None if environment is None else dict(environment)
    )
    if result.returncode:
        said = (result.stderr or result.stdout).strip()
        raise RuntimeError(f"{' '.join(command)} ended with code {result.returncode}: {said}")
    found = json.loads(result.stdout.splitlines()[-1])
    return Ran(found["seconds"], found["peak_bytes"])


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
