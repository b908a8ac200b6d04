"""Three ways of knowing without training: what there is to read, what stands out, what the question's words name."""

from __future__ import annotations

from math import log
from types import ModuleType

import numpy as np

from ..core.arrays import Array, is_tensor, like, namespace, sized
from ..core.values import Relevance
from ..texture.channels import Texture
from ..texture.ops import enlarge, exact_sobel, luminance
from .language.lexical import Coupling, lexical
from .photos.source import couple
from .scene import Scene

# ---- perspectival knowing: what stands out from here -----------------------------------------------------------------

PERIPHERY_LOSS = 0.5


def perspectival(texture: Texture) -> Array:
    """Map what stands out, (H, W) or (B, H, W) in [0, 1]: saliency × (1 − 0.5 · eccentricity), plus motion."""
    score = texture["saliency"] * (1 - PERIPHERY_LOSS * texture["eccentricity"])
    if "motion" in texture:
        score = score + texture["motion"]
    return score.clip(0, 1)


# ---- propositional knowing: what is there to be read -----------------------------------------------------------------
# Local information is the entropy of quantised gradients: blank ground has one direction, a straight border two, print
# many. Structure is the strength of those gradients and whether they look like strokes, so that faint noise, which has
# much entropy and no content, stays low.

DIRECTIONS = 8
# Border between directions, tan(22.5°): frequent edges, along axes and diagonals, are in the middle of a bin.
HALF_WAY = 2**0.5 - 1
# A gradient weaker than this (about eight grey levels across an edge) is flat ground.
FLAT = 8 * 4 / 255
# Mean gradient (in luminance, Sobel's scale) of a block at which its structure counts as full: ordinary print.
FULL_STRUCTURE = 0.8
BLOCKS_ALONG = 64


def propositional(texture: Texture) -> Array:
    """Map how much there is to read, (H, W) or (B, H, W) in [0, 1]: half entropy, half structure."""
    ops = texture.ops
    along_x, along_y = exact_sobel(luminance((texture["red"], texture["green"], texture["blue"])))
    strength = ops.square_root(along_x * along_x + along_y * along_y)
    size = (strength.shape[-2], strength.shape[-1])
    block = max(1, max(size) // BLOCKS_ALONG)
    grid = (-(-size[0] // block), -(-size[1] // block))
    entropy = _gradient_entropy(ops, along_x, along_y, block)
    structure = (ops.shrink(strength, grid) / FULL_STRUCTURE).clip(0, 1)
    if "text_regions" in texture:
        structure = namespace(structure).maximum(structure, ops.shrink(texture["text_regions"], grid))
    # Entropy without structure is noise, so structure limits how much entropy counts.
    score = 0.5 * entropy * (structure * 4).clip(0, 1) + 0.5 * structure
    return ops.enlarge(score, size).clip(0, 1)


# Longer side of the maps for balancing: several values for each cell of a 1024-pixel picture, and fast.
MAP_SIDE = 256


def three_ways(texture: Texture, query: str, photo: Coupling | None = None) -> tuple[list[np.ndarray], tuple[str, ...]]:
    """Compute propositional, perspectival and participatory maps (h, w) of one size, and notes. Without an image-text
    encoder, the participatory map marks what the question's words name (colours, places, print).

    photo: the photo map of the things that the question names.
    """
    coupling = lexical(texture, query)
    notes, maps = coupling.notes, [propositional(texture), perspectival(texture), coupling.map]
    size = sized(maps[0].shape, MAP_SIDE)
    maps = [texture.ops.shrink(one, size) for one in maps]
    if photo is not None:
        maps[2] = coupled_with(maps[2], like(enlarge(photo.map, size), maps[2]))
        notes = (*notes, *photo.notes)
    return [np.asarray(one) for one in maps], notes


def coupled_with(words: Array, photo: Array) -> Array:
    """Join two maps (h, w), of the question's words and of the photo map: places in both come first, places in one
    still count; an empty map is ignored."""
    if not bool(photo.max() > 0):
        return words
    return 0.6 * (words * photo) ** 0.5 + 0.2 * (words + photo) if bool(words.max() > 0) else photo


def scene_photos(scene: Scene, query: str) -> Relevance:
    """Compute the source "photos"."""
    found = couple(scene.seen, query)
    return Relevance(np.asarray(found.map), query=query, participatory=np.asarray(found.map), notes=found.notes)


def scene_detail(scene: Scene, query: str) -> Relevance:
    """Compute the source "detail"."""
    given = scene.given
    if isinstance(given, np.ndarray) and scene.device == "cpu":
        return detail_relevance(given.transpose(2, 0, 1) / np.float32(255), query)
    return detail_relevance(scene.tensor, query)


def detail_relevance(picture: Array, query: str = "") -> Relevance:
    """Map detail without a question: how much each place would lose at an eighth of its resolution.

    picture: (3, H, W) in [0, 1]. The energy between each 8×8 block and its mean, square-rooted so that one hard edge
    does not outweigh a page of print.
    """
    pixels = picture.detach().float().cpu().numpy() if is_tensor(picture) else picture
    side = min(8, *pixels.shape[1:])
    rows, cols = (extent // side for extent in pixels.shape[1:])
    grey = pixels.mean(0)[: rows * side, : cols * side].reshape(rows, side, cols, side)
    energy = ((grey**2).mean((1, 3)) - grey.mean((1, 3)) ** 2).clip(0) ** 0.5
    values = energy / max(float(energy.max()), 1e-6)
    return Relevance(values, query=query, propositional=values, notes=("local detail; the question was not read",))


def _gradient_entropy(ops: ModuleType, along_x: Array, along_y: Array, block: int) -> Array:
    """Compute (rows, columns) or (B, …) in [0, 1]: entropy of {flat, eight directions} around a block, normalised."""
    # Squared, because the two back ends' square roots differ in the last bit.
    code = _direction(along_x, along_y) * (along_x * along_x + along_y * along_y > FLAT**2)
    counts = ops.count_in_blocks(code, DIRECTIONS + 1, block)
    # Count neighbouring blocks together, because print straddles any grid.
    nearby = [ops.box(count, 1) for count in counts]
    total = sum(nearby).clip(1e-6)
    shares = [(near / total).clip(1e-12) for near in nearby]
    return -sum(share * namespace(share).log(share) for share in shares) / log(DIRECTIONS + 1)


def _direction(along_x: Array, along_y: Array) -> Array:
    """Return 1 to 8: which of the eight directions a gradient points in (in any order)."""
    wide, tall = abs(along_x), abs(along_y)
    where = namespace(along_x).where
    right, down = along_x > 0, along_y > 0
    diagonal = where(right, where(down, 5, 6), where(down, 7, 8))
    across, upright = where(right, 1, 2), where(down, 3, 4)
    return where(tall < HALF_WAY * wide, across, where(wide < HALF_WAY * tall, upright, diagonal))
