"""Several readings: where an answer is unsure, the same picture is read again from the next distance.

The budget is that of all readings together: each gets its share, and one that is sure ends it, so a sure answer costs a
share of the tokens. The surest answer wins; readings that agree lower its uncertainty, those that do not raise it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from ..attending.distance import LARGEST, LEAST
from ..attending.request import Request
from ..core.checks import whole
from ..core.clock import summed
from ..core.errors import InputError
from ..core.unsure import comparable
from ..core.values import Answer

MOST_READINGS = 5
# How much farther or nearer the next reading is, one after the other.
STEPS = (1.0, 2**0.5, 2**-0.5, 2.0, 0.5)
SURE = 0.15  # uncertainty below which nothing is read again, as for passes


def check_readings(readings: object) -> int:
    """How often a picture may be read, 1 to 5; or one clear line."""
    return whole(readings, "readings", 1, MOST_READINGS)


def read_several(
    ask: Callable[..., Answer],
    readings: int,
    query: object,
    budget: object,
    keep: object,
    scale: float | str | None,
    full: int,
    how: Mapping[str, object],
) -> Answer:
    """One question, read from up to `readings` distances.

    Args:
        ask: Answers one reading: (query, budget, scale=…, **how).
        readings: At most so many.
        query: The question.
        budget: Tokens of all readings together, or None with keep.
        keep: Their share of the full count.
        scale: Of the first reading, as `Eye.ask` takes it.
        full: Tokens of the untouched picture.
        how: What every reading is asked with.

    Returns:
        The answer of all readings, each a pass.
    """
    if isinstance(budget, list | tuple):
        if len(budget) != 1:
            raise InputError(f"got {len(budget)} budgets for one picture; give one")
        budget = budget[0]
    request = Request.of(budget, keep, ceiling=how.get("ceiling"))
    tokens = request.tokens(full)
    number = min(readings, tokens)
    share = tokens // number
    # What is left of the budget goes to the first reading.
    found = [ask(query, tokens - share * (number - 1), scale=scale, **how)]
    told = found[0].allocation
    for step in STEPS[1:number]:
        if found[-1].uncertainty < SURE:
            break
        nearer = told.scale * 2.0**-told.finest * step
        found.append(ask(query, share, scale=min(max(nearer, LEAST), LARGEST), **how))
    answer = joined_answer(found)
    lowered = request.notes(full) if tokens < min(request.wanted(full), full) else ()
    return replace(answer, notes=tuple(dict.fromkeys((*answer.notes, *lowered))))


def joined_answer(found: Sequence[Answer]) -> Answer:
    """The surest of several answers, with the passes, seconds and notes of all.

    Args:
        found: One answer for each reading, in order.

    Returns:
        Its uncertainty is the surest reading's own where there is one.
    """
    if len(found) == 1:
        return found[0]
    best = min(found, key=lambda one: one.uncertainty)
    same = [comparable(one.text) == comparable(best.text) for one in found]
    sure = [1 - one.uncertainty for one in found]
    agreed = sum(share for share, is_same in zip(sure, same, strict=True) if is_same) / max(sum(sure), 1e-12)
    doubt = math.prod(one.uncertainty for one, is_same in zip(found, same, strict=True) if is_same)
    # The passes stand in the order in which they were read, the surest last: it is the one that is shown.
    ordered = [one for one in found if one is not best] + [best]
    told = f"{len(found)} readings, {sum(same)} of them agree"
    return replace(
        best,
        uncertainty=min(1.0, max(0.0, 1 - (1 - doubt) * agreed)),
        passes=tuple(step for one in ordered for step in one.passes),
        seconds=summed(one.seconds for one in found),
        notes=tuple(dict.fromkeys((*(note for one in ordered for note in one.notes), told))),
    )
