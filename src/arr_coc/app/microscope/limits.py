"""What one visitor may ask of the page, and who may reach it; told without Gradio and torch."""

from __future__ import annotations

from dataclasses import dataclass

from .. import web

# A photo of the largest telephones; a larger one is told to be resized, before any pixel of it is decoded.
MOST_PIXELS = 120_000_000


@dataclass(frozen=True)
class PageLimits:
    """upload: bytes of one upload. pixels: of one picture or frame. queue: visitors' requests that may wait."""

    upload: int = 48 * 1024 * 1024
    pixels: int = MOST_PIXELS
    queue: int = 64

    def __post_init__(self) -> None:
        web.check_limits(self)


def check_exposure(host: str, password: str | None) -> None:
    """Beyond this machine only with a password. Raises `InputError`."""
    remedy = "in the variable ARR_COC_PASSWORD or a file with --password-file"
    web.check_exposure(host, password, "password", remedy)
