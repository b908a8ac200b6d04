"""ARR-COC: decide, before the vision encoder runs, where a question needs a vision-language model's visual tokens.

>>> import arr_coc
>>> allocation = arr_coc.look("street.png", "What number is on the red sign?", budget=256)
>>> allocation.tokens
256

Names are resolved on first use, so that `import arr_coc` and `arr-coc --help` stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .lazy import resolve_lazily

if TYPE_CHECKING:  # what editors and type checkers read; the table below is what runs
    from .asking import Eye as Eye
    from .attending import allocate as allocate
    from .attending import tokens_for as tokens_for
    from .backbones import attach as attach
    from .backbones import detach as detach
    from .errors import InputError as InputError
    from .knowing.registry import relevance_source as relevance_source
    from .looking import look as look
    from .pictures import load_picture as load_picture
    from .quick import ask as ask
    from .texturing import sense as sense
    from .values import Allocation as Allocation
    from .values import Answer as Answer
    from .values import Region as Region
    from .values import Relevance as Relevance
    from .values import compare as compare

__version__ = "0.2.0"

__all__ = [
    "__version__",
    *resolve_lazily(
        __name__,
        {
            "Allocation": "values",
            "Answer": "values",
            "Eye": "asking",
            "InputError": "errors",
            "Region": "values",
            "Relevance": "values",
            "allocate": "attending",
            "ask": "quick",
            "attach": "backbones",
            "compare": "values",
            "detach": "backbones",
            "load_picture": "pictures",
            "look": "looking",
            "relevance_source": "knowing",
            "sense": "texturing",
            "tokens_for": "attending",
        },
    ),
]
