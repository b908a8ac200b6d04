"""Channels of local change: Sobel, edges, inverted edges for faint text, high and low pass.

Every function takes the back end first, then maps in its array type: (H, W) for OpenCV, (B, H, W) for torch.
`out` gives planes to write into, by channel name, where the back end can.
"""

from __future__ import annotations

from collections.abc import Mapping

from .backend import Backend, BackendMap
from .surround import local_contrast, smooth, surround_radius

# Below this gradient (about four grey levels across an edge) a picture counts as blank: without the floor, dividing
# by the picture's own largest edge would blow rounding noise up to full strength.
FAINTEST_EDGE = 4 * 4 / 255
# Local contrast below this (in luminance) is treated as noise by the contrast normalisation.
FAINTEST_CONTRAST = 4 / 255
FAINTEST_NORMALISED_EDGE = 1.0


def sobel_channels(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> dict[str, BackendMap]:
    """sobel_x and sobel_y (0.5 = no change) and sobel_magnitude, on one scale: the picture's strongest edge."""
    along_x, along_y = ops.sobel(luminance)
    magnitude = ops.magnitude(along_x, along_y)
    scale = 1 / ops.at_least(ops.peak(magnitude), FAINTEST_EDGE)
    return {
        "sobel_x": ops.affine(along_x, scale * 0.5, 0.5, out.get("sobel_x")),
        "sobel_y": ops.affine(along_y, scale * 0.5, 0.5, out.get("sobel_y")),
        "sobel_magnitude": ops.affine(magnitude, scale, 0.0, out.get("sobel_magnitude")),
    }


def edges(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> BackendMap:
    """Gradient magnitude in [0, 1] of the picture's strongest edge."""
    magnitude = ops.magnitude(*ops.sobel(luminance))
    return ops.affine(magnitude, 1 / ops.at_least(ops.peak(magnitude), FAINTEST_EDGE), 0.0, out.get("edges"))


def edges_inverted(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> BackendMap:
    """Edges of the locally contrast-normalised, inverted luminance: faint text counts like strong text.

    Each pixel is measured against the mean and spread of its surroundings, so grey type on a slightly lighter
    ground, which `edges` hardly sees beside a black border, gets edges of almost the same strength.
    """
    inverted = 1 - luminance
    normalised = local_contrast(ops, inverted, surround_radius(tuple(luminance.shape[-2:])), FAINTEST_CONTRAST)
    magnitude = ops.magnitude(*ops.sobel(normalised))
    scale = 1 / ops.at_least(ops.peak(magnitude), FAINTEST_NORMALISED_EDGE)
    return ops.affine(magnitude, scale, 0.0, out.get("edges_inverted"))


def passes(ops: Backend, luminance: BackendMap, out: Mapping[str, BackendMap]) -> tuple[BackendMap, BackendMap]:
    """(high_pass, low_pass): fine detail (0.5 = none) and the luminance without it."""
    low = smooth(ops, luminance, surround_radius(tuple(luminance.shape[-2:])) // 2 + 1)
    return ops.affine(luminance - low, 0.5, 0.5, out.get("high_pass")), low
