"""Load on `arr-coc proxy`, over loopback only: what it adds to a request, and whether anything is lost.

    python scripts/load_proxy.py --timing 60                     milliseconds that it adds, beside requests without it
    python scripts/load_proxy.py --clients 50 --seconds 300      exits with 1 unless every answer was the right one

Proxy and upstream are processes of their own. The upstream answers every request with what it was asked by, at once or
in pieces; clients compare all bytes. Timings are paired: with the proxy, without it, and `look` alone in this process,
one after the other; intervals are over the rounds. Clients send texts, small pictures, pictures to be packed, streams,
and now and then something broken.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import hashlib
import http.client
import io
import json
import os
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

import arr_coc
from arr_coc_lab.statistics import resampled

EXAMPLES = Path(arr_coc.__file__).parent / "examples"
CHAT = "/v1/chat/completions"
QUESTIONS = ("What does the pink sign say?", "What is the total?", "What is the name?", "Which is the highest?")


# ---- the upstream ----------------------------------------------------------------------------------------------------


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    """Says by whom it was asked: as one body, or in forty pieces."""
    if scope["type"] != "http":
        return
    body = b""
    while True:
        part = await receive()
        body += part.get("body", b"")
        if not part.get("more_body"):
            break
    try:
        asked = json.loads(body)
    except ValueError:
        asked = {}
    user, stream = str(asked.get("user", "")), bool(asked.get("stream"))
    kind = b"text/event-stream" if stream else b"application/json"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    for piece in pieces_of(user, stream):
        await send({"type": "http.response.body", "body": piece, "more_body": True})
        if stream:
            await asyncio.sleep(0.002)
    await send({"type": "http.response.body", "body": b""})


def pieces_of(user: str, stream: bool) -> list[bytes]:
    """What is answered to a user, whom every request names anew."""
    if not stream:
        return [json.dumps({"choices": [{"message": {"role": "assistant", "content": user}}]}).encode()]
    words = [hashlib.sha256(f"{user} {number}".encode()).hexdigest()[: number + 1] for number in range(40)]
    return [*(f'data: {{"word": "{word}ä"}}\n\n'.encode() for word in words), b"data: [DONE]\n\n"]


@contextmanager
def started(*call: str) -> Generator[tuple[int, int]]:
    """(port, process) of a program of ours that tells its address in its first line."""
    environment = {**os.environ, "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "1")}
    process = subprocess.Popen(
        [sys.executable, *call], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        found = re.search(r"http://127\.0\.0\.1:(\d+)", process.stdout.readline())
        if found is None:
            raise SystemExit(f"{' '.join(call)} did not start")
        yield int(found[1]), process.pid
    finally:
        process.terminate()
        process.wait(60)


def memory(process: int) -> float:
    """Resident megabytes."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{process}/status").read_text(encoding="ascii"))
    return int(found[1]) / 1024 if found else float("nan")


# ---- requests --------------------------------------------------------------------------------------------------------


def picture(name: str) -> bytes:
    return (EXAMPLES / f"{name}.png").read_bytes()


def tiny() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (96, 64), (9, 90, 200)).save(stream, "PNG")
    return stream.getvalue()


def body_of(user: str, question: str, shown: bytes | None = None, stream: bool = False) -> bytes:
    content: Any = question
    if shown is not None:
        url = "data:image/png;base64," + base64.b64encode(shown).decode()
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": question}]
    asked = {"model": "gpt-4.1-mini", "user": user, "messages": [{"role": "user", "content": content}]}
    return json.dumps({**asked, "stream": stream}).encode()


