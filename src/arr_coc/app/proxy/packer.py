"""Pack the pictures of requests: the settings of a proxy, worker threads, and a cache of packed pictures.

A picture is packed by the question of its own message, so that its bytes stay the same for the rest of a conversation
and prompt caches stay valid; details that the latest question needs are appended to the request. Imports neither a web
framework nor torch.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import math
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TypeVar
from urllib.parse import urlsplit

from ...core.errors import InputError, shown, whole
from ...core.kept import ByteStore, bytes_of
from ...core.values import JsonObject
from ...decide_document import listed, page_relevances
from ...options import Options
from ...packing.pack import MOST_CROPS, PackPage, PackStyle, details, grip_for, is_jpeg, pack_pages
from ...packing.packed import PackedPicture, PackPart, caption, encoded, where
from ...packing.prices.tables import TokenTable, find_table, table_for
from ...pictures.document import Document
from ...pictures.load import load_picture
from ..web import Limits, picture_bytes, stoppable
from .pointing import PointFrame, Pointing
from .protocols import Protocol, Slot

LIMITS = ("upload", "pixels", "pictures", "batch", "queue", "seconds", "cache", "look_seconds")
LONGEST_STEERING = 2000
# Number of latest pictures of earlier turns from which details may be added for a new question.
LOOKED_BACK = 4
# Maximum number of document pages sent as pictures. Characters of its text that count as one token.
PAGES_SHOWN, CHARACTERS = 8, 4
# Budget of an older picture with `fade`, as a share of its budget when it was new.
FADED = 0.25
Result = TypeVar("Result")
log = logging.getLogger("arr_coc.proxy")


@dataclass(frozen=True)
class ProxyLimits(Limits):
    """Limits of a proxy. batch: pictures packed at once. seconds: timeout of the upstream. cache: bytes of packed
    pictures to keep. look_seconds: timeout of packing one picture, which is then forwarded unchanged."""

    upload: int = 64 << 20
    pixels: int = 60_000_000
    queue: int = 256
    batch: int = 2
    seconds: float = 600
    pictures: int = 200
    cache: int = 256 << 20
    look_seconds: float = 30


@dataclass(frozen=True)
class ProxySettings:
    """Settings of a proxy. upstream: the address to forward to. assume: the model whose token table is used for unknown
    models. options: how pictures are packed. fade: number of latest pictures that stay as sharp as they were; None:
    all."""

    upstream: str
    assume: str | None = None
    options: Options = field(default_factory=lambda: Options(budget=0.25, relevance="auto"))
    fade: int | None = None
    limits: ProxyLimits = field(default_factory=ProxyLimits)

    def __post_init__(self) -> None:
        parts = urlsplit(self.upstream)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
            raise InputError(
                f"--upstream {shown(self.upstream)} is not an address; give one such as https://api.openai.com"
            )
        if parts.username or parts.password:
            raise InputError("--upstream must not hold a password; clients send their keys themselves")
        if self.assume is not None:
            table_for(self.assume)
        whole(1 if self.fade is None else self.fade, "fade", 1)

    def address(self, path: str, query: str) -> str:
        """Return the address to forward to. If the upstream ends in /v1, it is not repeated."""
        base = self.upstream.rstrip("/")
        ending = urlsplit(base).path
        if ending and (path == ending or path.startswith(f"{ending}/")):
            path = path.removeprefix(ending)
        return f"{base}{path}{'?' + query if query else ''}"


@dataclass(frozen=True, eq=False)
class PackedSlot:
    """The result of packing one picture or document. outcome: packed, small, cached or fallback. full, spent: tokens
    before and after. pictures, files: empty if it stays unchanged. sizes: of the pages. texts: to put before them."""

    outcome: str
    full: int = 0
    spent: int = 0
    pictures: tuple[PackedPicture, ...] = ()
    files: tuple[tuple[bytes, str], ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    texts: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True, eq=False)
class PackedRequest:
    """The result of packing a request, whose body is changed in place. slots: one for each picture that may be packed.
    pictures: their number now. pointing: how coordinates in its answer are translated back, if at all."""

    slots: tuple[PackedSlot, ...] = ()
    pictures: int = 0
    pointing: Pointing | None = None
    reason: str = ""

    @property
    def changed(self) -> bool:
        """Return whether its body was changed."""
        return any(one.files for one in self.slots)

    @property
    def full(self) -> int:
        return sum(one.full for one in self.slots)

    @property
    def spent(self) -> int:
        return sum(one.spent for one in self.slots)


@dataclass(frozen=True)
class PackJob:
    """How to pack one slot. alone: as exactly one picture. crowd: pictures the request may hold then. frame: factors
    to reduce it by, whatever its budget. faded: share of its budget. shown: its parts already in the request."""

    slot: Slot
    table: TokenTable
    options: Options
    alone: bool
    crowd: int
    frame: PointFrame | None = None
    faded: float = 1.0
    shown: tuple[PackedPicture, ...] = ()

    @property
    def question(self) -> str:
        """Return the question that decides; "" if the picture is only reduced."""
        return self.slot.question[-LONGEST_STEERING:].strip() if self.frame is None else ""

    def style(self, budget: int) -> PackStyle:
        options = replace(self.options, budget=budget, grip=grip_for(self.table), ocr=False)
        return PackStyle(self.table, "overview" if self.alone else "auto", options=options)


class Packer:
    """Pack the pictures of requests, a few at a time, and cache the results."""

    def __init__(self, settings: ProxySettings) -> None:
        self.settings, limits = settings, settings.limits
        self.cache = ByteStore(limits.cache, lambda one: bytes_of(one) + sum(len(data) for data, _ in one.files))
        self._threads = ThreadPoolExecutor(limits.batch, "arr-coc-pack")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    def table(self, model: object) -> TokenTable:
        """Return the token table of the model of a request; raise `InputError` if there is none."""
        found = find_table(model) if isinstance(model, str) and model else None
        if found is None and self.settings.assume is None:
            raise InputError("there is no token table for this model; start the proxy with --for NAME")
        return found or table_for(self.settings.assume)

    async def request(self, body: JsonObject, protocol: Protocol, model: object, budget: object) -> PackedRequest:
        """Pack the pictures in the body of a request, in place. Raises `InputError` if none can be packed."""
        slots, latest = protocol.find(body)
        chosen = [one for one in slots if one.is_open]
        if not chosen:
            return PackedRequest()
        if len(slots) > self.settings.limits.pictures:
            raise InputError(f"the request has {len(slots)} pictures; the limit is {self.settings.limits.pictures}")
        table, options = self.table(model), self.settings.options.override(budget=budget)
        options.check_fixed("packed pictures")
        pointing = Pointing.of(body)
        frame = None
        if pointing is not None:
            frame = await self.timed(lambda: self._frame(pointing, slots, table, options))
            if frame is None:
                return PackedRequest(pictures=len(slots))
        jobs = self._jobs(chosen, len(slots), table, options, frame)
        made = await asyncio.gather(*(self.packed(job) for job in jobs))
        missed = next((one.reason for one in made if one.reason), "")
        if pointing is not None and missed:
            raise InputError(f"nothing was packed, because clicks could miss: {missed}")
        own, first = dict(zip(chosen, made, strict=True)), 1
        numbers: dict[Slot, int] = {}
        for slot in slots:
            one, numbers[slot] = own.get(slot, PackedSlot("small")), first
            if one.files:
                reduced = frame is not None and not slot.is_document
                slot.fill(protocol, one.files, (*one.texts, "" if reduced else caption(one.pictures, one.sizes, first)))
            first += max(1, len(one.files))
        if pointing is not None and frame is not None:
            moved = None if pointing.shares else pointing.within(frame, body[protocol.messages])
            return PackedRequest(tuple(made), first - 1, moved)
        # Add details for the latest question from pictures that were packed for earlier questions.
        earlier = [job for job in jobs if latest and own[job.slot].pictures and job.slot.question != latest]
        for job in earlier[-LOOKED_BACK:] if first + MOST_CROPS * LOOKED_BACK <= (table.pictures or math.inf) else ():
            more = replace(job, slot=replace(job.slot, question=latest), shown=own[job.slot].pictures)
            one = await self.packed(more)
            if one.files:
                words = "\n\n".join(one.texts) or " ".join(
                    f"Picture {number} shows a part of picture {numbers[job.slot]}, enlarged: "
                    f"{where(part.source, one.sizes[part.page])}."
                    for number, part in enumerate(one.pictures, first)
                )
                protocol.add(body, one.files, words)
                first += len(one.files)
                made.append(one)
        return PackedRequest(tuple(made), first - 1, reason=missed)

    def _frame(
        self, pointing: Pointing, slots: Sequence[Slot], table: TokenTable, options: Options
    ) -> PointFrame | None:
        """Return the factors by which all screens are reduced; None if they cost no more than the budget."""
        screens = [one for one in slots if not one.is_document]
        if not screens or not all(one.is_open for one in slots):
            raise InputError("the request refers to a screen that it does not contain")
        held = pointing.display or {}
        declared = [held[key] for key in sorted(held) if re.match("display_(height|width)", key)]
        size = (declared[0], declared[1]) if declared else self._opened(picture_bytes(screens[0].address)).pages[0].size
        full = table.tokens(size)
        fitted = table.fit(size, options.wanted(full)) if options.wanted(full) < full else None
        return fitted and PointFrame(size[1] / fitted.size[1], size[0] / fitted.size[0])

    def _jobs(
        self, chosen: Sequence[Slot], shown: int, table: TokenTable, options: Options, frame: PointFrame | None
    ) -> list[PackJob]:
        """Plan how to pack each slot, using only what comes before it, so that later messages change nothing."""
        most, fade = table.pictures or math.inf, self.settings.fade
        # Fade in steps of `fade` pictures, so that a prompt cache is missed only once in that many pictures.
        faded = 0 if fade is None else fade * max(0, len(chosen) // fade - 1)
        jobs = []
        for place, slot in enumerate(chosen):
            old = place < faded and not slot.is_document
            alone = slot.holder is None or old or shown > 0.6 * most or 8 * place >= most
            own = PointFrame(2 * frame.across, 2 * frame.down) if frame is not None and old else frame
            own = None if slot.is_document else own
            jobs.append(PackJob(slot, table, options, alone, shown * (1 + MOST_CROPS), own, FADED if old else 1.0))
        return jobs

    async def timed(self, work: Callable[[], Result]) -> Result:
        """Run work in a thread and return its result; raise `InputError` if it takes too long."""
        try:
            return await stoppable(work, self.settings.limits.look_seconds, self._threads)
        except TimeoutError:
            raise InputError(f"it took longer than {self.settings.limits.look_seconds:g} s") from None

    async def packed(self, job: PackJob) -> PackedSlot:
        """Pack in a thread; if that fails or takes too long, the slot stays unchanged."""
        try:
            return await self.timed(lambda: self._pack(job))
        except InputError as error:
            return PackedSlot("fallback", reason=str(error))
        except Exception:  # a failure here must not fail the request
            log.exception("packing failed, a picture was forwarded unchanged")
            return PackedSlot("fallback", reason="packing failed; see the log")

    def _opened(self, data: bytes) -> Document:
        """Open a picture or document by its header; refuse too many pixels or pages."""
        try:
            document = Document.of(data)
        except InputError as error:
            raise InputError(f"the picture cannot be read: {error}") from error
        pixels, most = max(math.prod(page.size) for page in document), self.settings.limits.pixels
        if pixels > most:
            raise InputError(f"the picture has {pixels / 1e6:.0f} megapixels, more than {most / 1e6:g}")
        if len(document) > self.settings.limits.pages:
            raise InputError(f"the document has {len(document)} pages, more than {self.settings.limits.pages}")
        return document

    def _pack(self, job: PackJob) -> PackedSlot:
        """Pack a picture or a document, or return the cached result."""
        data, table = picture_bytes(job.slot.address), job.table
        document = self._opened(data)
        texts = document.texts if job.slot.is_document else ("",)
        fulls = [table.tokens(page.size) + len(text) // CHARACTERS for page, text in zip(document, texts, strict=True)]
        full, wanted = sum(fulls), sum(max(1, int(job.faded * job.options.wanted(one))) for one in fulls)
        key = hashlib.sha256(data).digest(), job.question, table.name, wanted, job.frame, job.alone
        key += (job.crowd > table.limits.crowd, tuple(one.source for one in job.shown))
        known = self.cache.get(key)
        if known is not None:
            return replace(known, outcome="cached")
        small = job.frame is None and full <= wanted
        if small and (job.slot.is_document or table.limits.takes(document.pages[0].size, len(data), job.crowd)):
            return PackedSlot("small", full, full)
        if not small and job.frame is None and not job.question:
            raise InputError("the picture has no question")
        if job.slot.is_document:
            made = self._document(job, document, wanted)
        else:
            page = PackPage(load_picture(data, max_pixels=self.settings.limits.pixels), jpeg=is_jpeg(data))
            made = made_slot(pictures_of(job, page, wanted, small=small), (page.size,), table, jpeg=page.jpeg)
        made = replace(made, full=0 if job.shown else full)
        self.cache.put(key, made)
        return made

    def _document(self, job: PackJob, document: Document, wanted: int) -> PackedSlot:
        """Send text and packed pages within one budget, most relevant pages first."""
        if job.slot.holder is None:
            raise InputError("this part of the request must be one picture, so its document cannot be packed")
        found, _ = page_relevances(document, job.question, job.options.relevance)
        order = sorted(range(len(document)), key=lambda number: (-found[number].peak, number))
        words: dict[int, str] = {}
        spent = 0
        for number in order:  # text gets up to half of the budget
            words[number] = document.texts[number][: CHARACTERS * (wanted // 2 - spent)].strip()
            spent += -(-len(words[number]) // CHARACTERS)
        chosen = sorted(order[:PAGES_SHOWN])
        pages = [
            PackPage(document.pages[one].draw(), document.pages[one].words, number=place)
            for place, one in enumerate(chosen)
        ]
        packed = pack_pages(pages, job.question, job.style(wanted - spent))
        pictures = [replace(one, page=chosen[one.page]) for one in packed.pictures]
        made = made_slot(pictures, tuple(page.size for page in document), job.table)
        read = [f"Page {number + 1} of {len(document)} reads: {text}" for number, text in sorted(words.items()) if text]
        hidden = sorted(set(range(1, len(document) + 1)) - {one.page + 1 for one in pictures})
        read += [f"Pages that are not shown as pictures: {listed(hidden)}."] if hidden else []
        return replace(made, spent=made.spent + spent, texts=tuple(read))


def pictures_of(job: PackJob, page: PackPage, wanted: int, *, small: bool) -> Sequence[PackedPicture]:
    """Return the pictures that replace one picture."""
    if job.frame is not None:
        size = max(1, round(page.size[0] / job.frame.down)), max(1, round(page.size[1] / job.frame.across))
        return [page.part(PackPart((0, 0, *page.size), size), size, job.table)]
    if small:  # cheap enough, but too large for the limits of its provider
        return [page.whole(job.table, job.crowd)]
    if job.shown:
        return details(page, job.question, wanted // 2, job.style(wanted // 2), job.shown)
    return pack_pages([page], job.question, job.style(wanted)).pictures


def made_slot(
    pictures: Sequence[PackedPicture], sizes: tuple[tuple[int, int], ...], table: TokenTable, *, jpeg: bool = False
) -> PackedSlot:
    """Build the result from packed pictures, with their files encoded."""
    files = tuple(encoded(one.pixels, jpeg, table.limits.bytes) for one in pictures)
    # The pixels are in the files.
    bare = tuple(replace(one, pixels=one.pixels[:0]) for one in pictures)
    return PackedSlot("packed", 0, sum(one.tokens for one in pictures), bare, files, sizes)
