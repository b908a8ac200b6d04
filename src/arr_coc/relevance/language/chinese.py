"""Chinese colours, places, words about reading and ordinals, searched for in text that has no spaces."""

from __future__ import annotations

import re
from functools import cache

from .lexicon import LAST, CoupledWords, Ordinal
from .tables import DATA, meanings, read_table, words_in

NUMERALS = {numeral: number for number, numeral in enumerate("一二三四五六七八九十", 1)}

_ORDINAL = re.compile(r"(?:第([一二三四五六七八九十]|\d{1,2})|(最后一))(行|列|张|个|幅|排)")


@cache
def chinese_words() -> dict[str, tuple[str, str]]:
    """(colour, place, reading or nothing, meaning) by word."""
    table = read_table(DATA / "chinese.toml")
    return {
        **{word: ("colour", meaning) for word, meaning in meanings(table["colours"]).items()},
        **{word: ("place", meaning) for word, meaning in meanings(table["places"]).items()},
        **dict.fromkeys(words_in(table["reading"]), ("reading", "")),
        **dict.fromkeys(words_in(table["otherwise"]), ("", "")),
    }


@cache
def _pattern() -> re.Pattern[str]:
    return re.compile("|".join(sorted(chinese_words(), key=len, reverse=True)))


def with_chinese(found: CoupledWords, text: str) -> CoupledWords:
    """What was found in other letters, and the Chinese words."""
    by_kind: dict[str, dict[str, str]] = {"colour": {}, "place": {}, "reading": {}, "": {}}
    for one in _pattern().finditer(text):
        kind, meaning = chinese_words()[one[0]]
        by_kind[kind][one[0]] = meaning
    ordinals = tuple(
        Ordinal(LAST if last else NUMERALS.get(number) or int(number), f"第{number}{unit}" if number
                else f"最后一{unit}", unit == "行")
        for number, last, unit in _ORDINAL.findall(text)
    )  # fmt: skip
    colours, places = by_kind["colour"], by_kind["place"]
    if re.search(r"[从從][左右上下].*第", text):  # counted from there
        places = {}
    kinds = dict.fromkeys(kind for meaning in places.values() for kind in meaning.split())
    return CoupledWords(
        colours=(*found.colours, *colours),
        places=(*found.places, *places),
        reading=(*found.reading, *by_kind["reading"]),
        ordinals=(*found.ordinals, *ordinals),
        colour_names=tuple(dict.fromkeys((*found.colour_names, *colours.values()))),
        place_kinds=tuple(dict.fromkeys((*found.place_kinds, *kinds))),
        language="Chinese",
    )
