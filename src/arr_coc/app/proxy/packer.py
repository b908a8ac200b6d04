"""How pictures of requests are packed: what a proxy is started with, threads, and a store of what was packed.

Imports neither a web framework nor torch.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

from ...core.errors import InputError, check_stop, positive, shown, stopping, whole
from ...core.kept import ByteStore, bytes_of
from ...options import Options
from ...packing.pack import PackPage, PackStyle, grip_for, is_jpeg, pack_pages
from ...packing.packed import Packed
from ...packing.prices.tables import TokenTable, find_table, table_for
from ...pictures.load import load_picture
from ..web import Limits, picture_bytes

LIMITS = ("upload", "pixels", "pictures", "batch", "queue", "seconds", "cache", "look_seconds")
LONGEST_STEERING = 2000


def proxy_limits(**given: int) -> Limits:
    """Limits of a request. batch: how many pictures are packed at once. seconds: the longest silence upstream."""
    usual = {"upload": 64 << 20, "pixels": 60_000_000, "pictures": 32, "batch": 2, "queue": 256, "seconds": 600}
    return Limits(**{**usual, **given})


@dataclass(frozen=True)
class ProxySettings:
    """What a proxy is started with. upstream: the address in front of which it stands. assume: the model whose table
    counts for names that have none. options: how pictures are packed.
    cache: bytes of packed pictures that are kept. look_seconds: the longest that packing a picture may take; then it
    goes on as it is. limits: of requests."""

    upstream: str
    assume: str | None = None
    options: Options = field(default_factory=lambda: Options(budget=0.25, relevance="auto"))
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
            table_for(self.assume)
        whole(self.cache, "the limit cache", 0)
        positive(self.look_seconds, "the limit look_seconds")

    def address(self, path: str, query: str) -> str:
        """Where a request goes. An upstream that ends in /v1 is not given a second one."""
        base = self.upstream.rstrip("/")
        ending = urlsplit(base).path
        if ending and (path == ending or path.startswith(f"{ending}/")):
            path = path.removeprefix(ending)
        return f"{base}{path}{'?' + query if query else ''}"


@dataclass(frozen=True, eq=False)
class PackedSlot:
    """What became of one picture. outcome: packed, small or cached. full, spent: tokens before and after. packed,
    files: None and empty where it stays as it is."""

    outcome: str
    full: int
    spent: int
    packed: Packed | None = None
    files: tuple[tuple[bytes, str], ...] = ()


def header_size(data: bytes, most: int) -> tuple[int, int]:
    """(height, width) of a picture by its header; refused where it has more than `most` pixels."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of what is refused here anyway
            with Image.open(io.BytesIO(data)) as image:
                height, width = image.height, image.width
    except Exception as error:  # whatever a decoder makes of hostile bytes
        raise InputError("the picture cannot be read") from error
    if height * width > most:
        raise InputError(f"the picture has {height * width / 1e6:.0f} megapixels, more than {most / 1e6:g}")
    return height, width


class Packer:
    """Packs pictures for one proxy, a few at a time; what was packed once is remembered."""

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.cache = ByteStore(settings.cache, lambda one: bytes_of(one) + sum(len(data) for data, _ in one.files))
        self._threads = ThreadPoolExecutor(settings.limits.batch, "arr-coc-pack")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def table(self, model: object) -> TokenTable:
        """How the model of a request counts; raises `InputError` where no table knows it."""
        found = find_table(model) if isinstance(model, str) and model else None
        if found is not None:
            return found
        if self.settings.assume is None:
            raise InputError("no token table knows this model; start the proxy with --for NAME")
        return table_for(self.settings.assume)

    async def pack(self, address: str, question: str, table: TokenTable, budget: object, number: int) -> PackedSlot:
        """Pack one of `number` pictures of a request, in a thread.

        Raises `InputError`, and `TimeoutError` where it takes too long.
        """
        left = threading.Event()

        def work() -> PackedSlot:
            with stopping(left.is_set):
                check_stop()
                return self._pack(address, question, table, budget, number)

        try:
            async with asyncio.timeout(self.settings.look_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        finally:
            left.set()

    def _pack(self, address: str, question: str, table: TokenTable, budget: object, number: int) -> PackedSlot:
        limits = self.settings.limits
        data = picture_bytes(address)
        full = table.tokens(header_size(data, limits.pixels))
        options = self.settings.options.override(budget=budget, grip=grip_for(table))
        wanted = options.wanted(full)
        if full <= wanted:
            return PackedSlot("small", full, full)
        question = question.strip()[-LONGEST_STEERING:]
        if not question:
            raise InputError("no question stands beside the picture")
        # By the table and not by the name in the request: that could be any path.
        style = PackStyle(table, options=replace(options, ocr=False)).for_pictures(number)
        key = hashlib.sha256(data).digest(), question, table.name, style.layout, wanted
        known = self.cache.get(key)
        if known is not None:
            return replace(known, outcome="cached")
        page = PackPage(load_picture(data, max_pixels=limits.pixels), jpeg=is_jpeg(data))
        packed = pack_pages([page], question, style)
        made = PackedSlot("packed", full, packed.tokens, packed, tuple(packed.encoded()))
        self.cache.put(key, made)
        return made
