"""Lists of words, wordings and numbers: TOML files in the folder `data` of a world, read when first needed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

from arr_coc.knowing.language.tables import read_table


def lists_of(path: Path) -> Callable[[str], tuple[str, ...]]:
    """What reads the lists of a file by their names: "items", "letter.closings"; none for a name that is not there. A
    string is a list of words with blanks between them, of a table the list is its keys."""

    @cache
    def listed(name: str) -> tuple[str, ...]:
        found = read_table(path)
        for key in name.split("."):
            found = found.get(key, {})
        return tuple(found.split() if isinstance(found, str) else found)

    return listed
