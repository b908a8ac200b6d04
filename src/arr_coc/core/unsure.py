"""How sure an answer is, in words: numbers alone are passed over."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from .errors import InputError
from .values import Answer

# From here on the model gives more to other texts than to the one it says.
LIKELY_WRONG = 0.5
SOMEWHAT = 0.2
UNSURE = "I cannot read this: the answer is probably wrong; check it, or give more tokens"


def comparable(text: str) -> str:
    """A text as two answers are compared: without case, spaces, signs of currency and the marks between digits."""
    return re.sub(r"[\s$€£¥:;,]+", "", text).strip(".").casefold()


def is_unsure(uncertainty: float) -> bool:
    return uncertainty >= LIKELY_WRONG


def sureness_words(uncertainty: float) -> str:
    """ "sure", "fairly sure" or "unsure", with the number."""
    kind = "unsure" if is_unsure(uncertainty) else "fairly sure" if uncertainty >= SOMEWHAT else "sure"
    return f"{kind}, uncertainty {uncertainty:.2f}"


def check_sureness(least: float, option: str = "--min-sureness") -> float:
    """Raises `InputError` where a number is no sureness."""
    if not (isinstance(least, int | float) and math.isfinite(least) and 0 <= least <= 1):
        raise InputError(f"{option} {least} is no sureness; give 0 (every answer counts) to 1")
    return float(least)


def withheld(answer: Answer, least: float) -> Answer:
    """An answer of which the model is less sure than that says nothing; a note tells what it would have said."""
    sureness = 1 - answer.uncertainty
    if sureness >= least:
        return answer
    note = f"not sure enough: {sureness:.2f} is below {least:g}; it would have said {answer.text!r}"
    return replace(answer, text="", notes=(*answer.notes, note))
