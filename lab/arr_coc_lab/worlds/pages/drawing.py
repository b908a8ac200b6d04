"""Pages drawn by headless Chromium: the picture, and the boxes of words and characters from the DOM."""

from __future__ import annotations

import base64
import io
import json
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError

from .families import FAMILIES, choose_layout
from .pack import DrawnPage, DrawnQuestion
from .sheet import MarkedQuestion, PageSheet
from .typefaces import PACKAGES, missing

Browser = Any  # of playwright, which need not be installed

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--force-color-profile=srgb",
    "--hide-scrollbars",
)
QUESTIONS = 20
TOO_WIDE = 0.55
STEP, LEAST = 32, 256
PATIENCE = 180_000
TRIES = 3

# Elements of class "cut" go from the end until nothing passes the lower edge; a page too wide is zoomed out.
# Answers how far down the page reaches.
FIT = """([height, least]) => {
  const page = document.getElementById('page');
  const wide = Math.max(page.scrollWidth, document.body.scrollWidth);
  if (wide > innerWidth + 1) page.style.zoom = Math.max(least, innerWidth / wide);
  const low = e => e.getBoundingClientRect().bottom;
  const cuts = [...document.querySelectorAll('.cut')];
  const still = [...page.children].filter(e => getComputedStyle(e).position !== 'absolute');
  const reach = () => Math.max(...still.map(low), 0);
  let i = cuts.length;
  while (i-- && reach() > height - 3) cuts[i].remove();
  return reach();
}"""

# One entry a word: text, its mark, its box, and every character's box; words that are hidden or cut are left out.
READ = """H => {
  const W = innerWidth, out = [], range = document.createRange();
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const inside = r => r.width > 0.5 && r.height > 1
    && r.left >= -0.5 && r.top >= -0.5 && r.right <= W + 0.5 && r.bottom <= H + 0.5;
  for (let node; node = walker.nextNode();) {
    const parent = node.parentElement, style = getComputedStyle(parent);
    if (parent.closest('style, .icon') || style.visibility === 'hidden' || style.opacity === '0') continue;
    const owner = parent.closest('[data-t]');
    for (const found of node.data.matchAll(/\\S+/g)) {
      const boxes = []; let whole = true;
      const letters = [...found[0]]; let at = found.index;
      for (const letter of letters) {
        range.setStart(node, at); range.setEnd(node, at += letter.length);
        const r = range.getBoundingClientRect();
        if (!inside(r)) whole = false;
        boxes.push(Math.round(r.left), Math.round(r.top), Math.round(r.right), Math.round(r.bottom));
      }
      if (!whole) continue;
      range.setStart(node, found.index); range.setEnd(node, at);
      const r = range.getBoundingClientRect();
      const top = document.elementFromPoint((r.left + r.right) / 2, (r.top + r.bottom) / 2);
      if (!top || !(parent.contains(top) || top.contains(parent) || top.ownerSVGElement)) continue;
      out.push([found[0], owner ? +owner.dataset.t : 0, r.left, r.top, r.right, r.bottom, boxes]);
    }
  }
  return JSON.stringify(out);
}"""


def check_tools() -> str:
    """The path of Chromium; one clear line where a tool or most typefaces are missing."""
    try:
        import_module("playwright")
    except ImportError as error:
        message = "drawing pages needs playwright; install it with: pip install 'arr-coc-lab[pages]'"
        raise InputError(message) from error
    path = next((found for found in map(shutil.which, BROWSERS) if found), None)
    if path is None:
        raise InputError("drawing pages needs Chromium; install it with: apt-get install chromium")
    absent = missing()
    if len(absent) > 8:
        raise InputError(
            f"{len(absent)} typefaces are missing ({', '.join(absent[:3])}, …); install them with: apt-get install"
            f" {PACKAGES}"
        )
    return path


@contextmanager
def browser() -> Generator[Browser]:
    """Headless Chromium from the system's packages."""
    path = check_tools()
    with import_module("playwright.sync_api").sync_playwright() as started:
        running = started.chromium.launch(executable_path=path, args=list(FLAGS))
        try:
            yield running
        finally:
            running.close()


