"""Small pieces of HTML that the tabs are put together from. Everything that a visitor wrote is escaped here."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import cv2
import numpy as np

from ...core.values import Allocation
from ...draw.layout import fit, level_colour, resize
from ...draw.legend import level_rows, share_words, spent_words

# The longer side of a picture in the page. Exports are made at their own size.
SHOWN_SIDE = 512
JPEG = [
    *(cv2.IMWRITE_JPEG_QUALITY, 92),
    *(cv2.IMWRITE_JPEG_SAMPLING_FACTOR, cv2.IMWRITE_JPEG_SAMPLING_FACTOR_444),
]


def shown_size(size: tuple[int, int], side: int = SHOWN_SIDE) -> tuple[int, int]:
    """(height, width) of a picture of `size` in the page; a small one is enlarged no further than twice."""
    return fit(*size, min(side, 2 * size[0]), min(side, 2 * size[1]))


def shown_pixels(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    return np.ascontiguousarray(resize(pixels, size))


@dataclass(frozen=True)
class Figure:
    """pixels: (H, W, 3) uint8 RGB. title: above it. caption: below it."""

    pixels: np.ndarray
    title: str
    caption: str = ""

    def html(self) -> str:
        """The picture is inside the page as a data address, so that no file of a visitor's is written for it."""
        height, width = self.pixels.shape[:2]
        _, data = cv2.imencode(".jpeg", np.ascontiguousarray(self.pixels[..., ::-1]), JPEG)
        address = f"data:image/jpeg;base64,{base64.b64encode(data.tobytes()).decode()}"
        image = f'<img src="{address}" alt="{escape(self.title)}" width="{width}" height="{height}">'
        caption = f"<p>{escape(self.caption)}</p>" if self.caption else ""
        return f"<figure><figcaption>{escape(self.title)}</figcaption>{image}{caption}</figure>"


def figures(each: Iterable[Figure], kind: str = "") -> str:
    """A grid of figures. kind: "pairs", "thirds" or "one" for that many columns."""
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


def card(text: str, uncertainty: float, truth: str | None, spent: str = "", unsure: str = "") -> str:
    """An answer in large letters, the truth where it is known, its uncertainty as a bar, and what it cost."""
    known = ""
    if truth is not None:
        kind, words = ("right", "right") if text == truth else ("wrong", f"in truth: {truth}")
        known = f'<p class="truth {kind}">{escape(words)}</p>'
    cost = f'<p class="label">Spent</p><p class="spent">{escape(spent)}</p>' if spent else ""
    return (
        '<section class="card"><div><p class="label">Answer</p>'
        f'<p class="answer" id="answer">{escape(text) or "(nothing)"}</p>{known}</div>'
        f'<div><p class="label">Uncertainty</p>{notes([unsure] if unsure else [])}'
        f"{meter(uncertainty, f'{uncertainty:.2f}', 'uncertainty')}{cost}</div></section>"
    )


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, object]], caption: str) -> str:
    """columns: heading by key. The first column is the row's heading. Wide tables scroll."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in columns.values())
    body = []
    for row in rows:
        first, *others = (escape(str(row.get(key, ""))) for key in columns)
        body.append(f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in others)}</tr>')
    # A region that scrolls must be reachable by keyboard.
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(caption)}"><table>'
        f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table></div>"
    )


def budget(allocation: Allocation) -> str:
    """How much of the full count is spent, level by level: a bar and its legend."""
    parts, legend = [], []
    whole = max(allocation.full, allocation.tokens, 1)
    for row in level_rows(allocation):
        colour = "#{:02x}{:02x}{:02x}".format(*level_colour(row.level).tolist())
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
