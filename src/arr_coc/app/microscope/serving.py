"""Serve the page safely: access control, limits of uploads, a list of allowed routes, and no outgoing requests.

It listens on loopback by default, and on other hosts only with a password. Gradio has many routes that this page does
not use (proxies, recording, editing, run history); only those listed below are served.
"""

from __future__ import annotations

import base64
import os
import re
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager

import gradio as gr
from fastapi import FastAPI
from fastapi.responses import JSONResponse, Response

from ..web import LOOPBACK, Application, Guard, Receive, Refused, Scope, Send
from .desk import SECRET, Desk, PageLimits, log
from .page import build_page, looks

USER = "arr-coc"
# Maximum bytes of multipart boundaries and headers around an uploaded file; and of a message to the queue, which has
# settings and file names but no files.
ENVELOPE, MESSAGE = 64 * 1024, 1024 * 1024
SWEEP_SECONDS = 600
ROUTES = re.compile(
    r"/(?:"
    r"|config/?|theme\.css|favicon\.ico|manifest\.json|robots\.txt|assets/[^?]*|static/[^?]*|svelte/[^?]*"
    r"|gradio_api/(?:info/?|app_id/?|startup-events|theme\.css|login_check/?|upload|upload_progress|file=.+"
    r"|queue/join|queue/data|cancel|reset|heartbeat/[\w-]+)"
    r")"
)
# Allow only content of this server; inline styles and scripts because Gradio uses them.
POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; media-src 'self' blob:; font-src 'self' data:; connect-src 'self' data: blob:; "
    "worker-src 'self' blob:; object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
UPLOAD = "/gradio_api/upload"
UNUSABLE = Refused(400, "this request cannot be used; reload the page and try again")


class PageGuard(Guard):
    """The guard of the page: a password, a list of routes, and security headers."""

    log = log
    SECRET = SECRET
    SECRET_NEEDED, CHALLENGE = "a password is needed", 'Basic realm="microscope"'
    HEADERS = (
        (b"content-security-policy", POLICY.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"referrer-policy", b"no-referrer"),
        (b"x-frame-options", b"DENY"),
    )

    def __init__(
        self, application: Application, host: str, password: str | None, desk: Desk, limits: PageLimits
    ) -> None:
        secret = None if password is None else base64.b64encode(f"{USER}:{password}".encode()).decode()
        super().__init__(application, host, secret, limits)
        self.desk, self.most_open = desk, 4 * limits.queue

    def must_be_json(self, path: str) -> bool:
        return path != UPLOAD

    def most_bytes(self, path: str) -> int:
        return self.upload + ENVELOPE if path == UPLOAD else MESSAGE

    def refusal(self, scope: Scope, headers: Mapping[bytes, bytes]) -> Refused | None:
        refused = super().refusal(scope, headers)
        if (refused is None or refused.status in (411, 413, 415)) and not ROUTES.fullmatch(scope["path"]):
            return Refused(404, "there is no such page here")
        return refused

    def refusal_of(self, refused: Refused) -> Response:
        return JSONResponse({"detail": refused.words}, refused.status, refused.more)  # Gradio's script shows `detail`

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == UPLOAD:
            self.desk.sweep_uploads()
        status = None

        async def guarded(message: Scope) -> None:
            nonlocal status
            status = message.get("status", status)
            if status != 500:
                await send(message)
            elif "status" in message:
                # Gradio fails on bodies that are not text and on files without a name; its own page sends neither.
                await self.refusal_of(UNUSABLE)(scope, receive, send)

        try:
            await self.application(scope, receive, guarded)
        except Exception as error:
            # Log one line: requests for a stream that is gone should not fill the owner's terminal.
            log.warning("%s could not be answered: %s", scope["path"], " ".join(f"{error!r}".split()))
            if status is None:
                await self.refusal_of(UNUSABLE)(scope, receive, send)


def build_app(
    desk: Desk,
    *,
    host: str = LOOPBACK,
    password: str | None = None,
    limits: PageLimits | None = None,
) -> Application:
    """Build the page behind its guard, as an ASGI application."""
    limits = limits or PageLimits()
    os.environ["GRADIO_TEMP_DIR"] = str(desk.folder)
    desk.most_pixels = limits.pixels
    blocks = build_page(desk)
    blocks.queue(max_size=limits.queue, default_concurrency_limit=2, api_open=False)
    application = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
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
        **looks(),
    )
    # Gradio restricts the files that a request may name only in apps that count as launched.
    blocks.has_launched = True
    return PageGuard(application, host, password, desk, limits)


@contextmanager
def keep_swept(desk: Desk) -> Generator[None]:
    """Remove old uploads from the folder of a desk regularly, and the folder itself at the end."""
    ended = threading.Event()

    def sweep() -> None:
        while not ended.wait(SWEEP_SECONDS):
            desk.sweep_uploads()

    threading.Thread(target=sweep, daemon=True).start()
    try:
        yield
    finally:
        ended.set()
        desk.close()