class Artist:
    """Draws sheets in one tab of a browser, whose window takes the size of each canvas."""

    def __init__(self, running: Browser) -> None:
        self.tab = running.new_page()
        self.tab.set_default_timeout(PATIENCE)
        self.wire = self.tab.context.new_cdp_session(self.tab)

    def draw(self, sheet: PageSheet, body: str, name: str, family: str) -> DrawnPage:
        """Put the sheet's HTML on the canvas, read boxes back, take the picture (WebP)."""
        tab = self.tab
        if tab.viewport_size != {"width": sheet.width, "height": sheet.height}:
            tab.set_viewport_size({"width": sheet.width, "height": sheet.height})
        tab.set_content(sheet.document(body), wait_until="load")
        reach = tab.evaluate(FIT, [sheet.height, TOO_WIDE])
        if sheet.cropped:
            sheet.height = min(sheet.height, max(LEAST, -(-int(reach + sheet.padding) // STEP) * STEP))
        # One string: playwright takes far longer over nested lists.
        found = json.loads(tab.evaluate(READ, sheet.height))
        clip = {"x": 0, "y": 0, "width": sheet.width, "height": sheet.height, "scale": 1}
        shot = self.wire.send("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": True, "clip": clip})
        return drawn_page(sheet, name, family, small_webp(base64.b64decode(shot["data"])), found)


def make_page(artist: Artist, split: str, seed: int, index: int, names: tuple[str, ...] = ()) -> DrawnPage:
    """Draw page `index`; one that ends up with no question at all is written anew from the next seed."""
    wanted = {name: FAMILIES[name] for name in names} if names else FAMILIES
    family, layout = choose_layout(split, seed, index, wanted)
    write = (wanted[family].train if split == "train" else wanted[family].held)[layout]
    for turn in range(TRIES):
        sheet = PageSheet(split, seed, index + turn * 10**9)
        body = write(sheet)
        page = artist.draw(sheet, body, f"{family}-{split}-{seed}-{index:06d}", family)
        if page.questions:
            break
    return page


def small_webp(png: bytes) -> bytes:
    """Lossless WebP of 16 levels a colour: cleaner than a lossy one, and two thirds of its size."""
    from PIL import Image

    held, levels = io.BytesIO(), [round(value / 17) * 17 for value in range(256)]
    Image.open(io.BytesIO(png)).convert("RGB").point(levels * 3).save(held, "WEBP", lossless=True, method=2, quality=30)
    return held.getvalue()


def drawn_page(sheet: PageSheet, name: str, family: str, picture: bytes, found: list[list[Any]]) -> DrawnPage:
    """The page of words as the browser read them. Questions are dropped whose words are not all on it, or mean two."""
    words = [entry[0] for entry in found]
    owner = np.array([entry[1] for entry in found], dtype=np.int64)
    limits = np.array([sheet.width, sheet.height] * 2)
    boxes = outward(np.array([entry[2:6] for entry in found], dtype=np.float64).reshape(-1, 4), limits)
    chars = [np.array(entry[6], dtype=np.float64).reshape(-1, 4) for entry in found]
    char_boxes = nearest(np.concatenate(chars) if chars else np.zeros((0, 4)), limits)
    present = set(owner.tolist()) - {0}
    clear = [question for question in sheet.questions if sheet.one_meaning(question, present)]
    questions = [drawn for question in clear if (drawn := drawn_question(sheet, question, words, owner, boxes))]
    sheet.random.shuffle(questions)
    about = name, family, sheet.layout, sheet.split, sheet.width, sheet.height
    return DrawnPage(*about, picture, words, boxes, char_boxes, questions[:QUESTIONS])


def outward(boxes: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """(N, 4) to whole pixels that hold the box."""
    rounded = np.concatenate([np.floor(boxes[:, :2] + 0.1), np.ceil(boxes[:, 2:] - 0.1)], axis=1)
    return np.clip(rounded, 0, limits).astype(np.uint16)


def nearest(boxes: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """(N, 4) to the nearest whole pixels, at least one wide and high."""
    rounded = np.clip(np.rint(boxes), 0, limits)
    rounded[:, 2:] = np.maximum(rounded[:, 2:], rounded[:, :2] + 1)
    return rounded.astype(np.uint16)


def drawn_question(
    sheet: PageSheet, question: MarkedQuestion, words: list[str], owner: np.ndarray, boxes: np.ndarray
) -> DrawnQuestion | None:
    """The question with pixel boxes, one a line; None unless every word of it is on the page and lies free.

    owner: (N,) the keys of the words' marks. boxes: (N, 4) of the words.
    """
    answer_lines = []
    for group, keys in enumerate((question.answers, question.context)):
        lines = []
        for key in keys:
            rows = np.flatnonzero(owner == key)
            if not len(rows) or " ".join(words[row] for row in rows) != sheet.marks[key]:
                return None
            lines.append(line_boxes(boxes[rows]))
            if group == 0 and covered(boxes[rows], boxes[owner != key]):
                return None
        answer_lines.append(np.concatenate(lines) if lines else np.zeros((0, 4), np.uint16))
    return DrawnQuestion(question.kind, question.text, question.answer, *answer_lines)


def line_boxes(boxes: np.ndarray) -> np.ndarray:
    """(N, 4) words in reading order → (L, 4), those of a line joined."""
    rows: list[np.ndarray] = []
    for box in boxes.astype(np.int64):
        if rows:
            last = rows[-1]
            shared = min(last[3], box[3]) - max(last[1], box[1])
            if shared > 0.5 * min(last[3] - last[1], box[3] - box[1]) and box[0] >= last[0]:
                rows[-1] = np.concatenate([np.minimum(last[:2], box[:2]), np.maximum(last[2:], box[2:])])
                continue
        rows.append(box)
    return np.stack(rows).astype(np.uint16)


def covered(mine: np.ndarray, others: np.ndarray) -> bool:
    """Whether words of another mark lie over half of one of these."""
    mine, others = mine.astype(np.float64), others.astype(np.float64)
    low, high = np.maximum(mine[:, None, :2], others[None, :, :2]), np.minimum(mine[:, None, 2:], others[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(-1)
    area = (mine[:, 2:] - mine[:, :2]).prod(-1)
    return bool((shared.max(initial=0, axis=1) > 0.5 * area).any()) if len(others) else False
