"""The texture array: names, ranges, signs, and the two back ends against each other."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from arr_coc.core.errors import InputError
from arr_coc.texture.backend_opencv import distance_to
from arr_coc.texture.batch import sense
from arr_coc.texture.channels import ChannelInputs
from arr_coc.texture.one_picture import sense_one
from arr_coc.texture.text_regions import ocr_installed
from arr_coc.texture.texture import FULL40, MVP13

# Eight-bit L*a*b* and a threshold inside distance_field are where the two back ends may differ.
TOLERANCE = {"lab_l": 0.012, "lab_a": 0.012, "object_boundaries": 0.02, "distance_field": 0.08, "edges_inverted": 1e-3}


def noise(height: int, width: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)


def page(ink: int = 0, ground: int = 255, size: tuple[int, int] = (256, 384)) -> np.ndarray:
    """Lines of text in the upper half, nothing in the lower half."""
    image = Image.new("RGB", size[::-1], (ground,) * 3)
    draw = ImageDraw.Draw(image)
    for line in range(4):
        draw.text((20, 12 + 26 * line), "total amount 128.50 due", fill=(ink,) * 3, font=ImageFont.load_default(18))
    return np.array(image)


def scene() -> np.ndarray:
    """Smooth shapes, a page of text and some noise: something for every channel."""
    image = Image.fromarray(page(size=(200, 320)))
    draw = ImageDraw.Draw(image)
    draw.ellipse((40, 120, 110, 190), fill=(210, 30, 40))
    draw.rectangle((150, 130, 240, 185), fill=(40, 90, 200))
    array = np.asarray(image).copy()
    array[120:190, 260:310] = noise(70, 50)
    return array


def test_layouts_hold_the_channels_of_the_specification_in_order():
    assert len(MVP13) == 13
    assert len(FULL40) == 40
    assert MVP13.names[:5] == ("red", "green", "blue", "lab_l", "lab_a")
    assert MVP13.names[-1] == "luminance"
    assert FULL40.names[18:34] == tuple(f"semantic_{number}" for number in range(16))
    assert FULL40.names[-2:] == ("object_boundaries", "text_regions")


def test_channels_are_reached_by_name_and_unknown_names_say_what_there_is():
    texture = sense(scene())
    assert torch.equal(texture["green"], texture.data[1])
    with pytest.raises(InputError, match="saliency"):
        texture["text_regions"]
    with pytest.raises(InputError, match="mvp13, full40"):
        sense(scene(), "mvp14")


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 90), st.integers(1, 90), st.sampled_from(["mvp13", "full40"]), st.sampled_from(["opencv", "torch"])
)
def test_every_size_gives_finite_channels_in_range(height: int, width: int, layout: str, backend: str):
    texture = sense(noise(height, width), layout, ChannelInputs(gaze=(0.2, 0.9)), backend=backend)
    assert texture.data.shape == (len(texture.layout), height, width)
    assert texture.data.dtype == torch.float32
    for channel in texture.layout.channels:
        values = texture[channel.name]
        assert torch.isfinite(values).all(), channel.name
        assert values.min() >= channel.low - 1e-5, channel.name
        assert values.max() <= channel.high + 1e-5, channel.name


@pytest.mark.parametrize("layout", ["mvp13", "full40"])
@pytest.mark.parametrize("size", [None, 150, (97, 411)])
def test_the_two_back_ends_agree(layout: str, size: int | tuple[int, int] | None):
    labels = np.add.outer(np.arange(20) // 5 * 4, np.arange(32) // 8)
    given_maps = {"previous_relevance": np.linspace(0, 1, 48, dtype=np.float32).reshape(6, 8)}
    inputs = ChannelInputs(gaze=(0.3, 0.7), memory=given_maps)
    first = sense(scene(), layout, inputs, size=size, clusters=labels, backend="opencv")
    second = sense(scene(), layout, inputs, size=size, clusters=labels, backend="torch")
    for name in first.names:
        # Resizing eight-bit pictures rounds to eight bits in OpenCV, which moves everything by half a grey level.
        slack = TOLERANCE.get(name, 2e-4)
        difference = (first[name] - second[name]).abs()
        if size is None:
            assert difference.max() <= slack, f"{name}: {difference.max():.2g}"
        else:
            # A label is another label where a pixel's centre falls on the border of two: rare.
            value = (difference > 0).float().mean() if name == "cluster_id" else difference.max()
            assert value <= max(slack, 0.03), f"{name}: {value:.2g}"
    if layout == "full40":
        assert first["previous_relevance"].max() > 0.9


def test_normalisation_is_per_picture_never_over_the_batch():
    strong = torch.from_numpy(scene()).permute(2, 0, 1)
    faint = (strong.float() * 0.2 + 90).byte()
    together = sense(torch.stack([strong, faint]), "full40", clusters=None)
    alone = sense(faint, "full40", backend="torch", clusters=None)
    torch.testing.assert_close(together.data[1], alone.data, atol=2e-5, rtol=0)


def test_gradients_reach_the_picture_through_every_channel_that_has_them():
    picture = torch.rand(2, 3, 40, 48, generator=torch.Generator().manual_seed(1), requires_grad=True)
    texture = sense(picture, "full40", clusters=None)
    for name in ("edges", "edges_inverted", "saliency", "low_pass", "text_regions", "object_boundaries"):
        (slope,) = torch.autograd.grad(texture[name].sum(), picture, retain_graph=True)
        assert torch.isfinite(slope).all(), name
        assert slope.abs().sum() > 0, name
    blank = torch.full((1, 3, 16, 16), 0.5, requires_grad=True)
    sense(blank, "mvp13").data.sum().backward()
    assert blank.grad is not None
    assert torch.isfinite(blank.grad).all()


def test_saliency_finds_the_odd_one_out_and_is_no_copy_of_the_edges():
    image = Image.new("RGB", (256, 256), (60, 130, 60))
    draw = ImageDraw.Draw(image)
    for row in range(5):
        for column in range(5):
            odd = (row, column) == (3, 1)
            corner = (20 + 48 * column, 20 + 48 * row)
            # Same luminance, another hue: edges alone cannot tell which is odd.
            draw.rectangle((*corner, corner[0] + 18, corner[1] + 18), fill=(235, 40, 60) if odd else (100, 110, 190))
    texture = sense(image, "full40")
    saliency = texture["saliency"]
    middle_y, middle_x = 20 + 48 * 3 + 9, 20 + 48 + 9
    odd_one = saliency[middle_y - 9 : middle_y + 9, middle_x - 9 : middle_x + 9].mean()
    other = saliency[middle_y - 9 : middle_y + 9, middle_x + 87 : middle_x + 105].mean()
    assert odd_one > 1.5 * other
    pair = torch.stack([saliency.flatten(), texture["edges"].flatten()])
    assert torch.corrcoef(pair)[0, 1] < 0.6


def test_saliency_is_what_the_rest_does_not_predict_not_what_is_brightest():
    ramp = np.linspace(10, 245, 256, dtype=np.uint8)
    picture = np.broadcast_to(ramp[None, :, None], (256, 256, 3)).copy()
    picture[120:136, 120:136] = (
        190  # a small step in the middle of a ramp that is far darker and far brighter at its ends
    )
    saliency = sense(picture)["saliency"]
    assert saliency[120:136, 120:136].mean() > 3 * saliency[60:200, 235:250].mean()
    assert saliency[120:136, 120:136].mean() > 3 * saliency[60:200, 20:100].mean()


def test_a_blank_picture_has_no_edges_no_saliency_no_text():
    texture = sense(np.full((64, 80, 3), 93, np.uint8), "full40")
    for name in ("edges", "edges_inverted", "saliency", "text_regions", "object_boundaries", "motion", "gaze"):
        assert texture[name].max() < 1e-3, name
    assert texture["distance_field"].min() > 0.99


@pytest.mark.parametrize("backend", ["opencv", "torch"])
def test_inverted_edges_catch_text_that_plain_edges_hardly_see(backend: str):
    faint = page(ink=112, ground=128)
    faint[150:250] = page(ink=0, ground=255)[:100]
    texture = sense(faint, "full40", backend=backend)
    faint_text, strong_text = slice(10, 100), slice(160, 250)
    plain = texture["edges"][faint_text].mean() / texture["edges"][strong_text].mean()
    inverted = texture["edges_inverted"][faint_text].mean() / texture["edges_inverted"][strong_text].mean()
    assert plain < 0.12
    assert inverted > 0.35
    blank = texture["edges_inverted"][118:140, 20:360].mean()
    assert texture["edges_inverted"][faint_text].mean() > 5 * blank


@pytest.mark.parametrize("ink_and_ground", [(0, 255), (250, 20), (80, 170)])
def test_text_regions_fire_on_text_of_either_polarity_and_not_beside_it(ink_and_ground: tuple[int, int]):
    texture = sense(page(*ink_and_ground), "full40")
    text = texture["text_regions"]
    assert text[14:110, 30:200].mean() > 0.25
    assert text[140:].mean() < 0.02


def test_text_regions_stay_quiet_on_noise_gradients_and_borders():
    picture = np.full((256, 384, 3), 200, np.uint8)
    picture[:, :128] = noise(256, 128)
    picture[:, 128:256] = np.linspace(0, 255, 256, dtype=np.uint8)[:, None, None]
    picture[:, 320:324] = 0
    assert sense(picture, "full40")["text_regions"].mean() < 0.06


@pytest.mark.skipif(ocr_installed(), reason="the refusal is for machines without RapidOCR")
def test_ocr_without_the_extra_says_how_to_get_it():
    with pytest.raises(InputError, match=r"arr-coc\[ocr\]"):
        sense(page(), "full40", ChannelInputs(text="ocr"))
    assert torch.equal(sense(page(), "full40", ChannelInputs(text="auto")).data, sense(page(), "full40").data)


@pytest.mark.skipif(not ocr_installed(), reason="RapidOCR is not installed: pip install 'arr-coc[ocr]'")
def test_ocr_boxes_lie_on_the_text():
    text = sense(page(), "full40", ChannelInputs(text="ocr"))["text_regions"]
    assert text[14:110, 30:200].mean() > 0.5
    assert text[160:].max() == 0


def test_position_channels_are_pixel_centres_and_eccentricity_follows_the_gaze():
    texture = sense(noise(40, 100), "full40", ChannelInputs(gaze=(0.25, 0.75)))
    assert texture["x"][0, 0] == pytest.approx(0.5 / 100)
    assert texture["y"][-1, 0] == pytest.approx(39.5 / 40)
    place = texture["eccentricity"].argmin()
    assert divmod(int(place), 100) in {(9, 74), (9, 75), (10, 74), (10, 75)}
    # In pixels, over the distance to the farthest corner: the last row's first pixel is half a pixel short of it.
    farthest = np.hypot(39.5 - 10, 75 - 0.5) / np.hypot(30, 75)
    assert texture["eccentricity"].max() == texture["eccentricity"][-1, 0] == pytest.approx(farthest)
    assert divmod(int(texture["gaze"].argmax()), 100)[0] in (9, 10)
    assert sense(noise(8, 8), "full40")["gaze"].max() == 0
    with pytest.raises(InputError, match="gaze"):
        sense_one(noise(8, 8), gaze=(2, 0))


def test_distance_field_grows_away_from_boundaries():
    picture = np.full((128, 128, 3), 255, np.uint8)
    picture[:, :40] = (200, 20, 20)
    texture = sense(picture, "full40", clusters=None)
    row = texture["distance_field"][64]
    assert row[40] < 0.05
    assert row[60] < row[80] < row[110]
    assert texture["object_boundaries"][64, 38:42].max() > 0.8
    assert texture["object_boundaries"][64, 60:].max() < 0.01


@pytest.mark.parametrize("backend", ["opencv", "torch"])
def test_motion_is_zero_for_a_still_and_high_where_something_moved(backend: str):
    before = np.full((128, 160, 3), 128, np.uint8)
    before[:, :] = (np.add.outer(np.arange(128), np.arange(160)) * 3 % 60 + 90).astype(np.uint8)[:, :, None]
    after = before.copy()
    patch = np.asarray(Image.fromarray(noise(10, 10)).resize((40, 40), Image.Resampling.BICUBIC))
    before[40:80, 30:70] = patch
    after[40:80, 36:76] = patch
    still = sense(after, "full40", backend=backend, clusters=None)
    assert still["motion"].max() == 0
    assert any("previous" in note for note in still.notes)
    moved = sense(after, "full40", ChannelInputs(previous=before), backend=backend, clusters=None)["motion"]
    assert moved[50:70, 46:66].mean() > 0.5
    assert moved[:, 110:].mean() < 0.1


def test_semantic_channels_are_zero_and_say_so_without_an_encoder():
    texture = sense(scene(), "full40")
    assert texture.semantic.shape == (16, 200, 320)
    assert not texture.semantic.any()
    assert any("semantic" in note for note in texture.notes)


def test_memory_is_zero_unless_given_and_bad_maps_are_refused():
    assert not sense(scene(), "full40").stack("previous_relevance", "fixation_history", "current_attention").any()
    with pytest.raises(InputError, match="NaN"):
        sense(scene(), "full40", ChannelInputs(memory={"previous_saliency": np.full((4, 4), np.nan)}))
    with pytest.raises(InputError, match="relevanz"):
        sense(scene(), "full40", ChannelInputs(memory={"relevanz": np.zeros((4, 4))}))


@settings(max_examples=20, deadline=None)
@given(st.integers(8, 70), st.integers(8, 70), st.integers(1, 8), st.integers(1, 8))
def test_cells_hold_true_centres_whatever_the_ratio(height: int, width: int, rows: int, columns: int):
    cells = sense(noise(height, width), "mvp13", cells=(rows, columns))
    expected_y = (torch.arange(rows) + 0.5) / rows
    expected_x = (torch.arange(columns) + 0.5) / columns
    torch.testing.assert_close(cells["y"], expected_y[:, None].expand(rows, columns), atol=1e-5, rtol=0)
    torch.testing.assert_close(cells["x"], expected_x.expand(rows, columns), atol=1e-5, rtol=0)


def test_cells_take_the_majority_of_clusters_and_the_maximum_of_text():
    labels = np.zeros((64, 64), np.int32)
    labels[:, 20:] = 7
    texture = sense(page(size=(64, 64)), "full40", clusters=labels)
    cells = sense(page(size=(64, 64)), "full40", clusters=labels, cells=(4, 4))
    assert cells["cluster_id"][0].tolist() == [0, 7, 7, 7]
    assert cells["text_regions"][0, 1] == texture["text_regions"][:16, 16:32].max()


def test_pictures_as_people_have_them_give_one_texture():
    array = scene()
    reference = sense(array).data
    for picture in (Image.fromarray(array), torch.from_numpy(array).permute(2, 0, 1), array.astype(np.float32) / 255):
        torch.testing.assert_close(sense(picture).data, reference, atol=0.012, rtol=0)
    assert sense(array[:, :, 0]).data.shape == reference.shape
    assert sense(torch.from_numpy(array).permute(2, 0, 1)[None]).data.shape == (1, *reference.shape)


@pytest.mark.parametrize(
    ("picture", "word"),
    [
        (np.full((8, 8, 3), np.nan, np.float32), "0, 1"),
        (np.full((8, 8, 3), 200.0, np.float32), "255"),
        (torch.full((1, 3, 8, 8), float("nan")), "0, 1"),
        (np.zeros((8, 8, 7), np.uint8), "picture"),
        (np.zeros((0, 8, 3), np.uint8), "picture"),
        (torch.zeros(8, 8, 8, 8), "tensor"),
    ],
)
def test_bad_pictures_are_refused_in_one_line(picture: object, word: str):
    with pytest.raises(InputError, match=word) as caught:
        sense(picture)
    assert "\n" not in str(caught.value)


def test_the_torch_back_end_runs_where_opencv_is_missing(run):
    script = (
        "import sys; sys.modules['cv2'] = None\n"
        "import torch; from arr_coc.texture.batch import sense; from arr_coc.texture.pyramid import pyramid\n"
        "from arr_coc.knowing.look.three_ways import propositional\n"
        "t = sense(torch.rand(2, 3, 40, 56), 'full40', backend='torch'); p = pyramid(t, backend='torch')\n"
        "assert propositional(t).shape == (2, 40, 56) and len(p) == 5 and t['cluster_id'].max() > 3\n"
    )
    ended = run(script, call="zygote:execute")
    assert ended.code == 0, ended.err


def test_distances_are_the_same_bits_wherever_their_memory_lies():
    """OpenCV takes roots in its own way, several at once and the last ones alone; which are last depends on luck."""
    mask = np.random.default_rng(0).random((100, 100)) < 0.02
    kept = [distance_to(mask) for _ in range(12)]
    assert all(np.array_equal(kept[0], other) for other in kept)
    y, x = np.nonzero(mask)
    nearest = np.hypot(y - 17, x - 61).min()
    assert kept[0][17, 61] == pytest.approx(nearest)
