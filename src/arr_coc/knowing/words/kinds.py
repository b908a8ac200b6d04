"""Classify words as kinds of values (date, amount, …), find the kind that a question asks for, and list synonyms.

No embeddings and no download: regular expressions, and the tables of `kinds.toml`. Results are arrays of flags.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..language.tables import plain, read_table

MONTHS = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_NUMBER = r"\d{1,3}(?:[,.' ]\d{3})+(?:[.,]\d+)?|\d+(?:[.,]\d+)?"
# Kind → a pattern that a whole word or phrase must match, in lower case.
PATTERNS: dict[str, str] = {
    "date": rf"\d{{1,4}}[-/.]\d{{1,2}}[-/.]\d{{1,4}}"
    rf"|(?:\w{{3,9}},? )?(?:(?:{MONTHS})[a-z]*\.? \d{{1,2}},?(?: \d{{2,4}})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)?[- ](?:{MONTHS})[a-z]*\.?(?:[-, ]+\d{{2,4}})?|(?:{MONTHS})[a-z]*\.? \d{{4}})",
    "year": r"(?:1[5-9]|20)\d\d(?:[-/–](?:\d\d|\d{4}))?\*?",
    "time": r"\d{1,2}[:.]\d{2}(?::\d{2})?(?: ?[ap]\.?m\.?)?|\d{1,2} ?[ap]\.?m\.?",
    "money": rf"(?:[$€£¥]|rm|usd|eur|gbp|us\$) ?-?(?:{_NUMBER})(?: ?(?:k|m|bn|million|billion))?"
    rf"|(?:{_NUMBER}) ?(?:[$€£¥]|usd|eur|dollars|euros)|\d{{1,3}}(?:,\d{{3}})*\.\d\d",
    "number": rf"[-+±(]?(?:{_NUMBER})[)*]?",
    "percent": rf"[-+]?(?:{_NUMBER}) ?(?:%|percent|per cent|pct)",
    "phone": r"\+?\d{0,3}[ .-]?\(?\d{2,5}\)?[ ./-]*\d{2,4}(?:[ .-]\d{2,6})+(?: ?x\d+)?|\(\d{3}\)|\d{3}-\d{4}",
    "mail": r"\S+@\S+\.\w+|(?:https?://|www\.)\S+|\w[\w-]+\.(?:com|org|net|de|io|gov|edu)",
    "code": r"(?=\S*\d)(?=\S*[a-z])[a-z0-9][a-z0-9/._#-]+|\d+[-/]\d+(?:[-/]\w+)?|\d{5,}|#\d+",
    "measure": rf"(?:{_NUMBER}) ?"
    r"(?:mm|cm|m|km|kg|g|mg|lbs?|oz|ml|l|in\.?|ft|°[cf]|v|w|hz|psi|min|hours?|h|days?|weeks?|ppm)",
    "yes": r"yes|no|x|n/a|none|✓|☒|☑",
}
# All kinds; the last two depend on upper case: names, and words without digits.
KINDS = (*PATTERNS, "name", "words")
_COMPILED = {kind: re.compile(pattern) for kind, pattern in PATTERNS.items()}
_NAME = re.compile(
    r"(?:(?:Mr|Mrs|Ms|Dr|Prof)\.? )?[A-Z][\w'’-]*\.?(?:,? (?:[A-Z][\w'’.-]*|de|van|von|der|la|&|and|of))*"
)

_TABLE = read_table(Path(__file__).with_suffix(".toml"))
ASKED = {kind: tuple(" ".join(words.split()).split(", ")) for kind, words in _TABLE["asks"].items()}
ASKS = tuple(ASKED)

# Word → the groups of synonyms that it belongs to.
GROUPS: dict[str, frozenset[int]] = {}
for _place, _line in enumerate(_TABLE["same"].strip().splitlines()):
    for _word in _line.split():
        GROUPS[_word] = GROUPS.get(_word, frozenset()) | {_place}

ASKING = frozenset(_TABLE["asking"].split())
_PARTS = re.compile(r"[^\W_]+|[#%$€£&]")


@lru_cache(maxsize=8192)
def parts_of(text: str) -> tuple[str, ...]:
    """Split a word into comparable parts: lower case, no accents or punctuation. "Zip/Postcode:" → zip, postcode."""
    return tuple(_PARTS.findall(plain(text)))


def question_parts(query: str, most: int = 24) -> tuple[list[str], np.ndarray]:
    """Return the last parts of a question and their weights (P,); words that name nothing have a low weight."""
    parts = [part for word in query.split() for part in parts_of(word)][-most:] or ["?"]
    return parts, np.array([0.15 if part in ASKING else 1.0 for part in parts], np.float32)


@lru_cache(maxsize=8192)
def stem(part: str) -> str:
    """Remove endings of plurals and verbs; short words stay as they are."""
    for ending, least in (("ies", 5), ("ing", 6), ("ed", 5), ("es", 5), ("s", 4)):
        if part.endswith(ending) and len(part) >= least and not part.endswith("ss"):
            return part.removesuffix(ending) + ("y" if ending == "ies" else "")
    return part


@lru_cache(maxsize=8192)
def kinds_of(text: str) -> tuple[bool, ...]:
    """Return for each of `KINDS` whether a word or phrase as a whole is of that kind."""
    bare = text.strip(" ,;:")
    found = [bool(_COMPILED[kind].fullmatch(bare.lower())) for kind in PATTERNS]
    return (*found, bool(_NAME.fullmatch(bare)), not any(map(str.isdigit, bare)))


def word_kinds(texts: Sequence[str]) -> np.ndarray:
    """Return `kinds_of` for each text, (N, kinds) float32."""
    return np.array([kinds_of(text[:64]) for text in texts], dtype=np.float32).reshape(len(texts), len(KINDS))


def asked_kinds(query: str) -> np.ndarray:
    """Return (asks,) float32: which of `ASKS` a question asks for."""
    lowered = " ".join(query.lower().split())
    words = {*re.findall(r"[\w-]+\.?", lowered), *re.findall(r"\w+", lowered)}
    found = [any(said in (lowered if " " in said else words) for said in several) for several in ASKED.values()]
    return np.array(found, dtype=np.float32)


_FIGURE = re.compile(r"[-+(]?[$€£]?\s?\d[\d,. ']*")
_FIGURES = tuple(KINDS.index(kind) for kind in ("number", "money", "percent", "measure"))
_SCALES = {"k": 1e3, "m": 1e6, "bn": 1e9, "million": 1e6, "billion": 1e9, "thousand": 1e3}


def number_of(text: str) -> float:
    """Parse the number of a word or phrase ("1,204.5", "34%", "$12"); NaN if it is not one."""
    found = _FIGURE.search(text) if any(kinds_of(text)[place] for place in _FIGURES) else None
    if found is None:
        return float("nan")
    rest = (text[: found.start()] + text[found.end() :]).strip().lower()
    digits = re.sub(r"[^\d.,]", "", found[0]).strip(".,")
    place = max(digits.rfind(","), digits.rfind("."))
    mark = digits[place] if place >= 0 else ""
    # The last mark separates thousands if there are several of its kind, or as in 1,204.
    if not mark or digits.count(mark) > 1 or (mark == "," and "." not in digits and len(digits) - place == 4):
        place = len(digits)
    whole, part = (re.sub(r"\D", "", one) for one in (digits[:place], digits[place:]))
    value = float(f"{whole or 0}.{part or 0}"[:40])
    scale = next((factor for word, factor in _SCALES.items() if re.search(rf"\b{word}\b", rest)), 1.0)
    return (-value if found[0].startswith(("-", "(")) else value) * scale