def post(port: int, body: bytes, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    try:
        own = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", CHAT, body, {"Content-Type": "application/json", **own})
        answer = connection.getresponse()
        told = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, told, answer.read()
    finally:
        connection.close()


# ---- timings ---------------------------------------------------------------------------------------------------------


def told(values: list[float]) -> dict[str, Any]:
    """The mean of a list of milliseconds with its interval, and the median."""
    found = resampled(np.array(values))
    return {
        "n": len(values),
        "mean": found.value,
        "low": found.low,
        "high": found.high,
        "median": float(np.median(values)),
    }


def timings(proxy: int, behind: int, rounds: int) -> dict[str, Any]:
    """Milliseconds that the proxy adds to a text, and to a picture beyond `look`."""
    from arr_coc.looking import examine

    def timed(call: Any) -> float:
        begun = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - begun)

    shown, added, beyond, looks = picture("form"), [], [], []
    for number in range(5):
        post(proxy, body_of("w", f"warm {number}"))
        post(behind, body_of("w", f"warm {number}"))
    for number in range(4 * rounds):
        text = body_of(f"t{number}", "no picture " * 50)
        added.append(timed(lambda text=text: post(proxy, text)) - timed(lambda text=text: post(behind, text)))
    post(proxy, body_of("w", "What is the owner?", shown))
    examine(shown, "What is the owner?", keep=0.25)
    for number in range(rounds):
        question = f"What is the owner of number {number}?"
        asked = body_of(f"p{number}", question, shown)
        looked = timed(lambda question=question: examine(shown, question, keep=0.25))
        whole = timed(lambda asked=asked: post(proxy, asked))
        without = timed(lambda asked=asked: post(behind, asked))
        beyond.append(whole - without - looked)
        looks.append(looked)
    return {"added to a text": told(added), "look alone": told(looks), "added to a picture beyond look": told(beyond)}


# ---- the soak --------------------------------------------------------------------------------------------------------


def client(number: int, proxy: int, until: float, counts: Counter[str], lock: threading.Lock) -> None:
    """Asks until the end; everything that is not as it should be is counted under its own name."""
    shown = [picture(name) for name in ("street", "form", "receipt", "chart")]
    turn = 0
    while time.monotonic() < until:
        turn += 1
        user, which = f"{number}-{turn}", (number + turn) % 8
        stream = which in (1, 5)
        if which in (0, 1):
            body, kind = body_of(user, "text only", stream=stream), "text"
        elif which == 2:
            body, kind = body_of(user, "small", tiny()), "small"
        elif which == 3:
            body, kind = body_of(user, "broken", b"no picture at all"), "broken"
        else:
            place = (number + turn // 8) % 4
            body, kind = body_of(user, QUESTIONS[place], shown[place], stream), "picture"
        try:
            status, headers, got = post(proxy, body)
        except OSError as error:
            status, headers, got = 0, {}, repr(error).encode()
        right = got == b"".join(pieces_of(user, stream))
        state = headers.get("x-arr-coc-fallback", headers.get("x-arr-coc", ""))
        outcome = "answered" if status == 200 and right else f"lost ({status})"
        with lock:
            counts[f"{kind}: {outcome}"] += 1
            if kind == "picture" and status == 200:
                counts[f"picture, {state}"] += 1


def soak(proxy: int, process: int, clients: int, seconds: float) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    lock, until = threading.Lock(), time.monotonic() + seconds
    threads = [
        threading.Thread(target=client, args=(number, proxy, until, counts, lock), daemon=True)
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    weights = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(5.0, seconds / 10))
        weights.append(memory(process))
    lost = sum(count for name, count in counts.items() if "lost" in name)
    middle = weights[len(weights) // 2] if weights else float("nan")
    return {"clients": clients, "seconds": seconds, "counts": dict(sorted(counts.items())), "lost": lost,
            "megabytes": {"middle": middle, "end": weights[-1] if weights else middle}}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timing", type=int, default=0, help="rounds of timings")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.0, help="of the soak")
    parser.add_argument("--upstream", action="store_true", help="only be the upstream")
    given = parser.parse_args()
    if given.upstream:
        from arr_coc.app import web

        web.run(upstream, web.LOOPBACK, 0, lambda address: print(address, flush=True))
        return
    found: dict[str, Any] = {}
    with started(__file__, "--upstream") as (behind, _):
        call = ("-m", "arr_coc", "proxy", "--upstream", f"http://127.0.0.1:{behind}", "--port", "0", "--budget", "25%")
        with started(*call, "--look-seconds", "240") as (proxy, process):
            if given.timing:
                found["timings"] = timings(proxy, behind, given.timing)
            if given.seconds:
                found["soak"] = soak(proxy, process, given.clients, given.seconds)
    print(json.dumps(found, indent=1))
    sys.exit(1 if found.get("soak", {}).get("lost") else 0)


if __name__ == "__main__":
    main()
