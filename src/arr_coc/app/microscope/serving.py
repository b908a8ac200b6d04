"""Serving the page safely: who may reach it, what may be uploaded, which routes exist, and that nothing leaves.

Loopback unless told otherwise, and then only with a password. Gradio brings many routes that this page does not use
(proxies, recording, editing, run history): all that is not on the list below does not exist here.
"""

from __future__ import annotations

import base64
import json
import os
import re
import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .. import web
from ..web import LOOPBACK, Application, Receive, Scope, Send
from .desk import Desk
from .kit import gradio, log
from .limits import PageLimits as PageLimits
from .limits import check_exposure as check_exposure
from .remote import Remote

PORT = 7860
USER = "arr-coc"
# Multipart boundaries and headers around the one file of an upload.
ENVELOPE = 64 * 1024
SWEEP_SECONDS = 600
# A message to the queue: settings and the names of files, never their content.
MESSAGE = 1024 * 1024

ROUTES = re.compile(
    r"/(?:"
    r"|config/?|theme\.css|favicon\.ico|manifest\.json|robots\.txt|assets/[^?]*|static/[^?]*|svelte/[^?]*"
    r"|gradio_api/(?:info/?|app_id/?|startup-events|theme\.css|login_check/?|upload|upload_progress|file=.+"
    r"|queue/join|queue/data|cancel|reset|heartbeat/[\w-]+)"
    r")"
)
# Everything from this machine, inline styles and scripts because Gradio has them; nothing from anywhere else.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"DENY"),
)
UPLOAD = "/gradio_api/upload"
UNUSABLE = "this request cannot be used; reload the page and try again"


