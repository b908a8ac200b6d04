"""A PDF written by hand, for tests of words."""

from __future__ import annotations


def small_pdf(path, pages=(("72 700 Td (Invoice date: 03/04/1997) Tj", ""),)):
    """A PDF written by hand: each page its text operators in Helvetica 12, and more entries of its dictionary."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, (text, more) in enumerate(pages):
        stream = f"BT /F1 12 Tf {text} ET"
        objects.append(
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] {more} /Contents {5 + 2 * number} 0 R "
            "/Resources << /Font << /F1 3 0 R >> >> >>"
        )
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    raw, places = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        places.append(len(raw))
        raw += f"{number} 0 obj\n{body}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = (
        f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}trailer << /Size {len(objects) + 1} /Root 1 0 R >>\n"
    )
    path.write_bytes(raw + f"{end}startxref\n{len(raw)}\n%%EOF\n".encode())
    return path
