"""Load a picture from any common source as RGB pixels.

A path, a PIL image, a numpy array, a torch tensor, bytes or an open file becomes a `Picture`: uint8 RGB, upright, on
white if transparent, first frame only. Unusable input raises `InputError` with one line that names the remedy.
"""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Generator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image, ImageOps, UnidentifiedImageError

from ..core.arrays import is_tensor, sized, to_numpy
from ..core.errors import InputError, Stopped, whole
from .opening import apart, memory_for

# Twice Pillow's warning limit, where Pillow itself refuses a picture by its header, before decoding.
MAX_PIXELS = 2 * 89_478_485
_HEIC_BRANDS = (b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1")
_WIDE_MODES = ("I", "F", "I;16", "I;16B", "I;16L", "I;16N")


@dataclass(frozen=True, eq=False)
class Picture:
    """A loaded picture. pixels: (rows, cols, 3) uint8 RGB. height, width: size of the picture as given.

    `pixels` are smaller than (height, width) if the caller asked for a reduced view (`longest_side`), which suffices to
    decide and to draw. Boxes are always in pixels of the picture as given.
    """

    pixels: np.ndarray
    name: str
    height: int
    width: int
    notes: tuple[str, ...] = ()

    @property
    def size(self) -> tuple[int, int]:
        """Return (height, width) of the picture as given."""
        return self.height, self.width


def load_picture(source: object, *, max_pixels: int = MAX_PIXELS, longest_side: int | None = None) -> Picture:
    """Read one picture.

    Args:
        source: A path, PIL image, numpy array (H, W) or (H, W, 1|3|4), torch tensor (H, W) or (1|3|4, H, W), each uint8
            or float in [0, 1]; bytes or an open binary file; or a `Picture`.
        max_pixels: Larger pictures are refused by their header, before decoding.
        longest_side: Reduce the pixels so that the longer side is at most this. JPEGs are decoded reduced, which is
            faster and smaller.

    Returns:
        A `Picture`: pixels (H, W, 3) uint8; its height and width are the size as given, even if it was reduced.

    Raises:
        InputError: If it is not a picture, is damaged or too large.

    Example:
        >>> load_picture("street.png").size  # doctest: +SKIP
        (768, 1024)
    """
    max_pixels = whole(max_pixels, "max_pixels", 1, MAX_PIXELS)
    longest_side = None if longest_side is None else whole(longest_side, "longest_side", 1)
    if isinstance(source, Picture):
        return _reduced(source, longest_side)
    if isinstance(source, str | os.PathLike):
        return _from_file(Path(source), os.fspath(source), max_pixels, longest_side)
    if isinstance(source, bytes | bytearray | memoryview):
        return _from_file(bytes(source), "the bytes given", max_pixels, longest_side)
    if isinstance(source, Image.Image):
        name = os.path.basename(getattr(source, "filename", "") or "") or "picture"
        return _from_pil(source, name, max_pixels, longest_side)
    if is_tensor(source):
        if source.is_meta:
            raise InputError(f"a meta tensor of shape {tuple(source.shape)} has no pixels; give one with values")
        source = to_numpy(source.float() if source.dtype.is_floating_point else source)
        return _from_array(source, "tensor", max_pixels, longest_side, channels_first=True)
    if isinstance(source, np.ndarray):
        return _from_array(source, "array", max_pixels, longest_side, channels_first=False)
    if hasattr(source, "read"):
        return _from_file(source, str(getattr(source, "name", "the file given")), max_pixels, longest_side)
    raise InputError(
        f"cannot read a picture from {type(source).__name__}; give a path, PIL image, numpy array or torch tensor"
    )


def resized(picture: Picture, size: tuple[int, int]) -> Picture:
    """Resize the pixels of a picture to (height, width), so that a model sees it larger or smaller. Boxes stay in
    pixels of the picture as given."""
    height, width = size
    if height * width > MAX_PIXELS:
        raise InputError(f"{picture.name} would have {width}×{height} pixels, more than {MAX_PIXELS}; enlarge it less")
    if size == picture.pixels.shape[:2]:
        return picture
    larger = height * width >= picture.pixels.shape[0] * picture.pixels.shape[1]
    how = Image.Resampling.BICUBIC if larger else Image.Resampling.LANCZOS
    return replace(picture, pixels=np.asarray(Image.fromarray(picture.pixels).resize((width, height), how)))


# ---- files -----------------------------------------------------------------------------------------------------------


@apart
def _from_file(file: Any, label: str, max_pixels: int, longest_side: int | None) -> Picture:
    file = io.BytesIO(file) if isinstance(file, bytes) else file
    if isinstance(file, Path):
        if label.startswith(("http://", "https://")):
            raise InputError(f"{label} is a web address; download the picture and give its path")
        if not label or not os.path.exists(file):
            raise InputError(f"{label or 'an empty path'} does not exist; check the path")
        if os.path.isdir(file):
            raise InputError(f"{label} is a folder; give a picture inside it")
        if file.stat().st_size == 0 and os.path.isfile(file):
            raise InputError(f"{label} is empty (0 bytes); copy or download it again")
    try:
        with _decoding(label), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns at half of the limit that is enforced here
            image = _opened(file, label)
        if image.width * image.height > MAX_PIXELS:  # a program may have switched off Pillow's own limit
            image.close()
            raise Image.DecompressionBombError(f"{image.width}×{image.height}")
    except Image.DecompressionBombError as error:
        known = isinstance(file, Path) and find_spec("pyvips") is not None
        if max_pixels == MAX_PIXELS and longest_side is not None and known:
            return _by_regions(file, longest_side)
        remedy = ", or pip install 'pyvips[binary]' to read it by regions" if isinstance(file, Path) else ""
        most = f"at most {max_pixels // 1_000_000} megapixels"
        raise InputError(f"{label} has too many pixels: {error}; resize it to {most}{remedy}") from error
    with image:
        return _from_pil(image, label, max_pixels, longest_side, reduce_while_decoding=True)


def _opened(file: Any, label: str) -> Image.Image:
    """Open a file of any format that Pillow supports, and HEIC if the extra `[formats]` is installed."""
    try:
        return Image.open(file)
    except UnidentifiedImageError as error:
        with file.open("rb") if isinstance(file, Path) else nullcontext(file) as stream:
            stream.seek(0)
            head = stream.read(1024)
        if b"<svg" in head:
            raise InputError(f"{label} is an SVG drawing, which is not supported; export it as PNG") from error
        if head[4:8] != b"ftyp" or head[8:12] not in _HEIC_BRANDS:
            raise InputError(f"{label} is not a picture that can be read; convert it to PNG or JPEG") from error
        if find_spec("pillow_heif") is None:
            raise InputError(f"{label} is a HEIC picture; pip install 'arr-coc[formats]', or save it as PNG") from error
        import_module("pillow_heif").register_heif_opener()
        return Image.open(file)


def _by_regions(file: Path, side: int) -> Picture:
    """Read a file with too many pixels to hold in memory by regions, reduced by area mean (pyvips)."""
    with _decoding(file.name):
        vips = import_module("pyvips").Image
        given = vips.new_from_file(str(file), access="sequential")
        image = vips.thumbnail(str(file), side, height=side, size="down", no_rotate=True, fail_on="error")
        if image.hasalpha():
            image = image.flatten(background=[255, 255, 255])
        pixels = np.array(image.colourspace("srgb").cast("uchar").numpy())
        return Picture(pixels, file.name, given.height, given.width, ("read by regions, and reduced",))


@apart
def picture_size(file: Any, name: str) -> tuple[int, int]:
    """Read (height, width), as displayed, from the header of a file. Raises `InputError`."""
    with _decoding(name), Image.open(file) as image:
        width, height = image.size
        _check_size(height, width, name, MAX_PIXELS)
        sideways = image.getexif().get(ExifTags.Base.Orientation, 1) >= 5
        return (width, height) if sideways else (height, width)


@contextmanager
def _decoding(label: str) -> Generator[None]:
    """Turn errors of decoders into one line; malicious files make them raise nearly anything."""
    try:
        yield
    except (InputError, Stopped, Image.DecompressionBombError):
        raise
    except PermissionError as error:
        raise InputError(f"no permission to read {label}; check its permissions") from error
    except Exception as error:
        raise InputError(f"{label} cannot be read ({error!r}); save it again as PNG or JPEG") from error


def _from_pil(
    image: Image.Image, label: str, max_pixels: int, longest_side: int | None, *, reduce_while_decoding: bool = False
) -> Picture:
    """Load a PIL image. reduce_while_decoding: only for images opened here, because it changes the image object."""
    width, height = image.size
    _check_size(height, width, label, max_pixels)
    memory_for(height * width)
    notes, orientation = [], 1
    with suppress(Exception):  # a picture with damaged metadata can still be used
        if getattr(image, "is_animated", False):
            notes.append(f"frame {image.tell() + 1} of several: the others are not looked at")
        orientation = int(image.getexif().get(ExifTags.Base.Orientation, 1))
    try:
        if reduce_while_decoding and longest_side is not None and max(image.size) > longest_side:
            # Decodes a JPEG at 1/2, 1/4 or 1/8, never below this size; other formats ignore it.
            image.draft(None, sized((height, width), longest_side)[::-1])
        if 2 <= orientation <= 8:
            image = ImageOps.exif_transpose(image)
            notes.append("turned upright as its EXIF data says")
            height, width = (width, height) if orientation >= 5 else (height, width)
        pixels = _rgb_of(image, label)
    except InputError:
        raise
    except MemoryError as error:
        raise InputError(f"{label} does not fit into memory at {width}×{height}; resize it first") from error
    except Exception as error:
        raise InputError(f"{label} is damaged ({error!r}); copy or download it again") from error
    return _reduced(Picture(pixels, os.path.basename(label) or label, height, width, tuple(notes)), longest_side)


def _rgb_of(image: Image.Image, label: str) -> np.ndarray:
    """Convert a PIL image of any mode to (H, W, 3) uint8, transparent parts on white."""
    if image.mode in _WIDE_MODES:
        return _bytes_of(np.asarray(image), label, own_range=True)[..., None].repeat(3, axis=-1)
    if image.has_transparency_data:
        return _over_white(image.convert("RGBA"))
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _over_white(image: Image.Image) -> np.ndarray:
    """Put an RGBA image on white; return (H, W, 3) uint8."""
    white = Image.new("RGB", image.size, "white")
    white.paste(image, mask=image)
    return np.array(white)


# ---- arrays and tensors ----------------------------------------------------------------------------------------------


def _from_array(
    array: np.ndarray, label: str, max_pixels: int, longest_side: int | None, *, channels_first: bool
) -> Picture:
    shape = array.shape
    if array.ndim == 2:
        array = array[..., None]
    elif array.ndim == 3 and channels_first:
        array = array.transpose(1, 2, 0)
    if array.ndim != 3 or array.shape[-1] not in (1, 3, 4):
        wanted = "(H, W), (3, H, W) or (4, H, W)" if channels_first else "(H, W), (H, W, 3) or (H, W, 4)"
        raise InputError(f"{label} has shape {shape}; a picture must have shape {wanted}")
    _check_size(array.shape[0], array.shape[1], label, max_pixels)
    pixels = _bytes_of(array, label)
    if pixels.shape[-1] == 4:
        pixels = _over_white(Image.fromarray(pixels))
    elif pixels.shape[-1] == 1:
        pixels = pixels.repeat(3, axis=-1)
    height, width = pixels.shape[:2]
    # A copy: a Picture must not change when the caller's array does.
    pixels = np.array(pixels, order="C") if np.shares_memory(pixels, array) else np.ascontiguousarray(pixels)
    return _reduced(Picture(pixels, "picture", height, width), longest_side)


def _bytes_of(array: np.ndarray, label: str, *, own_range: bool = False) -> np.ndarray:
    """Convert numbers to uint8: floats from [0, 1], integers from [0, 255], uint16 from [0, 65535].

    own_range: for wide samples of picture files, which may have other ranges (16 bits in a 32-bit type, scientific
    data): stretch them, instead of refusing them as a mistake.
    """
    kind = array.dtype
    if kind == np.uint8:
        return array
    if kind.kind not in "iuf":
        raise InputError(f"{label} holds {kind}; use uint8 in 0…255 or float in 0…1")
    if kind.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{label} contains NaN or infinity; every value must be a number in 0…1")
    low, high = float(array.min()), float(array.max())
    wide = kind.kind == "u" and kind.itemsize == 2
    bottom, top = 0.0, 1.0 if kind.kind == "f" else 65535.0 if wide else 255.0
    # Allow rounding errors; anything larger is a mistake in the caller's scaling.
    outside = low < -1e-3 or high > top + 1e-3
    if outside and own_range:
        bottom, top = (0.0, 65535.0) if low >= 0 and 255 < high <= 65535 else (low, high)
    elif outside:
        remedy = "divide by 255" if kind.kind == "f" and low >= 0 and high <= 255.5 else f"scale it to 0…{top:g}"
        raise InputError(f"{label} has values from {low:g} to {high:g}, outside 0…{top:g}; {remedy}")
    scaled = (np.clip(array, bottom, top).astype(np.float64) - bottom) * (255.0 / max(top - bottom, 1e-12))
    return np.rint(scaled).astype(np.uint8)


# ---- for both --------------------------------------------------------------------------------------------------------


def _check_size(height: int, width: int, label: str, max_pixels: int) -> None:
    if height < 1 or width < 1:
        raise InputError(f"{label} has no pixels ({width}×{height}); give a picture of at least 1×1")
    if height * width > max_pixels:
        raise InputError(f"{label} is {width}×{height}, more than {max_pixels / 1e6:.0f} megapixels; resize it first")


def _reduced(picture: Picture, longest_side: int | None) -> Picture:
    """Reduce the pixels of a picture by area mean, so that the longer side is at most `longest_side`."""
    rows, cols = picture.pixels.shape[:2]
    if longest_side is None or max(rows, cols) <= longest_side:
        return picture
    import cv2  # only large pictures need it

    size = sized(picture.size, longest_side, grow=True)[::-1]
    return replace(picture, pixels=cv2.resize(picture.pixels, size, interpolation=cv2.INTER_AREA))
