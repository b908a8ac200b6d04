"""The cascade: coarse everywhere, finer only where the coarse look was relevant."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from arr_coc.core.errors import InputError
from arr_coc.looking import examine
from arr_coc.texture.one_picture import sense_one
from arr_coc.texture.texture import Layout
from arr_coc_lab.classic.cascade import KEEPS, blocks_below, cascade_map, cut_out, mips_of

QUERY = "What number is on the red sign?"


@pytest.fixture(scope="module")
def street() -> np.ndarray:
    """A red sign with a number on grey ground with some grey boxes, 1024 × 768."""
    picture = np.full((768, 1024, 3), 150, np.uint8)
    for number in range(12):
        x, y = 60 + 160 * (number % 6), 80 + 500 * (number // 6)
        cv2.rectangle(picture, (x, y), (x + 60, y + 60), (110, 110, 110), -1)
    cv2.rectangle(picture, (640, 400), (760, 460), (215, 35, 35), -1)
    cv2.putText(picture, "472", (660, 444), cv2.FONT_HERSHEY_SIMPLEX, 1.4, (255, 255, 255), 3)
    return picture


def test_a_finer_mip_is_sensed_only_below_the_best_cells(street: np.ndarray):
    found, done = cascade_map(street, QUERY)
    assert [one.side for one in done] == [64, 256, 1024]
    assert [one.scored for one in done] == [64 * 48, 16 * KEEPS[0], 16 * KEEPS[1]]
    assert sum(one.sensed for one in done) < 0.1 * street.shape[0] * street.shape[1]
    rows, cols = found.map.shape
    assert (rows, cols) == (192, 256)
    sign = found.map[400 * rows // 768 : 460 * rows // 768, 640 * cols // 1024 : 760 * cols // 1024]
    assert sign.max() == found.map.max()
    assert sign.mean() > 10 * found.map.mean()
    wider = cascade_map(street, QUERY, keeps=(128, 512))[1]
    assert sum(one.sensed for one in wider) > sum(one.sensed for one in done)


def test_what_a_block_says_is_what_the_whole_mip_says_there(street: np.ndarray):
    mip = mips_of(street)[1]
    places = np.array([24 * 64 + 40, 27 * 64 + 44, 0, 47 * 64 + 63])  # two on the sign, two corners
    rows, cols = blocks_below(places, (48, 64))
    mosaic, inner = cut_out(mip, rows, cols)
    assert np.array_equal(mosaic[inner[0][:, :, None], inner[1][:, None, :]], mip[rows[:, :, None], cols[:, None, :]])
    layout = Layout.of("edges", ("red", "green", "blue", "high_pass"))
    # Small windows see nothing of the mosaic's seams: the rim is wider than they are.
    whole, parts = (np.asarray(sense_one(one, layout)["red"]) for one in (mip, mosaic))
    assert np.allclose(parts[inner[0][:, :, None], inner[1][:, None, :]], whole[rows[:, :, None], cols[:, None, :]])


def test_look_takes_the_cascade_and_clusters_open_before_cells(street: np.ndarray):
    seen = examine(street, QUERY, keep=0.1, strategy="cascade")
    assert any("cells scored 3072 of 3072 at 64, 1024 of 49152 at 256, 4096 of 786432 at 1024" in n for n in seen.notes)
    assert seen.allocation.level_map()[13, 20:23].max() == 0
    assert seen.allocation.tokens == seen.allocation.budget
    regions = examine(street, QUERY, keep=0.1, relevance="cascade:clusters")
    assert any("clusters opened" in note for note in regions.notes)
    assert regions.allocation.level_map()[13, 20:23].max() == 0
    with pytest.raises(InputError, match="cascade:magic"):
        examine(street, QUERY, relevance="cascade:magic")


@pytest.mark.parametrize("size", [(1, 1), (5, 300), (64, 64), (300, 200)])
def test_any_size_has_a_cascade(size: tuple[int, int]):
    picture = np.random.default_rng(0).integers(0, 256, (*size, 3), dtype=np.uint8)
    found, done = cascade_map(picture, QUERY)
    assert np.isfinite(found.map).all()
    assert len(done) == (2 if max(size) > 200 else 1)
