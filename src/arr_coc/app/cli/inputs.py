"""What a command line names: pictures, from wherever they are, the budget, and what the results are called."""

from __future__ import annotations

import glob
import io
import os
import re
import sys
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from ...core.errors import InputError
from ...pictures.document import SUFFIXES as SUFFIXES
from ...pictures.document import Document, document_of, files_in
from ...pictures.pdf import PdfPlace, is_pdf

STDIN = "-"
HUB_SECONDS = 4


class PictureSource(NamedTuple):
    """name: as the user wrote it. place: a path, a page of a PDF, a document of several pages, or the bytes that came
    through a pipe."""

    name: str
    place: Path | PdfPlace | Document | io.BytesIO

    @property
    def file(self) -> str:
        """What messages and results call it."""
        return self.place.name


def expand(inputs: Sequence[str], pages: str | None = None, total: bool = False) -> list[PictureSource]:
    """Files, folders (their pictures, by name), globs (`**` goes into sub-folders) and `-`, each once.

    A name that is neither an existing path nor a pattern is kept: reading it later says what is wrong with it. pages:
    which of every PDF (`page_numbers`); all where None. total: everything is one document.
    """
    sources: dict[str, PictureSource] = {}
    for text in inputs:
        if text == STDIN:
            sources.setdefault(text, open_source(text))
            continue
        for path in paths_of(text):
            source = pages_of(path, pages)
            sources.setdefault(source.name, source)
    if pages is not None and not any(isinstance(source.place, PdfPlace | Document) for source in sources.values()):
        raise InputError(f"page {pages} was asked for, and no input is a PDF; leave out --pages")
    if total and len(sources) > 1:
        together = Document.of([_member(source) for source in sources.values()])
        return [PictureSource(together.name, together)]
    return list(sources.values())


def _member(source: PictureSource) -> object:
    """A picture as a member of a list of them."""
    return source.place.getvalue() if isinstance(source.place, io.BytesIO) else source.place


def pages_of(path: Path, pages: str | None) -> PictureSource:
    """A picture, or a document of several pages; one that cannot be opened is kept: reading it says why."""
    if not is_pdf(path) and (pages is None or path.suffix.lower() not in (".tif", ".tiff")):
        return PictureSource(str(path), path)
    try:
        document = document_of(path, pages)
    except InputError:
        numbers = [int(number) for number in re.findall(r"\d{1,9}", pages or "")]
        if (not numbers and pages not in (None, "all")) or not is_pdf(path):
            raise
        place = PdfPlace(path, max(numbers, default=1))
        return PictureSource(f"{path} page {place.number}", place)
    if document is None or len(document) > 1:
        return PictureSource(str(path), document or path)
    place = document.pages[0].source
    if isinstance(place, PdfPlace):
        return PictureSource(f"{path} page {place.number}", place)
    return PictureSource(str(path), document)


def open_source(text: str) -> PictureSource:
    """One picture: a path, or `-` for the standard input."""
    if text == STDIN:
        return PictureSource(text, _named("stdin", _read_stdin()))
    if is_url(text):
        raise InputError(f"{text} is a web address; download it, or pipe it in: curl {text} | arr-coc …")
    if not text.strip() or "\0" in text:
        raise InputError(f"{text!r} is not the path of a picture; give a file, a folder or - for the standard input")
    return PictureSource(text, Path(text))


def paths_of(text: str) -> list[Path]:
    place = open_source(text).place
    assert isinstance(place, Path)
    if os.path.isdir(place):
        return files_in(place)
    if not os.path.exists(place) and glob.has_magic(text):
        matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
        matches = [match for match in matches if match.is_file()]
        if not matches:
            raise InputError(f"no file matches {text}; check the pattern")
        return matches
    return [place]


def is_url(text: str) -> bool:
    return text.lower().startswith(("http://", "https://"))


def _named(name: str, data: bytes) -> io.BytesIO:
    memory = io.BytesIO(data)
    memory.name = name  # what a message about it calls it
    return memory


def _read_stdin() -> bytes:
    if sys.stdin is None or sys.stdin.isatty():
        raise InputError("- reads a picture from the standard input, which is a terminal; pipe one in: cat a.png | …")
    data = sys.stdin.buffer.read()
    if not data:
        raise InputError("the standard input is empty; pipe a picture in: cat a.png | …")
    return data


def check_model(name: str) -> None:
    """A name on the hub: is it on this disk, or can the hub be reached? One line at once, not after five attempts."""
    from ...core.folders import MINI
    from ...realizing.bundled import HUB_NAME

    if name == MINI or os.path.exists(name) or os.environ.get("HF_HUB_OFFLINE"):
        return
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    cache = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    if not HUB_NAME.fullmatch(name):
        raise InputError(
            f"--model {name} is neither a folder nor a name on the hub; give mini, a folder, or owner/name"
        )
    cached = any((cache / f"models--{name.replace('/', '--')}" / "snapshots").glob("*/config.json"))
    hub = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    reason = unreachable(hub)
    if reason and cached:
        os.environ["HF_HUB_OFFLINE"] = "1"
    elif reason:
        raise InputError(
            f"--model {name} is not a folder here, and the hub cannot be reached ({reason}); "
            "download it elsewhere and give its folder, or ask mini"
        )


def check_record(path: Path | None) -> None:
    """Refuse a file of records that cannot be written, before a model is loaded."""
    if path is not None and (path.suffix != ".jsonl" or os.path.isdir(path) or not os.path.isdir(path.parent)):
        raise InputError(f"--record {path} must be a .jsonl file in a folder that exists")


def check_packages(command: str, *modules: str) -> None:
    """Refuse a command whose extra is not installed."""
    missing = [name for name in modules if find_spec(name) is None]
    if missing:
        raise InputError(f"arr-coc {command} needs {', '.join(missing)}; install: pip install 'arr-coc[{command}]'")


def unreachable(address: str) -> str:
    """Why an address does not answer; empty where it does."""
    from urllib.error import HTTPError, URLError
    from urllib.request import Request, urlopen

    try:
        urlopen(Request(address, method="HEAD", headers={"User-Agent": "arr-coc"}), timeout=HUB_SECONDS).close()
    except HTTPError:
        return ""
    except URLError as error:
        return str(getattr(error.reason, "strerror", None) or error.reason)
    except (OSError, ValueError) as error:
        return str(error)
    return ""


def result_names(sources: Sequence[PictureSource]) -> list[str]:
    """A name for each picture's results: its stem, or its whole name and a number where that would not be unique."""
    paths = [Path(source.file) for source in sources]
    stems = Counter(path.stem for path in paths)
    names, seen = [], Counter[str]()
    for path in paths:
        name = path.stem if stems[path.stem] == 1 else path.name
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return names


@contextmanager
def quiet_decoder(source: PictureSource) -> Generator[None]:
    """libtiff writes about damaged files by itself, past Python; one line that names the file is enough."""
    if not source.file.lower().endswith((".tif", ".tiff")):
        yield
        return
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
