"""What a proxy is told when it starts: where it sends, how it packs, what it keeps; told without a web framework."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ...attending.distance import AUTO, check_scale
from ...attending.grip import as_grip
from ...attending.request import check_amount
from ...core.checks import positive, shown, whole
from ...core.errors import InputError
from ...packing.pack import LAYOUTS, MOST_CROPS
from ...packing.packed import format_of
from ...packing.prices.tables import TokenTable, own_tables, table_for
from ..serve.limits import Limits

BUDGET = "25%"
QUESTIONS = ("last", "beside")
CACHE_BYTES = 256 << 20


@dataclass(frozen=True)
class ProxySettings:
    """upstream: the address in front of which it stands. budget: tokens of a picture, or a share. assume: the model
    whose table counts for names that have none. scale, grip: as for `pack`. question: whose text decides, the last
    user's or the one beside the picture. text: whether a line of words goes before packed pictures. price: for a
    million input tokens. media: hosts that pictures may be fetched from. cache: bytes of packed pictures that are kept.
    look_seconds: the longest that a picture may take us; then it goes on as it is. seconds: the longest silence of the
    upstream. limits: of a request; its batch is how many pictures are packed at once."""

    upstream: str
    budget: int | str = BUDGET
    assume: str | None = None
    tables: tuple[TokenTable, ...] = field(default_factory=own_tables)
    layout: str = "auto"
    crops: int = MOST_CROPS
    scale: float | str = AUTO
    grip: object = None
    kind: str = "auto"
    marks: bool = True
    text: bool = True
    question: str = "last"
    relevance: object = "auto"
    price: float | None = None
    media: tuple[str, ...] = ()
    cache: int = CACHE_BYTES
    look_seconds: float = 30
    seconds: float = 600
    limits: Limits = field(default_factory=lambda: Limits(upload=64 << 20, pixels=60_000_000, batch=2))

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(
                f"--upstream {shown(self.upstream)} is no address; give one such as https://api.openai.com"
            )
        if parts.username or parts.password:
            raise InputError("--upstream must not hold a password; clients send their keys themselves")
        check_amount(self.budget)
        check_scale(self.scale)
        as_grip(self.grip)
        format_of(self.kind, False)
        if self.assume is not None:
            table_for(self.assume, self.tables)
        if self.layout not in LAYOUTS:
            raise InputError(f"--layout {shown(self.layout)} is unknown; choose from {', '.join(LAYOUTS)}")
        if self.question not in QUESTIONS:
            raise InputError(f"--question {shown(self.question)} is unknown; choose from {', '.join(QUESTIONS)}")
        whole(self.crops, "--crops", 1, MOST_CROPS)
        whole(self.cache, "--cache", 0)
        for name in ("look_seconds", "seconds"):
            positive(getattr(self, name), f"--{name.replace('_', '-')}")
        if self.price is not None:
            positive(self.price, "--price")

    def address(self, path: str, query: str) -> str:
        """Where a request goes. An upstream that ends in /v1 is not given a second one."""
        base = self.upstream.rstrip("/")
        ending = urlsplit(base).path
        if ending and (path == ending or path.startswith(f"{ending}/")):
            path = path.removeprefix(ending)
        return f"{base}{path}{'?' + query if query else ''}"
