"""Office World: papers, slides, charts and screens of seventy layouts, in four languages, with questions."""

from .world import Page, layout_names, make_page

__all__ = ["Page", "layout_names", "make_page"]
