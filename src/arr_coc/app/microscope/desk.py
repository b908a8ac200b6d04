"""What all visitors share: models, the page's own folder, and pictures that were sensed a moment ago.

Nothing here knows who is asking. A picture is reached by its file, whose name an attacker cannot guess; a model is
lent as a copy that holds the borrower's picture and nobody else's.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from copy import copy
from pathlib import Path
from threading import Lock
from time import time
from typing import TYPE_CHECKING, Any, TypeVar

from PIL import Image

from ...attending.frame import Frame
from ...core.errors import InputError
from ...core.files import replacing
from ...core.folders import MINI
from ...core.kept import ByteStore
from ...looking import VIEW_SIDE, Prepared
from ...pictures.load import Picture, load_picture
from .limits import MOST_PIXELS
from .linking import FIRST_QUERY, FIRST_SOURCE, UPLOAD, ExamplePicture, open_source

if TYPE_CHECKING:
    from ...answering.esper import Esper
    from ...answering.eye import Eye
from .remote import Remote, RemoteEye

Found = TypeVar("Found")
# What a model is given of it: the longer side, in pixels. No question about a page needs more, and every pixel costs.
LARGEST_SIDE = 4096
# Pictures, maps and rendered sources that are kept for the next question about them.
REMEMBERED = 24
# What visitors sent is kept for an hour after its last use, and no more than this of it; the oldest goes first.
UPLOAD_SECONDS, UPLOADS, UPLOAD_BYTES = 3600, 256, 1 << 30
# Homunculus clips that are kept on disk for their visitors; the oldest goes first.
CLIPS = 8

log = logging.getLogger("arr_coc.app.microscope")


def give_back() -> None:
    """Let the system have the memory of a large picture again: the C library else keeps it for the next one."""
    gc.collect()
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None).malloc_trim(0)


def reduced_name(file: Path) -> Path:
    """Where the smaller form of a large photo lies: beside it, to be swept away with it."""
    return file.with_name(f"{file.stem}.reduced.jpg")


class Desk:
    """models: names that visitors may choose from: "mini", folders, names on the hub. server: whose models stand before
    these. numbers: a folder with needle.json and hypotheses.json to show instead of those that come with the library.
    """

    def __init__(
        self,
        models: Sequence[str] = (MINI,),
        *,
        device: str = "cpu",
        server: Remote | None = None,
        numbers: Path | None = None,
        most_pixels: int = MOST_PIXELS,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self.server = server
        self.served = {} if server is None else {f"{name} @ {server.place}": name for name in server.models()}
        self.local = tuple(dict.fromkeys(models))
        if not self.served and not self.local:
            raise InputError("the microscope needs at least one model to choose from; give for example mini")
        self.models = (*self.served, *self.local)
        self.device, self.options = device, dict(options or {})
        self.numbers = numbers
        self.most_pixels = most_pixels
        self.folder = Path(tempfile.mkdtemp(prefix="arr-coc-microscope-"))
        self._recent = ByteStore(REMEMBERED, weigh=lambda made: 1)
        self._loaded: dict[str, Esper] = {}
        self._loading = Lock()
        self._clips: list[Path] = []
        self._clip_lock = Lock()

    def close(self) -> None:
        """Remove every file that visitors left."""
        shutil.rmtree(self.folder, ignore_errors=True)

    def remember(self, key: Hashable, make: Callable[[], Found]) -> Found:
        return self._recent.made(key, make)

    # ---- pictures ---------------------------------------------------------------------------------------------------

    def prepared(self, path: str | None) -> Prepared:
        """A picture of the page's own folder, loaded once for all looks at it; not larger than may be."""
        file = self.own_file(path)

        def load() -> Prepared:
            picture = load_picture(file, max_pixels=self.most_pixels, longest_side=LARGEST_SIDE)
            large = max(picture.size) > LARGEST_SIDE
            if large:
                picture = self._smaller(file, picture)
            prepared = Prepared(load_picture(picture, longest_side=VIEW_SIDE))
            del picture
            if large:
                give_back()
            return prepared

        with suppress(OSError):
            os.utime(file)  # asked about: not to be swept away
        return self.remember(("picture", str(file)), load)

    def own_file(self, path: str | None) -> Path:
        """A file of the page's own folder, and no other."""
        if not path:
            raise InputError("no picture yet: drop one, paste one, or pick an example")
        file = Path(path).resolve()
        if not file.is_relative_to(self.folder.resolve()):
            raise InputError("this picture does not belong to the page; drop it here again")
        return file

    def _smaller(self, file: Path, picture: Picture) -> Picture:
        """A large photo, reduced once for all that follows; a note tells it."""
        height, width = picture.pixels.shape[:2]
        with replacing(reduced_name(file)) as temporary:
            Image.fromarray(picture.pixels).save(temporary, "JPEG", quality=95)
        note = f"{picture.width}×{picture.height} pixels, reduced to {width}×{height} on this page"
        return Picture(picture.pixels, picture.name, height, width, (*picture.notes, note))

    def sweep_uploads(self) -> None:
        """Remove what visitors sent and nobody asks about any longer: every upload is a folder of its own."""
        own = {"examples", "needle", "clips"}
        folders = [one for one in self.folder.iterdir() if one.is_dir() and not one.name.startswith("clip-")]
        uploads = []
        for folder in folders:
            if folder.name in own:
                continue
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

    def whole(self, path: str | None) -> Picture | str:
        """The picture for a model, in all its pixels: the one at hand, or the file where that one is reduced."""
        picture = self.prepared(path).picture
        if picture.pixels.shape[:2] == picture.size:
            return picture
        reduced = reduced_name(Path(str(path)))
        return str(reduced if reduced.is_file() else path)

    def source(self, name: str) -> ExamplePicture:
        return self.remember(("source", name), lambda: open_source(name, self.folder))

    def truth(self, source: str, query: str) -> str | None:
        """The true answer, where the picture and the question come with the library."""
        return None if source in ("", UPLOAD) else self.source(source).truth(query)

    def full_tokens(self, path: str, model: str) -> int:
        """What all of a picture costs in this model, as far as that is known before the model is loaded."""
        size = self.prepared(path).picture.size
        loaded = self._loaded.get(model)
        images = getattr(getattr(loaded, "eye", None), "processor", None)
        images = getattr(images, "image_processor", None)
        if hasattr(images, "get_number_of_image_patches") and hasattr(images, "merge_size"):
            return int(images.get_number_of_image_patches(*size)) // images.merge_size**2
        return Frame(size).full

    # ---- models -----------------------------------------------------------------------------------------------------

    def esper(self, model: str) -> Esper:
        """An Esper of one's own, on weights that everyone shares."""
        if model in self.served:
            raise InputError(f"{model} looks once for each question; set passes to 1, or start with --model as well")
        lent = copy(self._model(model))
        lent.eye = copy(lent.eye)
        return lent

    def eye(self, model: str) -> Eye | RemoteEye:
        """An Eye of one's own, on weights that everyone shares, or on the server's."""
        if self.server is not None and model in self.served:
            return self.server.eye(self.served[model])
        return self.local_eye(model)

    def local_eye(self, model: str) -> Eye:
        return self.esper(model).eye

    def _model(self, model: str) -> Esper:
        if model not in self.models:  # nobody makes this machine load what its owner did not name
            raise InputError(f"model {model!r} is not offered here; choose from {', '.join(self.models)}")
        with self._loading:
            if model not in self._loaded:
                from ...answering.esper import Esper

                self._loaded[model] = Esper.from_pretrained(model, device=self.device, **self.options)
            return self._loaded[model]

    def warm_up(self) -> None:
        """Load the first model and let it answer once, so that the first visitor does not wait for it."""
        try:
            path = str(self.source(FIRST_SOURCE).path)
            self.prepared(path).look(FIRST_QUERY, keep=0.25)
            eye = self.eye(self.models[0])
            eye.record = None  # nobody asked this
            eye.set_image(path).ask(FIRST_QUERY, keep=0.25)
        except InputError as error:
            log.warning("%s", error)

    # ---- clips ------------------------------------------------------------------------------------------------------

    def clip_folder(self) -> Path:
        """A new folder for one visitor's clip, under a name that cannot be guessed; the oldest of many is removed."""
        folder = self.folder / f"clip-{secrets.token_hex(16)}"
        folder.mkdir()
        with self._clip_lock:
            self._clips.append(folder)
            stale = [self._clips.pop(0) for _ in range(len(self._clips) - CLIPS)]
        for one in stale:
            shutil.rmtree(one, ignore_errors=True)
        return folder
