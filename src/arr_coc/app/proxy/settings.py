"""What a proxy is started with: where it sends, how it packs, what it keeps; imports no web framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ...core.errors import InputError, positive, shown, whole
from ...options import Options
from ...packing.prices.tables import TokenTable, own_tables, table_for
from ..web import Limits

LIMITS = ("upload", "pixels", "pictures", "batch", "queue", "seconds", "cache", "look_seconds")


def proxy_limits(**given: Any) -> Limits:
    """Limits of a request. batch: how many pictures are packed at once. seconds: the longest silence upstream."""
    usual = {"upload": 64 << 20, "pixels": 60_000_000, "pictures": 32, "batch": 2, "queue": 256, "seconds": 600}
    return Limits(**{**usual, **given})


@dataclass(frozen=True)
class ProxySettings:
    """upstream: the address in front of which it stands. assume: the model whose table counts for names that have none.
    options: how pictures are packed: budget, relevance, scale. text: whether a line before packed pictures says what
    they show. media: hosts that pictures may be fetched from. cache: bytes of packed pictures that are kept.
    look_seconds: the longest that packing a picture may take; then it goes on as it is."""

    upstream: str
    assume: str | None = None
    tables: tuple[TokenTable, ...] = field(default_factory=own_tables)
    options: Options = field(default_factory=lambda: Options(budget=0.25, relevance="auto"))
    text: bool = True
    media: tuple[str, ...] = ()
    cache: int = 256 << 20
    look_seconds: float = 30
    limits: Limits = field(default_factory=proxy_limits)

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(
                f"--upstream {shown(self.upstream)} is no address; give one such as https://api.openai.com"
            )
        if parts.username or parts.password:
            raise InputError("--upstream must not hold a password; clients send their keys themselves")
        if self.assume is not None:
            table_for(self.assume, self.tables)
        whole(self.cache, "the limit cache", 0)
        positive(self.look_seconds, "the limit look_seconds")

    def address(self, path: str, query: str) -> str:
        """Where a request goes. An upstream that ends in /v1 is not given a second one."""
        base = self.upstream.rstrip("/")
        ending = urlsplit(base).path
        if ending and (path == ending or path.startswith(f"{ending}/")):
            path = path.removeprefix(ending)
        return f"{base}{path}{'?' + query if query else ''}"
