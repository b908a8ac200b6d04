"""How a value shows itself in a notebook: small pictures made with numpy and Pillow alone.

The full pictures of a decision are in `draw`, a room above the values.
"""

from __future__ import annotations

import base64
import html
import io

import numpy as np

# Fine is warm and bright, coarse is cool and dark; the last colour serves all coarser levels. Every two are told apart
# by colour-blind readers as well.
LEVEL_COLOURS = np.array(
    [(255, 206, 70), (242, 130, 72), (229, 64, 118), (137, 86, 247), (38, 114, 192), (18, 67, 107)], dtype=np.uint8
)
# Ground that no token looks at.
UNSEEN = (38, 39, 44)
SIDE = 384


def heat_png(relevance: np.ndarray) -> bytes:
    """(rows, cols) in [0, 1] → a picture, dark to bright."""
    ramp = np.array([UNSEEN, LEVEL_COLOURS[2], LEVEL_COLOURS[0], (255, 250, 235)], dtype=np.float64)
    at = np.clip(relevance.astype(np.float64), 0, 1) * (len(ramp) - 1)
    pixels = np.stack([np.interp(at, np.arange(len(ramp)), channel) for channel in ramp.T], axis=-1)
    return png(enlarged(pixels.astype(np.uint8)))


def leaves_png(leaves: np.ndarray, levels: np.ndarray) -> bytes:
    """(rows, cols) number of the leaf seen at each cell, -1 for none, and (N,) levels → a picture with borders."""
    colours = np.concatenate([LEVEL_COLOURS[np.minimum(levels, len(LEVEL_COLOURS) - 1)], [UNSEEN]]).astype(np.uint8)
    pixels, leaf = enlarged(colours[leaves]), enlarged(leaves)
    border = np.zeros(leaf.shape, dtype=bool)
    border[1:] |= leaf[1:] != leaf[:-1]
    border[:, 1:] |= leaf[:, 1:] != leaf[:, :-1]
    pixels[border] //= 2
    return png(pixels)


def titled(title: str, below: str, picture: bytes | None) -> str:
    """HTML: a line in bold, a small one, and a picture."""
    said = html.escape(title) or "(nothing)"
    drawn = f'<br><img src="data:image/png;base64,{base64.b64encode(picture).decode()}">' if picture else ""
    return f"<div><b>{said}</b><br><small>{html.escape(below)}</small>{drawn}</div>"


def enlarged(grid: np.ndarray) -> np.ndarray:
    """(rows, cols, …) with every entry on a block of pixels, the longer side about `SIDE`."""
    step = max(1, SIDE // max(grid.shape[:2]))
    return grid.repeat(step, axis=0).repeat(step, axis=1)


def png(pixels: np.ndarray) -> bytes:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, format="PNG")
    return stream.getvalue()
