"""What the goldens share: the pictures, pages and clips they look at, how commands are run, and how results are written
down. Nothing drawn here depends on the typefaces that are installed.
"""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable
from functools import cache
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

import arr_coc

SCRATCH = tempfile.TemporaryDirectory(prefix="goldens-")
HOME = Path(SCRATCH.name)
# Nothing that the user has set or downloaded takes part.
for variable in [name for name in os.environ if name.startswith("ARR_COC_")]:
    del os.environ[variable]
os.environ |= {"XDG_CACHE_HOME": str(HOME / "cache"), "ARR_COC_HOME": str(HOME / "home"), "HF_HUB_OFFLINE": "1"}

EXAMPLES = Path(arr_coc.__file__).parent / "examples"
QUESTIONS = {
    name.partition(".")[0]: [one["query"] for one in listed]
    for name, listed in json.loads((EXAMPLES / "questions.json").read_text(encoding="utf-8")).items()
}
MEASURED = re.compile(r"\d+(?:[.,]\d+)?(?= ?(?:s|ms|seconds?|minutes?|[kMG]i?B|megabytes)\b)")
LABELS = ("invoice", "number", "date", "customer", "city", "street", "tax", "due", "phone", "code", "rate", "sum")
Golden = tuple[str, Any]


def call(function: Callable[..., Any], *given: object, **how: object) -> Any:
    """Call a public function; keywords that are not its own go into `options=`."""
    own = {name: value for name, value in how.items() if name in signature(function).parameters}
    rest = {name: value for name, value in how.items() if name not in own}
    return function(*given, **own, **({"options": arr_coc.Options.of(rest)} if rest else {}))  # ty: ignore


def command(*arguments: object) -> str:
    """Run `arr-coc` with these arguments, and return what it printed."""
    line = [sys.executable, "-m", "arr_coc", *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, check=False, cwd=HOME)
    if done.returncode:
        raise RuntimeError(f"{' '.join(line[1:])} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def laid(allocation: Any) -> dict[str, Any]:
    """Tokens by level and all regions of an allocation, or of the pages of a document."""
    data = allocation if isinstance(allocation, dict) else allocation.to_json()
    if "pages" in data:
        pages = {page["number"]: page["allocation"] and laid(page["allocation"]) for page in data["pages"]}
        return {"tokens": data["tokens"], "full": data["full"], "pages": pages}
    table = np.array(
        [[one[name] for name in ("y", "x", "height", "width", "level", "tokens")] for one in data["regions"]]
    )
    levels: Counter[int] = Counter()
    for level, tokens in table[:, 4:].tolist():
        levels[level] += tokens
    regions = base64.b64encode(zlib.compress(table.T.astype("<i2").tobytes(), 9)).decode()
    own = {"full": data["full"], "scale": data.get("scale", 1.0), "levels": dict(sorted(levels.items()))}
    return {"tokens": int(table[:, 5].sum()), **own, "regions": f"z:{regions}"}


def regions_of(text: str) -> list[tuple[int, ...]]:
    table = np.frombuffer(zlib.decompress(base64.b64decode(text[2:])), "<i2").reshape(6, -1)
    return list(map(tuple, table.T.tolist()))


def masked(notes: Any) -> list[str]:
    return [MEASURED.sub("#", note) for note in notes]


def checksum(data: bytes) -> str:
    return f"{zlib.crc32(data):08x}"


def colours(pixels: np.ndarray) -> list[float]:
    """Mean colours of sixteen parts of a picture."""
    rows = [np.array_split(band, 4, axis=1) for band in np.array_split(pixels.astype(np.float64), 4)]
    return [round(float(part.mean()), 2) for row in rows for part in row]


def example(name: str) -> Path:
    return EXAMPLES / f"{name}.png"


@cache
def needle_records(
    split: str = "train", each: int = 8, seed: int = 0, size: str = "512x512"
) -> dict[str, dict[str, Any]]:
    """Pictures of Needle World by their id, each with its path."""
    folder = HOME / f"needle-{split}-{each}-{seed}"
    how = ("--seed", seed, "--size", size, "--split", split, "--out", folder, "--json")
    records = json.loads(command("needle", "--family", "all", "--n", each, *how))["records"]
    return {one["id"]: {**one, "path": folder / one["image"]} for one in records}


def data_url(picture: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(picture).decode()}"


def png(picture: Image.Image) -> bytes:
    memory = io.BytesIO()
    picture.save(memory, "PNG")
    return memory.getvalue()


@cache
def drawn(seed: int = 1, lines: int = 14) -> tuple[np.ndarray, tuple[dict[str, Any], ...], str]:
    """A page in a bitmap typeface, its words with their boxes, and what stands behind the label "total"."""
    chance, font = np.random.default_rng(seed), ImageFont.load_default_imagefont()
    labels = [
        *chance.permutation(LABELS),
        "total",
    ]
    page, words, answer = Image.new("L", (256, 320), 255), [], ""
    for row in range(lines):
        label, value = str(labels[row % len(labels)]), f"{chance.integers(10, 999)}.{chance.integers(10, 99)}"
        answer = value if label == "total" else answer
        for text, left in ((label, 12), (value, 150)):
            top = 14 + 20 * row
            ImageDraw.Draw(page).text((left, top), text, 0, font)
            box = [left / 256, top / 320, (left + 6 * len(text)) / 256, (top + 11) / 320]
            words.append({"text": text, "box": box})
    return np.asarray(page.resize((768, 960), Image.Resampling.NEAREST).convert("RGB")), tuple(words), answer


@cache
def pdf(pages: int) -> Path:
    """A PDF with a text layer, whose last page has the total."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(pages))
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", f"<< /Type /Pages /Kids [{kids}] /Count {pages} >>"]
    objects.append("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
    for number in range(pages):
        texts = [f"Order {1000 + number} of March 199{number}", *(f"Item {i}: {i * 7 + number}.50" for i in range(12))]
        texts += ["Total: 128.50"] if number == pages - 1 else []
        stream = "BT /F1 14 Tf 72 720 Td 0 -24 TD " + " ".join(f"({text}) Tj T*" for text in texts) + " ET"
        entries = f"/MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R /Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R {entries} >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    raw, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(raw))
        raw += f"{number} 0 obj\n{body}\nendobj\n".encode()
    size, table = len(objects) + 1, "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"xref\n0 {size}\n0000000000 65535 f \n{table}trailer << /Size {size} /Root 1 0 R >>\nstartxref\n{len(raw)}"
    path = HOME / f"pages-{pages}.pdf"
    path.write_bytes(raw + f"{end}\n%%EOF\n".encode())
    return path


def clip(seed: int, frames: int, step: int) -> list[np.ndarray]:
    """A card with a number that moves over soft ground."""
    chance = np.random.default_rng(seed)
    ground = Image.fromarray(chance.integers(60, 200, (6, 8, 3), dtype=np.uint8)).resize(
        (320, 256), Image.Resampling.NEAREST
    )
    card = Image.new("L", (24, 14), 30)
    ImageDraw.Draw(card).text((1, 1), str(1000 + seed), 255, ImageFont.load_default_imagefont())
    made = []
    for number in range(frames):
        frame = ground.copy()
        frame.paste(card.resize((72, 42), Image.Resampling.NEAREST), (20 + step * number, 60 + 20 * seed))
        made.append(np.asarray(frame))
    return made
