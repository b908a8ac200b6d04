"""Where a stream's relevance comes from: the three ways of knowing, part by part, or any function of (frame, query).

The three ways are carried as three maps and balanced anew in every frame. Two of them are costly and local (what is
there to be read, what couples to the question), so they can be found for a band of the frame. A band runs along the
whole longer side, because filters take their size from it: of a smaller window they would see another picture. What
stands out is seen on a tiny view of the whole frame and costs next to nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..balancing.choosing import relevance_for, resolve
from ..balancing.tensions import coupled_with
from ..core.arrays import sized
from ..knowing.photos.source import photo_coupling
from ..knowing.registry import BUILT_IN
from ..knowing.scene import SENSE_SIDE, RelevanceSource, Scene
from ..texture.channels import CHANNELS
from ..texture.motion import MAP, VIEW, view_of
from ..texture.ops import enlarge

# Context around a window, as a share of the frame's longer side: filters must not see the cut edge.
MARGIN = 1 / 32


class StreamSource(ABC):
    """planes: how many maps are carried. windowed: whether `part` can be asked for less than the whole frame.

    everywhere_planes: those of them that are so cheap that they are found anew in every frame, everywhere.
    whole_planes: those that are known of whole frames only and cost most; they are found anew when in doubt. note: what
    the relevance says of where it comes from.
    """

    note: str
    planes: int = 1
    windowed: bool = False
    everywhere_planes: tuple[int, ...] = ()
    whole_planes: tuple[int, ...] = ()

    @abstractmethod
    def part(
        self, pixels: np.ndarray, window: tuple[slice, slice], size: tuple[int, int], before: np.ndarray
    ) -> np.ndarray:
        """(planes, h, w) maps of a window, given in places of a map of `size`; the whole frame is a window too.
        before: (planes, *size) what was carried here from the frame before; zeros in the first of a scene."""

    def everywhere(self, view: np.ndarray, size: tuple[int, int]) -> dict[int, np.ndarray]:
        """The cheap planes, by number."""
        return {}

    def whole(self, pixels: np.ndarray, size: tuple[int, int]) -> dict[int, np.ndarray]:
        """The costly planes of a whole frame, by number."""
        return {}

    def combine(self, planes: np.ndarray) -> np.ndarray:
        """(planes, h, w) → relevance (h, w) in [0, 1]."""
        return planes[0]


class ThreeWays(StreamSource):
    """Propositional, perspectival and participatory maps, as behind `arr_coc.look`.

    Where the photo map has something to say about the question, it is a fourth: a network that takes longer than all of
    the rest, so it looks at the start, at cuts, on keyframes and when in doubt, and is carried in between.
    """

    windowed = True
    everywhere_planes: tuple[int, ...] = (1,)

    def __init__(self, query: str, photos: bool = True, note: str = "") -> None:
        from ..knowing.photos.source import worth_asking

        self.query, self.note = query, note
        self.photos = photos and worth_asking(query)
        self.planes = 4 if self.photos else 3
        self.whole_planes: tuple[int, ...] = (3,) if self.photos else ()
        # What stands out is found on the tiny view; sensing it again in every band would be time for nothing.
        self.band = tuple(name for name in CHANNELS if name != "saliency")

    def part(
        self, pixels: np.ndarray, window: tuple[slice, slice], size: tuple[int, int], before: np.ndarray
    ) -> np.ndarray:
        from ..knowing.language.lexical import lexical
        from ..knowing.ways import propositional
        from ..texture.channels import Texture, sense

        outer, inner, extent = _with_margin(window, size, pixels.shape[:2])
        crop = np.ascontiguousarray(pixels[outer])
        side = max(1, round(max(crop.shape[:2]) * min(1.0, SENSE_SIDE / max(pixels.shape[:2]))))
        sensed = sense(crop, self.band, side)
        # Places are those of the frame, not of the window.
        height, width = sensed["red"].shape
        y, x = _places(outer[0], height, pixels.shape[0]), _places(outer[1], width, pixels.shape[1])
        places = dict(zip("yx", np.broadcast_arrays(y[:, None], x[None, :]), strict=True))
        texture = Texture({**sensed.planes, **places})
        maps = (propositional(texture), lexical(texture, self.query).map)
        readable, coupled = (_shrunk(_cut(np.asarray(one), inner), extent) for one in maps)
        return np.stack(
            [readable, np.zeros_like(readable), coupled, *[np.zeros_like(readable)] * len(self.whole_planes)]
        )

    def whole(self, pixels: np.ndarray, size: tuple[int, int]) -> dict[int, np.ndarray]:
        photo = photo_coupling(pixels, self.query) if self.photos else None
        return {} if photo is None else {3: enlarge(photo.map, size)}

    def everywhere(self, view: np.ndarray, size: tuple[int, int]) -> dict[int, np.ndarray]:
        from ..knowing.ways import perspectival
        from ..texture.channels import sense

        texture = sense(view, ("eccentricity", "saliency"), max(size))
        return {1: _shrunk(np.asarray(perspectival(texture)), size)}

    def combine(self, planes: np.ndarray) -> np.ndarray:
        from ..balancing.tensions import balance, sharpen

        readable, outstanding, coupled = planes[:3]
        if self.photos:
            coupled = coupled_with(coupled, planes[3])
        return sharpen(balance(readable[None], outstanding[None], coupled[None])[0])


class Whole(StreamSource):
    """Another source, such as a trained scorer or a function of (frame, question): one map of the whole frame."""

    def __init__(self, relevance: object, query: str, scene: Scene, note: str = "") -> None:
        """scene: what is offered beside the frame."""
        self.relevance, self.query, self.scene, self.note = relevance, query, scene, note

    def part(
        self, pixels: np.ndarray, window: tuple[slice, slice], size: tuple[int, int], before: np.ndarray
    ) -> np.ndarray:
        import cv2

        scene = replace(self.scene, picture=pixels, previous=before[0])
        found = relevance_for(self.relevance, scene, self.query).map
        grown = cv2.resize(found, size[::-1], interpolation=cv2.INTER_LINEAR)
        return np.clip(grown, 0, 1)[window][None]


def source_of(
    relevance: object, query: str, photos: bool = True, scorer: RelevanceSource | None = None
) -> StreamSource:
    """What `relevance=` stands for in a stream. scorer: of the model that will answer."""
    # Nothing was before the first frame; a source that needs a frame before is given a map of zeros there.
    offered = Scene(lambda: None, scorer=scorer, photos=photos, previous=np.zeros((1, 1), dtype=np.float32))
    found, note = resolve(relevance, offered)
    three = found is BUILT_IN["look"]
    return ThreeWays(query, photos, note) if three else Whole(relevance, query, offered, note)


def map_size(frame: tuple[int, int]) -> tuple[int, int]:
    """(rows, cols) of the carried maps of a frame of (height, width): those of its motion, found on the view of it."""
    return sized(sized(frame, VIEW), MAP)


def everything(size: tuple[int, ...]) -> tuple[slice, slice]:
    """The window that is the whole frame."""
    return slice(0, size[0]), slice(0, size[1])


def planes_of(
    source: StreamSource,
    pixels: np.ndarray,
    view: np.ndarray,
    windows: Sequence[tuple[slice, slice]],
    before: np.ndarray,
    whole: bool,
) -> np.ndarray:
    """(planes, h, w): a source's maps of a frame inside the windows, the cheap ones everywhere, and the costly ones
    where the whole frame is asked for; `before`, of the same shape, elsewhere."""
    extent = (before.shape[1], before.shape[2])
    current = before.astype(np.float32)
    local = [number for number in range(source.planes) if number not in source.whole_planes]
    for window in windows:
        current[(local, *window)] = source.part(pixels, window, extent, before)[local]
    for number, plane in source.whole(pixels, extent).items() if whole else ():
        current[number] = plane
    for number, plane in source.everywhere(view, extent).items():
        current[number] = plane
    return current


def first_planes(source: StreamSource, pixels: np.ndarray, view: np.ndarray) -> np.ndarray:
    """(planes, h, w): what a scene begins with: the whole frame, nothing carried."""
    size = map_size((pixels.shape[0], pixels.shape[1]))
    return planes_of(source, pixels, view, [everything(size)], np.zeros((source.planes, *size)), True)


def relevance_alone(source: StreamSource, pixels: np.ndarray) -> np.ndarray:
    """Relevance (h, w) of a frame (H, W, 3) uint8 on its own, as a stream finds it in the first frame of a scene."""
    return source.combine(first_planes(source, pixels, view_of(pixels)))


def _with_margin(
    window: tuple[slice, slice], size: tuple[int, int], frame: tuple[int, int]
) -> tuple[tuple[slice, slice], tuple[tuple[float, float], ...], tuple[int, int]]:
    """Pixels to sense (window and margin), where the window lies in them (shares), and its extent in map places."""
    margin = round(MARGIN * max(frame))
    outer, inner = [], []
    for part, places, pixels in zip(window, size, frame, strict=True):
        start, stop = part.start * pixels / places, part.stop * pixels / places
        first, last = max(0, int(start) - margin), min(pixels, int(np.ceil(stop)) + margin)
        outer.append(slice(first, last))
        inner.append(((start - first) / (last - first), (stop - first) / (last - first)))
    return (outer[0], outer[1]), tuple(inner), (window[0].stop - window[0].start, window[1].stop - window[1].start)


def _places(outer: slice, number: int, pixels: int) -> np.ndarray:
    """(number,) positions in [0, 1] of the frame of evenly spaced samples of a slice of it."""
    return ((outer.start + (np.arange(number) + 0.5) * ((outer.stop - outer.start) / number)) / pixels).astype(
        np.float32
    )


def _cut(values: np.ndarray, inner: tuple[tuple[float, float], ...]) -> np.ndarray:
    """The window without its margin."""
    (top, bottom), (left, right) = inner
    height, width = values.shape
    rows = slice(round(top * height), max(round(top * height) + 1, round(bottom * height)))
    cols = slice(round(left * width), max(round(left * width) + 1, round(right * width)))
    return values[rows, cols]


def _shrunk(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    import cv2

    if values.shape == size:
        return values
    smaller = values.shape[0] >= size[0] and values.shape[1] >= size[1]
    how = cv2.INTER_AREA if smaller else cv2.INTER_LINEAR
    return cv2.resize(np.ascontiguousarray(values, dtype=np.float32), size[::-1], interpolation=how)
