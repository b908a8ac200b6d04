"""Small pieces of HTML that the tabs are put together from. Everything that a visitor wrote is escaped here.

Plots are SVG that takes the page's own colours: text and axes follow light and dark, and can be selected.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

import cv2
import numpy as np

from ...core.errors import InputError
from ...core.values import Allocation
from ...draw.layout import fit, resize
from ...draw.legend import level_rows, share_words, spent_words
from ...draw.palette import FIRST, SECOND, level_colour

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Plot
    from PIL import Image

# The longer side of a picture in the page. Exports are made at their own size.
SHOWN_SIDE = 512
QUALITY = 92


def shown_size(size: tuple[int, int], side: int = SHOWN_SIDE) -> tuple[int, int]:
    """(height, width) of a picture of `size` in the page; a small one is enlarged no further than twice."""
    return fit(*size, min(side, 2 * size[0]), min(side, 2 * size[1]))


def image_address(pixels: np.ndarray, lossless: bool = False) -> str:
    """(H, W, 3) uint8 RGB → a data address. Pictures travel inside the page: no file of a visitor's is ever written."""
    kind, options = ("png", [cv2.IMWRITE_PNG_COMPRESSION, 3]) if lossless else ("jpeg", _JPEG)
    done, data = cv2.imencode(f".{kind}", np.ascontiguousarray(pixels[..., ::-1]), options)
    assert done
    return f"data:image/{kind};base64,{base64.b64encode(data.tobytes()).decode()}"


_JPEG = [
    *(cv2.IMWRITE_JPEG_QUALITY, QUALITY),
    *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
]


@dataclass(frozen=True)
class Figure:
    """pixels: (H, W, 3) uint8 RGB. title: above it. caption: below it. blocky: show pixels as such."""

    pixels: np.ndarray
    title: str
    caption: str = ""
    blocky: bool = False

    def html(self) -> str:
        height, width = self.pixels.shape[:2]
        address = image_address(self.pixels, self.blocky)
        blocky = ' class="blocky"' if self.blocky else ""
        image = f'<img src="{address}" alt="{escape(self.title)}" width="{width}" height="{height}"{blocky}>'
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{image}{caption}</figure>"


def figures(each: Iterable[Figure], kind: str = "") -> str:
    """A grid of figures. kind: "small" for contact sheets, "pairs" for two columns, "strip" for one row each."""
    return f'<div class="figures {kind}">{"".join(figure.html() for figure in each)}</div>'


def sentence(text: str, alarm: bool = False) -> str:
    """What a visitor should know, in a box; an alarm is read out at once."""
    role = "alert" if alarm else "status"
    return f'<p class="sentence{" alarm" if alarm else ""}" role="{role}">{escape(text)}</p>'


def notes(lines: Sequence[str]) -> str:
    return "".join(f'<p class="note">{escape(note)}</p>' for note in dict.fromkeys(lines))


