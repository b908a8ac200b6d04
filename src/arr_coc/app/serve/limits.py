"""What one request may ask of the server, and who may reach it; told without torch."""

from __future__ import annotations

from dataclasses import dataclass

from ...core.errors import InputError
from ...pictures.load import MAX_PIXELS
from .. import web


@dataclass(frozen=True)
class Limits:
    """upload: bytes of one request. pixels: of all its pictures, refused by their headers. new_tokens: of one answer.
    queue: requests that may wait. batch: those that are answered at once. seconds: from arrival to the last token.
    pictures: of one request, and pages of its documents that are shown. pages: that its documents have together.
    max_budget: visual tokens that one picture may cost; None: any number."""

    upload: int = 24 * 1024 * 1024
    pixels: int = 20_000_000
    new_tokens: int = 512
    queue: int = 64
    batch: int = 8
    seconds: float = 120
    pictures: int = 8
    pages: int = 200
    max_budget: int | None = None

    def __post_init__(self) -> None:
        web.check_limits(self)
        if self.pixels > MAX_PIXELS:
            raise InputError(f"the limit pixels={self.pixels} is not safe; give at most {MAX_PIXELS}")


def check_exposure(host: str, key: str | None) -> None:
    web.check_exposure(host, key, "key", "in the variable ARR_COC_API_KEY or with --api-key")
