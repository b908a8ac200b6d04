"""Build lab/arr_coc_lab/worlds/needle/assets: the glyph atlas, the sprites and the typefaces' licences.

    pip install fonttools brotli
    pip install --no-deps --target FONTS -r scripts/typefaces.txt
    python scripts/build_atlas.py FONTS

Needs Pillow, numpy and fontTools only. The result depends on the FreeType inside Pillow, which is why it is committed:
the renderer reads numbers, never a font file, and so draws the same picture everywhere. `typefaces.py` lists the faces.
"""

from __future__ import annotations

import argparse
import os
import re
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from fontTools.ttLib import TTFont
from PIL import Image, ImageDraw, ImageFont
from sprite_shapes import SPRITES, draw_sprite
from typefaces import FACES, LICENCE_TEXTS, Typeface

ASSETS = Path(__file__).resolve().parents[1] / "lab" / "arr_coc_lab" / "worlds" / "needle" / "assets"
CHARACTERS = "".join(map(chr, range(32, 127))) + "€"
SIZES = (9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40)
HIGHEST = 1.45  # rows from the top of the highest to the foot of the lowest glyph, for each pixel of the size
BASELINE = ORIGIN = 64  # of every drawing


def font_data(fonts: Path, face: Typeface) -> bytes:
    """A font file as FreeType reads it: web fonts are unpacked."""
    path = fonts / face.file
    if not path.suffix.startswith(".woff"):
        return path.read_bytes()
    font, unpacked = TTFont(path), BytesIO()
    font.flavor = None
    font.save(unpacked, reorderTables=False)
    return unpacked.getvalue()