class PageGuard:
    """Around the whole application: names of the host, password, routes, sizes, and headers against the outside."""

    def __init__(
        self,
        application: Application,
        host: str,
        password: str | None,
        limits: PageLimits,
        uploaded: Callable[[], None] = lambda: None,
        origins: Sequence[str] = (),
    ) -> None:
        """uploaded: called before every upload, to make room for it. origins: sites whose pages may ask."""
        self.origins = web.Origins(origins)
        self.application, self.limits, self.password = application, limits, password
        self.uploaded = uploaded
        self.hosts = web.own_names(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":  # lifespan; there are no web sockets here
            if scope["type"] == "lifespan":
                await self.application(scope, receive, send)
            return
        headers = {key.lower(): value for key, value in scope["headers"]}
        name = web.called_name(headers)
        path = scope["path"]
        if self.hosts is not None and name not in self.hosts:
            await refuse(send, 403, "this microscope answers on its own machine only")
        elif self.password is not None and not self._admitted(headers.get(b"authorization", b"")):
            await refuse(send, 401, "a password is needed", ((b"www-authenticate", b'Basic realm="microscope"'),))
        elif not ROUTES.fullmatch(path):
            await refuse(send, 404, "there is nothing here")
        elif not self.origins.welcome(headers):
            await refuse(send, 403, web.OTHER_SITE)
        elif scope["method"] == "POST" and path != UPLOAD and not web.is_json(headers):
            await refuse(send, 415, "a request must be JSON and say so; send Content-Type: application/json")
        else:
            upload = path == UPLOAD
            if upload:
                self.uploaded()
            most = self.limits.upload + ENVELOPE if upload else MESSAGE
            await self._limited(scope, receive, send, headers, most)

    def _admitted(self, header: bytes) -> bool:
        expected = base64.b64encode(f"{USER}:{self.password}".encode())
        kind, _, given = header.partition(b" ")
        return kind.lower() == b"basic" and secrets.compare_digest(given.strip(), expected)

    async def _limited(
        self, scope: Scope, receive: Receive, send: Send, headers: dict[bytes, bytes], most: int
    ) -> None:
        """Pass on what says how long it is and is not too long; the server holds a request to its word."""
        told = headers.get(b"content-length", b"" if scope["method"] == "POST" else b"0")
        if not told.isdigit():
            await refuse(send, 411, "a request must say how long it is")
            return
        if int(told) > most:
            await refuse(send, 413, f"an upload may have {self.limits.upload / 2**20:g} MB; make it smaller first")
            return

        started = broken = False

        async def guarded(message: web.Scope) -> None:
            nonlocal started, broken
            if broken:
                return
            if message["type"] == "http.response.start":
                started = True
                # Gradio chokes on bodies that are no text and on files without a name; its page sends neither.
                broken = message["status"] == 500
                if broken:
                    await refuse(send, 400, UNUSABLE)
                    return
                message["headers"] = [*message.get("headers", ()), *HEADERS, *self.origins.told(headers)]
            await send(message)

        try:
            await self.application(scope, receive, guarded)
        except Exception as error:
            # One line: a visitor who asks for a stream that is gone is no reason to fill the owner's terminal.
            log.warning("%s could not be answered: %s", scope["path"], " ".join(f"{error!r}".split()))
            if not started:
                await refuse(send, 400, UNUSABLE)


async def refuse(send: Send, status: int, words: str, more: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    # Gradio's script shows `detail` in the page.
    body = json.dumps({"detail": words}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *HEADERS, *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def build_app(
    desk: Desk,
    *,
    host: str = LOOPBACK,
    password: str | None = None,
    limits: PageLimits | None = None,
    origins: Sequence[str] = (),
) -> Application:
    """The page behind its guard, as an ASGI application. origins: other sites whose pages may ask."""
    limits = limits or PageLimits()
    check_exposure(host, password)
    silence_gradio()
    os.environ["GRADIO_TEMP_DIR"] = str(desk.folder)
    from .page import build_page, head, stylesheet, theme

    gr = gradio()
    desk.most_pixels = limits.pixels
    blocks = build_page(desk)
    blocks.queue(max_size=limits.queue, default_concurrency_limit=2, api_open=False)
    application = import_module("fastapi").FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    gr.mount_gradio_app(
        application,
        blocks,
        "/",
        footer_links=[],
        run_history=False,
        allowed_paths=[],
        max_file_size=limits.upload,
        ssr_mode=False,
        mcp_server=False,
        enable_monitoring=False,
        show_error=False,
        pwa=False,
        theme=theme(),
        css=stylesheet(),
        head=head(),
    )
    # Gradio checks which files a request may name only in what it launched itself.
    blocks.has_launched = True
    return PageGuard(application, host, password, limits, desk.sweep_uploads, origins)


def silence_gradio() -> None:
    """Before Gradio is imported: no analytics, no look for newer versions."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


def serve(
    models: tuple[str, ...] = ("mini",),
    *,
    port: int = PORT,
    device: str = "cpu",
    server: Remote | None = None,
    numbers: Path | None = None,
    ready: Callable[[str], None] = lambda address: None,
    eye: Mapping[str, object] | None = None,
    **how: Any,
) -> None:
    """Serve until interrupted.

    Args:
        models: That visitors may choose.
        port: 0 takes any that is free.
        device: Of the models.
        server: A running `arr-coc serve`, whose models are offered first.
        numbers: Folder of the tab of that name.
        ready: Called with the address once the page can be opened.
        eye: More for every `Eye` here, such as relevance and record.
        how: Arguments of `build_app`: host, password, limits, origins.
    """
    host = how.setdefault("host", LOOPBACK)
    check_exposure(host, how.get("password"))
    silence_gradio()
    gradio()  # before any thread is started: one that is cut off while it imports torch takes the process with it
    desk = Desk(models, device=device, server=server, numbers=numbers, options=dict(eye or {}))
    warming = threading.Thread(target=desk.warm_up, daemon=True)
    warming.start()
    ended = threading.Event()
    threading.Thread(target=keep_swept, args=(desk, ended), daemon=True).start()
    try:
        application = build_app(desk, **how)
        warming.join()
        web.run(application, host, port, ready)
    finally:
        ended.set()
        desk.close()


def keep_swept(desk: Desk, ended: threading.Event, every: float = SWEEP_SECONDS) -> None:
    """Remove uploads that nobody asks about, also while nobody uploads."""
    while not ended.wait(every):
        desk.sweep_uploads()
