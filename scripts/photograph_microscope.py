"""Take the pictures of docs/how-to/microscope.md: every tab of a running microscope, in headless Chromium.

    arr-coc microscope --port 7860 &
    python scripts/photograph_microscope.py http://127.0.0.1:7860/ docs/images

Needs playwright and a Chromium: `make test-browser` installs them where it can.
"""

from __future__ import annotations

import io
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from PIL import Image

READY = {
    "ask": "#below-ask table",
    "ways": "#ways-three figure",
    "textures": "#view-textures figure",
    "compare": "#view-compare figure",
    "passes": "#view-passes .pass",
    "numbers": "#view-numbers svg",
    "video": "#view-video svg",
}
# The zoo: the first seed whose question is the one of the story, whatever comes of it.
LINKS = {
    "passes": "picture=needle%3Azoo%3A4&q=What+are+the+ingredients+in+this+snack%3F&passes=3&keep=31.25",
    "compare": "relevance=scorer",
}
# Enough for a page of the docs; the rest of a long view says no more.
TALLEST = 1500


def photograph(page: Any, address: str, tab: str, out: Path) -> None:
    page.goto(f"{address}?tab={tab}&{LINKS.get(tab, '')}")
    if tab == "video":
        page.click("#draw-clip")
        page.wait_for_function("() => document.querySelector('#clip-question textarea, #clip-question input').value")
        page.click("#watch")
    page.locator(READY[tab]).first.wait_for(timeout=120_000)
    page.wait_for_timeout(1500)
    with Image.open(io.BytesIO(page.screenshot(full_page=True))) as image:
        cut = image.convert("RGB").crop((0, 0, image.width, min(image.height, TALLEST)))
    cut.save(out / f"microscope-{tab}.jpg", quality=88, subsampling=0, optimize=True)


def main(address: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    with import_module("playwright.sync_api").sync_playwright() as play:
        browser = play.chromium.launch(
            executable_path=shutil.which("chromium") or play.chromium.executable_path, args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        for tab in READY:
            photograph(page, address, tab, out)
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
