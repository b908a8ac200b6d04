"""SVG drawings as pixels. Their size is read first, and they are drawn by another process, which can be ended: a few
hundred bytes can ask for gigabytes and for hours."""

from __future__ import annotations

import re
import subprocess
import sys
from time import monotonic
from xml.parsers import expat

from ..core.errors import InputError
from ..core.stopping import check_stop

# Seconds that a drawing may take, and bytes that the drawing process may have; a large poster takes 2 s and 0.5 GB.
SECONDS, MEMORY = 20.0, 2 << 30
LONGEST_SIDE = 32_767  # of the library that draws
_PIXELS = {"": 1.0, "px": 1.0, "pt": 96 / 72, "pc": 16.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "em": 16.0}
_LENGTH = re.compile(r"\s*\+?(\d+\.?\d*(?:e[+-]?\d+)?|\.\d+)\s*([a-z]*)\s*")
_DRAW = """
import sys
try:
    import resource
    resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
except (ImportError, ValueError, OSError):
    pass
import cairosvg
sys.stdout.buffer.write(cairosvg.svg2png(bytestring=sys.stdin.buffer.read(), unsafe=False))
"""


def svg_size(data: bytes) -> tuple[float, float] | None:
    """(height, width) in pixels that a drawing asks for, by its first element; None where that does not tell."""
    found: dict[str, str] = {}

    def first(name: str, attributes: dict[str, str]) -> None:
        found.update(attributes)
        parser.StartElementHandler = None

    parser = expat.ParserCreate()
    parser.StartElementHandler = first
    for start in range(0, len(data), 4096):
        try:
            parser.Parse(data[start : start + 4096], False)
        except expat.ExpatError:
            break
        if parser.StartElementHandler is None:
            break
    sides = [_length(found.get(name, "")) for name in ("height", "width")]
    corners = re.split(r"[\s,]+", found.get("viewBox", "").strip())
    for place, number in enumerate(reversed(corners[2:]) if len(corners) == 4 else ()):
        sides[place] = _length(number) if sides[place] is None else sides[place]
    height, width = sides
    return None if height is None or width is None else (height, width)


def _length(text: str) -> float | None:
    found = _LENGTH.fullmatch(text.lower())
    return float(found[1]) * _PIXELS[found[2]] if found and found[2] in _PIXELS else None


def svg_png(data: bytes, label: str, max_pixels: int) -> bytes:
    """The drawing as a PNG file. Raises `InputError`."""
    size = svg_size(data)
    if size is None:
        raise InputError(f"{label} does not tell its size; give its <svg> width and height, or save it as PNG")
    height, width = size
    if height * width > max_pixels or max(size) > LONGEST_SIDE:
        raise InputError(f"{label} asks for {width:.0f}×{height:.0f}, more than {max_pixels / 1e6:.0f} megapixels; "
                         "make it smaller")  # fmt: skip
    command = [sys.executable, "-c", _DRAW.format(memory=MEMORY)]
    pipe, until = subprocess.PIPE, monotonic() + SECONDS
    drawing = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)
    given: bytes | None = data
    try:
        while True:
            try:
                drawn, told = drawing.communicate(given, timeout=0.1)
                break
            except subprocess.TimeoutExpired:
                given = None
                check_stop()
                if monotonic() > until:
                    raise InputError(f"{label} takes more than {SECONDS:g} s to draw; save it as PNG") from None
    finally:
        if drawing.poll() is None:
            drawing.kill()
            drawing.communicate()
    if drawing.returncode or not drawn:
        lines = told.decode(errors="replace").strip().splitlines() or ["it asks for too much memory"]
        raise InputError(f"{label} cannot be read ({lines[-1][:120]}); save it again as PNG or JPEG")
    return drawn
