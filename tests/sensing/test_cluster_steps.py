"""Clusters: found, merged, grouped, split, judged."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc.texture.batch import sense
from arr_coc.texture.clusters import Clusters, group_many, merge_small, quality, tidy, touching_pairs, two_scale
from arr_coc.texture.slic import slic, slic_batch


def quilt(rows: int = 6, columns: int = 8, side: int = 32, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A picture of flat coloured squares with a little noise, and the true label of each pixel."""
    generator = np.random.default_rng(seed)
    colours = generator.integers(20, 236, (rows * columns, 3))
    labels = np.arange(rows * columns).reshape(rows, columns).repeat(side, 0).repeat(side, 1)
    picture = colours[labels] + generator.normal(0, 3, (*labels.shape, 3))
    return np.clip(picture, 0, 255).astype(np.uint8), labels


def purity(found: np.ndarray, true: np.ndarray) -> float:
    """Share of pixels whose found cluster is mostly of their true one."""
    table = np.zeros((int(found.max()) + 1, int(true.max()) + 1))
    np.add.at(table, (found.ravel(), true.ravel()), 1)
    return float(table.max(1).sum() / true.size)


def test_slic_finds_about_fifty_connected_surfaces():
    picture, true = quilt()
    labels = slic(picture)
    assert labels.shape == (192, 256)
    assert 35 <= labels.max() + 1 <= 70
    assert purity(labels, true) > 0.93
    assert np.array_equal(np.unique(labels), np.arange(labels.max() + 1))
    # One connected piece each: flood from any pixel of a label reaches all of it.
    import cv2

    pieces = sum(cv2.connectedComponents((labels == one).astype(np.uint8))[0] - 1 for one in range(labels.max() + 1))
    assert pieces <= 1.1 * (labels.max() + 1)


def test_slic_in_torch_does_as_well_on_a_batch():
    from arr_coc.texture import backend_torch as ops

    pictures = [quilt(seed=seed) for seed in range(2)]
    batch = torch.stack([torch.from_numpy(picture).permute(2, 0, 1) for picture, _ in pictures]).float() / 255
    red, green, blue = batch.unbind(1)
    labels = slic_batch(torch.stack(ops.lab((red, green, blue)), 1))
    for found, (_, true) in zip(labels, pictures, strict=True):
        assert purity(found.numpy(), true) > 0.93


@pytest.mark.parametrize("shape", [(1, 1), (3, 50), (7, 9)])
def test_slic_takes_any_size(shape: tuple[int, int]):
    labels = slic(np.random.default_rng(0).integers(0, 255, (*shape, 3), dtype=np.uint8))
    assert labels.shape == shape
    assert labels.min() == 0


def test_small_clusters_go_to_their_largest_touching_neighbour():
    labels = np.zeros((40, 40), np.int32)
    labels[:, 20:] = 1
    labels[:, 34:] = 2
    labels[10:12, 19:21] = 3  # touches 0 (20 columns wide) and 1 (14 columns wide)
    labels[30:32, 36:38] = 4  # touches 2 only
    labels[31, 37] = 5  # inside 4: goes with it
    merged = merge_small(labels, 0.01)
    assert merged.max() + 1 == 3
    assert merged[10, 20] == merged[0, 0]
    assert merged[30, 36] == merged[31, 37] == merged[0, 39]
    assert np.array_equal(merge_small(merged), merged)
    assert (np.bincount(merged.ravel()) >= 0.01 * merged.size).all()


def test_everything_small_merges_instead_of_looping_for_ever():
    merged = merge_small(np.arange(400, dtype=np.int32).reshape(20, 20), 0.05)
    assert (np.bincount(merged.ravel()) >= 20).all()
    assert merge_small(np.zeros((3, 3), np.int32)).max() == 0


def test_touching_pairs_are_both_ways_and_exact():
    assert touching_pairs(np.array([[0, 0, 1], [2, 2, 1]])).tolist() == [[0, 1], [0, 2], [1, 0], [1, 2], [2, 0], [2, 1]]


