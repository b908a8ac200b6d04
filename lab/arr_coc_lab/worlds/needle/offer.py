"""Needle World as the microscope asks for it: one picture or one clip with its question and its truth."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from arr_coc.app.microscope.worlds import DrawnClip, DrawnPicture

SPLIT = "test"


class NeedleOffer:
    """An entry point of `arr_coc.worlds`. Drawing imports torch; asking for the families does not."""

    families = ("cards", "forms", "receipts", "scenes", "charts", "signs", "zoo")

    def picture(self, family: str, seed: int, size: tuple[int, int]) -> DrawnPicture:
        """A picture of the split that no training saw."""
        from arr_coc.app.microscope.worlds import DrawnPicture

        from .export import picture
        from .renderer import render

        batch = render(family, 1, size, seed, SPLIT)
        return DrawnPicture(picture(batch, 0), batch.questions[0], batch.answers[0])

    def clip(self, family: str, seed: int, size: tuple[int, int], frames: int, cuts: int) -> DrawnClip:
        """The same, moving."""
        from arr_coc.app.microscope.worlds import DrawnClip

        from .clips import render_clip

        clips = render_clip(family, range(1), frames, size, seed, SPLIT, cuts=cuts)
        return DrawnClip(clips.pictures[0].permute(0, 2, 3, 1).numpy(), clips.questions[0], clips.answers[0])


NEEDLE = NeedleOffer()
