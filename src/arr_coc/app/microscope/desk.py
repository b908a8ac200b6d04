"""What all visitors share: models, the page's own folder, and pictures that were loaded a moment ago.

Nothing here knows who is asking. A picture is reached by its file, whose name cannot be guessed; a model is lent as a
copy that holds the borrower's picture only.
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
# The longer side of a picture, in pixels: larger photos are reduced.
LARGEST_SIDE = 4096
# A photo of the largest telephones; a larger one is refused before any of its pixels is decoded.
MOST_PIXELS = 120_000_000
# Bytes of pictures, and number of other results, that are kept for the next question.
PICTURE_BYTES, REMEMBERED = 512 << 20, 24
# What visitors sent is kept for an hour after its last use, and no more than this of it; the oldest goes first.
UPLOAD_SECONDS, UPLOADS, UPLOAD_BYTES = 3600, 256, 1 << 30

log = logging.getLogger("arr_coc.app.microscope")
LIMITS = ("upload", "pixels", "queue")
# What the secret of the page is called, and the variable that holds it.
SECRET = ("password", "ARR_COC_PASSWORD")


@dataclass(frozen=True)
class PageLimits(Limits):
    """upload: bytes of one upload. pixels: of one picture or frame. queue: visitors' requests that may wait."""

    upload: int = 48 * 1024 * 1024
    pixels: int = MOST_PIXELS


@cache
def example_questions() -> dict[str, tuple[str, ...]]:
    """file name → questions about the pictures that come with the library."""
    path = EXAMPLES / "questions.json"
    if not path.is_file():
        raise InputError("the example pictures are not installed; install arr-coc again")
    pictures = json.loads(path.read_text(encoding="utf-8"))
    return {name: tuple(entry["query"] for entry in asked) for name, asked in pictures.items()}


class Desk:
    """models: names that visitors may choose from. options: relevance and device of every model."""

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
        """Remove every file that visitors left."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remember(self, key: Hashable, make: Callable[[], Made]) -> Made:
        return self._recent.made(key, make)

    # ---- pictures ---------------------------------------------------------------------------------------------------

    def example(self, name: str) -> str:
        """The file of an example, copied into the only folder that the page serves from."""
        path = self.folder / "examples" / name
        if not path.is_file():
            with replacing(path) as temporary:
                temporary.write_bytes((EXAMPLES / name).read_bytes())
        return str(path)

    def own_file(self, path: str | None, kind: str = "picture") -> Path:
        """A file of the page's own folder, and no other."""
        if not path:
            raise InputError(f"no {kind} yet: drop one, or pick an example")
        file = Path(path).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise InputError(f"this {kind} does not belong to the page; drop it here again")
        return file

    def picture(self, path: str | None) -> Picture:
        """A picture of the page's own folder, reduced where it is very large."""
        file = self.own_file(path)

        def load() -> Picture:
            picture = load_picture(file, max_pixels=self.most_pixels, longest_side=LARGEST_SIDE)
            if max(picture.size) <= LARGEST_SIDE:
                return picture
            height, width = picture.pixels.shape[:2]
            note = f"{picture.width}×{picture.height} pixels, reduced to {width}×{height} on this page"
            return Picture(picture.pixels, picture.name, height, width, (*picture.notes, note))

        with suppress(OSError):
            os.utime(file)  # asked about: not to be swept away
        return self._pictures.made(str(file), load)

    def document(self, path: str | None) -> Document | None:
        """The PDF of whose cover this is the file: two.pdf of two.pdf.png."""
        file = self.own_file(path)
        pdf = file.with_name(file.stem)
        return self.remember(("document", str(pdf)), lambda: Document.of(pdf)) if is_pdf(pdf) else None

    def prepared(self, path: str | None) -> Prepared:
        """The same, ready to be looked at any number of times."""
        picture = self.picture(path)
        return self.remember(("view", path), lambda: Prepared(load_picture(picture, longest_side=VIEW_SIDE)))

    def new_folder(self) -> Path:
        """A folder for one visitor's result, under a name that cannot be guessed; swept away like an upload."""
        folder = self.folder / f"made-{secrets.token_hex(16)}"
        folder.mkdir()
        return folder

    def sweep_uploads(self) -> None:
        """Remove what visitors left and has not been used for long: every upload is a folder of its own."""
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
        """An `Eye` of one's own, on weights that all visitors share."""
        if model not in self.models:  # a visitor cannot make this machine load anything else
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
