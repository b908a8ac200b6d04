"""Half an hour of everything, round after round: does the process keep its memory, its open files and its threads?

    python scripts/soak.py [--minutes 30] [--out soak.json]        make soak MINUTES=60

A round looks, asks, attaches to a model and generates, looks again and again, and watches a clip, on a tiny random
model; and it asks `arr-coc serve`, a proxy before it and the tools for agents, leaves each of them in the middle of a
body, kills what opens their files, and asks again. After each round all processes are weighed. The first quarter of the
rounds warms up. Of the rest, the median of the last third may be above that of the first third by 24 MB, 2 open files
and 2 threads at most, else the soak fails; single jumps do not move a median.
"""

from __future__ import annotations

import argparse
import asyncio
import atexit
import base64
import ctypes
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from mcp import Client
from PIL import Image

from arr_coc.options import Options

TOLERANCE = {"megabytes": 24.0, "handles": 2.0, "threads": 2.0}
WARM_UP, LEAST_ROUNDS = 0.25, 4
SIZES = ((96, 128), (160, 96), (192, 256))
SERVERS: dict[str, subprocess.Popen[str]] = {}  # by their addresses


def weigh() -> dict[str, float]:
    """Resident megabytes, open files and threads of this process and of its servers, after everything that can be given
    back was."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc keeps freed memory for itself; that is no leak
        trim(0)
    weight = dict.fromkeys(TOLERANCE, 0.0)
    for place in [Path(f"/proc/{pid}") for pid in (os.getpid(), *(one.pid for one in SERVERS.values()))]:
        status = dict(line.split(":", 1) for line in (place / "status").read_text().splitlines())
        weight["megabytes"] += int(status["VmRSS"].split()[0]) / 1024
        weight["handles"] += len(os.listdir(place / "fd"))
        weight["threads"] += int(status["Threads"])
    return weight


def picture(number: int) -> np.ndarray:
    """Return (H, W, 3) uint8, three sizes in turn."""
    height, width = SIZES[number % len(SIZES)]
    coarse = np.random.default_rng(number).integers(0, 255, (height // 16, width // 16, 3), dtype=np.uint8)
    return coarse.repeat(16, 0).repeat(16, 1)


def tiny_eye(folder: Path) -> Any:
    import torch

    from arr_coc import Eye
    from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
    from arr_coc_lab.train.mini_model import MiniConfig, build_mini, ship

    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=2, deepstack=(0,)))
    ship({"mini": mini, "scorer": ReadingScorer()}, folder)
    return Eye.from_pretrained(str(folder / "mini"))


def activities(folder: Path) -> tuple[Callable[[int], None], ...]:
    """Return one turn of each, which gets the number of the turn."""
    import arr_coc
    from arr_coc.answering.esper import Esper
    from arr_coc.draw import homunculus
    from arr_coc.looking import prepare
    from arr_coc.video.watching import watch

    eye = tiny_eye(folder)

    def look(turn: int) -> None:
        path = folder / "look.png"
        Image.fromarray(picture(turn)).save(path)
        strategy = ("overlay", "quadtree", "uniform")[turn % 3]
        seen = prepare(path).look(
            "the red sign", Options(budget=9, strategy=strategy, relevance=("look", "scorer", "detail")[turn % 3])
        )
        homunculus(seen.picture, seen.allocation, seen.relevance, "the red sign").save(folder / "page.png")
        with suppress(arr_coc.InputError):
            arr_coc.look(b"not a picture", "x")

    def ask(turn: int) -> None:
        arr_coc.ask(picture(turn), "What is red?", 6, model=eye, options=Options(max_new_tokens=3))
        list(eye.set_image(picture(turn)).stream("What is red?", 6, options=Options(max_new_tokens=3)))

    def attach(turn: int) -> None:
        content = [{"type": "image"}, {"type": "text", "text": "What is red?"}]
        messages: Any = [{"role": "user", "content": content}]
        text = eye.processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
        inputs = eye.processor(text=[text], images=[Image.fromarray(picture(turn))], return_tensors="pt")
        arr_coc.attach(eye.model, eye.processor, 6, relevance=("glance", "detail")[turn % 2])
        try:
            eye.model.generate(**inputs, max_new_tokens=3, do_sample=False)
        finally:
            arr_coc.detach(eye.model)

    def passes(turn: int) -> None:
        Esper(eye, "saccades").set_image(picture(turn)).ask("What is red?", 12, options=Options(max_new_tokens=3))

    def video(turn: int) -> None:
        frames = [np.roll(picture(turn), 4 * step, axis=1) for step in range(6)]
        watch(frames, "the red sign", 30)

    def servers(turn: int) -> None:
        serve = start("serve", "--model", eye.engine.name)
        proxy = start("proxy", "--upstream", serve, "--for", "mini", "--budget", 12)
        mcp = start("mcp", "--root", folder)
        Image.fromarray(picture(turn)).save(folder / "asked.png")
        wanted = copy(eye).set_image(picture(turn)).ask("What is red?", 6, options=Options(max_new_tokens=3)).text
        for _ in range(2):  # the second time without what opened their files
            if (said := chat(serve, eye.engine.name, folder / "asked.png")) != wanted:
                raise SystemExit(f"the server answers {said!r}, not {wanted!r}")
            chat(proxy, eye.engine.name, folder / "asked.png")
            asyncio.run(look_closer(mcp))
            for address, process in SERVERS.items():
                disturb(address, process.pid)
            time.sleep(0.2)  # until those that were killed are gone

    return look, ask, attach, passes, video, servers


@cache
def start(*arguments: object) -> str:
    """Return the address of a server, in a process of its own that is weighed together with this one."""
    # glibc gives freed memory back at once, which `weigh` sees to in this process only.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "1", "MALLOC_TRIM_THRESHOLD_": "65536"}
    line = [sys.executable, "-m", "arr_coc", *map(str, arguments), "--bind", "0"]
    process = subprocess.Popen(line, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    address = re.findall(r"http://[\d.:]+", next(iter(process.stdout or ()), ""))[0]
    SERVERS[address] = process
    atexit.register(process.kill)
    return address


def chat(address: str, model: str, path: Path) -> str:
    url = f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is red?"}]
    body = {"model": model, "messages": [{"role": "user", "content": content}], "max_tokens": 3}
    answer = httpx.post(f"{address}/v1/chat/completions", json={**body, "arr_coc": {"budget": 6}}, timeout=300)
    return answer.raise_for_status().json()["choices"][0]["message"]["content"]


async def look_closer(address: str) -> None:
    async with Client(f"{address}/mcp") as client:
        asked = {"path": "asked.png", "question": "What is red?", "budget": 12}
        if (seen := await client.call_tool("look_closer", asked)).is_error:
            raise SystemExit(f"the tool answers {seen}")


def disturb(address: str, pid: int) -> None:
    """Leave a server in the middle of a body, and kill the processes that open its files."""
    port = address.rpartition(":")[2]
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost:{port}\r\nContent-Length: 9999"
    with socket.create_connection(("127.0.0.1", int(port))) as left:
        left.sendall(f"{head}\r\nContent-Type: application/json\r\n\r\n{{".encode())
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for helper in children.read_text().split():
            os.kill(int(helper), signal.SIGKILL)


def soak(seconds: float, steps: int = len(SIZES)) -> dict[str, Any]:
    """Run rounds of some steps of each activity until the time is over; return the measurements after each."""
    with tempfile.TemporaryDirectory() as folder:
        turns = activities(Path(folder))
        weights, over, reported = [], time.monotonic() + seconds, 0.0
        while time.monotonic() < over or len(weights) < LEAST_ROUNDS:
            for turn in turns:
                for step in range(steps):
                    turn(len(weights) * steps + step)
            weights.append(weigh())
            if time.monotonic() - reported > 30:
                reported = time.monotonic()
                held = ", ".join(f"{value:.0f} {name}" for name, value in weights[-1].items())
                print(f"round {len(weights)}: {held}", flush=True)
    return {"seconds": seconds, "rounds": len(weights), "weights": weights, **judged(weights)}


def judged(weights: list[dict[str, float]]) -> dict[str, Any]:
    """Growth behind the warm-up, and whether all of it is flat."""
    settled, found = weights[int(len(weights) * WARM_UP) :], {}
    third = max(1, len(settled) // 3)
    for name, tolerance in TOLERANCE.items():
        first, last = (float(np.median([one[name] for one in part])) for part in (settled[:third], settled[-third:]))
        found[name] = {"first": first, "last": last, "tolerance": tolerance, "flat": last - first <= tolerance}
    return {"judged": found, "flat": all(one["flat"] for one in found.values())}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--steps", type=int, default=len(SIZES), help="of each activity, a round")
    parser.add_argument("--out", type=Path, default=Path("out/soak.json"))
    given = parser.parse_args(arguments)
    report = soak(60 * given.minutes, given.steps)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    for name, one in report["judged"].items():
        print(name, *(f"{key} {value}" for key, value in one.items()), sep=", ")
    return 0 if report["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
