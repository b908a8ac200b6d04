"""The alphabet of mini and the scorer: all characters of Needle World's questions and answers, in a fixed order.

Identifier 0 is padding; identifier i + 1 is CHARACTERS[i].
"""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

CHARACTERS = "".join(map(chr, range(32, 127))) + "€"
PADDING = 0
NUMBER_OF_IDS = len(CHARACTERS) + 1
IDS = {character: index + 1 for index, character in enumerate(CHARACTERS)}
SPACE = IDS[" "]
# Maximum number of characters of a question that the scorer reads.
QUESTION = 96


def lower_case(ids: torch.Tensor) -> torch.Tensor:
    """Replace the identifiers of capitals by those of small letters, in any shape."""
    return ids + (IDS["a"] - IDS["A"]) * ((ids >= IDS["A"]) & (ids <= IDS["Z"]))


def text_row(text: str, length: int) -> list[int]:
    """Encode a text as `length` identifiers: accents are removed, unknown characters become "?", padded or cut."""
    plain = unicodedata.normalize("NFKD", text)
    letters = [character for character in plain if not unicodedata.combining(character)][:length]
    row = [IDS.get(character, IDS["?"]) for character in letters]
    return row + [0] * (length - len(row))


def question_row(query: str) -> list[int]:
    """Encode a question for the scorer, in lower case."""
    return text_row(query.lower(), QUESTION)
