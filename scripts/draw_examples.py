"""Draw the example pictures of the package and write their questions.

    python scripts/draw_examples.py

Writes src/arr_coc/examples/{receipt,chart,street,form}.png and questions.json, all from the Needle World renderer with
typefaces that were held out of training. Their small type is readable at full size and not at half of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path

from PIL import Image

from arr_coc.core.files import replacing, write_json
from arr_coc_lab.worlds import needle
from arr_coc_lab.worlds.needle.export import picture, records

FOLDER = Path(__file__).resolve().parents[1] / "src" / "arr_coc" / "examples"
LARGEST_FILE = 500_000
KNOBS = needle.Difficulty(small=(11, 13), large=(18, 24), large_share=25, contrast=95, clutter=60)


@dataclass(frozen=True)
class Example:
    """One picture, and how many questions of each kind are asked about it."""

    family: str
    size: tuple[int, int]
    seed: int
    index: int
    wanted: dict[str, int]


EXAMPLES = {
    "receipt": Example("receipts", (1024, 768), 8, 1, {"price": 3, "sum": 1, "detail": 1, "item": 1}),
    "chart": Example("charts", (768, 1024), 4, 77, {"value": 3, "highest": 1, "colour": 1}),
    "street": Example("signs", (768, 1024), 1, 0, {"text": 4, "colour": 1}),
    "form": Example("forms", (1024, 768), 1, 3, {"value": 4, "field": 1, "title": 1}),
}


def batch_of(example: Example, question: int) -> needle.NeedleBatch:
    return needle.render(
        example.family, 1, example.size, example.seed, "test", KNOBS, start=example.index, question=question
    )


def questions(example: Example, most: int = 120) -> list[dict[str, object]]:
    """As many different questions of each kind as wanted, in the wording that comes first."""
    left, seen, chosen = dict(example.wanted), set(), []
    for question in range(most):
        batch = batch_of(example, question)
        kind, answer = batch.task_names[int(batch.tasks[0])], batch.answers[0]
        # A newcomer reads full sentences; "cash?" comes up often enough in training. Small type shows what this is for.
        sentence = batch.questions[0].count(" ") >= 2
        large_value = kind in ("value", "text") and int(batch.type_sizes[0]) > 14 and left.get(kind, 0) > 1
        if not left.get(kind) or (kind, answer) in seen or not sentence or large_value:
            continue
        left[kind] -= 1
        seen.add((kind, answer))
        (record,) = records(batch)
        chosen.append({"query": record["query"], "answer": record["answer"], "boxes": record["boxes"]})
        if not any(left.values()):
            break
    return chosen


def png(image: Image.Image) -> bytes:
    """The picture as it is where that fits the allowed size, else with a palette as large as fits.

    A palette suits wood and paper only: where there are many hues, its colours go to the large areas, and a small pink
    sign turns brown. Only the receipt needs one.
    """
    palettes = (
        image.quantize(colours, Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE) for colours in (256, 160, 96)
    )
    for version in chain([image], palettes):
        buffer = BytesIO()
        version.save(buffer, format="PNG", optimize=True)
        if buffer.tell() <= LARGEST_FILE:
            return buffer.getvalue()
    raise SystemExit(f"a picture does not fit into {LARGEST_FILE} bytes: choose another one")


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    listed: dict[str, list[dict[str, object]]] = {}
    for name, example in EXAMPLES.items():
        image = picture(batch_of(example, 0), 0)
        data = png(image)
        with replacing(FOLDER / f"{name}.png") as path:
            path.write_bytes(data)
        listed[f"{name}.png"] = questions(example)
        print(f"{name}.png: {len(data) // 1000} kB, {example.size[1]}×{example.size[0]}")
        for entry in listed[f"{name}.png"]:
            print(f"    {entry['query']}  {entry['answer']}")
    write_json(FOLDER / "questions.json", listed)


if __name__ == "__main__":
    main()
