"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens.

    from arr_coc.app.serve import serve
    serve("mini")                http://127.0.0.1:8000/v1, for this machine only

`chat` reads a request, `engine` answers many in one batch, `api` is what clients see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...core.plugins import resolve_lazily

if TYPE_CHECKING:
    from .api import build_api as build_api
    from .api import serve as serve
    from .engine import Engine as Engine

__all__ = resolve_lazily(__name__, {"Engine": "engine", "build_api": "api", "serve": "api"})
