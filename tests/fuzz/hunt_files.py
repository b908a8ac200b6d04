"""Spoilt files: pictures, allocations, lists of words, PDFs."""

from __future__ import annotations

import io
import json
import random
import struct
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import Case
from PIL import Image
from spoiling import plain, spoil_bytes, spoil_json

sys.path.insert(0, str(Path(__file__).parents[1] / "sensing"))
from small_pdf import small_pdf

import arr_coc
from arr_coc.pictures.document import Document, load_page
from arr_coc.pictures.words import read_words

Draw = Callable[[random.Random], Case]


def coloured(height: int, width: int, seed: int = 0) -> np.ndarray:
    coarse = np.random.default_rng(seed).integers(0, 255, (-(-height // 8), -(-width // 8), 3), dtype=np.uint8)
    return coarse.repeat(8, 0).repeat(8, 1)[:height, :width]


def encoded(image: Image.Image, form: str, **how: Any) -> bytes:
    memory = io.BytesIO()
    image.save(memory, form, **how)
    return memory.getvalue()


def whole_pictures() -> list[tuple[str, bytes]]:
    """Every form and mode that is read, small."""
    image, frames = Image.fromarray(coloured(40, 56)), [Image.fromarray(coloured(40, 56, seed)) for seed in (1, 2)]
    made = {
        "png": encoded(image, "PNG"),
        "palette.png": encoded(image.convert("P"), "PNG"),
        "alpha.png": encoded(image.convert("RGBA"), "PNG"),
        "deep.png": encoded(Image.fromarray(coloured(40, 56)[..., 0].astype(np.uint16) * 257), "PNG"),
        "bits.png": encoded(image.convert("1"), "PNG"),
        "moving.png": encoded(image, "PNG", save_all=True, append_images=frames),
        "jpg": encoded(image, "JPEG"),
        "progressive.jpg": encoded(image, "JPEG", progressive=True, exif=bytes(image.getexif().tobytes())),
        "cmyk.jpg": encoded(image.convert("CMYK"), "JPEG"),
        "grey.jpg": encoded(image.convert("L"), "JPEG"),
        "webp": encoded(image, "WEBP"),
        "lossless.webp": encoded(image.convert("RGBA"), "WEBP", lossless=True),
        "moving.webp": encoded(image, "WEBP", save_all=True, append_images=frames),
        "gif": encoded(image.convert("P"), "GIF"),
        "moving.gif": encoded(image, "GIF", save_all=True, append_images=frames, duration=50),
        "tif": encoded(image, "TIFF"),
        "packed.tif": encoded(image, "TIFF", compression="tiff_deflate"),
        "lzw.tif": encoded(image, "TIFF", compression="tiff_lzw"),
        "fax.tif": encoded(image.convert("1"), "TIFF", compression="group4"),
        "float.tif": encoded(Image.fromarray(coloured(40, 56)[..., 0].astype(np.float32)), "TIFF"),
        "bmp": encoded(image, "BMP"),
        "palette.bmp": encoded(image.convert("P"), "BMP"),
        "ppm": encoded(image, "PPM"),
        "ico": encoded(image, "ICO"),
        "tga": encoded(image, "TGA"),
        "jp2": encoded(image, "JPEG2000"),
    }
    for name, (height, width) in {"row": (1, 3000), "column": (3000, 1), "dot": (1, 1)}.items():
        made[f"{name}.png"] = encoded(Image.fromarray(coloured(height, width)), "PNG")
    return sorted(made.items())


def boastful(chance: random.Random) -> tuple[str, bytes]:
    """A head that claims far more pixels than there are bytes."""
    width, height = (chance.choice((1, 2**15, 50_000, 2**31 - 1, 2**31, 2**32 - 1, 0)) for _ in range(2))
    depth, colour = chance.choice((1, 8, 16, 99)), chance.choice((0, 2, 3, 4, 6, 5))
    head = b"IHDR" + struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, chance.choice((0, 1, 7)))
    data = b"IDAT" + zlib.compress(bytes(chance.choice((0, 10, 5000))))
    chunks = b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in (head, data)
    )
    return f"claims {width}x{height}.png", b"\x89PNG\r\n\x1a\n" + chunks


def pictures(folder: Path) -> Draw:
    whole = whole_pictures()

    def draw(chance: random.Random) -> Case:
        name, data = boastful(chance) if chance.random() < 0.1 else chance.choice(whole)
        data = spoil_bytes(chance, data) if chance.random() < 0.95 else data
        by_path = chance.random() < 0.3
        path = folder / f"case.{name.rpartition('.')[2]}"

        def call() -> None:
            path.write_bytes(data)
            source = path if by_path else io.BytesIO(data)
            picture = arr_coc.load_picture(source, longest_side=chance.choice((None, 64)))
            assert picture.pixels.dtype == np.uint8
            assert picture.pixels.shape[2] == 3
            if picture.pixels.size < 10**6:
                # Any map will do; the scorer's reading takes ten times as long, and has a turn now and then.
                how = "scorer" if chance.random() < 0.05 else "look"
                found = arr_coc.look(picture.pixels, "the red sign", 4, relevance=how)
                assert found.tokens <= max(4, 1)

        return f"{name}, {len(data)} bytes {data[:24]!r}", call

    return draw


def documents(folder: Path) -> Draw:
    """Allocations and relevance from JSON and from arrays."""
    picture = coloured(96, 128)
    made = [arr_coc.look(picture, "red", budget, strategy=how) for budget, how in ((5, "overlay"), (6, "quadtree"))]
    whole = [json.loads(json.dumps(one.to_json())) for one in made]

    def draw(chance: random.Random) -> Case:
        document = spoil_json(chance, chance.choice(whole))
        text = json.dumps(document)
        kind = chance.randrange(4)
        given: Any = document
        if kind == 1:
            given = text
        elif kind == 2:
            given = spoil_bytes(chance, text.encode())
        elif kind == 3 and isinstance(document, dict):
            given = spoil_bytes(chance, text.encode()).decode(errors="replace")

        def call() -> None:
            found = arr_coc.Allocation.from_json(given)
            assert arr_coc.Allocation.from_json(found.to_json()) == found
            found.level_map()
            found.leaf_map()
            found.tokens_by_level()
            arr_coc.compare(found, found)

        return f"{type(given).__name__} {given!r}", call

    return draw


HOCR = """<html><body><div class='ocr_page' title='bbox 0 0 600 400'><span class='ocr_line' title='bbox 5 5 300 40'>
<span class='ocrx_word' title='bbox 5 5 90 40; x_wconf 93'>Total</span>
<span class='ocrx_word' title='bbox 100 5 190 40'>&euro;12.50</span></span></div></body></html>"""
ALTO = """<?xml version="1.0"?><alto xmlns="http://www.loc.gov/standards/alto/ns-v4#"><Layout><Page WIDTH="600"
HEIGHT="400"><PrintSpace><TextBlock><TextLine><String CONTENT="Total" HPOS="5" VPOS="5" WIDTH="85" HEIGHT="35"/>
<String CONTENT="12.50" HPOS="100" VPOS="5" WIDTH="90" HEIGHT="35"/></TextLine></TextBlock></PrintSpace></Page></Layout>
</alto>"""
HEADS = (
    "level",
    "page_num",
    "block_num",
    "par_num",
    "line_num",
    "word_num",
    "left",
    "top",
    "width",
    "height",
    "conf",
    "text",
)
ROWS = ((1, 1, 0, 0, 0, 0, 0, 0, 600, 400, -1, ""), (5, 1, 1, 1, 1, 1, 5, 5, 85, 35, 96, "Total"))
TSV = "\n".join("\t".join(map(str, row)) for row in (HEADS, *ROWS, (5, 1, 1, 1, 1, 2, 100, 5, 90, 35, 91, "12.50")))
LISTED = [{"text": "Total", "box": [5, 5, 90, 40]}, {"text": "12.50", "box": [100, 5, 190, 40]}]
BOMB = (
    '<?xml version="1.0"?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaaaaaaaa">'
    + "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 20}">' for n in range(9))
    + "]><alto><Layout><Page WIDTH='9' HEIGHT='9'><String CONTENT='&j;' HPOS='1' VPOS='1' WIDTH='1' HEIGHT='1'/>"
    "</Page></Layout></alto>"
)


def words(folder: Path) -> Draw:
    """hOCR, ALTO, TSV and JSON, read and used."""
    texts = {"hocr": HOCR, "xml": ALTO, "tsv": TSV, "bomb.xml": BOMB}
    listings = [
        LISTED,
        {"width": 600, "height": 400, "words": LISTED},
        [["Total", [5, 5, 90, 40]]],
        {"pages": [LISTED]},
    ]
    picture = coloured(96, 128)

    def draw(chance: random.Random) -> Case:
        kind = chance.choice((*texts, "json", "json"))
        if kind == "json":
            document = json.dumps(spoil_json(chance, chance.choice(listings))).encode()
            data = spoil_bytes(chance, document) if chance.random() < 0.3 else document
        else:
            data = spoil_bytes(chance, texts[kind].encode()) if chance.random() < 0.95 else texts[kind].encode()
        suffix = chance.choice((kind, kind, kind, "txt", "hocr", "json", "tsv", "xml"))
        size = chance.choice(((600, 400), (96, 128), (0, -1)))

        def call() -> None:
            path = folder / f"words.{suffix}"
            path.write_bytes(data)
            found = read_words(path, size)
            arr_coc.look(picture, "What is the total?", 4, relevance="words", words=found)

        return f"{suffix} {size} {data!r}", call

    return draw


def pdfs(folder: Path) -> Draw:
    texts = [("72 700 Td (Invoice date: 03/04/1997) Tj", ""), ("72 90 Td (Page two) Tj", "/Rotate 90")]
    whole = small_pdf(folder / "whole.pdf", texts).read_bytes()
    entries = (b"612 792", b"/Rotate 90", b"/Count 2", b"/Length 54", b"12 Tf", b"72 700", b"4 0 R")
    values = (
        b"0 0",
        b"1e9 1e9",
        b"-5 -5",
        b"99999999 1",
        b"/Rotate 7",
        b"/Count -1",
        b"/Length 9999999",
        b"1e30 Tf",
        b"1 0 R",
    )

    def draw(chance: random.Random) -> Case:
        data = whole
        if chance.random() < 0.6:
            data = data.replace(chance.choice(entries), chance.choice(values))
        if chance.random() < 0.6 or data == whole:
            data = spoil_bytes(chance, data)
        pages = chance.choice((None, "all", "1", "2", "3", "1-2", 1, 0, "2-1", plain(chance)))
        by_page = chance.random() < 0.7

        def call() -> None:
            path = folder / "case.pdf"
            path.write_bytes(data)
            if by_page:
                for page in Document.of(path, pages):
                    assert page.draw().pixels.ndim == 3
                    assert page.words is None or len(page.words) == len(page.words.texts)
            else:
                load_page(path)

        return f"pages {pages!r}, {len(data)} bytes", call

    return draw
