"""The microscope: a web page that shows what the library sees, decides and answers.

    from arr_coc.app.microscope import serve
    serve()                      http://127.0.0.1:7860, for this machine only

One module for each tab (`*_tab`), one for what tabs are built from (`kit`), one for safety and serving (`serving`).
Needs `pip install 'arr-coc[microscope]'`. Names are resolved on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.plugins import resolve_lazily

if TYPE_CHECKING:
    from .serving import build_app as build_app
    from .serving import serve as serve

__all__ = resolve_lazily(__name__, {"build_app": "serving", "serve": "serving"})
