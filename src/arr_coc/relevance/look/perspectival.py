"""Perspectival knowing: what stands out from here."""

from __future__ import annotations

from ...core.arrays import Array
from ...sensing.channels import check_gaze, eccentricity
from ...sensing.texture import Texture

PERIPHERY_LOSS = 0.5


def perspectival(texture: Texture, gaze: tuple[float, float] | None = None) -> Array:
    """(H, W) or (B, H, W) in [0, 1]: saliency × (1 − 0.5 · eccentricity), plus motion.

    gaze: (y, x) in [0, 1]: look from there instead of from the place the texture was sensed from.
    """
    ops, saliency = texture.ops, texture.plane("saliency")
    if check_gaze(gaze) is None:
        far = texture.plane("eccentricity")
    else:
        far = eccentricity(ops, (saliency.shape[-2], saliency.shape[-1]), gaze, saliency)
    score = saliency * (1 - PERIPHERY_LOSS * far)
    if "motion" in texture:
        score = score + texture.plane("motion")
    return texture.shaped(ops.clip(score))
