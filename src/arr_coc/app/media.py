"""Pictures in requests, and how much a request may hold; for every server, without torch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from urllib.error import URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from ..core.errors import InputError, check_stop
from .web import Limits

FETCH_SECONDS = 10
FETCH_PIECE = 1 << 16
# Commas and brackets of a request, pictures aside: a page of words has some 200 000, and each is an object in memory.
MOST_STRUCTURE = 400_000


class Stay(HTTPRedirectHandler):
    """Follow no redirection: a host that was named must not send us to one that was not."""

    def redirect_request(
        self, req: object, fp: object, code: object, msg: object, headers: object, newurl: object
    ) -> None:
        return None


# Asks the very host that is named, and no proxy.
DIRECTLY = build_opener(Stay, ProxyHandler({}))


def check_structure(body: bytes) -> None:
    """Refuse what would become too many objects, before it is read."""
    if sum(body.count(sign) for sign in (b",", b"[", b"{")) > MOST_STRUCTURE:
        raise InputError(f"the request has more than {MOST_STRUCTURE} values; send one page of words at a time")


def picture_bytes(address: str, limits: Limits, hosts: Sequence[str] = ()) -> bytes:
    """What a data: URL holds, or what an allowed host sends. limits: with upload, in bytes."""
    if address[:5].lower() == "data:":
        head, comma, data = address.partition(",")
        if not comma or not head.lower().endswith(";base64"):
            raise InputError("a data: URL must read data:image/png;base64,…")
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError) as error:
            raise InputError("the data: URL is not base64; send data:image/png;base64,…") from error
    host = allowed_host(address, hosts)
    if host is None:
        raise InputError("image_url must be a data: URL; this server fetches nothing from that address")
    try:
        with DIRECTLY.open(Request(address, headers={"User-Agent": "arr-coc"}), timeout=FETCH_SECONDS) as answer:
            held = bytearray()
            # In pieces: a host that sends a byte at a time must not keep a request waiting for ever.
            while len(held) <= limits.upload and (piece := answer.read1(FETCH_PIECE)):
                held += piece
                check_stop()
            data = bytes(held)
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, URLError) else error
        raise InputError(f"the picture cannot be fetched from {host} ({reason}); send it as a data: URL") from error
    if len(data) > limits.upload:
        raise InputError(f"the picture at {host} has more than {limits.upload / 2**20:g} MB; make it smaller first")
    return data


def allowed_host(address: str, hosts: Sequence[str]) -> str | None:
    """The host of an address of the web, where it is among those that may be asked."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return None
    return host if parts.scheme in ("http", "https") and host in {name.lower() for name in hosts} else None
