"""ARR-COC: decide, before the vision encoder runs, where a question needs a vision-language model's visual tokens.

>>> import arr_coc
>>> allocation = arr_coc.look("street.png", "What number is on the red sign?", budget=256)
>>> allocation.tokens
256

Names are resolved on first use, so that `import arr_coc` and `arr-coc --help` stay fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import resolve_lazily

if TYPE_CHECKING:  # what editors and type checkers read; the table below is what runs
    from .allocation.allocate import allocate as allocate
    from .asking import ask as ask
    from .core.errors import InputError as InputError
    from .core.values import Allocation as Allocation
    from .core.values import Answer as Answer
    from .core.values import Region as Region
    from .core.values import Relevance as Relevance
    from .core.values import compare as compare
    from .eye.esper import Esper as Esper
    from .eye.eye import Eye as Eye
    from .looking import look as look
    from .models.attachment import attach as attach
    from .models.attachment import detach as detach
    from .packing.pack import pack as pack
    from .packing.packed import Packed as Packed
    from .pictures.load import load_picture as load_picture
    from .pricing.counting import tokens_for as tokens_for
    from .relevance.registry import relevance_source as relevance_source
    from .texturing import sense as sense
    from .video.stream import VideoStream as VideoStream
    from .video.watching import watch as watch

__version__ = "0.3.0"

__all__ = [
    "__version__",
    *resolve_lazily(
        __name__,
        {
            "Allocation": "core.values",
            "Answer": "core.values",
            "Esper": "eye.esper",
            "Eye": "eye.eye",
            "InputError": "core.errors",
            "Packed": "packing.packed",
            "Region": "core.values",
            "Relevance": "core.values",
            "VideoStream": "video.stream",
            "allocate": "allocation.allocate",
            "ask": "asking",
            "attach": "models.attachment",
            "compare": "core.values",
            "detach": "models.attachment",
            "load_picture": "pictures.load",
            "look": "looking",
            "pack": "packing.pack",
            "relevance_source": "relevance.registry",
            "sense": "texturing",
            "tokens_for": "pricing.counting",
            "watch": "video.watching",
        },
    ),
]
