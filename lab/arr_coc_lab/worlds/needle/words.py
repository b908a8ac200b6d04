"""The words of Needle World, and how it asks: lists by their names, `words("cities")`, `wordings("cards.number")`."""

from __future__ import annotations

from pathlib import Path

from ..word_lists import lists_of

DATA = Path(__file__).with_name("data")
words, wordings = lists_of(DATA / "words.toml"), lists_of(DATA / "wording.toml")
