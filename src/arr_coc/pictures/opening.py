"""Open untrusted files in helper processes, which can be killed. Library callers stay in their own process by default.

with isolated():
    load_picture("untrusted.jpg")            a helper decodes it, or one line says why not

A small file can make a decoder run forever or take all memory. So functions that read files are decorated with `apart`:
inside `isolated` they run in a helper, with a limit of ten seconds of CPU time, of thirty seconds without progress, and
of memory by the number of pixels. They are no sandbox: a helper has all rights of its user. Windows has no such limits.
"""

from __future__ import annotations

import atexit
import io
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from functools import wraps
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryFile
from threading import Condition
from typing import Any, ParamSpec, TypeVar, cast

from ..core.errors import InputError, check_stop

# Limits of one file: seconds of CPU time, seconds without `PROGRESS` of them, and how often it may exceed these.
SECONDS, CLOCK, PROGRESS, STRIKES = 10, 30, 0.01, 3
# Seconds of CPU time after which a helper is slow. Slow ones have a lower priority (nice value) and take turns of some
# seconds: at most `TOGETHER` of them run at a time, the others are stopped.
FAIR, NICE, TURN, TOGETHER = 0.3, 10, 0.2, max(1, (os.cpu_count() or 1) // 2)
# Maximum number of helpers, of idle ones, and seconds after which an idle one ends.
MOST, SPARE, IDLE = 16, max(2, os.cpu_count() or 1), 60
# Bytes of shared memory that a helper keeps, because allocating them takes most of the time.
KEPT = 1 << 26
# Bytes of address space of a helper, and for each pixel of a picture.
BASE, BYTES_PER_PIXEL = 1 << 30, 16
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "2", "VIPS_CONCURRENCY": "2"}
HELPER = "from arr_coc.pictures.opening import help_out; help_out({}, {}, {})"

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def apart(work: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Run `work(file, name, …)` in a helper inside `isolated`. file: a path or bytes; open files are read in this
    process. name: its name in messages."""

    @wraps(work)
    def run(*args: Parameters.args, **more: Parameters.kwargs) -> Result:
        file, name, *others = cast("tuple[Any, ...]", args)
        file = file.getvalue() if isinstance(file, io.BytesIO) else file
        if _users and isinstance(file, bytes | str | os.PathLike):
            file = file if isinstance(file, bytes) else Path(os.path.abspath(file))
            return cast("Result", _helpers.run(place, file, name, others))
        return work(*args, **more)

    place = run.__module__, run.__qualname__
    return run


def isolate() -> None:
    """Open files in helpers from now on. The first helper starts at once, in parallel to further imports."""
    global _users
    if hasattr(os, "fork"):
        _users += 1
        _helpers.give_back(_helpers.take(None), True)


@contextmanager
def isolated() -> Generator[None]:
    """Open files in helpers inside the block."""
    global _users
    isolate()
    try:
        yield
    finally:
        _users = max(0, _users - 1)
        if not _users:
            _helpers.close()


# ---- the helper ------------------------------------------------------------------------------------------------------


def help_out(descriptor: int, table: int, idle: float) -> None:
    """Run in a helper: serve one request at a time until the owner ends or none comes for `idle` seconds. table: the
    file that passes arrays, ten times as fast as a pipe."""
    global is_helper
    is_helper = True
    import resource
    from multiprocessing.connection import Connection

    link, file = Connection(descriptor), b""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # if the machine runs out of memory, Linux kills helpers first
        Path("/proc/self/oom_score_adj").write_text("1000")
    for ahead in ("arr_coc.pictures.document", "cv2"):  # before the first request comes
        with suppress(ImportError):
            import_module(ahead)
    with suppress(EOFError, OSError):  # its owner has ended
        link.send("ready")
        while link.poll(idle):
            (module, function), given, name, others = link.recv()
            file = file if given is None else given
            # In case the owner has died and does not watch the time.
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 2 * SECONDS, resource.RLIM_INFINITY))
            memory_for(0)
            value, error = None, None
            try:
                value = getattr(import_module(module), function)(file, name, *others)
            except InputError as refused:
                error = refused
            except Exception as wrong:
                error = InputError(
                    f"{name} cannot be read ({' '.join(repr(wrong).split())[:120]}); save it again, smaller"
                )
            arrays: list[pickle.PickleBuffer] = []
            data = pickle.dumps((value, error), 5, buffer_callback=arrays.append)
            parts = [one.raw() for one in arrays]
            for part in parts:
                os.write(table, part)
            link.send((data, [part.nbytes for part in parts]))


def memory_for(pixels: int) -> None:
    """Set the memory limit for a picture of this size in a helper; do nothing elsewhere."""
    if is_helper:
        import resource

        most = BASE + BYTES_PER_PIXEL * pixels
        with suppress(ValueError, OSError):  # macOS has no such limit
            resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))


class Helper:
    """One helper process, seen from its owner."""

    def __init__(self) -> None:
        from multiprocessing import Pipe

        self.link, its = Pipe()
        linux = sys.platform == "linux"
        self.table = os.fdopen(os.memfd_create("arr-coc"), "r+b", 0) if linux else TemporaryFile(buffering=0)  # noqa: SIM115
        with its:
            descriptors = its.fileno(), self.table.fileno()
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-c", HELPER.format(*descriptors, IDLE)],
                pass_fds=descriptors,
                stdout=subprocess.DEVNULL,
                process_group=0,  # Ctrl-C is for its owner
                env={**os.environ, **ENVIRONMENT},
            )
        self.starts, self.gives_way, self.file = True, False, b""

    def spent(self) -> float:
        """Return the CPU time of the helper in seconds; the clock where CPU time is not available."""
        if sys.platform == "linux":
            with suppress(OSError):
                return time.clock_gettime((~self.process.pid << 3) | 2)  # clock_getcpuclockid(3)
        return time.perf_counter()

    def run(self, work: tuple[str, str], file: bytes | Path, name: str, others: list[object]) -> Any:
        """Return the result or raise the error of the work; `OSError` or `EOFError` if the helper died or is too late.

        CPU time counts, because on a busy machine a helper waits for the CPU; without any for long it is given up.
        """
        if self.starts:
            self.starts = self.link.recv() != "ready"
        before = at_work = self.spent()
        since = time.perf_counter()
        # The bytes of a document are sent once for all of its pages.
        known = file is self.file and isinstance(file, bytes)
        self.link.send((work, None if known else file, name, others))
        self.file = file
        while not self.link.poll(0.05):
            check_stop()
            spent, now = self.spent(), time.perf_counter()
            if spent > at_work + PROGRESS:
                at_work, since = spent, now
            if spent - before > SECONDS or now - since > CLOCK:
                raise TimeoutError
            if spent - before > FAIR:
                self.take_turns(now)
        data, sizes = self.link.recv()
        self.table.seek(0)
        arrays = [bytearray(size) for size in sizes]
        for array in arrays:
            self.table.readinto(array)
        self.table.seek(0)  # the helper writes where this process stands
        if sum(sizes) > KEPT:
            self.table.truncate()
        value, error = pickle.loads(data, buffers=arrays)
        if error is not None:
            raise error
        return value

    def take_turns(self, now: float) -> None:
        """Let a slow helper run at a lower priority, and only while it is its turn among the slow ones."""
        if not self.gives_way:
            self.gives_way = True
            _helpers.slow.append(self)
            with suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, self.process.pid, NICE)
        place = (_helpers.slow.index(self) + int(now / TURN)) % len(_helpers.slow)
        self.process.send_signal(signal.SIGCONT if place < TOGETHER else signal.SIGSTOP)

    def end(self) -> int:
        """Kill the helper; return its exit code."""
        self.process.kill()
        self.link.close()
        self.table.close()
        return self.process.wait()


class Helpers:
    """The pool of helpers. A file that exceeds its limits several times is refused."""

    def __init__(self) -> None:
        self.changed, self.idle, self.busy, self.slow = Condition(), list[Helper](), set[Helper](), list[Helper]()
        self.strikes: dict[object, int] = {}

    def run(self, work: tuple[str, str], file: bytes | Path, name: str, others: list[object]) -> Any:
        key = hash(file) if isinstance(file, bytes) else (file, os.path.getmtime(file) if file.exists() else 0)
        if self.strikes.get(key, 0) >= STRIKES:
            raise InputError(f"{name} took too long or too much memory {STRIKES} times; leave it out, or save it again")
        helper, whole = self.take(file), False
        try:
            value = helper.run(work, file, name, others)
            whole = True
            return value
        except InputError:
            whole = True
            raise
        except (EOFError, OSError) as error:
            code = helper.end()
            if code == 0:  # it was idle for too long and about to end
                return self.run(work, file, name, others)
            self.strikes[key] = self.strikes.get(key, 0) + 1
            late = isinstance(error, TimeoutError) or code == -signal.SIGXCPU
            broken = f"took too much memory, or broke its reader ({code})"
            reason = f"took more than {SECONDS} s to open" if late else broken
            raise InputError(f"{name} {reason}; save it again, simpler or smaller") from error
        finally:
            self.give_back(helper, whole)

    def take(self, file: bytes | Path | None) -> Helper:
        with self.changed:
            while len(self.busy) >= MOST:
                check_stop()
                self.changed.wait(0.1)
            for dead in [one for one in self.idle if one.process.poll() is not None]:  # killed, out of memory
                self.idle.remove(dead)
                dead.end()
            # Prefer a helper that has this document open, else the most recently used one.
            same = (one for one in self.idle if file is one.file or (isinstance(file, Path) and file == one.file))
            helper = next(same, None) or (self.idle[-1] if self.idle else Helper())
            self.idle = [one for one in self.idle if one is not helper]
            self.busy.add(helper)
            return helper

    def give_back(self, helper: Helper, whole: bool) -> None:
        with self.changed:
            self.busy.discard(helper)
            self.slow = [one for one in self.slow if one is not helper]
            keep = whole and not helper.gives_way and _users and len(self.idle) < SPARE
            self.idle += [helper] if keep else []
            self.changed.notify()
        if not keep:
            helper.end()

    def close(self) -> None:
        """Kill all helpers; their current work raises an error."""
        with self.changed:
            ended, self.idle = [*self.idle, *self.busy], []
        for helper in ended:
            helper.process.kill()

    def forget(self) -> None:
        """Drop the helpers in a forked child; they belong to the parent."""
        for helper in (*self.idle, *self.busy):
            helper.link.close()
            helper.table.close()
        self.__init__()


_helpers, _users, is_helper = Helpers(), 0, False
atexit.register(_helpers.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_helpers.forget)
