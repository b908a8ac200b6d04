"""Overload `arr-coc serve`, over loopback only: does it last?

    python scripts/load_serve.py --minutes 30 --overload 2          twice what it can take; exits with 1 unless it held

The server is a process of its own, on `mini`. What is offered follows what was answered in the last seconds, twofold,
so that a machine whose other work comes and goes stays overloaded. Every answer is held against `Eye.ask` in this
process; every status but 200 and 429 is a failure.
"""

from __future__ import annotations

import argparse
import base64
import http.client
import io
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import arr_coc
from arr_coc.answering.chat import Turn

STREET = Path(arr_coc.__file__).parent / "examples" / "street.png"
SIGNS = ("pink", "gray", "blue", "red")
# Seconds after which what is offered follows what was answered.
FOLLOW = 10.0


@dataclass(frozen=True)
class StartedServer:
    """port: of a running server. process: its number."""

    port: int
    process: int

    def post(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        """status, headers in lower case, every byte of the answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        try:
            connection.request("POST", "/v1/chat/completions", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
        finally:
            connection.close()

    def memory(self) -> float:
        """Resident megabytes."""
        status = Path(f"/proc/{self.process}/status").read_text(encoding="ascii")
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else float("nan")


@contextmanager
def started(*call: str) -> Generator[StartedServer]:
    """A program that tells its address in its first line, as a process of its own."""
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    process = subprocess.Popen(
        [sys.executable, *call], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        if found is None:
            raise SystemExit(f"{' '.join(call)} did not start")
        yield StartedServer(int(found[1]), process.pid)
    finally:
        process.terminate()
        if process.wait(60) != 0:
            print(f"{call[-1]} ended with {process.returncode}", file=sys.stderr)


def served(*options: str) -> AbstractContextManager[StartedServer]:
    return started("-m", "arr_coc", "serve", "--port", "0", *options)


def png(box: tuple[int, int, int, int] | None = None) -> bytes:
    """The street, or a part of it."""
    memory = io.BytesIO()
    with Image.open(STREET) as street:
        (street if box is None else street.crop(box)).save(memory, "PNG")
    return memory.getvalue()


def picture_part(picture: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(picture).decode()}}


def message(question: str, *pictures: bytes) -> dict[str, Any]:
    return {"role": "user", "content": [*map(picture_part, pictures), {"type": "text", "text": question}]}


def body_of(messages: Sequence[Any], own: dict[str, Any], model: str = "mini", **more: Any) -> bytes:
    return json.dumps({"model": model, "messages": messages, "arr_coc": own, "max_tokens": 16, **more}).encode()


def say(sign: str) -> str:
    return f"What does the {sign} sign say?"


def per_second(server: StartedServer, bodies: Sequence[bytes], clients: int, number: int) -> float:
    """Closed loop: each client sends its next request when it has the answer to its last."""
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as pool:
        statuses = list(pool.map(lambda turn: server.post(bodies[turn % len(bodies)])[0], range(number)))
    if set(statuses) != {200}:
        raise SystemExit(f"requests failed: {Counter(statuses)}")
    return number / (time.perf_counter() - started)


@dataclass
class Tally:
    """What came back. memory: (seconds, megabytes)."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    without_retry: int = 0
    memory: list[tuple[float, float]] = field(default_factory=list)
    offered: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def report(self, seconds: float) -> dict[str, Any]:
        moments, megabytes = np.array(self.memory).T
        third = max(1, len(megabytes) // 3)
        # The first tenth fills caches and pools.
        later = moments > 0.1 * moments[-1]
        slope = float(np.polyfit(moments[later] / 60, megabytes[later], 1)[0]) if later.sum() > 2 else float("nan")
        return {
            "seconds": round(seconds, 1),
            "offered": self.offered,
            "answered per second": round(self.statuses[200] / seconds, 2),
            "offered over answered": round(self.offered / max(1, self.statuses[200]), 2),
            "statuses": dict(sorted(self.statuses.items())),
            "wrong answers": len(self.wrong),
            "429 without Retry-After": self.without_retry,
            "median seconds of a 200": round(float(np.median(self.waits)), 2) if self.waits else None,
            "memory, MB: first, median of the first and of the last third, most": [
                round(float(one), 1)
                for one in (megabytes[0], np.median(megabytes[:third]), np.median(megabytes[-third:]), megabytes.max())
            ],
            "memory, MB a minute after the first tenth": round(slope, 3),
        }

    def held(self) -> bool:
        return not self.wrong and not self.without_retry and set(self.statuses) <= {200, 429} and self.statuses[200] > 0


def cases(eye: arr_coc.Eye) -> list[tuple[bytes, str, int]]:
    """(body, the words and the tokens of `Eye.ask`): pictures, budgets, sources and conversations of several kinds."""
    boxes = ((229, 0, 613, 256), (100, 50, 420, 274), (300, 0, 620, 320))
    kinds: list[dict[str, Any]] = [{"budget": 24}, {"keep": 0.5}, {"budget": 30, "relevance": "detail"}]
    pictures = [png(box) for box in boxes]
    found = []
    for sign, picture in zip(SIGNS, pictures, strict=False):
        eye.set_image(picture)
        for own in kinds:
            answer = eye.ask(say(sign), **own, max_new_tokens=16)
            found.append((body_of([message(say(sign), picture)], own, eye.name), answer.text, answer.tokens))
    chat = [message(say("pink"), pictures[0]), {"role": "assistant", "content": "COFFEE"}]
    chat += [message(say("gray"), pictures[1])]
    turns = [Turn("user", (pictures[0], say("pink"))), Turn("assistant", ("COFFEE",))]
    answer = eye.ask(
        [*turns, Turn("user", (pictures[1], say("gray")))], [24, 30], options=arr_coc.Options(max_new_tokens=16)
    )
    found.append((body_of(chat, {"budget": [24, 30]}, eye.name), answer.text, answer.tokens))
    return found


def overload(seconds: float, times: float, queue: int = 16) -> tuple[Tally, dict[str, Any]]:
    known = cases(arr_coc.Eye.from_pretrained("mini"))
    with served("--queue", str(queue), "--seconds", "300") as server:
        return offer(server, known, seconds, times, queue)


def offer(
    server: StartedServer, known: Sequence[tuple[bytes, str, int]], seconds: float, times: float, queue: int
) -> tuple[Tally, dict[str, Any]]:
    """So many times what a server of this queue answers, and what came back. known: as `cases` makes them."""
    tally = Tally()
    for body, *_ in known[:3]:
        server.post(body)
    rate = times * per_second(server, [body for body, *_ in known], min(8, queue), 16)
    started = time.perf_counter()

    def one(number: int) -> None:
        body, text, tokens = known[number % len(known)]
        sent = time.perf_counter()
        status, headers, answer = server.post(body)
        with tally.lock:
            tally.statuses[status] += 1
            tally.without_retry += status == 429 and not str(headers.get("retry-after", "")).isdigit()
            if status == 200:
                tally.waits.append(time.perf_counter() - sent)
                told = json.loads(answer)
                said = told["choices"][0]["message"]["content"], told["arr_coc"]["tokens"]
                if said != (text, tokens):
                    tally.wrong.append(f"{said} for {(text, tokens)}")

    with ThreadPoolExecutor(4 * (queue + 8)) as pool:
        due, checked, answered = started, started, 0
        while (now := time.perf_counter()) < started + seconds:
            if now - checked >= min(FOLLOW, seconds / 6):
                tally.memory.append((now - started, server.memory()))
                recent = (tally.statuses[200] - answered) / (now - checked)
                rate, checked, answered = max(times * recent, 1.0), now, tally.statuses[200]
            if now < due:
                time.sleep(min(due - now, 0.05))
                continue
            pool.submit(one, tally.offered)
            tally.offered += 1
            due = max(due + 1 / rate, now - 1)
    tally.memory.append((time.perf_counter() - started, server.memory()))
    return tally, tally.report(time.perf_counter() - started)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--overload", type=float, default=2, help="how many times what it can take")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # told to end, it takes its server along
    tally, report = overload(60 * given.minutes, given.overload)
    print(json.dumps(report, indent=1))
    for words in tally.wrong[:20]:
        print("wrong:", words)
    return 0 if tally.held() else 1


if __name__ == "__main__":
    raise SystemExit(main())
