"""How the page looks: system typefaces, the colours of the drawings, and room to read at 390 pixels and at 1280."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ASSETS = Path(__file__).parent / "assets"
SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def theme() -> Any:
    """Gradio's plainest theme, with typefaces that every machine has: none is fetched from anywhere."""
    import gradio

    blue = gradio.themes.Color(
        *("#eff6fb", "#dcebf6", "#b9d7ec", "#8bbcdd", "#559bc9", "#2f7fb5"),
        *("#1868a8", "#155688", "#134a73", "#123f60", "#0c2b43"),
        name="microscope",
    )
    plain = gradio.themes.Base(
        primary_hue=blue, secondary_hue=blue, neutral_hue="stone", font=list(SANS), font_mono=list(MONO)
    )
    return plain.set(
        body_background_fill="#faf9f6",
        body_background_fill_dark="#17181b",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1f2125",
        block_border_color="#e4e1da",
        block_border_color_dark="#34373d",
        border_color_primary="#e4e1da",
        border_color_primary_dark="#34373d",
        input_background_fill="#ffffff",
        input_background_fill_dark="#17181b",
        body_text_color="#1c1e24",
        body_text_color_dark="#eceae5",
        body_text_color_subdued="#5d6068",
        body_text_color_subdued_dark="#a9abb2",
        button_primary_background_fill="#1868a8",
        button_primary_background_fill_hover="#134a73",
        button_primary_background_fill_dark="#2f7fb5",
        button_primary_text_color="#ffffff",
        block_title_text_weight="600",
        block_label_text_weight="600",
        block_radius="10px",
        input_radius="8px",
    )


def stylesheet() -> str:
    return (ASSETS / "page.css").read_text(encoding="utf-8")


def head() -> str:
    """What goes into the page's head: both colour schemes, and the page's own script."""
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return f'<meta name="color-scheme" content="light dark">\n<script>\n{script}</script>\n'
