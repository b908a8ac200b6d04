"""Pictures of requests, packed in threads and remembered: the part of the proxy that looks."""

from __future__ import annotations

import asyncio
import hashlib
import io
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from ...core.errors import InputError, Stopped, check_stop, stopping
from ...core.kept import ByteStore
from ...options import check_question
from ...packing.pack import PackPage, PackStyle, grip_for, is_jpeg, pack_pages
from ...packing.packed import Packed, told
from ...packing.prices.tables import TokenTable, find_table, table_for
from ...pictures.load import load_picture
from ..media import picture_bytes
from .settings import ProxySettings

LONGEST_STEERING = 2000


@dataclass(frozen=True, eq=False)
class PackedSlot:
    """What became of one picture. outcome: packed, small or cached. full, spent: tokens before and after. packed,
    files: None and empty where it stays as it is. seconds: what it took."""

    outcome: str
    full: int
    spent: int
    packed: Packed | None = None
    files: tuple[tuple[bytes, str], ...] = ()
    seconds: float = 0.0

    def text(self, first: int) -> str:
        """What to say beside the pictures, whose first has this number in the request."""
        return "" if self.packed is None else told(self.packed.pictures, self.packed.sizes, first)

    @property
    def weight(self) -> int:
        """Bytes in memory, nearly."""
        held = sum(one.pixels.nbytes for one in self.packed.pictures) if self.packed is not None else 0
        return held + sum(len(data) for data, _ in self.files) + 1024


def header_size(data: bytes, most: int) -> tuple[int, int]:
    """(height, width) of a picture by its header; refused where it has more than `most` pixels."""
    from PIL import Image

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of what is refused here anyway
            with Image.open(io.BytesIO(data)) as image:
                size = image.height, image.width
    except Exception as error:  # whatever a decoder makes of hostile bytes
        raise InputError("the picture cannot be read") from error
    if size[0] * size[1] > most:
        raise InputError(f"the picture has {size[0] * size[1] / 1e6:.0f} megapixels, more than {most / 1e6:g}")
    return size


class Packer:
    """Packs pictures for one proxy, a few at a time; what was packed once is remembered."""

    def __init__(self, settings: ProxySettings) -> None:
        self.settings = settings
        self.cache = ByteStore(settings.cache, lambda one: one.weight)
        self._threads = ThreadPoolExecutor(settings.limits.batch, "arr-coc-pack")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def table(self, model: object) -> TokenTable:
        """How the model of a request counts; raises `InputError` where no table knows it."""
        found = find_table(model, self.settings.tables) if isinstance(model, str) and model else None
        if found is not None:
            return found
        if self.settings.assume is None:
            raise InputError("no token table knows this model; start the proxy with --for NAME or --table FILE.toml")
        return table_for(self.settings.assume, self.settings.tables)

    async def pack(self, address: str, question: str, table: TokenTable, budget: object, number: int = 1) -> PackedSlot:
        """One of `number` pictures in a request. Raises `InputError`, and `TimeoutError` where it takes too long."""
        until = time.perf_counter() + self.settings.look_seconds
        given_up = threading.Event()

        def work() -> PackedSlot:
            with stopping(lambda: given_up.is_set() or time.perf_counter() > until):
                check_stop()
                return self.packed(address, question, table, budget, number)

        try:
            async with asyncio.timeout(self.settings.look_seconds):
                return await asyncio.get_running_loop().run_in_executor(self._threads, work)
        except Stopped as error:
            raise TimeoutError from error
        finally:
            given_up.set()

    def packed(self, address: str, question: str, table: TokenTable, budget: object, number: int = 1) -> PackedSlot:
        """The same, in this thread."""
        started, settings = time.perf_counter(), self.settings
        data = picture_bytes(address, settings.limits, settings.media)
        size = header_size(data, settings.limits.pixels)
        full = table.tokens(size)
        options = replace(settings.options, budget=budget, ocr=False)
        wanted = options.wanted(full)
        if full <= wanted:
            return PackedSlot("small", full, full)
        question = question.strip()[-LONGEST_STEERING:]
        if not question:
            raise InputError("no question stands beside the picture")
        check_question(question)
        # By the table and not by the name in the request: that could be any path.
        style = PackStyle(table, options=options.override(grip=grip_for(table))).for_pictures(number)
        key = hashlib.sha256(data).digest(), question, table.name, style.layout, wanted
        known = self.cache.get(key)
        if known is not None:
            return PackedSlot("cached", known.full, known.spent, known.packed, known.files)
        page = PackPage(load_picture(data, max_pixels=settings.limits.pixels), jpeg=is_jpeg(data))
        packed = pack_pages([page], question, style)
        files = tuple(packed.encoded())
        made = PackedSlot("packed", full, packed.tokens, packed, files, time.perf_counter() - started)
        self.cache.put(key, made)
        return made
