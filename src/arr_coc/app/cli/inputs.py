"""Inputs of commands: pictures from files, folders, globs and pipes, models, and the names of results."""

from __future__ import annotations

import glob
import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ...core.errors import InputError
from ...pictures.document import Document, document_of, files_in, is_pdf

STDIN = "-"
HUB, HUB_SECONDS = "https://huggingface.co", 4


class PictureSource(NamedTuple):
    """A picture to open. name: as the user wrote it. place: a path, the bytes from a pipe, or several as one document.
    pages: those of a PDF to use."""

    name: str
    place: Path | io.BytesIO | Document
    pages: str | None = None

    @property
    def file(self) -> str:
        """Return its name in messages and results."""
        path = Path(self.place.name)
        return f"{path.stem}-{self.pages}{path.suffix}" if (self.pages or "").isdigit() else path.name


def expand(inputs: Sequence[str], pages: str | None = None, total: bool = False) -> list[PictureSource]:
    """List the pictures of files, folders (sorted by name), globs (`**` matches sub-folders) and `-`, each once.

    A name that is neither an existing path nor a pattern is kept; opening it later raises the error. pages: those of
    every PDF to use, by default all. total: join everything into one document.
    """
    sources: dict[str, PictureSource] = {}
    for text in inputs:
        for place in [read_stdin()] if text == STDIN else paths_of(text):
            paged = isinstance(place, Path) and is_pdf(place)
            name = text if text == STDIN else str(place)
            sources.setdefault(name, PictureSource(name, place, pages if paged else None))
    if pages is not None and not any(source.pages for source in sources.values()):
        raise InputError(f"--pages {pages} applies to PDFs, and no input is a PDF; leave out --pages")
    if not total or len(sources) == 1:
        return list(sources.values())
    together = Document.of([as_member(source) for source in sources.values()])
    return [PictureSource(together.name, together)]


def as_member(source: PictureSource) -> object:
    """Return a picture as an element of a list of pictures."""
    if isinstance(source.place, io.BytesIO):
        return source.place.getvalue()
    return document_of(source.place, source.pages) or source.place


def paths_of(text: str) -> list[Path]:
    """Return a file, the files of a folder, or those that a pattern matches."""
    if text.lower().startswith(("http://", "https://")):
        raise InputError(f"{text} is a web address; download it, or pipe it: curl {text} | arr-coc look - …")
    if not text.strip() or "\0" in text:
        raise InputError(f"{text!r} is not the path of a picture; give a file, a folder or - for the standard input")
    place = Path(text)
    if os.path.isdir(place):
        return files_in(place)
    if os.path.exists(place) or not glob.has_magic(text):
        return [place]
    matches = sorted(Path(match) for match in glob.glob(text, recursive=True) if os.path.isfile(match))
    if not matches:
        raise InputError(f"no file matches {text}; check the pattern")
    return matches


def read_stdin() -> io.BytesIO:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("- reads a picture from the standard input, which is a terminal; pipe one in: cat a.png | …")
    memory = io.BytesIO(sys.stdin.buffer.read())
    if not memory.getvalue():
        raise InputError("the standard input is empty; pipe a picture in: cat a.png | …")
    memory.name = "stdin"  # its name in error messages
    return memory


def result_names(sources: Sequence[PictureSource]) -> list[str]:
    """Return a name for the results of each picture: its stem, numbered if that is not unique."""
    names: dict[str, None] = {}
    for source in sources:
        stem, number = Path(source.file).stem, 1
        while (name := stem if number == 1 else f"{stem}.{number}") in names:
            number += 1
        names[name] = None
    return list(names)


# ---- models and records ---------------------------------------------------------------------------------------------


def check_model(name: str) -> None:
    """Check that a model is on this disk or the hub can be reached, to fail at once and not after five attempts."""
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from ...core.folders import MINI
    from ...realizing.bundled import HUB_NAME

    if name == MINI or os.path.exists(name) or os.environ.get("HF_HUB_OFFLINE"):
        return
    if not HUB_NAME.fullmatch(name):
        raise InputError(f"--model {name} is neither a folder nor a name on the hub; give mini, a folder, owner/name")
    try:
        urlopen(Request(os.environ.get("HF_ENDPOINT") or HUB, method="HEAD"), timeout=HUB_SECONDS).close()
    except HTTPError:
        return  # the hub can be reached
    except OSError as error:
        from huggingface_hub import try_to_load_from_cache

        if not isinstance(try_to_load_from_cache(name, "config.json"), str):
            remedy = "download it elsewhere and give its folder, or use mini"
            raise InputError(
                f"--model {name} is not a folder here, and the hub cannot be reached ({error}); {remedy}"
            ) from error
        os.environ["HF_HUB_OFFLINE"] = "1"


def check_record(path: Path | None) -> Path | None:
    """Refuse a record file that cannot be written, before a model is loaded."""
    if path is not None and (path.suffix != ".jsonl" or os.path.isdir(path) or not os.path.isdir(path.parent)):
        raise InputError(f"--record {path} must be a .jsonl file in a folder that exists")
    return path
