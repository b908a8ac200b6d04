"""The microscope: a web page that shows what the library sees, decides and answers.

    from arr_coc.app.microscope import serve
    serve()                      http://127.0.0.1:7860, for this machine only

One file for each tab (`*_tab`), one for what tabs are built from (`kit`), one for safety and serving (`serving`). Needs
`pip install 'arr-coc[microscope]'`. Names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.lazy import resolve_lazily

if TYPE_CHECKING:
    from .desk import Desk as Desk
    from .limits import PageLimits as PageLimits
    from .page import build_page as build_page
    from .serving import build_app as build_app
    from .serving import serve as serve

__all__ = resolve_lazily(
    __name__, {"Desk": "desk", "PageLimits": "limits", "build_app": "serving", "build_page": "page", "serve": "serving"}
)
