"""State that all visitors share: models, the page's own folder, and recently loaded pictures.

Nothing here knows visitors. A picture is identified by its file, whose name cannot be guessed; every visitor gets a
copy of the model, which holds only that visitor's picture.
"""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import tempfile
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING, TypeVar

from ...core.errors import InputError
from ...core.folders import EXAMPLES, MINI, replacing
from ...core.kept import ByteStore
from ...looking import VIEW_SIDE, Prepared
from ...options import Options
from ...pictures.document import Document, is_pdf
from ...pictures.load import Picture, load_picture
from ..web import Limits

if TYPE_CHECKING:
    from ...answering.eye import Eye

Made = TypeVar("Made")
FIRST_PICTURE, FIRST_QUERY = "street.png", "What does the pink sign say?"
# Longer side of a picture in pixels; larger photos are reduced.
LARGEST_SIDE = 4096
# About the pixels of the largest phone photos; larger pictures are refused before decoding.
MOST_PIXELS = 120_000_000
# Bytes of pictures, and number of other results, to keep for the next question.
PICTURE_BYTES, REMEMBERED = 512 << 20, 24
# Uploads are kept for an hour after their last use, up to this number and size; the oldest are removed first.
UPLOAD_SECONDS, UPLOADS, UPLOAD_BYTES = 3600, 256, 1 << 30

log = logging.getLogger("arr_coc.app.microscope")
LIMITS = ("upload", "pixels", "queue")
# Name of the secret, and its environment variable.
SECRET = ("password", "ARR_COC_PASSWORD")


@dataclass(frozen=True)
class PageLimits(Limits):
    """Limits of the page. upload: bytes of a file. pixels: of a picture or frame. queue: requests that may wait."""

    upload: int = 48 * 1024 * 1024
    pixels: int = MOST_PIXELS


@cache
def example_questions() -> dict[str, tuple[str, ...]]:
    """Return file name → questions, for the pictures that come with the library."""
    path = EXAMPLES / "questions.json"
    if not path.is_file():
        raise InputError("the example pictures are not installed; install arr-coc again")
    pictures = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple(entry["query"] for entry in asked) for name, asked in pictures.items()}


class Desk:
    """The shared state. models: names that visitors may choose from. options: relevance and device of every model."""

    def __init__(
        self, models: Sequence[str] = (MINI,), options: Options | None = None, *, most_pixels: int = MOST_PIXELS
    ) -> None:
        self.models = tuple(dict.fromkeys(models))
        self.options, self.most_pixels = (options or Options()).default(relevance="auto"), most_pixels
        self.folder = Path(tempfile.mkdtemp(prefix="arr-coc-microscope-"))
        self._pictures = ByteStore(PICTURE_BYTES, weigh=lambda picture: picture.pixels.nbytes)
        self._recent = ByteStore(REMEMBERED, weigh=lambda made: 1)
        self._loaded: dict[str, Eye] = {}
        self._lock = Lock()

    def close(self) -> None:
        """Remove all files of visitors."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        return self._recent.made(key, make)

    # ---- pictures ---------------------------------------------------------------------------------------------------

    def example(self, name: str) -> str:
        """Return the file of an example, copied into the only folder that the page serves."""
        path = self.folder / "examples" / name
        if not path.is_file():
            with replacing(path) as temporary:
                temporary.write_bytes((EXAMPLES / name).read_bytes())
        return str(path)

    def own_file(self, path: str | None, kind: str = "picture") -> Path:
        """Return a file of the page's own folder; refuse any other."""
        if not path:
            raise InputError(f"no {kind} yet: drop one, or pick an example")
        file = Path(path).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise InputError(f"this {kind} does not belong to the page; drop it here again")
        return file

    def picture(self, path: str | None) -> Picture:
        """Load a picture from the page's own folder, reduced if it is very large."""
        file = self.own_file(path)

        def load() -> Picture:
            picture = load_picture(file, max_pixels=self.most_pixels, longest_side=LARGEST_SIDE)
            if max(picture.size) <= LARGEST_SIDE:
                return picture
            height, width = picture.pixels.shape[:2]
            note = f"{picture.width}×{picture.height} pixels, reduced to {width}×{height} on this page"
            return Picture(picture.pixels, picture.name, height, width, (*picture.notes, note))

        with suppress(OSError):
            os.utime(file)  # mark as used, so that it is not removed
        return self._pictures.made(str(file), load)

    def document(self, path: str | None) -> Document | None:
        """Open the PDF whose first page this file shows, such as two.pdf for two.pdf.png; None if there is none."""
        file = self.own_file(path)
        pdf = file.with_name(file.stem)
        return self.remember(("document", str(pdf)), lambda: Document.of(pdf)) if is_pdf(pdf) else None

    def prepared(self, path: str | None) -> Prepared:
        """Load the same picture, ready to be looked at any number of times."""
        picture = self.picture(path)
        return self.remember(("view", path), lambda: Prepared(load_picture(picture, longest_side=VIEW_SIDE)))

    def new_folder(self) -> Path:
        """Make a folder for one visitor's result, with a name that cannot be guessed; it is removed like an upload."""
        folder = self.folder / f"made-{secrets.token_hex(16)}"
        folder.mkdir()
        return folder

    def sweep_uploads(self) -> None:
        """Remove uploads that have not been used for long; each is a folder of its own."""
        uploads = []
        for folder in self.folder.iterdir():
            if folder.is_dir() and folder.name != "examples":
                with suppress(OSError):  # another thread may be sweeping too
                    files = [one.stat() for one in folder.rglob("*") if one.is_file()]
                    used = max((one.st_mtime for one in files), default=folder.stat().st_mtime)
                    uploads.append((used, sum(one.st_size for one in files), folder))
        uploads.sort(key=lambda one: one[0], reverse=True)
        kept = 0
        for number, (used, size, folder) in enumerate(uploads):
            kept += size
            if number >= UPLOADS or kept > UPLOAD_BYTES or time() - used > UPLOAD_SECONDS:
                shutil.rmtree(folder, ignore_errors=True)

    # ---- models -----------------------------------------------------------------------------------------------------

    def eye(self, model: str) -> Eye:
        """Return a new `Eye` on weights that all visitors share."""
        if model not in self.models:  # visitors cannot make the server load other models
            raise InputError(f"model {model!r} is not offered here; choose from {', '.join(self.models)}")
        with self._lock:
            if model not in self._loaded:
                from ...answering.eye import Eye

                options = self.options
                self._loaded[model] = Eye.from_pretrained(model, device=options.device, relevance=options.relevance)
            return copy(self._loaded[model])

    def warm_up(self) -> None:
        """Load the first model and let it answer once, so that the first visitor does not wait for it."""
        try:
            path = self.example(FIRST_PICTURE)
            self.prepared(path).look(FIRST_QUERY)
            self.eye(self.models[0]).set_image(path).ask(FIRST_QUERY)
        except InputError as error:
            log.warning("%s", error)