def meter(share: float, words: str, label: str) -> str:
    """A bar from 0 to 1 with words beside it."""
    filled = f"{100 * min(max(share, 0.0), 1.0):.1f}"
    return (
        f'<div class="meter" role="img" aria-label="{escape(label)} {escape(words)}">'
        f'<span class="track"><span style="width:{filled}%"></span></span><b>{escape(words)}</b></div>'
    )


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], caption: str = "") -> str:
    """columns: heading by key. The first column is the row's heading; numbers stand to the right. Wide ones scroll."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in columns.values())
    body = []
    for row in rows:
        cells = []
        for number, key in enumerate(columns):
            tag = 'th scope="row"' if number == 0 else "td"
            cells.append(f"<{tag}>{escape(str(row.get(key, '')))}</{tag[:2]}>")
        kind = f' class="{escape(str(row["kind"]))}"' if row.get("kind") else ""
        body.append(f"<tr{kind}>{''.join(cells)}</tr>")
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    # A region that scrolls must be reachable by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption or "table")}">'
        f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def budget(allocation: Allocation) -> str:
    """How much of the full count is spent, level by level: a bar and its legend."""
    parts, legend = [], []
    whole = max(allocation.full, allocation.tokens, 1)
    for row in level_rows(allocation):
        colour = css_colour(level_colour(row.level).tolist())
        parts.append(f'<span style="width:{100 * row.tokens / whole:.2f}%;background:{colour}"></span>')
        fine = "full detail" if row.told == 0 else "twice as large" if row.told < 0 else f"1/{1 << row.told} of it"
        tokens = f"{row.tokens} token{'s' * (row.tokens != 1)}"
        legend.append(
            f'<li><i style="background:{colour}"></i><b>level {row.told}</b>, {fine}: {tokens} on '
            f"{100 * row.area:.1f} % of the area</li>"
        )
    words = f"{spent_words(allocation)} ({share_words(allocation)})"
    return (
        f'<div class="budget"><p><b>{words}</b></p><div class="bar" role="img" aria-label="{words}">'
        f'{"".join(parts)}</div><ul class="legend">{"".join(legend)}</ul></div>'
    )


def css_colour(colour: Sequence[int]) -> str:
    return "#{:02x}{:02x}{:02x}".format(*colour)


def shown_pixels(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.ascontiguousarray(resize(pixels, size))


# ---- plots ----------------------------------------------------------------------------------------------------------


# Drawn in this colour, which nothing else has, then replaced by the colour of the text around the plot.
INK = "#010203"
FAINT = "#040506"
COLOURS = {
    "scorer": css_colour(SECOND),
    "full": INK,
    "uniform": css_colour(FIRST),
    "random": "#8a6fb0",
    "shuffled": "#b0548a",
    "oracle": "#3d8f5a",
}
GOOD, BAD, OPEN = "#3d8f5a", "#c43c28", "#8a8a8a"


def new_figure(width: float = 6.0, height: float = 3.6) -> Plot:
    try:
        from matplotlib.figure import Figure as MatplotlibFigure
    except ImportError as error:
        raise InputError("plots need matplotlib: pip install 'arr-coc[microscope]'") from error
    return MatplotlibFigure(figsize=(width, height), layout="constrained")


def dress(axes: Axes) -> None:
    """Thin axes in the page's ink, no box."""
    axes.spines[["top", "right"]].set_visible(False)
    for side in ("left", "bottom"):
        axes.spines[side].set_color(FAINT)
    axes.tick_params(colors=INK, which="both", labelsize=10)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(INK)
        text.set_fontsize(10.5)
    axes.grid(True, axis="both", color=FAINT, linewidth=0.4, alpha=0.5)
    axes.set_axisbelow(True)
    legend = axes.get_legend()
    if legend is not None:
        for text in legend.get_texts():
            text.set_color(INK)
            text.set_fontsize(9.5)


def as_svg(figure: Plot, label: str) -> str:
    """The figure as inline SVG, as wide as its place."""
    from matplotlib import rc_context

    memory = io.StringIO()
    with rc_context({"svg.fonttype": "none", "font.family": "sans-serif", "svg.hashsalt": label}):
        figure.savefig(memory, format="svg", transparent=True, metadata={"Date": None})
    text = memory.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor").replace(FAINT, "var(--faint)")
    about = f'role="img" aria-label="{escape(label)}" width="100%"'
    text = re.sub(r'<svg [^>]*?(viewBox="[^"]*")[^>]*>', rf'<svg {about} \1 xmlns="{_XMLNS}">', text, count=1)
    # Typefaces of the page, not of the machine that drew it.
    text = re.sub(
        r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", re.sub(r"font-family: [^;\"]*", "font-family: inherit", text)
    )
    return f'<div class="plot" tabindex="0" role="group" aria-label="plot">{text}</div>'


_XMLNS = "http://www.w3.org/2000/svg"


def as_picture(figure: Plot) -> Image.Image:
    """The figure as a PIL image on paper, for exports."""
    from PIL import Image

    memory = io.BytesIO()
    figure.savefig(memory, format="png", dpi=150, facecolor="white")
    return Image.open(memory).convert("RGB")
