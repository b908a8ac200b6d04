"""Build src/arr_coc/needle/assets: the glyph atlas, the sprites and the typefaces' licences.

    pip install --no-deps --target FONTS font-roboto font-source-sans-pro font-source-serif-pro font-caladea \\
        font-manrope font-hanken-grotesk font-fredoka-one font-intuitive matplotlib
    python scripts/build_atlas.py FONTS

Needs Pillow and numpy only. The result depends on the FreeType inside Pillow, which is why it is committed: the
renderer reads numbers, never a font file, and so draws the same picture everywhere.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from sprite_shapes import SPRITES, draw_sprite

ASSETS = Path(__file__).resolve().parents[1] / "src" / "arr_coc" / "needle" / "assets"
CHARACTERS = "".join(map(chr, range(32, 127))) + "€"
SIZES = (9, 10, 11, 12, 13, 14, 16, 18, 20, 22, 24, 28, 32, 36, 40)
OFL = "SIL Open Font License 1.1"

# face, file under FONTS, licence, held out for testing
FACES = (
    ("Roboto", "font_roboto/files/Roboto-Regular.ttf", "Apache License 2.0", False),
    ("Roboto Bold", "font_roboto/files/Roboto-Bold.ttf", "Apache License 2.0", False),
    ("Source Sans Pro", "font_source_sans_pro/files/SourceSansPro-Regular.ttf", OFL, False),
    ("Source Sans Pro Semibold", "font_source_sans_pro/files/SourceSansPro-Semibold.ttf", OFL, False),
    ("Source Serif Pro", "font_source_serif_pro/files/SourceSerifPro-Regular.ttf", OFL, False),
    ("Source Serif Pro Semibold", "font_source_serif_pro/files/SourceSerifPro-Semibold.ttf", OFL, False),
    ("DejaVu Sans", "matplotlib/mpl-data/fonts/ttf/DejaVuSans.ttf", "Bitstream Vera / DejaVu licence", False),
    ("DejaVu Sans Mono", "matplotlib/mpl-data/fonts/ttf/DejaVuSansMono.ttf", "Bitstream Vera / DejaVu licence", False),
    ("DejaVu Serif", "matplotlib/mpl-data/fonts/ttf/DejaVuSerif.ttf", "Bitstream Vera / DejaVu licence", False),
    ("STIX General", "matplotlib/mpl-data/fonts/ttf/STIXGeneral.ttf", "STIX Font License (" + OFL + ")", False),
    ("Fredoka One", "font_fredoka_one/files/FredokaOne-Regular.ttf", OFL, False),
    ("Intuitive", "font_intuitive/files/Intuitive.ttf", OFL, False),
    ("Hanken Grotesk", "font_hanken_grotesk/files/HankenGrotesk-Medium.otf", OFL, True),
    ("Caladea", "font_caladea/files/Caladea-Regular.ttf", "Apache License 2.0", True),
    ("Manrope", "font_manrope/files/Manrope-SemiBold.ttf", OFL, True),
)
LICENCES = (
    ("Roboto, Caladea", "font_roboto/files/LICENSE"),
    ("Source Sans Pro", "font_source_sans_pro/files/LICENSE.txt"),
    ("Source Serif Pro", "font_source_serif_pro/files/LICENSE.txt"),
    ("DejaVu", "matplotlib/mpl-data/fonts/ttf/LICENSE_DEJAVU"),
    ("STIX", "matplotlib/mpl-data/fonts/ttf/LICENSE_STIX"),
    ("Fredoka One", "font_fredoka_one/files/OFL.txt"),
    ("Intuitive", "font_intuitive/files/OFL.txt"),
    ("Hanken Grotesk", "font_hanken_grotesk/files/OFL.txt"),
    ("Manrope", "font_manrope/files/OFL.txt"),
)


def drawn(font: ImageFont.FreeTypeFont, character: str) -> np.ndarray:
    """(128, 192) coverage of one character with its origin at column 64 and its baseline at row 64."""
    canvas = Image.new("L", (192, 128))
    ImageDraw.Draw(canvas).text((64, 64), character, fill=255, font=font, anchor="ls")
    return np.asarray(canvas)


def glyph_columns(font: ImageFont.FreeTypeFont, character: str) -> tuple[np.ndarray, int]:
    """One glyph as (rows, columns) coverage with the baseline at row 64, and the number of its columns.

    A column belongs to exactly one glyph when drawn, so the advance is widened to hold all of the glyph's ink.
    """
    advance = max(1, round(font.getlength(character)))
    array = drawn(font, character)
    used = np.flatnonzero((array > 24).any(0))
    if not len(used):
        return array[:, 64 : 64 + advance], advance
    left = min(64, int(used[0]))
    right = max(64 + advance, int(used[-1]) + 1)
    # Two letters whose ink reaches both edges of their cells would touch.
    if int(used[-1]) + 1 == right and int(used[0]) == left:
        right += 1
    return array[:, left:right], right - left


def build(fonts: Path) -> dict[str, Any]:
    """All columns of all glyphs, one after the other, and where each glyph's begin."""
    fallback = fonts / FACES[6][1]
    heights = np.zeros((len(FACES), len(SIZES)), np.uint8)
    ascents, caps = heights.copy(), heights.copy()
    advances = np.zeros((len(FACES), len(SIZES), len(CHARACTERS) + 1), np.uint8)
    pieces: list[np.ndarray] = []
    for face, (_, file, _, _) in enumerate(FACES):
        for size_index, size in enumerate(SIZES):
            font = ImageFont.truetype(str(fonts / file), size, layout_engine=ImageFont.Layout.BASIC)
            missing = drawn(font, "\uffff")
            spare = ImageFont.truetype(str(fallback), size, layout_engine=ImageFont.Layout.BASIC)
            glyphs = []
            for index, character in enumerate(CHARACTERS):
                absent = character != " " and np.array_equal(drawn(font, character), missing)
                columns, advance = glyph_columns(spare if absent else font, character)
                if absent and size == SIZES[0]:
                    print(f"{FACES[face][0]} has no {character!r}: taken from {FACES[6][0]}")
                glyphs.append(columns)
                advances[face, size_index, index + 1] = advance
            rows = np.flatnonzero(np.concatenate(glyphs, 1).max(1) > 24)
            top, bottom = int(rows[0]), int(rows[-1]) + 1
            ascents[face, size_index], heights[face, size_index] = 64 - top, bottom - top
            capital = glyphs[CHARACTERS.index("H")]
            caps[face, size_index] = 64 - int(np.flatnonzero(capital.max(1) > 24)[0])
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
        "held_out": np.array([held for *_, held in FACES]),
        "faces": np.array([name for name, *_ in FACES]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("fonts", type=Path, help="folder given to pip --target")
    fonts: Path = parser.parse_args().fonts
    ASSETS.mkdir(parents=True, exist_ok=True)
    atlas = build(fonts)
    np.savez_compressed(ASSETS / "glyphs.npz", allow_pickle=False, **atlas)
    names = np.array(list(SPRITES))
    masks = np.stack([draw_sprite(name) for name in SPRITES])
    np.savez_compressed(ASSETS / "sprites.npz", names=names, masks=masks)
    lines = ["The glyph atlas (glyphs.npz) was drawn from these typefaces. Their licences follow.", ""]
    lines += [f"{name}: {licence}" + (" (held out for testing)" if held else "") for name, _, licence, held in FACES]
    for title, file in LICENCES:
        text = (fonts / file).read_text(encoding="utf-8", errors="replace").strip()
        lines += ["", "=" * 100, title, "=" * 100, text]
    (ASSETS / "LICENSES.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    for path in sorted(ASSETS.iterdir()):
        print(f"{path.name}: {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
