"""Pages without a browser: lines of type of one width, whose every letter's box is known; and a kind of photograph."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from arr_coc_lab.worlds.pages.pack import DrawnPage, DrawnQuestion

STEP, LINE, LEFT, TOP = 12, 24, 16, 16


def plain_page(name: str, fields: dict[str, str], size: tuple[int, int] = (256, 320)) -> DrawnPage:
    """A form: on each line a label, and its value further right."""
    height, width = size
    picture = Image.new("RGB", (width, height), "white")
    drawing, font = ImageDraw.Draw(picture), ImageFont.load_default(16)
    words, boxes, letters, questions = [], [], [], []

    def write(text: str, left: int, top: int) -> list[int]:
        for number, letter in enumerate(text):
            drawing.text((left + number * STEP, top), letter, "black", font)
            letters.append([left + number * STEP, top, left + (number + 1) * STEP, top + 18])
        words.append(text)
        boxes.append([left, top, left + len(text) * STEP, top + 18])
        return boxes[-1]

    for number, (label, value) in enumerate(fields.items()):
        asked = write(label, LEFT, TOP + number * LINE)
        answer = write(value, LEFT + 12 * STEP, TOP + number * LINE)
        box, context = np.array([answer], np.uint16), np.array([asked], np.uint16)
        questions.append(DrawnQuestion("field", f"What is the {label}?", value, box, context))
    stored = io.BytesIO()
    picture.save(stored, "WEBP", lossless=True)
    arrays = (np.array(part, np.uint16) for part in (boxes, letters))
    return DrawnPage(name, "forms", "plain", "train", width, height, stored.getvalue(), words, *arrays, questions)


def cloudy(height: int, width: int, seed: int = 0) -> np.ndarray:
    """(height, width, 3) uint8: structure of every size, no two places alike."""
    generator = np.random.default_rng(seed)
    total = np.full((height, width, 3), 128.0)
    for side, strength in ((5, 50), (30, 30), (120, 20)):
        coarse = generator.normal(0, 1, (max(2, side * height // width), side, 3)) * 60 + 128
        image = Image.fromarray(np.clip(coarse, 0, 255).astype(np.uint8)).resize(
            (width, height), Image.Resampling.BICUBIC
        )
        total += (np.asarray(image, dtype=np.float64) - 128) * (strength / 60)
    return np.clip(total, 0, 255).astype(np.uint8)
