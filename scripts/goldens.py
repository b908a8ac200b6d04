"""Compare what this version computes with recorded results, and say "equal" or where not.

    python scripts/goldens.py                     all groups; exit status 1 where something differs
    python scripts/goldens.py --only looks,asks   some groups
    python scripts/goldens.py --quick             the first looks and answers and few pictures of Needle World
    python scripts/goldens.py --no-notes          without texts for readers (keys that end in `.notes`)
    python scripts/goldens.py --write             record the results, into tests/goldens/GROUP.json

Each group is a function that yields (key, value), where a value is what JSON can hold. Whole numbers and texts must be
equal; other numbers may differ by the tolerance of their group, because processors differ in the last digits. Only
public entry points are used, so that the same file runs on any version.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = "1"  # sums in one order, whatever the machine
sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from PIL import Image
from tests.goldens.golden_parts import (
    HOME,
    QUESTIONS,
    Golden,
    call,
    checksum,
    clip,
    colours,
    command,
    drawn,
    example,
    laid,
    masked,
    needle_records,
    pdf,
    regions_of,
)
from tests.goldens.golden_servers import proxy, serve

import arr_coc

# ---- looks and answers -----------------------------------------------------------------------------------------------


def look_table() -> Iterator[tuple[str, Any, str, Any, dict[str, Any]]]:
    """Yield (key, picture, question, budget, options), first those that differ most."""
    page, words, _ = drawn()
    ramp = np.add.outer(np.arange(12), np.arange(16) ** 2).astype(np.float32) / 300
    ask_total, sign, title = "What is the total?", QUESTIONS["street"][0], QUESTIONS["form"][0]
    yield "page words auto", page, ask_total, 64, {"words": list(words)}
    yield "street quadtree look", example("street"), sign, "12%", {"relevance": "look", "strategy": "quadtree"}
    yield "form scorer scale 1.5", example("form"), title, 128, {"relevance": "scorer", "scale": 1.5}
    yield "street map", example("street"), sign, 100, {"relevance": ramp}
    yield "street random", example("street"), sign, 96, {"strategy": "random", "seed": 3, "relevance": "detail"}
    yield "receipt levels 1", example("receipt"), QUESTIONS["receipt"][0], "40%", {"levels": 1}
    yield "chart auto", example("chart"), QUESTIONS["chart"][0], None, {}
    yield "pdf page", pdf(1), ask_total, 80, {}
    yield "pdf pages", pdf(3), ask_total, 160, {}
    yield "street uniform", example("street"), sign, 96, {"strategy": "uniform", "relevance": "detail"}
    yield "page words 12", page, ask_total, 12, {"words": list(words), "relevance": "words"}
    yield "page words quadtree", page, "Which date?", 90, {"words": list(words), "strategy": "quadtree"}
    yield "street function", example("street"), sign, 64, {"relevance": lambda pixels, question: pixels[..., 0] / 255.0}
    yield "form scale 0.5", example("form"), title, 64, {"scale": 0.5}
    yield "street levels 2", example("street"), sign, 60, {"levels": 2}
    for name, listed in QUESTIONS.items():
        for number in (1, 2):
            for budget in (48, "25%"):
                yield f"{name} {number} auto {budget}", example(name), listed[number], budget, {}
        for source in ("look", "scorer", "detail"):
            yield f"{name} {source}", example(name), listed[3], 128, {"relevance": source}
    for strategy in ("overlay", "quadtree", "center", "shuffled", "full"):
        for name in ("form",) if strategy == "shuffled" else ("form", "street"):
            how = {"strategy": strategy, "relevance": "detail", "seed": 5}
            yield f"{name} {strategy} controls", example(name), QUESTIONS[name][0], 96, how
    for key, one in needle_records().items():
        if key.endswith("000003"):
            yield f"needle {key}", arr_coc.load_picture(one["path"]), one["query"], 64, {}


def looks() -> Iterator[Golden]:
    for key, picture, question, budget, how in look_table():
        allocation = call(arr_coc.look, picture, question, budget, ocr=False, **how)
        yield key, laid(allocation)
        yield f"{key}.notes", masked(allocation.notes)
    look = ("look", example("street"), QUESTIONS["street"][1], "--budget", 77, "--out", HOME)
    command(*look, "--set", "ocr=false", "--json")
    yield "command line", laid(json.loads((HOME / "street.allocation.json").read_text(encoding="utf-8")))


def ask_table() -> Iterator[tuple[str, Any, str, Any, dict[str, Any]]]:
    page, words, _ = drawn()
    sign, title = QUESTIONS["street"][3], QUESTIONS["form"][0]
    yield "street 64", example("street"), sign, 64, {}
    yield "page words", page, "What is the total?", 64, {"words": list(words)}
    yield "form quadtree", example("form"), title, "20%", {"strategy": "quadtree"}
    yield "receipt scale 1", example("receipt"), QUESTIONS["receipt"][5], 128, {"scale": 1.0}
    yield "page words date", page, "What is the date?", 40, {"words": list(words)}
    yield "pdf page", pdf(1), "What is the total?", 128, {}
    yield "pdf pages", pdf(3), "What is the total?", 200, {}
    yield "street quadtree", example("street"), sign, 96, {"strategy": "quadtree"}
    yield "form detail", example("form"), title, 200, {"relevance": "detail"}
    yield "street look", example("street"), sign, 96, {"relevance": "look"}
    yield "chart scale 1.5", example("chart"), QUESTIONS["chart"][1], 128, {"scale": 1.5}
    for name, listed in QUESTIONS.items():
        for number, question in enumerate(listed):
            how = {"scale": 2.0} if number % 2 else {}
            yield f"{name} {number} at 96", example(name), question, 96, how
        yield f"{name} at half", example(name), listed[2], "50%", {}
    for key, one in needle_records().items():
        if key.endswith("000005") and one["source"] in ("needle/cards", "needle/signs", "needle/receipts"):
            yield f"needle {key}", one["path"], one["query"], 64, {}


def asks() -> Iterator[Golden]:
    for key, picture, question, budget, how in ask_table():
        answer = call(arr_coc.ask, picture, question, budget, ocr=False, **how)
        shown = {"text": answer.text, "uncertainty": round(answer.uncertainty, 4), "tokens": answer.tokens}
        yield key, {**shown, "full": answer.full, "source": answer.source, "looks": laid(answer.allocation)}
        yield f"{key}.notes", masked(answer.notes)
    ask = ("ask", example("form"), QUESTIONS["form"][2], "--budget", 96, "--set", "ocr=false")
    said = json.loads(command(*ask, "--json"))
    yield "command line", {name: said[name] for name in ("text", "tokens", "full")}


def needle(each: int = 8) -> Iterator[Golden]:
    """Checksums of pictures and of their records; quicker with fewer of each family, which are the first."""
    for split, number, seed, size in (("train", each, 0, "512x512"), ("test", each // 4, 5, "384x640")):
        for key, one in (needle_records(split, number, seed, size) if number else {}).items():
            pixels = arr_coc.load_picture(one["path"]).pixels
            truth = json.dumps([one[name] for name in ("query", "answer", "boxes", "qtype")])
            yield key, {"pixels": checksum(np.ascontiguousarray(pixels).tobytes()), "truth": checksum(truth.encode())}


# ---- clips and packs -------------------------------------------------------------------------------------------------


def clips() -> Iterator[Golden]:
    table = {
        "still": (clip(1, 6, 0), 120, {}),
        "moving": (clip(2, 6, 12), "20%", {}),
        "cut": (clip(3, 4, 4) + clip(4, 4, 0), "25%", {"relevance": "scorer"}),
        "scaled": (clip(5, 5, 6), 150, {"relevance": "detail", "scale": 1.5}),
    }
    for key, (frames, budget, how) in table.items():
        watched = call(arr_coc.watch, frames, "What number is on the card?", budget, **how)
        shown = [laid(one) for one in watched.allocations]
        yield key, {"tokens": watched.tokens, "full": watched.full, "budget": watched.budget, "frames": shown}
        yield f"{key}.notes", masked(watched.notes)


def packs() -> Iterator[Golden]:
    page, words, _ = drawn()
    table: dict[str, tuple[Any, str, Any, dict[str, Any]]] = {
        "street crops": (example("street"), QUESTIONS["street"][1], 150, {"model": "qwen3-vl", "layout": "crops"}),
        "form auto": (example("form"), QUESTIONS["form"][1], "25%", {"model": "qwen2.5-vl"}),
        "receipt gpt-4o": (example("receipt"), QUESTIONS["receipt"][0], 500, {"model": "gpt-4o", "layout": "crops"}),
        "chart overview": (example("chart"), QUESTIONS["chart"][0], 100, {"model": "qwen3-vl", "layout": "overview"}),
        "page claude": (page, "What is the total?", 300, {"model": "claude-opus-4-7", "words": list(words)}),
        "two pages": ([example("form"), example("receipt")], "What is the date?", 400, {"model": "qwen3-vl"}),
    }
    for key, (picture, question, budget, how) in table.items():
        packed = call(arr_coc.pack, picture, question, budget, ocr=False, **how)
        pictures = [
            {
                "size": list(one.pixels.shape[:2]),
                "tokens": one.tokens,
                "panes": [[[0, 0, *one.drawn], list(one.source), one.page, one.letter]],
                "colours": colours(one.pixels),
            }
            for one in packed.pictures
        ]
        yield key, {"layout": packed.layout, "tokens": packed.tokens, "full": packed.full, "pictures": pictures}
        yield f"{key}.notes", [packed.text, *masked(packed.notes)]


# ---- models ---------------------------------------------------------------------------------------------------------


def attach() -> Iterator[Golden]:
    """Logits of the last token and greedy words: stock, attached in three ways, and detached again."""
    import torch
    from tests.goldens import golden_models  # seconds, which other groups need not wait for

    ways = {
        "detail": ("25%", {"relevance": "detail"}),
        "auto": (16, {}),
        "quadtree": ("50%", {"relevance": "detail", "strategy": "quadtree"}),
    }
    with torch.no_grad():
        for name in golden_models.FAMILIES:
            model, processor, inputs = golden_models.build(name)
            stock = model(**inputs).logits[0, -1]
            yield f"{name} stock", [round(one, 4) for one in stock[:12].tolist()]
            for way, (budget, how) in ways.items():
                with call(arr_coc.attach, model, processor, budget, **how) as attachment:
                    logits = [round(one, 4) for one in model(**inputs).logits[0, -1, :12].tolist()]
                    words = model.generate(**inputs, max_new_tokens=5, do_sample=False)[0, -5:].tolist()
                    shown = [laid(one) for one in attachment.last]
                yield f"{name} {way}", {"logits": logits, "words": words, "allocations": shown}
            call(arr_coc.attach, model, processor, 8)
            arr_coc.detach(model)
            yield f"{name} detached is stock", bool(torch.equal(model(**inputs).logits[0, -1], stock))


# ---- trainings -------------------------------------------------------------------------------------------------------


def own_records() -> Path:
    """Eight drawn pages with their words, boxes, questions and answers, as `--data` takes them."""
    folder, lines = HOME / "own", []
    folder.mkdir(exist_ok=True)
    for seed in range(8):
        page, words, answer = drawn(seed)
        Image.fromarray(page).resize((256, 320)).save(folder / f"{seed}.png")
        boxes = [one["box"] for one in words if one["text"] == answer]
        own = {"image": f"{seed}.png", "query": "What is the total?", "answer": answer, "words": words, "boxes": boxes}
        lines.append(json.dumps(own))
    (folder / "records.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder


def trainings() -> Iterator[Golden]:
    """Yield the curve of some steps of each training: losses and whatever else it records, without times."""
    mini = ("mini", "--scale", 0.004, "--width", 64, "--largest", 128, "--eager")
    own = own_records()
    table: dict[str, tuple[object, ...]] = {
        "mini": (*mini, "--steps", 20),
        "mini on print": (*mini, "--steps", 6, "--print", "needle", "--seed", 1),
        "scorer": ("scorer", "--data", own, "--steps", 20, "--batch", 2, "--canvas", 128, "--drawn", 7, "--judged", 2),
        "words on own records": ("words", "--data", own, "--steps", 20, "--others", 2, "--batch", 8, "--workers", 1),
    }
    for key, arguments in table.items():
        folder = HOME / key.replace(" ", "-")
        command("train", *arguments, "--seconds", 9999, "--cpu", "--folder", folder, "--out", folder / "export")
        curve = json.loads((folder / "curve.json").read_text(encoding="utf-8"))
        yield key, [{name: value for name, value in point.items() if name != "seconds"} for point in curve]


# ---- comparison ------------------------------------------------------------------------------------------------------

GROUPS: dict[str, Callable[[], Iterator[Golden]]] = {
    one.__name__: one for one in (needle, looks, asks, attach, clips, packs, serve, proxy, trainings)
}
QUICK: dict[str, Callable[[], Iterator[Golden]]] = {
    "needle": lambda: needle(each=1),
    "looks": lambda: islice(looks(), 20),
    "asks": lambda: islice(asks(), 8),
}
TOLERANCE = 0.001  # of numbers above 1, relative
TOLERANCES = {"trainings": 0.02, "packs": 0.005, "asks": 0.01, "serve": 0.01}


def differences(wanted: Any, got: Any, tolerance: float, moved: float = 0.0, place: str = "") -> Iterator[str]:
    """Yield where two values differ, in words. moved: the share of an allocation's regions that may lie elsewhere."""
    if isinstance(wanted, dict) and isinstance(got, dict):
        names = dict.fromkeys((*wanted, *got))
        if moved and "regions" in wanted and "regions" in got:
            old, new = regions_of(wanted["regions"]), regions_of(got["regions"])
            if len({*old} - {*new}) <= moved * len(old):
                names = dict.fromkeys(name for name in names if name not in ("regions", "levels"))
        for name in names:
            yield from differences(wanted.get(name), got.get(name), tolerance, moved, f"{place}.{name}")
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for number, pair in enumerate(zip(wanted, got, strict=True)):
            yield from differences(*pair, tolerance, moved, f"{place}[{number}]")
    elif isinstance(wanted, float) and isinstance(got, int | float):
        if not abs(wanted - got) <= tolerance * max(1.0, abs(wanted)):
            yield f"{place}: expected {wanted}, got {got}"
    elif isinstance(wanted, str) and isinstance(got, str) and wanted[:2] == got[:2] == "z:":
        old, new = regions_of(wanted), regions_of(got)
        if old != new:
            yield f"{place}: {len({*old} - {*new})} of {len(old)} regions differ, or their order"
    elif wanted != got:
        yield f"{place}: expected {str(wanted)[:300]}, got {str(got)[:300]}"


