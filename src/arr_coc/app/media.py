"""Pictures in requests, and how much a request may hold; for every server, without torch."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from urllib.parse import urlsplit

from ..core.errors import InputError, check_stop
from .web import Limits

FETCH_SECONDS = 10
# Commas and brackets of a request, pictures aside: a page of words has some 200 000, and each is an object in memory.
MOST_STRUCTURE = 400_000


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
    import httpx

    data = bytearray()
    try:
        # The very host that is named: no proxy, and no redirection to one that was not named.
        with (
            httpx.Client(timeout=FETCH_SECONDS, trust_env=False, follow_redirects=False) as client,
            client.stream("GET", address, headers={"User-Agent": "arr-coc"}) as answer,
        ):
            answer.raise_for_status()
            # In pieces: a host that sends a byte at a time must not keep a request waiting for ever.
            for piece in answer.iter_raw():
                data += piece
                check_stop()
                if len(data) > limits.upload:
                    size = f"{limits.upload / 2**20:g} MB"
                    raise InputError(f"the picture at {host} has more than {size}; make it smaller first")
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(f"the picture cannot be fetched from {host} ({reason}); send it as a data: URL") from error
    return bytes(data)


def allowed_host(address: str, hosts: Sequence[str]) -> str | None:
    """The host of an address of the web, where it is among those that may be asked."""
    try:
        parts = urlsplit(address)
        host = parts.hostname
    except ValueError:
        return None
    return host if parts.scheme in ("http", "https") and host in {name.lower() for name in hosts} else None
