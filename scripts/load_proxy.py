"""Load on `arr-coc proxy`, over loopback only: what it adds to a request, and whether anything is lost.

    python scripts/load_proxy.py --timing 60                             milliseconds that it adds to a request
    python scripts/load_proxy.py --clients 50 --seconds 300              exits with 1 unless every answer was right
    python scripts/load_proxy.py --clients 50 --seconds 300 --serve      the same in front of `arr-coc serve`

Proxy and upstream are processes of their own. The upstream answers every request with what it was asked by, at once or
in pieces, and clients compare all bytes; or it is `arr-coc serve`, and clients compare what it says with what it said
to the same question when nobody else asked. Timings are paired: with the proxy, without it, and `look` alone in this
process, one after the other; intervals are over the rounds. Clients send texts, small pictures, pictures to be packed,
streams, and now and then something broken.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import json
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
from load_serve import StartedServer, message, served, started
from PIL import Image
from starlette.requests import Request

import arr_coc
from arr_coc_lab.statistics import resampled

EXAMPLES = Path(arr_coc.__file__).parent / "examples"
QUESTIONS = ("What does the pink sign say?", "What is the total?", "What is the name?", "Which is the highest?")
ECHO, SERVE = "gpt-4.1-mini", "mini"


# ---- the upstream ----------------------------------------------------------------------------------------------------


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    """Says by whom it was asked: as one body, or in forty pieces."""
    if scope["type"] != "http":
        return
    try:
        asked = json.loads(await Request(scope, receive).body())
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


# ---- requests --------------------------------------------------------------------------------------------------------


def picture(name: str) -> bytes:
    return (EXAMPLES / f"{name}.png").read_bytes()


def tiny() -> bytes:
    stream = io.BytesIO()
    Image.new("RGB", (96, 64), (9, 90, 200)).save(stream, "PNG")
    return stream.getvalue()


def body_of(
    user: str, question: str, shown: bytes | None = None, stream: bool = False, model: str = ECHO, **more: Any
) -> bytes:
    asked = message(question, shown) if shown is not None else {"role": "user", "content": question}
    return json.dumps({"model": model, "user": user, "messages": [asked], "stream": stream, **more}).encode()


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


def timings(proxy: StartedServer, behind: StartedServer, rounds: int) -> dict[str, Any]:
    """Milliseconds that the proxy adds to a text, and to a picture beyond `look`."""
    from arr_coc.looking import examine

    def timed(call: Any) -> float:
        begun = time.perf_counter()
        call()
        return 1000 * (time.perf_counter() - begun)

    shown, added, beyond, looks = picture("form"), [], [], []
    for number in range(5):
        proxy.post(body_of("w", f"warm {number}"))
        behind.post(body_of("w", f"warm {number}"))
    for number in range(4 * rounds):
        text = body_of(f"t{number}", "no picture " * 50)
        added.append(timed(lambda text=text: proxy.post(text)) - timed(lambda text=text: behind.post(text)))
    proxy.post(body_of("w", "What is the owner?", shown))
    examine(shown, "What is the owner?", keep=0.25)
    for number in range(rounds):
        question = f"What is the owner of number {number}?"
        asked = body_of(f"p{number}", question, shown)
        looked = timed(lambda question=question: examine(shown, question, keep=0.25))
        whole = timed(lambda asked=asked: proxy.post(asked))
        without = timed(lambda asked=asked: behind.post(asked))
        beyond.append(whole - without - looked)
        looks.append(looked)
    return {"added to a text": told(added), "look alone": told(looks), "added to a picture beyond look": told(beyond)}


# ---- the soak --------------------------------------------------------------------------------------------------------


def said(raw: bytes, stream: bool) -> str:
    """What an answer of `arr-coc serve` says; its numbers and times are others every time."""
    if not stream:
        told = json.loads(raw)
        return told["choices"][0]["message"]["content"] if "choices" in told else str(told["error"]["message"])
    lines = [line.removeprefix(b"data: ") for line in raw.split(b"\n\n") if line.startswith(b"data: ")]
    if not lines or lines[-1] != b"[DONE]":
        return "a stream without its end"
    pieces = [choice["delta"].get("content") or "" for line in lines[:-1] for choice in json.loads(line)["choices"]]
    return "".join(pieces)


class SoakClients:
    """Clients that ask until the end; whatever is not as it should be is counted under its own name."""

    def __init__(self, proxy: StartedServer, serve: bool) -> None:
        self.proxy, self.serve = proxy, serve
        self.shown = [picture(name) for name in ("street", "form", "receipt", "chart")]
        self.counts: Counter[str] = Counter()
        self.lock = threading.Lock()
        self.known: dict[str, tuple[int, str]] = {}
        for which in range(8 if serve else 0):  # what is said when nobody else asks
            for place in range(4):
                kind, body, stream = self.request("first", which, place)
                status, _, raw = proxy.post(body)
                self.known[f"{kind} {place} {stream}"] = status, said(raw, stream and status == 200)

    def request(self, user: str, which: int, place: int) -> tuple[str, bytes, bool]:
        """Its kind, the body, whether it is a stream."""
        stream = which in (1, 5)
        more: dict[str, Any] = {"max_tokens": 12, "temperature": 0} if self.serve else {}
        more["model"] = SERVE if self.serve else ECHO
        if which in (0, 1):
            return "text", body_of(user, "text only", stream=stream, **more), stream
        if which == 2:
            return "small", body_of(user, "small", tiny(), **more), stream
        if which == 3:
            return "broken", body_of(user, "broken", b"no picture at all", **more), stream
        return "picture", body_of(user, QUESTIONS[place], self.shown[place], stream, **more), stream

    def right(self, user: str, kind: str, place: int, stream: bool, status: int, raw: bytes) -> bool:
        if not self.serve:
            return status == 200 and raw == b"".join(pieces_of(user, stream))
        return (status, said(raw, stream and status == 200)) == self.known[f"{kind} {place} {stream}"]

    def ask(self, number: int, until: float) -> None:
        turn = 0
        while time.monotonic() < until:
            turn += 1
            user, place = f"{number}-{turn}", (number + turn // 8) % 4
            kind, body, stream = self.request(user, (number + turn) % 8, place)
            try:
                status, headers, raw = self.proxy.post(body)
                held = self.right(user, kind, place, stream, status, raw)
            except (OSError, ValueError, LookupError) as error:
                status, headers, held = 0, {}, False
                print(repr(error)[:200], file=sys.stderr)
            state = headers.get("x-arr-coc-fallback", headers.get("x-arr-coc", ""))
            with self.lock:
                self.counts[f"{kind}: {'answered' if held else f'lost ({status})'}"] += 1
                if kind == "picture" and held:
                    self.counts[f"picture, {state}"] += 1


def soak(proxy: StartedServer, clients: int, seconds: float, serve: bool) -> dict[str, Any]:
    asking = SoakClients(proxy, serve)
    until = time.monotonic() + seconds
    threads = [threading.Thread(target=asking.ask, args=(number, until), daemon=True) for number in range(clients)]
    for thread in threads:
        thread.start()
    weights = []
    while any(thread.is_alive() for thread in threads):
        time.sleep(min(5.0, seconds / 10))
        weights.append(proxy.memory())
    counts = asking.counts
    lost = sum(count for name, count in counts.items() if "lost" in name)
    return {"clients": clients, "seconds": seconds, "counts": dict(sorted(counts.items())), "lost": lost,
            "megabytes": {"middle": weights[len(weights) // 2], "end": weights[-1]}}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timing", type=int, default=0, help="rounds of timings")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.0, help="of the soak")
    parser.add_argument("--serve", action="store_true", help="in front of arr-coc serve")
    parser.add_argument("--upstream", action="store_true", help="only be the upstream")
    given = parser.parse_args()
    if given.upstream:
        from arr_coc.app import web

        web.run(upstream, web.LOOPBACK, 0, lambda address: print(address, flush=True))
        return
    if given.timing and given.serve:
        parser.error("--timing needs an upstream that answers at once; leave out --serve")
    found: dict[str, Any] = {}
    kinds: dict[bool, Callable[[], AbstractContextManager[StartedServer]]] = {
        True: lambda: served("--queue", "256", "--seconds", "600", "--budget", "100%"),
        False: lambda: started(__file__, "--upstream"),
    }
    with kinds[given.serve]() as behind:
        call = ("-m", "arr_coc", "proxy", "--upstream", f"http://127.0.0.1:{behind.port}", "--port", "0")
        more = ("--budget", "25%", "--look-seconds", "240", *(("--no-text",) if given.serve else ()))
        with started(*call, *more) as proxy:
            if given.timing:
                found["timings"] = timings(proxy, behind, given.timing)
            if given.seconds:
                found["soak"] = soak(proxy, given.clients, given.seconds, given.serve)
    print(json.dumps(found, indent=1))
    sys.exit(1 if found.get("soak", {}).get("lost") else 0)


if __name__ == "__main__":
    main()
