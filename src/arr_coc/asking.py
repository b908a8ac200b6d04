"""`ask`: one question about one picture, answered from a budget of visual tokens."""

from __future__ import annotations

from copy import copy
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from .allocation.distance import scale_of
from .allocation.request import Request, check_decided, check_device, check_question, check_request
from .allocation.strategies import DEFAULT_STRATEGY
from .core.checks import of_kind, whole
from .core.errors import naming_extras
from .core.folders import MINI, part_folder
from .core.values import Allocation, Answer
from .eye.light import QuickEye, can_be_quick
from .eye.readings import check_readings
from .models.bundled import model_folder
from .pictures.pdf import load_page

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .allocation.request import Budget, Share, StrategyOptions
    from .eye.eye import Eye


@naming_extras()
def ask(
    image: Any,
    query: str,
    budget: Budget | None = None,
    keep: Share | None = None,
    *,
    model: str | Eye = MINI,
    device: str = "cpu",
    strategy: str | None = None,
    relevance: Any = None,
    allocation: Allocation | None = None,
    levels: int | None = None,
    seed: int = 0,
    words: Any = None,
    max_new_tokens: int = 64,
    scale: float | str | None = None,
    readings: int = 1,
    magnify: float | None = None,
    **options: Unpack[StrategyOptions],
) -> Answer:
    """One question about one picture; `model` is an `Eye`, "mini", a folder or a name on the hub. Several: `Eye`.

    magnify: another name for scale. The other arguments are those of `Eye.ask`.
    Where `QuickEye` will do, nothing heavy is imported.
    """
    check_request([query], budget, keep)
    check_question(query)
    if not hasattr(model, "set_image"):
        model_folder(model)
    check_decided(allocation, budget=budget, keep=keep, strategy=strategy, relevance=relevance)
    how: dict[str, Any] = {"levels": levels, "seed": seed, "scale": scale_of(scale, magnify)}
    # Told before a model is loaded; options are those of a strategy that only the model may know.
    laid = {"strategy": DEFAULT_STRATEGY} if strategy is None else {"strategy": strategy, **options}
    Request.of(budget, keep, **how, **laid)
    max_new_tokens = whole(max_new_tokens, "max_new_tokens", 1)
    check_device(device)
    if allocation is not None:
        of_kind(allocation, Allocation, "allocation")
    chosen: dict[str, Any] = {"strategy": strategy, "relevance": relevance, "allocation": allocation}
    picture, known = load_page(image)
    how |= {**chosen, "words": known if words is None else words, "max_new_tokens": max_new_tokens, **options}
    how["readings"] = check_readings(readings)
    if can_be_quick(model, device, picture.pixels.shape[:2], budget, keep, **chosen):
        return QuickEye(part_folder(MINI)).set_image(picture).ask(query, budget, keep, **how)
    # A copy: several threads may ask at once.
    eye: Any = model if hasattr(model, "set_image") else copy(_loaded(str(model), device))
    return eye.set_image(picture).ask(query, budget, keep, **how)


@lru_cache(maxsize=1)
def _loaded(name: str, device: str) -> Eye:
    """The model of the last `ask`, so that the next one does not read it again. Never shown a picture itself."""
    from .eye.eye import Eye

    return Eye.from_pretrained(name, device=device)
