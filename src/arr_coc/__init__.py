"""ARR-COC: decide, before the vision encoder runs, where a question needs a vision-language model's visual tokens.

>>> import arr_coc
>>> allocation = arr_coc.look("street.png", "What number is on the red sign?", budget=256)
>>> allocation.tokens
256

Names are resolved on first use, so that `import arr_coc` and `arr-coc --help` stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.plugins import resolve_lazily

if TYPE_CHECKING:  # for editors and type checkers; at run time the table below is used
    from .answering.esper import Esper as Esper
    from .answering.eye import Eye as Eye
    from .arrcocvis import ARRCOCVIS as ARRCOCVIS
    from .asking import ask as ask
    from .attending.allocate import allocate as allocate
    from .core.answer import Answer as Answer
    from .core.compare import compare as compare
    from .core.errors import InputError as InputError
    from .core.values import Allocation as Allocation
    from .core.values import Region as Region
    from .core.values import Relevance as Relevance
    from .knowing.registry import relevance_source as relevance_source
    from .looking import look as look
    from .options import Options as Options
    from .packing.pack import pack as pack
    from .packing.packed import Packed as Packed
    from .packing.prices.tables import tokens_for as tokens_for
    from .pictures.load import load_picture as load_picture
    from .realizing.attachment import attach as attach
    from .realizing.attachment import detach as detach
    from .video.stream import VideoStream as VideoStream
    from .video.watching import watch as watch

__version__ = "1.0.0"

__all__ = [
    "__version__",
    *resolve_lazily(
        __name__,
        {
            "ARRCOCVIS": "arrcocvis",
            "Allocation": "core.values",
            "Answer": "core.answer",
            "Esper": "answering.esper",
            "Eye": "answering.eye",
            "InputError": "core.errors",
            "Options": "options",
            "Relevance": "core.values",
            "VideoStream": "video.stream",
            "allocate": "attending.allocate",
            "ask": "asking",
            "attach": "realizing.attachment",
            "look": "looking",
            "pack": "packing.pack",
            "relevance_source": "knowing.registry",
            "watch": "video.watching",
        },
        older={
            "Packed": "packing.packed",
            "Region": "core.values",
            "compare": "core.compare",
            "detach": "realizing.attachment",
            "load_picture": "pictures.load",
            "tokens_for": "packing.prices.tables",
        },
        needs_torch=("ARRCOCVIS", "attach", "detach"),
    ),
]
