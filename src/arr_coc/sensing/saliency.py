"""Saliency by spectral residual: what the picture's own statistics do not predict.

After Hou and Zhang (2007), on opponent colours instead of grey alone, so that a red sign among equally bright green
ones stands out. The spectrum of a natural picture is smooth; divided by its own smoothed form,
what is left is the unexpected.
"""

from __future__ import annotations

from .backend import Backend, BackendMap

# The whole picture is seen at this size: saliency is a coarse matter, and detail has channels of its own.
VIEW = 64
# Amplitude of one grey level of noise over the view: weaker frequencies have no reliable phase.
NOISE = VIEW / 255
FAINTEST = 1e-4
BLUR_RADIUS = 2


def saliency(
    ops: Backend, planes: tuple[BackendMap, BackendMap, BackendMap], out: BackendMap | None = None
) -> BackendMap:
    """(H, W) or (B, H, W) in [0, 1], per picture; all zero for a blank one."""
    size = planes[0].shape[-2:]
    red, green, blue = (ops.resize(plane, (VIEW, VIEW)) for plane in planes)
    opponents = (ops.luminance((red, green, blue)), red - green, blue - (red + green) * 0.5)
    light, red_green, blue_yellow = (_residual(ops, channel) for channel in opponents)
    total = light + red_green + blue_yellow
    total = ops.box(ops.box(total, BLUR_RADIUS), BLUR_RADIUS)
    low = ops.trough(total)
    total = (total - low) / ops.at_least(ops.peak(total) - low, FAINTEST)
    return ops.enlarge(total, tuple(size), out)


def _residual(ops: Backend, channel: BackendMap) -> BackendMap:
    """Squared response of one channel. The mean is taken off first, so a blank channel gives exactly nothing."""
    spectrum = ops.fourier(channel - ops.mean(channel))
    expected = ops.box(ops.logarithm(ops.amplitude(spectrum) + NOISE), 1)
    return ops.inverse_power(spectrum * ops.exponential(-expected))
