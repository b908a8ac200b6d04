"""Small files that keep a reader busy for minutes, or eat all memory; each is made in a moment."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import Callable

from PIL import Image

PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>"
FILL = b"0 0 600 700 re f "


def pdf(*objects: bytes, table: bytes | None = None) -> bytes:
    """A PDF of one page, whose content is the first of the objects."""
    out, places = b"%PDF-1.5\n", []
    own = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[3 0 R]/Count 1>>", PAGE, *objects]
    for number, body in enumerate(own, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    if table is None:
        table = b"xref\n0 %d\n0000000000 65535 f \n" % (len(own) + 1)
        table += b"".join(b"%010d 00000 n \n" % place for place in places)
        table += b"trailer<</Size %d/Root 1 0 R>>" % (len(own) + 1)
    return out + table + b"\nstartxref\n%d\n%%%%EOF" % len(out)


def stream(body: bytes, head: bytes = b"") -> bytes:
    data = zlib.compress(body, 9)
    return b"<<%s/Filter/FlateDecode/Length %d>>stream\n%s\nendstream" % (head, len(data), data)


def nested_forms(depth: int = 9) -> bytes:
    """Ten times ten times ten …: 10^9 fills in two kilobytes."""
    forms = []
    for level in range(depth):
        last, more = level == depth - 1, b"/Resources<</XObject<</X %d 0 R>>>>" % (6 + level)
        head = b"/Type/XObject/Subtype/Form/BBox[0 0 612 792]" + (b"" if last else more)
        forms.append(stream(FILL if last else b"/X Do " * 10, head))
    return pdf(stream(b"/X Do " * 10), *forms)


def references(count: int = 4_000_000) -> bytes:
    """A cross-reference table of millions, a few kilobytes when compressed."""
    head = b"/Type/XRef/Root 1 0 R/Size %d/W[1 4 2]" % count
    return pdf(stream(FILL), table=b"6 0 obj\n" + stream(b"\1\0\0\0\t\0\0" * count, head) + b"\nendobj")


def empty_scans(side: int = 4464, number: int = 60_000) -> bytes:
    """A progressive JPEG whose scans say nothing, each over the whole picture."""

    def part(mark: int, body: bytes) -> bytes:
        return struct.pack(">BBH", 0xFF, mark, len(body) + 2) + body

    def bits(text: str) -> bytes:
        text += "1" * (-len(text) % 8)
        return bytes(int(text[at : at + 8], 2) for at in range(0, len(text), 8)).replace(b"\xff", b"\xff\x00")

    left = blocks = ((side + 7) // 8) ** 2
    out = b"\xff\xd8" + part(0xDB, b"\0" + b"\x10" * 64)
    out += part(0xC2, struct.pack(">BHHB", 8, side, side, 1) + b"\x01\x11\x00")
    out += part(0xC4, b"\x00\x01" + bytes(15) + b"\x00") + part(0xC4, b"\x10\x01\x01" + bytes(14) + b"\xe0\x00")
    text = ""
    while left >= 16384:
        run = min(left, 32767)
        text, left = text + "0" + format(run - 16384, "014b"), left - run
    scan = part(0xDA, b"\x01\x01\x00\x01\x3f\x00") + bits(text + "10" * left)
    return out + part(0xDA, b"\x01\x01\x00\x00\x00\x00") + bits("0" * blocks) + scan * number + b"\xff\xd9"


def saved(kind: str, side: int, **options: object) -> bytes:
    memory = io.BytesIO()
    Image.new("L", (side, side)).save(memory, kind, **options)
    return memory.getvalue()


def frames(number: int = 100_000) -> bytes:
    """A GIF of one frame, and again, and again."""
    one = saved("GIF", 8)
    image = one.index(b",", 13)
    return one[:image] + one[image:-1] * number + b";"


def directories(number: int = 100_000) -> bytes:
    """A TIFF whose directories follow one another without end."""
    entries = [(256, 8), (257, 8), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 8), (279, 64)]
    size, first = 2 + 12 * len(entries) + 4, 8 + 64
    body = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    chain = (struct.pack("<H", len(entries)) + body + struct.pack("<I", first + size * n) for n in range(1, number))
    last = struct.pack("<H", len(entries)) + body + bytes(4)
    return struct.pack("<2sHI", b"II", 42, first) + bytes(64) + b"".join(chain) + last


HOSTILE: dict[str, Callable[[], bytes]] = {
    "nested forms.pdf": nested_forms,
    "three million fills.pdf": lambda: pdf(stream(FILL * 3_000_000)),
    "references.pdf": references,
    "strokes.pdf": lambda: pdf(stream(b"[1 1]0 d 0 0 m " + b"9999 9999 l 0 0 l " * 1_000_000 + b"S")),
    "arrays.pdf": lambda: pdf(stream(b"[" * 3_000_000)),
    "scans.jpg": empty_scans,
    "tiles.jp2": lambda: saved("JPEG2000", 4400, tile_size=(32, 32)),
    "flat.png": lambda: saved("PNG", 13_300),
    "frames.gif": frames,
    "directories.tif": directories,
}
