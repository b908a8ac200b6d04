"""How sure an answer is, in words: numbers alone are passed over."""

from __future__ import annotations

# From here on the model gives more to other texts than to the one it says.
LIKELY_WRONG = 0.5
SOMEWHAT = 0.2
UNSURE = "the model itself thinks this answer is probably wrong; check it, give more tokens, or ask with --passes 4"


def is_unsure(uncertainty: float) -> bool:
    return uncertainty >= LIKELY_WRONG


def sureness_words(uncertainty: float) -> str:
    """ "sure", "fairly sure" or "unsure", with the number."""
    kind = "unsure" if is_unsure(uncertainty) else "fairly sure" if uncertainty >= SOMEWHAT else "sure"
    return f"{kind}, uncertainty {uncertainty:.2f}"
