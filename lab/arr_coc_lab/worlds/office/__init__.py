"""Office World: papers, slides, charts and screens of seventy layouts, in four languages, with questions."""

from .world import Page, layout_names, make_page, side_by_side

__all__ = ["Page", "layout_names", "make_page", "side_by_side"]
