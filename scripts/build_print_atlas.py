"""Build the glyph atlas of the print world from every typeface of a machine that can write Latin text.

    apt-get install 'fonts-*' texlive-fonts-extra        # or unpack these packages into a folder
    pip install fonttools pillow numpy
    python scripts/build_print_atlas.py /usr/share/fonts /usr/share/texmf /usr/share/texlive --out atlas.npz

A face is left out when it lacks letters, figures or common marks (by its own character map, and by comparing with its
box for the unknown), when its small letters are capitals, or when too few of its letters look like those of the other
faces (dingbats, initials, other scripts). Families are held out by a hash of their names, and all those that Needle
World and pages hold out; a held-out face that looks like one for training is left out. The atlas is not shipped: it is
made where a reader is trained.
"""

from __future__ import annotations

import argparse
import lzma
import os
import re
import sys
import zlib
from collections import defaultdict
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFont

from arr_coc.core.alphabet import CHARACTERS
from arr_coc_lab.worlds import needle
from arr_coc_lab.worlds.office.paper import TYPEFACES

EM = 48  # texels of the type size
FINE = 4  # drawn so much larger first: no hinting, and true grey
CAPITAL = (0.64, 0.74)  # capitals are brought to this share of the em
OPTIONAL = set('€^`~|{}\\<>@#[]_=+;*"!?')
HELD_PERCENT = 12
# A held-out face that looks so much like one for training would tell nothing; it is left out.
TWINS = 0.975
FACES_A_FAMILY = 8
# Families that look like what offices, shops and books print with; drawn more often.
COMMON = re.compile(
    r"liberation|nimbus|freesans|freeserif|freemono|tex gyre|dejavu|carlito|caladea|arimo|tinos|cousine|courier|roboto$"
    r"|open sans|^lato$|noto sans$|noto serif$|^go$|latin modern|^lm|libertin|pt sans|pt serif|inter$|ocr|typewriter|"
    r"source (sans|serif|code)|fira sans$|^cmu|stix|garamond|charter|utopia|bookman|c059|p052|d050000l|arial|times|"
    r"helvet|letter gothic|terminal|vera|dot|3270|luxi",
    re.IGNORECASE,
)
WANTED_STYLES = ("regular", "bold", "italic", "bold italic", "light", "medium", "condensed", "semibold")


class DrawnGlyph(NamedTuple):
    """A face with every character it has. boxes: (97, 4) left, top, width, height; top is up from the baseline."""

    family: str
    style: str
    texels: np.ndarray
    boxes: np.ndarray
    advances: np.ndarray
    shapes: np.ndarray


def names_of(path: Path) -> tuple[str, str, set[int]] | None:
    """Family, style and the characters that the file says it has."""
    try:
        font = TTFont(path, fontNumber=0, lazy=True)
        table, known = font["name"], font.getBestCmap() or {}
        family = table.getDebugName(16) or table.getDebugName(1) or path.stem
        style = table.getDebugName(17) or table.getDebugName(2) or "Regular"
    except Exception:
        return None
    return family.strip(), style.strip().lower().replace("oblique", "italic"), set(known)


def characters_of(known: set[int]) -> str | None:
    """Return the characters that can be written; None where one that everybody needs is missing."""
    found = "".join(c for c in CHARACTERS if ord(c) in known)
    return found if all(c in found for c in CHARACTERS if c not in OPTIONAL) else None


def picture(font: ImageFont.FreeTypeFont, character: str) -> tuple[np.ndarray, int, int]:
    """Return a character's ink in whole texels of FINE² pixels each, and where it begins from the origin, in texels."""
    x0, y0, x1, y1 = font.getbbox(character, anchor="ls")
    left, top = int(x0) // FINE - 1, int(y0) // FINE - 1
    wide, high = int(x1) // FINE + 2 - left, int(y1) // FINE + 2 - top
    canvas = Image.new("L", (wide * FINE, high * FINE))
    ImageDraw.Draw(canvas).text((-left * FINE, -top * FINE), character, fill=255, font=font, anchor="ls")
    return np.asarray(canvas), left, top