def sized(data: bytes, face: Typeface, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(BytesIO(data), size * face.scale, layout_engine=ImageFont.Layout.BASIC)


def drawn(font: ImageFont.FreeTypeFont, character: str) -> np.ndarray:
    """(128, 192) coverage of one character with its origin at column 64 and its baseline at row 64."""
    canvas = Image.new("L", (192, 128))
    ImageDraw.Draw(canvas).text((ORIGIN, BASELINE), character, fill=255, font=font, anchor="ls")
    return np.asarray(canvas)


def glyph_columns(font: ImageFont.FreeTypeFont, character: str) -> tuple[np.ndarray, int]:
    """One glyph as (rows, columns) coverage with the baseline at row 64, and the number of its columns.

    A column belongs to exactly one glyph when drawn, so the advance is widened to hold all of the glyph's ink.
    """
    advance = max(1, round(font.getlength(character)))
    array = drawn(font, character)
    used = np.flatnonzero((array > 24).any(0))
    if not len(used):
        return array[:, ORIGIN : ORIGIN + advance], advance
    left = min(ORIGIN, int(used[0]))
    right = max(ORIGIN + advance, int(used[-1]) + 1)
    # Two letters whose ink reaches both edges of their cells would touch.
    if int(used[-1]) + 1 == right and int(used[0]) == left:
        right += 1
    return array[:, left:right], right - left


def missing_characters(font: ImageFont.FreeTypeFont) -> str:
    """What a face cannot write: it draws nothing there, or its box for the unknown."""
    unknown = drawn(font, "\uffff")
    pictures = {character: drawn(font, character) for character in CHARACTERS if character != " "}
    return "".join(c for c, picture in pictures.items() if np.array_equal(picture, unknown) or not picture.any())


def build(fonts: Path) -> dict[str, Any]:
    """All columns of all glyphs, one after the other, and where each glyph's begin."""
    by_name = {face.name: face for face in FACES}
    data = {face.name: font_data(fonts, face) for face in FACES}
    heights = np.zeros((len(FACES), len(SIZES)), np.uint8)
    ascents, caps = heights.copy(), heights.copy()
    advances = np.zeros((len(FACES), len(SIZES), len(CHARACTERS) + 1), np.uint8)
    pieces: list[np.ndarray] = []
    for number, face in enumerate(FACES):
        # At a good size: of small ones the box for the unknown may look like a letter.
        missing = missing_characters(sized(data[face.name], face, SIZES[-1]))
        if missing:
            print(f"{face.name} has no {' '.join(missing)}: taken from {face.spare}")
        for size_index, size in enumerate(SIZES):
            font = sized(data[face.name], face, size)
            spare = sized(data[face.spare], by_name[face.spare], size)
            glyphs = []
            for index, character in enumerate(CHARACTERS):
                columns, advance = glyph_columns(spare if character in missing else font, character)
                glyphs.append(columns)
                advances[number, size_index, index + 1] = advance
            rows = np.flatnonzero(np.concatenate(glyphs, 1).max(1) > 24)
            top, bottom = int(rows[0]), int(rows[-1]) + 1
            if bottom - top > HIGHEST * size:
                raise SystemExit(f"{face.name} is {bottom - top} rows high at size {size}, too much for the layouts")
            ascents[number, size_index], heights[number, size_index] = BASELINE - top, bottom - top
            capital = glyphs[CHARACTERS.index("H")]
            caps[number, size_index] = BASELINE - int(np.flatnonzero(capital.max(1) > 24)[0])
            pieces += [np.ascontiguousarray(glyph[top:bottom].T).ravel() for glyph in glyphs]
    # Sixteen levels of grey are enough for anti-aliasing and halve the file.
    levels = ((np.concatenate(pieces).astype(np.uint16) + 8) // 17).astype(np.uint8)
    packed = levels if len(levels) % 2 == 0 else np.append(levels, 0).astype(np.uint8)
    return {
        "coverage": (packed[0::2] << 4) | packed[1::2],
        "advances": advances,
        "heights": heights,
        "ascents": ascents,
        "caps": caps,
        "sizes": np.array(SIZES, np.uint8),
        "held_out": np.array([face.held_out for face in FACES]),
        "faces": np.array([face.name for face in FACES]),
    }


def notice(fonts: Path, face: Typeface) -> str:
    """Whose it is, in the font file's own words: its copyright, or else its maker, and the head of its licence."""
    names = TTFont(fonts / face.file)["name"]
    copyright_, maker, licence = (" ".join((names.getDebugName(number) or "").split()) for number in (0, 8, 13))
    # Many files copy the whole licence: only what precedes it is about this typeface.
    head = re.split(r"This Font Software|OFL FAQ|Licensed under|This font software|Fonts are|As a condition", licence)[
        0
    ]
    said = [copyright_ if len(copyright_) > 1 else maker, head.strip(" ,;")]
    return " ".join(part for part in dict.fromkeys(said) if part)


def licences(fonts: Path) -> str:
    lines = ["The glyph atlas (glyphs.npz) was drawn from these typefaces. Their licences follow.", ""]
    for face in FACES:
        held = " (held out for testing)" if face.held_out else ""
        lines += [f"{face.name}: {face.licence}{held}", f"    {notice(fonts, face)}"]
    for title, file, begins in LICENCE_TEXTS:
        text = (fonts / file).read_text(encoding="utf-8", errors="replace").replace("\r\n", "\n")
        lines += ["", "=" * 100, title, "=" * 100, text[text.index(begins) :].strip()]
    return "\n".join(line.rstrip() for line in "\n".join(lines).split("\n")) + "\n"


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Never half a file: whoever renders at this moment reads the old one or the new one."""
    draft = path.with_name(f"draft-{path.name}")
    np.savez_compressed(draft, allow_pickle=False, **arrays)
    os.replace(draft, path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fonts", type=Path, help="folder given to pip --target")
    parser.add_argument("--out", type=Path, default=ASSETS, help="where to write; the package's own assets unless told")
    arguments = parser.parse_args()
    fonts, out = arguments.fonts, arguments.out
    out.mkdir(parents=True, exist_ok=True)
    save_arrays(out / "glyphs.npz", build(fonts))
    masks = np.stack([draw_sprite(name) for name in SPRITES])
    save_arrays(out / "sprites.npz", {"names": np.array(list(SPRITES)), "masks": masks})
    (out / "LICENSES.txt").write_text(licences(fonts), encoding="utf-8")
    for path in sorted(out.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
