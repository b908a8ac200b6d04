"""Every kind of picture a user may have becomes upright RGB bytes, or one clear line."""

from __future__ import annotations

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.pictures.load import Picture, load_picture, resized


def gradient(height: int = 24, width: int = 40) -> np.ndarray:
    """(height, width, 3) uint8 in which every corner differs, so that a turn or a channel swap shows."""
    y, x = np.mgrid[0:height, 0:width]
    return np.stack([x * 255 // max(width - 1, 1), y * 255 // max(height - 1, 1), (x + y) % 256], -1).astype(np.uint8)


def saved(path: Path, image: Image.Image, **options: Any) -> Path:
    image.save(path, **options)
    return path


def png_header(path: Path, width: int, height: int) -> Path:
    """A valid PNG signature and header, and almost no data: what a decompression bomb looks like before decoding."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(b"\0" * 99)) + chunk(b"IEND", b""))
    return path


# ---- what works ------------------------------------------------------------------------------------------------------


def test_a_tensor_without_values_is_refused() -> None:
    import torch

    with pytest.raises(InputError, match="meta tensor"):
        load_picture(torch.empty(3, 8, 8, device="meta"))


def test_path_pil_numpy_tensor_and_bytes_agree(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    pixels = gradient()
    path = saved(tmp_path / "a.png", Image.fromarray(pixels))
    chw = torch.from_numpy(pixels).permute(2, 0, 1)
    sources = [
        path,
        str(path),
        path.read_bytes(),
        io.BytesIO(path.read_bytes()),
        Image.fromarray(pixels),
        pixels,
        pixels.astype(np.int64),
        pixels.astype(np.float64) / 255,
        chw,
        chw.float() / 255,
        (chw.double() / 255).requires_grad_(),
    ]
    for source in sources:
        picture = load_picture(source)
        assert picture.pixels.dtype == np.uint8
        assert picture.size == (24, 40)
        np.testing.assert_array_equal(picture.pixels, pixels)
    assert load_picture(path).name == "a.png"


def test_each_kind_of_array_has_one_order() -> None:
    torch = pytest.importorskip("torch")
    square = np.arange(27, dtype=np.uint8).reshape(3, 3, 3)
    np.testing.assert_array_equal(load_picture(square).pixels, square)
    np.testing.assert_array_equal(load_picture(torch.from_numpy(square)).pixels, square.transpose(1, 2, 0))


def test_a_picture_does_not_change_with_the_callers_array() -> None:
    pixels = gradient()
    picture = load_picture(pixels)
    pixels[:] = 0
    assert picture.pixels.any()


def test_grey_and_one_pixel() -> None:
    grey = load_picture(np.array([[7]], dtype=np.uint8))
    assert grey.pixels.tolist() == [[[7, 7, 7]]]
    assert load_picture(Image.new("RGB", (1, 1), (1, 2, 3))).pixels.tolist() == [[[1, 2, 3]]]
    assert load_picture(Image.new("1", (4, 4), 1)).pixels.min() == 255


def test_sixteen_bits_keep_the_brightness(tmp_path: Path) -> None:
    """A plain conversion clips everything above 255 to white; 16 bits must be divided by 257."""
    values = np.linspace(0, 65535, 64).astype(np.uint16).reshape(8, 8)
    picture = load_picture(saved(tmp_path / "deep.png", Image.fromarray(values)))
    np.testing.assert_array_equal(picture.pixels[..., 0], np.rint(values / 257))
    wide = load_picture(saved(tmp_path / "wide.tiff", Image.fromarray(values.astype(np.int32))))
    np.testing.assert_array_equal(wide.pixels[..., 1], np.rint(values / 257))


def test_float_tiff_is_stretched_and_nan_refused(tmp_path: Path) -> None:
    values = np.linspace(-3, 5, 16, dtype=np.float32).reshape(4, 4)
    pixels = load_picture(saved(tmp_path / "f.tiff", Image.fromarray(values))).pixels
    assert (pixels.min(), pixels.max()) == (0, 255)
    values[0, 0] = np.nan
    with pytest.raises(InputError, match=r"n\.tiff contains NaN"):
        load_picture(saved(tmp_path / "n.tiff", Image.fromarray(values)))


def test_palette_and_transparency_lie_over_white(tmp_path: Path) -> None:
    image = Image.new("P", (8, 4), 1)
    image.putpalette([255, 0, 0, 0, 0, 255] + [0] * 762)
    image.paste(0, (0, 0, 4, 4))
    assert load_picture(saved(tmp_path / "p.png", image)).pixels[0, [0, 7]].tolist() == [[255, 0, 0], [0, 0, 255]]
    see_through = load_picture(saved(tmp_path / "t.png", image, transparency=0))
    assert see_through.pixels[0, [0, 7]].tolist() == [[255, 255, 255], [0, 0, 255]]


def test_alpha_lies_over_white(tmp_path: Path) -> None:
    rgba = np.zeros((2, 3, 4), dtype=np.uint8)
    rgba[:, 1, 3], rgba[:, 2, 3] = 128, 255
    expected = [[255] * 3, [127] * 3, [0] * 3]
    for source in (rgba, Image.fromarray(rgba), saved(tmp_path / "a.png", Image.fromarray(rgba))):
        assert load_picture(source).pixels[0].tolist() == expected
    assert load_picture(Image.new("LA", (2, 2), (0, 0))).pixels.min() == 255


@pytest.mark.parametrize("orientation", range(1, 9))
def test_exif_rotation_matches_pillow(tmp_path: Path, orientation: int) -> None:
    from PIL import ImageOps

    exif = Image.Exif()
    exif[0x0112] = orientation
    path = saved(tmp_path / "r.png", Image.fromarray(gradient()), exif=exif)
    with Image.open(path) as image:
        expected = np.asarray(ImageOps.exif_transpose(image))
    picture = load_picture(path)
    np.testing.assert_array_equal(picture.pixels, expected)
    assert picture.size == expected.shape[:2]
    assert bool(picture.notes) == (orientation != 1)


def test_animated_gif_gives_its_first_frame_with_a_note(tmp_path: Path) -> None:
    frames = [Image.new("RGB", (6, 5), colour) for colour in ((255, 0, 0), (0, 255, 0), (0, 0, 255))]
    picture = load_picture(saved(tmp_path / "m.gif", frames[0], save_all=True, append_images=frames[1:]))
    assert picture.pixels[2, 2].tolist() == [255, 0, 0]
    assert "of several" in picture.notes[0]


def test_large_pictures_are_reduced_but_remember_their_size(tmp_path: Path) -> None:
    path = saved(tmp_path / "big.jpg", Image.fromarray(gradient(900, 1600)), quality=90)
    picture = load_picture(path, longest_side=200)
    assert picture.pixels.shape[1] == 200
    assert picture.pixels.shape[0] in (112, 113)  # JPEG decoders round an eighth up
    assert picture.size == (900, 1600)
    whole = load_picture(path)
    again = load_picture(whole, longest_side=200)
    assert np.abs(again.pixels[:112, :, :2].astype(int) - picture.pixels[:112, :, :2]).mean() < 3
    untouched = Image.open(path)
    load_picture(untouched, longest_side=200)
    assert untouched.size == (1600, 900)
    assert load_picture(Picture(whole.pixels, "x", 900, 1600)).pixels is whole.pixels


# ---- what does not ---------------------------------------------------------------------------------------------------


def one_line(call) -> str:  # type: ignore[no-untyped-def]
    with pytest.raises(InputError) as caught:
        call()
    line = str(caught.value)
    assert "\n" not in line
    assert ";" in line  # what is wrong; what to do
    return line


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    text = tmp_path / "text.png"
    text.write_text("I am not a picture")
    empty = tmp_path / "empty.jpg"
    empty.write_bytes(b"")
    whole = saved(tmp_path / "whole.jpg", Image.fromarray(gradient(300, 400))).read_bytes()
    cut = tmp_path / "cut.jpg"
    cut.write_bytes(whole[: len(whole) // 2])
    cut_png = tmp_path / "cut.png"
    saved(cut_png, Image.fromarray(gradient(300, 400)))
    cut_png.write_bytes(cut_png.read_bytes()[: cut_png.stat().st_size // 2])
    assert "does not exist" in one_line(lambda: load_picture(tmp_path / "nothing.png"))
    assert "folder" in one_line(lambda: load_picture(tmp_path))
    assert "not a picture" in one_line(lambda: load_picture(text))
    assert "empty" in one_line(lambda: load_picture(empty))
    assert "cut.jpg is damaged" in one_line(lambda: load_picture(cut))
    assert "cut.png is damaged" in one_line(lambda: load_picture(cut_png))
    assert "web address" in one_line(lambda: load_picture("https://example.org/a.png"))
    assert "path" in one_line(lambda: load_picture(""))


def test_decompression_bombs_are_refused_by_their_header(tmp_path: Path) -> None:
    assert "too many pixels" in one_line(lambda: load_picture(png_header(tmp_path / "bomb.png", 50_000, 50_000)))
    # Above the caller's own limit, below Pillow's: refused by the header too, although the data is missing.
    line = one_line(lambda: load_picture(png_header(tmp_path / "b.png", 5_000, 5_000), max_pixels=10**6))
    assert "5000×5000" in line


def test_arrays_that_cannot_be_used() -> None:
    torch = pytest.importorskip("torch")
    assert "NaN" in one_line(lambda: load_picture(torch.full((3, 4, 4), float("nan"))))
    assert "NaN" in one_line(lambda: load_picture(np.full((4, 4, 3), np.inf)))
    assert "divide by 255" in one_line(lambda: load_picture(np.full((4, 4, 3), 200.0)))
    assert "outside 0…255" in one_line(lambda: load_picture(np.full((4, 4, 3), -1)))
    assert "(3, H, W)" in one_line(lambda: load_picture(torch.zeros(2, 3, 4, 4)))
    assert "(3, H, W)" in one_line(lambda: load_picture(torch.zeros(2, 7, 7)))
    assert "(H, W, 3)" in one_line(lambda: load_picture(np.zeros(5)))
    assert "(H, W, 3)" in one_line(lambda: load_picture(np.zeros((3, 9, 9), dtype=np.uint8)))
    assert "no pixels" in one_line(lambda: load_picture(np.zeros((0, 4, 3), dtype=np.uint8)))
    assert "complex" in one_line(lambda: load_picture(np.zeros((4, 4, 3), dtype=complex)))
    assert "NoneType" in one_line(lambda: load_picture(None))


def test_loading_a_file_does_not_import_torch(tmp_path: Path) -> None:
    path = saved(tmp_path / "a.png", Image.fromarray(gradient()))
    code = f"import sys, arr_coc; arr_coc.load_picture({str(path)!r}); print('torch' in sys.modules)"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "False"


def test_a_resized_picture_has_other_pixels_and_keeps_its_size():
    picture = load_picture(gradient())
    larger = resized(picture, (36, 60))
    assert larger.pixels.shape == (36, 60, 3)
    assert larger.size == picture.size == (24, 40)
    back = np.asarray(Image.fromarray(larger.pixels).resize((40, 24), Image.Resampling.BOX)).astype(int)
    assert np.abs(back - picture.pixels)[2:-2, 2:-2, :2].max() < 12
    assert resized(picture, (24, 40)) is picture
    assert resized(picture, (12, 20)).pixels.shape == (12, 20, 3)
