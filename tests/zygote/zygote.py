"""A process that has imported everything and forks once for every call: real processes, killed for real, cheaply.

It is itself a fork of the process that collected the tests, and so has what they import. It reads one JSON request a
line and answers each with one line. The fork runs `arr-coc ARGUMENTS`, or another function that takes a list of
arguments; it counts what it does to files (Python's audit events: opening for writing, renaming, removing, making
folders), and at the event that the request names it is killed with SIGKILL by this process, at once or a moment later.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import logging
import os
import resource
import select
import signal
import sys
import tempfile
import time
from typing import Any

EVENTS = ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "tempfile.mkstemp", "tempfile.mkdtemp")


def writes(event: str, details: tuple[Any, ...]) -> bool:
    """Whether an audit event is about to change a file."""
    if event == "open":
        flags = details[2] if isinstance(details[2], int) else 0
        return bool(flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)) and str(details[0]).startswith(os.getcwd())
    return event in EVENTS


def child(request: dict[str, Any], tell: int) -> None:
    os.chdir(request["folder"])
    for stream, name in ((1, request["stdout"]), (2, request["stderr"])):
        file = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(file, stream)
        os.close(file)
    # Threads of a parent do not live in its fork, and buffers of it are not ours.
    sys.stdin, sys.stdout, sys.stderr = None, os.fdopen(1, "w"), os.fdopen(2, "w")
    if request.get("bytes") is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["bytes"], request["bytes"]))
    count, fatal, at_once = [0], request.get("event"), not request.get("delay")

    def hook(event: str, details: tuple[Any, ...]) -> None:
        if writes(event, details):
            count[0] += 1
            if count[0] == fatal:
                os.write(tell, b"!")
                while at_once:
                    time.sleep(1)

    sys.addaudithook(hook)
    os.environ.update(request.get("environment", {}))
    tempfile.tempdir = None  # where temporary files go is looked up anew
    sys.path[:0] = request.get("path", [])
    module, _, name = request.get("call", "arr_coc.app.cli:main").partition(":")
    code = 70
    try:
        getattr(importlib.import_module(module), name)(request["arguments"])
        code = 0
    except SystemExit as ended:
        code = int(ended.code or 0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.write(tell, f"{count[0]}\n".encode())
        os._exit(code)


def serve(request: dict[str, Any]) -> dict[str, Any]:
    heard, tell = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(heard)
        child(request, tell)
    os.close(tell)
    with open(request["pid"], "w") as file:
        file.write(f"{pid}\n")
    said, deadline, late = b"", time.monotonic() + request.get("seconds", 1200), False
    while not late:
        late = not select.select([heard], [], [], max(0.0, deadline - time.monotonic()))[0]
        part = os.read(heard, 100) if not late else b""
        if late or b"!" in part:
            time.sleep(0 if late else request.get("delay", 0))
            os.kill(pid, signal.SIGKILL)
        said += part
        if not part or said.endswith(b"\n"):
            break
    os.close(heard)
    status = os.waitpid(pid, 0)[1]
    killed = os.WIFSIGNALED(status)
    number = said.replace(b"!", b"").strip()
    return {
        "killed": killed,
        "late": late,
        "code": -os.WTERMSIG(status) if killed else os.WEXITSTATUS(status),
        "events": int(number) if number.isdigit() else None,
    }


def execute(arguments: list[str]) -> None:
    """A program, where all is imported but this library."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "arr_coc"]:
        del sys.modules[name]
    exec(arguments[0], {})


def settle() -> None:
    """What a process reads at its start: no net, and one thread for each library, whose pools do not live in forks."""
    import cv2
    import huggingface_hub.constants
    import torch

    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    huggingface_hub.constants.HF_HUB_OFFLINE = True
    os.environ.update(OMP_NUM_THREADS="1", MPLBACKEND="agg", HF_HUB_OFFLINE="1")
    logging.getLogger().handlers.clear()  # pytest's
    sys.dont_write_bytecode = True  # which is counted as a change to files, but happens once only


def answer_requests(heard: int, tell: int, ahead: tuple[str, ...]) -> None:
    """Until nobody asks any more. ahead: modules imported once, before all forks."""
    settle()
    for name in ahead:
        with contextlib.suppress(ImportError):  # of what this machine lacks
            importlib.import_module(name)
    with contextlib.suppress(SystemExit), open(os.devnull, "w") as nowhere, contextlib.redirect_stderr(nowhere):
        importlib.import_module("arr_coc.app.cli").main(["look", "nowhere.png", "?"])  # what typer imports at a call
    gc.collect()
    gc.freeze()  # forks share what was imported; their collectors leave it alone
    for line in os.fdopen(heard):
        os.write(tell, json.dumps(serve(json.loads(line))).encode() + b"\n")
