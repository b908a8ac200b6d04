"""What one visitor may ask of the page, and who may reach it; imports neither Gradio nor torch."""

from __future__ import annotations

from dataclasses import dataclass, fields

from .. import web

# A photo of the largest telephones; a larger one is refused before any of its pixels is decoded.
MOST_PIXELS = 120_000_000


@dataclass(frozen=True)
class PageLimits:
    """upload: bytes of one upload. pixels: of one picture or frame. queue: visitors' requests that may wait."""

    upload: int = 48 * 1024 * 1024
    pixels: int = MOST_PIXELS
    queue: int = 64

    def __post_init__(self) -> None:
        web.check_limits(self)


LIMITS = tuple(one.name for one in fields(PageLimits))


def check_exposure(host: str, password: str | None) -> None:
    """Refuse to be reached from other machines without a password."""
    web.check_exposure(host, password, "password", "ARR_COC_PASSWORD")