def test_many_clusters_are_grouped_by_place_and_colour():
    labels = np.arange(144, dtype=np.int32).reshape(12, 12).repeat(4, 0).repeat(4, 1)
    lab = np.zeros((48, 48, 3))
    lab[:24, :, 0] = 80.0
    grouped = group_many(labels, lab, into=2)
    assert grouped.max() + 1 == 2
    # Colour separates the halves more than place does: each group is one half.
    assert len(np.unique(grouped[:24])) == 1
    assert grouped[0, 0] != grouped[47, 0]
    assert np.array_equal(group_many(labels[:16], lab[:16]), labels[:16])


def test_few_clusters_become_two_scales_with_unique_identifiers_and_parents():
    labels = np.arange(4, dtype=np.int32).reshape(2, 2).repeat(30, 0).repeat(30, 1)
    lab = np.random.default_rng(0).normal(50, 5, (60, 60, 3))
    clusters = two_scale(labels, lab)
    assert clusters.count == 20
    assert clusters.parents is not None
    assert np.array_equal(clusters.parents[clusters.labels], labels)
    assert np.bincount(clusters.parents).tolist() == [5, 5, 5, 5]
    many = np.arange(18, dtype=np.int32).reshape(3, 6).repeat(20, 0).repeat(10, 1)
    coarse = two_scale(many, lab)
    assert coarse.parents is not None
    assert coarse.parents[coarse.labels].max() + 1 == 15


def test_tidy_leaves_a_good_partition_alone_and_mends_a_poor_one():
    picture, true = quilt()
    lab = picture.astype(np.float64)
    assert tidy(true.astype(np.int32), lab).count == 48
    assert tidy(np.zeros(true.shape, np.int32), lab).count == 5
    crumbs = np.arange(48 * 64, dtype=np.int32).reshape(48, 64).repeat(4, 0).repeat(4, 1)
    assert 20 <= tidy(crumbs, lab).count <= 100
    with pytest.raises(InputError, match="one size"):
        tidy(true.astype(np.int32), lab[:5])


def test_quality_tells_a_true_partition_from_a_random_one():
    picture, true = quilt()
    lab = picture.astype(np.float64)
    good = quality(true, lab)
    poor = quality(np.random.default_rng(0).integers(0, 48, true.shape), lab)
    assert good.good
    assert good.count == 48
    assert good.ratio > 50 > 1 > poor.ratio
    assert sum(good.sizes) == pytest.approx(1)
    assert good.silhouette > 0.3 > poor.silhouette
    assert not poor.good
    assert not quality(np.zeros(true.shape, np.int64), lab).good
    total = lab.reshape(-1, 3).var(0).sum()
    assert good.within_variance + good.between_variance == pytest.approx(total)


def test_cluster_channels_say_who_how_far_and_how_large():
    labels = np.zeros((16, 16), np.int32)
    labels[:, 12:] = 3
    texture = sense(np.zeros((64, 64, 3), np.uint8), "full40", clusters=Clusters(labels))
    assert set(texture["cluster_id"].unique().tolist()) == {0.0, 3.0}
    assert texture["cluster_size"][0, 0] == pytest.approx(0.75)
    assert texture["cluster_size"][0, 63] == pytest.approx(0.25)
    assert texture["cluster_distance"].max() == pytest.approx(1)
    assert texture["cluster_distance"][32, 23] < 0.1 < texture["cluster_distance"][0, 0]
    with pytest.raises(InputError, match="labels"):
        sense(np.zeros((8, 8, 3), np.uint8), "full40", clusters=np.zeros((4, 4)))


def test_an_opencv_without_superpixels_is_named_with_its_remedy(monkeypatch):
    """Packages that bring plain OpenCV put it over the contrib build; both own the name cv2."""
    import cv2

    monkeypatch.delattr(cv2, "ximgproc")
    with pytest.raises(InputError, match="opencv-contrib-python-headless"):
        slic(np.zeros((64, 64, 3), dtype=np.uint8))