def compare(group: str, results: dict[str, Any], expected: dict[str, Any], moved: float) -> Iterator[str]:
    """Lines that say where results differ from what was expected of the same keys."""
    for key, value in results.items():
        if key in expected:
            value = json.loads(json.dumps(value))
            for place in differences(expected[key], value, TOLERANCES.get(group, TOLERANCE), moved):
                yield f"{group}: {key}{place}"
        else:
            yield f"{group}: {key}: not recorded, got {json.dumps(value)[:200]}"


def check(group: str, make: Callable[[], Iterator[Golden]], given: argparse.Namespace) -> list[str]:
    """Run a group, and write or compare its results; lines that say where they differ."""
    print(f"{group} …", flush=True)
    started, path, results, lines = time.perf_counter(), given.folder / f"{group}.json", {}, []
    try:
        results.update(make())
    except Exception as error:
        traceback.print_exc()
        lines.append(f"{group}: stopped after {len(results)}: {error!r}")
    if given.write and not lines:
        entries = ",\n".join(f" {json.dumps(key)}: {json.dumps(value)}" for key, value in results.items())
        path.write_text(f"{{\n{entries}\n}}\n", encoding="utf-8")
    expected = json.loads(path.read_text(encoding="utf-8"))
    if given.no_notes:
        results, expected = (
            {key: value for key, value in one.items() if not key.endswith(".notes")} for one in (results, expected)
        )
    missing = [] if given.quick or lines else [key for key in expected if key not in results]
    lines += [*compare(group, results, expected, given.moved), *(f"{group}: {key}: missing" for key in missing)]
    verdict = f"{len(lines)} differences" if lines else f"{'recorded' if given.write else 'equal'} ({len(results)})"
    print("\n".join([*lines, f"{group}: {verdict}, {time.perf_counter() - started:.0f} s"]), flush=True)
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", help=f"groups, separated by commas: {', '.join(GROUPS)}")
    parser.add_argument("--quick", action="store_true", help="a part of three groups, in seconds")
    parser.add_argument("--no-notes", action="store_true", help="leave out texts for readers")
    parser.add_argument("--moved", type=float, default=0.0, help="share of regions that may differ on other processors")
    parser.add_argument("--write", action="store_true", help="record the results of whole groups")
    parser.add_argument("--folder", type=Path, default=Path(__file__).parents[1] / "tests" / "goldens")
    given = parser.parse_args()
    groups = QUICK if given.quick else GROUPS
    chosen = given.only.split(",") if given.only else [*groups]
    if unknown := [group for group in chosen if group not in groups]:
        parser.error(f"unknown group {unknown[0]!r}; choose from {', '.join(groups)}")
    if given.write and given.quick:
        parser.error("--write records whole groups; leave out --quick")
    lines = [line for group in chosen for line in check(group, groups[group], given)]
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
