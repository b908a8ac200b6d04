"""Half an hour of everything, round after round: does the process keep its memory, its open files and its threads?

    python scripts/soak.py [--minutes 30] [--only look,ask] [--out soak.json]        make soak MINUTES=60

A round looks, asks, attaches to a model and generates, looks again and again, and watches a clip, on a tiny random
model, and asks a server. After each round the process is weighed, garbage collected and given
back. The first quarter of the rounds warms up. Of the rest, the growth is Theil and Sen's slope (the median of the
slopes of all pairs of rounds, which single jumps do not move) times the number of rounds; the soak fails where it is
above 24 MB, 2 open files or 2 threads, and the median of the last third is above that of the first third by as much.
"""

from __future__ import annotations

import argparse
import base64
import ctypes
import gc
import io
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from arr_coc.options import Options

TOLERANCE = {"megabytes": 24.0, "handles": 2.0, "threads": 2.0}
WARM_UP, LEAST_ROUNDS = 0.25, 4
SIZES = ((96, 128), (160, 96), (192, 256))


def weigh() -> dict[str, float]:
    """Resident megabytes, open files and threads of this process, after everything that can be given back was."""
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:  # glibc keeps freed memory for itself; that is no leak
        trim(0)
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return {
        "megabytes": int(status["VmRSS"].split()[0]) / 1024,
        "handles": float(len(os.listdir("/proc/self/fd"))),
        "threads": float(status["Threads"]),
    }


def growth(values: np.ndarray) -> tuple[float, float]:
    """Over all rounds: by Theil and Sen's slope, and from the first third's median to the last third's."""
    from scipy.stats import theilslopes

    third = max(1, len(values) // 3)
    slope = float(theilslopes(values)[0])
    return slope * (len(values) - 1), float(np.median(values[-third:]) - np.median(values[:third]))


def picture(number: int) -> np.ndarray:
    """(H, W, 3) uint8, three sizes in turn."""
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


def activities(folder: Path) -> dict[str, Callable[[int], None]]:
    """Name → one turn of it, with the number of the turn."""
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

    def serve(turn: int) -> None:
        from starlette.testclient import TestClient

        from arr_coc.app.serve.api import Engine, build_api

        memory = io.BytesIO()
        Image.fromarray(picture(turn)).save(memory, "PNG")
        url = f"data:image/png;base64,{base64.b64encode(memory.getvalue()).decode()}"
        content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "What is red?"}]
        body = {"model": eye.name, "messages": [{"role": "user", "content": content}], "max_tokens": 3}
        wanted = copy(eye).set_image(picture(turn)).ask("What is red?", 6, options=Options(max_new_tokens=3)).text
        with TestClient(build_api(Engine(copy(eye))), base_url="http://localhost") as client:
            answer = client.post("/v1/chat/completions", json={**body, "arr_coc": {"budget": 6}}).json()
        if answer["choices"][0]["message"]["content"] != wanted:
            raise SystemExit(f"the server answers {answer}, not {wanted!r}")

    return {"look": look, "ask": ask, "attach": attach, "passes": passes, "video": video, "serve": serve}


def soak(seconds: float, only: list[str] | None = None, steps: int = len(SIZES)) -> dict[str, Any]:
    """Rounds of so many steps of each activity, until the time is over; what was weighed after each."""
    with tempfile.TemporaryDirectory() as folder:
        turns = activities(Path(folder))
        unknown = set(only or ()) - set(turns)
        if unknown:
            raise SystemExit(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(turns)}")
        weights, over, told = [], time.monotonic() + seconds, 0.0
        while time.monotonic() < over or len(weights) < LEAST_ROUNDS:
            for name in only or turns:
                for step in range(steps):
                    turns[name](len(weights) * steps + step)
            weights.append(weigh())
            if time.monotonic() - told > 30:
                told = time.monotonic()
                held = ", ".join(f"{value:.0f} {name}" for name, value in weights[-1].items())
                print(f"round {len(weights)}: {held}", flush=True)
    return {"seconds": seconds, "rounds": len(weights), "weights": weights, **judged(weights)}


def judged(weights: list[dict[str, float]]) -> dict[str, Any]:
    """Growth behind the warm-up, and whether all of it is flat."""
    settled = weights[int(len(weights) * WARM_UP) :]
    found = {}
    for name, tolerance in TOLERANCE.items():
        values = np.array([one[name] for one in settled])
        slope, steps = growth(values)
        found[name] = {
            "first": float(values[0]),
            "last": float(values[-1]),
            "slope": slope,
            "thirds": steps,
            "tolerance": tolerance,
            "flat": min(slope, steps) <= tolerance,
        }
    return {"judged": found, "flat": all(one["flat"] for one in found.values())}


def table(report: dict[str, Any]) -> str:
    lines = [f"{report['rounds']} rounds, the first {int(report['rounds'] * WARM_UP)} to warm up"]
    lines += ["what         first     last   growth by slope   by thirds   tolerance"]
    for name, one in report["judged"].items():
        seen, grown = f"{one['first']:8.1f} {one['last']:8.1f}", f"{one['slope']:+17.2f} {one['thirds']:+11.2f}"
        lines.append(f"{name:9} {seen} {grown} {one['tolerance']:11.0f}   {'flat' if one['flat'] else 'GROWS'}")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--steps", type=int, default=len(SIZES), help="of each activity, a round")
    parser.add_argument("--only", help="activities, with commas between them")
    parser.add_argument("--out", type=Path, default=Path("out/soak.json"))
    given = parser.parse_args(arguments)
    report = soak(60 * given.minutes, given.only.split(",") if given.only else None, given.steps)
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(report, indent=1) + "\n")
    print(table(report))
    return 0 if report["flat"] else 1


if __name__ == "__main__":
    sys.exit(main())
