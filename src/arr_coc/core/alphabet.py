"""The one alphabet: every character that a Needle World question, answer or picture may hold, in a fixed order.

Identifier 0 is padding; identifier i + 1 is CHARACTERS[i]. A character-level tokenizer can be made from it directly.
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
# Characters of a question that the scorer takes.
QUESTION = 96


def lower_case(ids: torch.Tensor) -> torch.Tensor:
    """Identifiers of any shape with small letters for capitals."""
    return ids + (IDS["a"] - IDS["A"]) * ((ids >= IDS["A"]) & (ids <= IDS["Z"]))


def text_row(text: str, length: int) -> list[int]:
    """A text as `length` identifiers: letters without accents, what the alphabet lacks as "?", padded or cut."""
    plain = unicodedata.normalize("NFKD", text)
    letters = [character for character in plain if not unicodedata.combining(character)][:length]
    row = [IDS.get(character, IDS["?"]) for character in letters]
    return row + [0] * (length - len(row))


def question_row(query: str) -> list[int]:
    """A question as the scorer reads it, in lower case."""
    return text_row(query.lower(), QUESTION)
