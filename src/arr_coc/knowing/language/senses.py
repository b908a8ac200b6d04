"""Decide in which sense a question's words are meant: "the right sign" is a place, "the right answer" is not.

The rules are in `data/senses.toml`, mostly for English; words inside quotes are never used. In doubt a word is ignored:
a missed place or colour costs a little relevance, a wrong one points at the wrong part of the picture.
`tests/relevance/test_senses.py` has test sentences and the error rate.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache

from .tables import DATA, Language, languages, plain, read_table, words_in


@dataclass(frozen=True)
class CoupledWords:
    """The words of a question that name something visible, as written, each once. colours, places: word → meaning.
    language: None if no word of a known language was found."""

    colours: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[str, str] = field(default_factory=dict)
    reading: tuple[str, ...] = ()
    language: str | None = None

    def __bool__(self) -> bool:
        return bool(self.colours or self.places or self.reading)


_QUOTES = re.compile(
    r'"[^"]*"|“[^”"]*[”"]|„[^“”"]*[“”"]|«[^»]*»|‹[^›]*›'
    r"|(?<![^\W_])['‘‚](?=\S)[^'’‘]*(?:(?<=\w)['’](?=\w)[^'’‘]*)*['’‘](?![^\W_])"
)
# Letters of scripts without a table.
_FOREIGN = re.compile(r"[\u0370-\u052f\u0530-\u06ff\u0900-\u0eff\u10a0-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def named_phrases(question: str, phrases: str) -> tuple[str, ...]:
    """Return the phrases (separated by commas) that occur in a question as whole words."""
    found = " ".join(["", *re.findall(r"\w+", question.lower()), ""])
    return tuple(phrase for phrase in phrases.split(", ") if f" {phrase} " in found)


@lru_cache(maxsize=512)
def coupled_words(query: str) -> CoupledWords:
    """Find the colour, place and reading words of a question: whole words, in order, each once."""
    text = _QUOTES.sub(" | ", query)  # in "the sign that says 'LEFT'", left is not a place
    found = list(re.finditer(r"[^\W_]+", text))
    words = [plain(one[0]) for one in found]
    votes = [language.votes(words) for language in languages()]
    if _FOREIGN.search(text) or not any(votes):
        return CoupledWords()
    language = languages()[votes.index(max(votes))]
    joined, starts, end = "", [], 0
    for one, word in zip(found, words, strict=True):
        joined += " | " if joined and re.search(r"[.,;:!?|()]", text[end : one.start()]) else " " if joined else ""
        starts.append(len(joined))
        joined, end = joined + word, one.end()
    otherwise = {match.start(1) for rule in _rules(language) for match in rule.finditer(joined)}
    raws = [one[0] for one in found]
    meant = [place for place, start in enumerate(starts) if start not in otherwise]
    plainly = [place for place in meant if not _is_name(raws, place, language)]
    in_places = meant if language.name == "German" else plainly
    colours = {words[place]: language.colours[words[place]] for place in plainly if words[place] in language.colours}
    places = {words[place]: language.places[words[place]] for place in in_places if words[place] in language.places}
    phrases = [match for phrase in language.phrases if (match := re.search(rf"\b{phrase}\b", joined))]
    reading = [match[0] for match in phrases if match.start() not in otherwise]
    reading += [words[place] for place in meant if language.reads(words[place])]
    return CoupledWords(colours, places, tuple(dict.fromkeys(reading)), language.name)


def asks_by_sight(query: str) -> bool:
    """Return whether a question is about something seen, not written: colours, places in the picture, yes or no."""
    coupled, words = coupled_words(query), [plain(word) for word in re.findall(r"[^\W_]+", query)]
    table = read_table(DATA / "senses.toml")
    named = bool(coupled.colours or coupled.places or words_in(table["hues"]).intersection(words))
    return named or not words_in(table["yes_or_no"]).isdisjoint(words[:1])


@cache
def _rules(language: Language) -> tuple[re.Pattern[str], ...]:
    """Build the patterns that find a word (the first group) in another sense, from the tables of a language."""
    table = read_table(DATA / "senses.toml")
    sets = {name: "|".join(sorted(words_in(words))) for name, words in table.items() if isinstance(words, str)}
    sets |= {"places": "|".join(language.places), "colours": "|".join(language.colours)}
    sets["later"] = "|".join(word for word, number in language.ordinals.items() if number != 1)
    own = table[language.name]
    patterns = [rf"\b{pattern}" if pattern[0] == "(" else pattern for pattern in own["patterns"]]
    patterns += [rf"\b({word}) (?:{'|'.join(others.split())})\b" for word, others in own.get("after", {}).items()]
    patterns += [rf"\b(?:{'|'.join(others.split())}) ({word})\b" for word, others in own.get("before", {}).items()]
    patterns += [
        rf"(?:^|\| |\b(?!(?:{'|'.join(others.split())}) )\w+ )({word})\b"
        for word, others in own.get("only_behind", {}).items()
    ]
    return tuple(re.compile(re.sub(r"\{([a-z_]+)\}", lambda name: sets[name[1]], pattern)) for pattern in patterns)


def _is_name(raws: list[str], place: int, language: Language) -> bool:
    """Return whether capitals mark a word as part of a name: "Green Party"; in an all-capitals question they do not."""
    raw = raws[place]
    if not raw[0].isupper() or (raw.isupper() and len(raw) > 1):
        return False
    if not any(other[0].islower() and len(other) > 3 for other in raws):
        return False
    if language.name == "German":  # there every noun has a capital: the adjective decides
        return 0 < place < len(raws) - 1
    beside = [raws[other] for other in (place - 1, place + 1) if 0 < other < len(raws)]
    return any(other[0].isupper() and not other.isupper() for other in beside)
