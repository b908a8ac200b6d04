"""A small PDF of text, rules and pictures, written by hand: what drawn documents need, and nothing more."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image

from arr_coc.core.files import replacing

FONTS = ("Helvetica", "Helvetica-Bold", "Times-Roman", "Times-Bold", "Courier", "Courier-Bold")


@dataclass
class PdfSheetWriter:
    """One page in points, from the upper left corner."""

    width: float = 595
    height: float = 842
    marks: list[str] = field(default_factory=list)
    pictures: list[bytes] = field(default_factory=list)

    def text(self, x: float, y: float, text: str, size: float = 10, font: str = "Helvetica") -> None:
        """A line whose baseline is at y from above."""
        plain = text.encode("latin-1", "replace").decode("latin-1")
        escaped = plain.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)")
        number = FONTS.index(font)
        self.marks.append(f"BT /F{number} {size:g} Tf 1 0 0 1 {x:.1f} {self.height - y:.1f} Tm ({escaped}) Tj ET")

    def rule(self, x0: float, y: float, x1: float, thick: float = 0.5) -> None:
        """A line across."""
        self.marks.append(f"{thick:g} w {x0:.1f} {self.height - y:.1f} m {x1:.1f} {self.height - y:.1f} l S")

    def picture(self, pixels: np.ndarray, quality: int = 70) -> None:
        """(H, W, 3) uint8 over the whole page, as a scanner makes it."""
        held = io.BytesIO()
        Image.fromarray(pixels).convert("L").save(held, "JPEG", quality=quality)
        self.pictures.append(held.getvalue())
        self.marks.append(f"q {self.width:g} 0 0 {self.height:g} 0 0 cm /P{len(self.pictures) - 1} Do Q")


def write_pdf(path: Path, sheets: Sequence[PdfSheetWriter]) -> Path:
    """The sheets as one file, under a temporary name first."""
    objects: list[bytes] = [b"", b""]
    objects += [
        f"<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>".encode() for name in FONTS
    ]
    fonts = " ".join(f"/F{number} {3 + number} 0 R" for number in range(len(FONTS)))
    kids = []
    for sheet in sheets:
        places = []
        for data in sheet.pictures:
            wide, high = Image.open(io.BytesIO(data)).size
            head = f"<< /Type /XObject /Subtype /Image /Width {wide} /Height {high} /ColorSpace /DeviceGray "
            head += f"/BitsPerComponent 8 /Filter /DCTDecode /Length {len(data)} >>\nstream\n"
            objects.append(head.encode() + data + b"\nendstream")
            places.append(len(objects))
        stream = "\n".join(sheet.marks).encode("latin-1")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n".encode() + stream + b"\nendstream")
        content = len(objects)
        shown = " ".join(f"/P{number} {place} 0 R" for number, place in enumerate(places))
        kids.append(len(objects) + 1)
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 {sheet.width:g} {sheet.height:g}] /Contents {content} 0 R "
            f"/Resources << /Font << {fonts} >> /XObject << {shown} >> >> >>".encode()
        )
    objects[0] = b"<< /Type /Catalog /Pages 2 0 R >>"
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(kids)} >>".encode()
    raw, places = bytearray(b"%PDF-1.4\n"), []
    for number, body in enumerate(objects, 1):
        places.append(len(raw))
        raw += f"{number} 0 obj\n".encode() + body + b"\nendobj\n"
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    start = len(raw)
    raw += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer << /Size {len(objects) + 1} ".encode()
    raw += f"/Root 1 0 R >>\nstartxref\n{start}\n%%EOF\n".encode()
    with replacing(path) as temporary:
        temporary.write_bytes(bytes(raw))
    return path