def normal_shape(mask: np.ndarray) -> np.ndarray:
    """Return (256,) of mean 0 and length 1: the ink in a square of 16, whatever its size."""
    small = np.asarray(Image.fromarray(mask).resize((16, 16), Image.Resampling.BOX), np.float32).ravel()
    small = small - small.mean()
    return small / max(1e-6, float(np.linalg.norm(small)))


def draw_face(task: tuple[str, str, str, str]) -> DrawnGlyph | None:
    try:
        return _draw_face(*task)
    except Exception as error:
        print(f"{task[0]}: {error}", file=sys.stderr)
        return None


def _draw_face(path: str, family: str, style: str, written: str) -> DrawnGlyph | None:
    def sized(pixels: float) -> ImageFont.FreeTypeFont:
        return ImageFont.truetype(path, pixels, layout_engine=ImageFont.Layout.BASIC)

    probe = sized(EM * FINE)
    capital = np.flatnonzero(picture(probe, "H")[0].max(1) > 127)
    if not len(capital):
        return None
    high = len(range(capital[0], capital[-1] + 1)) / (EM * FINE)
    scale = min(max(high, CAPITAL[0]), CAPITAL[1]) / high
    if not 0.5 < scale < 2.2:
        return None
    font = sized(EM * FINE * scale)
    unknown = picture(font, "\uffff")[0]
    boxes, advances = np.zeros((len(CHARACTERS) + 1, 4), np.int16), np.zeros(len(CHARACTERS) + 1, np.uint16)
    pieces, shapes = [], np.zeros((len(CHARACTERS) + 1, 256), np.float32)
    for index, character in enumerate(CHARACTERS, 1):
        if character not in written:
            continue
        advances[index] = round(font.getlength(character) / FINE * 64)
        if character == " ":
            continue
        large, from_x, from_y = picture(font, character)
        if np.array_equal(large, unknown) or not large.any() or not advances[index]:
            if character in OPTIONAL:
                advances[index] = 0
                continue
            return None
        grey = large.reshape(large.shape[0] // FINE, FINE, -1, FINE).mean((1, 3))
        levels = np.rint(grey / 17).astype(np.uint8)
        rows, cols = np.flatnonzero(levels.any(1)), np.flatnonzero(levels.any(0))
        if not len(rows) or cols[-1] - cols[0] > 2 * EM or rows[-1] - rows[0] > 1.7 * EM:
            return None
        top, left = int(rows[0]), int(cols[0])
        cut = levels[top : rows[-1] + 1, left : cols[-1] + 1]
        if int(cut.sum()) > 60_000:
            return None
        boxes[index] = left + from_x, -(top + from_y), cut.shape[1], cut.shape[0]
        pieces.append(cut.ravel())
        shapes[index] = normal_shape((cut * 17).astype(np.uint8))
    if advances[1] == 0:
        return None
    # Small letters drawn as capitals look the same.
    pairs = [(CHARACTERS.index(c) + 1, CHARACTERS.index(c.upper()) + 1) for c in "abdeghnqrt"]
    if np.mean([float(shapes[a] @ shapes[b]) for a, b in pairs]) > 0.75:
        return None
    return DrawnGlyph(family, style, np.concatenate(pieces), boxes, advances, shapes)


def held_out(family: str) -> bool:
    """By its name's hash, or because Needle World or pages hold it out; a family's widths go with it."""
    name = family.lower()
    kept = [*needle.typefaces("test"), *(n for names in TYPEFACES["held"].values() for n in names)]
    if any(name == one.lower() or name.startswith(one.lower() + " ") for one in kept):
        return True
    trained = {n.lower() for names in TYPEFACES["train"].values() for n in names}
    first_words = " ".join(name.split()[:2])
    return name not in trained and zlib.crc32(f"print {first_words}".encode()) % 100 < HELD_PERCENT


def rank(style: str) -> tuple[int, int]:
    return WANTED_STYLES.index(style) if style in WANTED_STYLES else 99, zlib.crc32(style.encode())


def alike(faces: list[DrawnGlyph], least: float = 0.55) -> list[DrawnGlyph]:
    """Those whose letters and figures mostly look more like the same character of all faces than like another."""
    letters = [i for i, c in enumerate(CHARACTERS, 1) if c.isalnum()]
    kept = faces
    for _ in range(2):
        mean = np.stack([face.shapes for face in kept]).mean(0)[letters]
        mean /= np.linalg.norm(mean, axis=1, keepdims=True)
        right = [(face.shapes[letters] @ mean.T).argmax(1) == np.arange(len(letters)) for face in faces]
        kept = [face for face, hits in zip(faces, right, strict=True) if hits.mean() >= least]
    for face, hits in zip(faces, right, strict=True):
        if hits.mean() < least:
            print(f"left out, {hits.mean():.2f} alike: {face.family} {face.style}")
    return kept


def without_twins(faces: list[DrawnGlyph]) -> list[DrawnGlyph]:
    """Held-out faces only where no face for training looks nearly the same: families have many names."""
    shapes = np.stack([face.shapes[1:] for face in faces])
    known = np.maximum((shapes != 0).any(-1).sum(1, keepdims=True), 1)
    rows = (shapes / np.sqrt(known)[..., None]).reshape(len(faces), -1)
    held = np.array([held_out(face.family) for face in faces])
    likest = (rows[held] @ rows[~held].T).max(1) if held.any() and not held.all() else np.zeros(int(held.sum()))
    twins = {int(i) for i, like in zip(np.flatnonzero(held), likest, strict=True) if like > TWINS}
    print(f"{len(twins)} held-out faces have a twin: {', '.join(faces[i].family for i in sorted(twins)[:60])}")
    return [face for i, face in enumerate(faces) if i not in twins]


def build(folders: list[Path], processes: int) -> dict[str, Any]:
    found: dict[str, dict[str, tuple[str, str, str, str]]] = defaultdict(dict)
    paths = sorted({p for f in folders for end in ("ttf", "otf", "ttc", "TTF", "OTF") for p in f.rglob(f"*.{end}")})
    for path in paths:
        named = names_of(path)
        if named is None or (written := characters_of(named[2])) is None:
            continue
        family, style, _ = named
        found[family.lower()].setdefault(style, (str(path), family, style, written))
    print(f"{len(paths)} files, {len(found)} families with all letters")
    tasks = [found[f][s] for f in sorted(found) for s in sorted(found[f], key=rank)[:FACES_A_FAMILY]]
    with Pool(processes) as pool:
        faces = [face for face in pool.imap(draw_face, tasks, chunksize=8) if face is not None]
    # One drawing under several names is one face.
    seen: dict[int, DrawnGlyph] = {}
    for face in faces:
        seen.setdefault(zlib.crc32(face.texels.tobytes() + face.boxes.tobytes()), face)
    faces = without_twins(alike(list(seen.values())))
    held = np.array([held_out(face.family) for face in faces])
    families = [face.family.lower() for face in faces]
    common = np.array([bool(COMMON.search(name)) for name in families])
    texels = np.concatenate([face.texels for face in faces])
    packed = lzma.compress(texels.tobytes(), format=lzma.FORMAT_XZ, preset=6)
    print(f"{len(faces)} faces of {len(set(families))} families, {held.sum()} held out, {common.sum()} common")
    print(f"{len(texels) / 1e6:.1f} M texels, {len(packed) / 1e6:.1f} MB")
    return {
        "texels": np.frombuffer(packed, np.uint8),
        "boxes": np.stack([face.boxes for face in faces]),
        "advances": np.stack([face.advances for face in faces]),
        "names": np.array([f"{face.family} {face.style}" for face in faces]),
        "families": np.array(families),
        "held_out": held,
        "common": common,
        "em": np.array(EM),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="where the typefaces lie, at any depth")
    parser.add_argument("--out", type=Path, default=Path("atlas.npz"))
    parser.add_argument("--processes", type=int, default=2)
    arguments = parser.parse_args()
    draft = arguments.out.with_name(f"draft-{arguments.out.name}")
    np.savez_compressed(draft, allow_pickle=False, **build(arguments.folders, arguments.processes))
    os.replace(draft, arguments.out)
    print(f"{arguments.out}: {arguments.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
