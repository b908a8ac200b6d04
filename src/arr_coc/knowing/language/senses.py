"""In which sense a question's plain words are meant: "the right sign" is a place, "the right answer" is not.

Small tables and a handful of rules over neighbouring words, English most of all; words inside quotes never couple. It
leans to silence: a place or a colour that is missed costs a little relevance, one that was never meant sends the eye
away. `tests/relevance/test_senses.py` has its sentences and how often it is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

from .tables import DATA, CoupledWords, Language, Ordinal, languages, plain, read_table, with_chinese, words_in


@dataclass(frozen=True)
class _Word:
    """text: plain. raw: as written. before, after: what stands between it and its neighbours, quotes left out."""

    text: str
    raw: str
    before: str
    after: str


_s = words_in


@cache
def _words(name: str) -> frozenset[str]:
    """One of the sets of `data/senses.toml`, where it is said what each is for."""
    return words_in(read_table(DATA / "senses.toml")[name])


@cache
def _after_colour() -> dict[str, frozenset[str]]:
    return {colour: words_in(words) for colour, words in read_table(DATA / "senses.toml")["after_colour"].items()}


@cache
def _before_colour(language: str) -> dict[str, frozenset[str]]:
    table = read_table(DATA / "senses.toml")["before_colour"]
    return {colour: words_in(words) for colour, words in table[language].items()}


@cache
def _counted() -> re.Pattern[str]:
    """ "how many dogs": it asks for no text."""
    return re.compile(rf"\bhow many (?:\w+ ){{0,2}}?(?:{'|'.join(sorted(_words('counted')))})\b")


# ---- the words of a question ----------------------------------------------------------------------------------------

_QUOTES = re.compile(
    r'"[^"]*"|“[^”"]*[”"]|„[^“”"]*[“”"]|«[^»]*»|‹[^›]*›|「[^」]*」|『[^』]*』|《[^》]*》'
    r"|(?<![^\W_])['‘‚](?=\S)[^'’‘]*(?:(?<=\w)['’](?=\w)[^'’‘]*)*['’‘](?![^\W_])"
)
_WORD = re.compile(r"[^\W_]+")
_IDEOGRAPHS = re.compile(r"[\u3400-\u9fff]")
# Letters of scripts that no table here knows; kana make ideographs Japanese.
_FOREIGN = re.compile(r"[\u0370-\u03ff\u0400-\u052f\u0530-\u06ff\u0900-\u0eff\u10a0-\u11ff\u3040-\u30ff\uac00-\ud7af]")


def without_quotes(query: str) -> str:
    """The question without what it quotes: "the sign that says 'LEFT'" is about no left. A bar keeps the place."""
    return _QUOTES.sub(" | ", query)


def _words_of(text: str) -> list[_Word]:
    found = list(_WORD.finditer(text))
    ends = [0, *(one.end() for one in found)]
    starts = [*(one.start() for one in found), len(text)]
    return [
        _Word(plain(one[0]), one[0], text[ends[place] : starts[place]], text[ends[place + 1] : starts[place + 1]])
        for place, one in enumerate(found)
    ]


def language_of(words: Sequence[str]) -> Language | None:
    """The language that most of the words speak for; English where two are equal; None where no word is known."""
    votes = [language.votes(list(words)) for language in languages()]
    return languages()[votes.index(max(votes))] if any(votes) else None


@lru_cache(maxsize=512)
def coupled_words(query: str) -> CoupledWords:
    """Colour, place and reading words of a question and its ordinals: whole words, in order, each once."""
    text = without_quotes(query)
    if _FOREIGN.search(text):
        return CoupledWords()
    words = _words_of(_IDEOGRAPHS.sub(" ", text))
    language = language_of([word.text for word in words])
    found = CoupledWords() if language is None else _of_language(words, language)
    return with_chinese(found, text) if _IDEOGRAPHS.search(text) else found


def _of_language(words: list[_Word], language: Language) -> CoupledWords:
    around = [_Around(words, place, language) for place in range(len(words))]
    colours = {one.text: meaning for one in around if (meaning := _colour(one))}
    ordinals = [ordinal for one in around if (ordinal := _ordinal(one))]
    places = {one.text: kind for one in around if not _counts_from(one) and (kind := _place(one))}
    joined = " ".join(word.text for word in words)
    phrases = [phrase for phrase in language.phrases if re.search(rf"\b{phrase}\b", joined)]
    if language.name == "English":
        phrases = [one for one in phrases if one != "how many" or not _counted().search(joined)]
    reading = [*phrases, *(one.text for one in around if _reads(one))]
    return CoupledWords(
        colours=tuple(colours),
        places=tuple(places),
        reading=tuple(dict.fromkeys(reading)),
        ordinals=tuple(dict.fromkeys(ordinals)),
        colour_names=tuple(dict.fromkeys(colours.values())),
        place_kinds=tuple(dict.fromkeys(places.values())),
        language=language.name,
    )


class _Around:
    """A word and its neighbours, "" where there is none or a full stop, a comma or a quote lies between."""

    def __init__(self, words: list[_Word], place: int, language: Language) -> None:
        self.words, self.place, self.language = words, place, language
        self.text, self.raw = words[place].text, words[place].raw

    def at(self, distance: int) -> str:
        """The plain word so far away."""
        other = self.place + distance
        if not 0 <= other < len(self.words):
            return ""
        low, high = sorted((self.place, other))
        gaps = (word.after for word in self.words[low:high])
        return "" if any(re.search(r"[.,;:!?|()]", gap) for gap in gaps) else self.words[other].text

    @property
    def before(self) -> str:
        return self.at(-1)

    @property
    def after(self) -> str:
        return self.at(1)

    @property
    def named(self) -> bool:
        """Part of a name by its capitals: "Green Party", "Gordon Brown"; capitals of a whole question say nothing."""
        raws = [word.raw for word in self.words]
        small = [raw for raw in raws if raw[0].islower() and len(raw) > 3]
        if not small or not self.raw[0].isupper() or (self.raw.isupper() and len(self.raw) > 1):
            return False
        if self.language.name == "German":  # there every noun has a capital: the adjective decides
            return self.place > 0 and bool(self.after) and self.text not in ("mitte", "ecke", "zentrum")
        near = [self.place + step for step in (-1, 1) if 0 <= self.place + step < len(raws)]
        beside = [raws[other] for other in near if other > 0 and self.at(other - self.place)]
        return any(raw[0].isupper() and not raw.isupper() for raw in beside)


# ---- colours --------------------------------------------------------------------------------------------------------


def _colour(word: _Around) -> str | None:
    meaning = word.language.colours.get(word.text)
    if meaning is None and word.language.name == "German":  # hellblau, dunkelrotes
        tail = re.sub(r"^(hell|dunkel|knall|gras|himmel|zitronen|feuer)", "", word.text)
        meaning = word.language.colours.get(tail)
    if meaning is None or word.named or (word.place and word.words[word.place - 1].text in _words("titles")):
        return None
    if word.before in _before_colour(word.language.name).get(word.text, ()):
        return None
    if (
        word.language.name == "German"
        and word.text == "weiss"
        and word.after in _s("er sie man ich jemand niemand es ob dass")
    ):
        return None
    if word.language.name == "English":
        if word.after in _after_colour().get(word.text, ()):
            return None
        if word.text in ("red", "black") and (word.at(-2), word.before, word.after) == ("in", "the", ""):
            return None  # a firm in the red
    return meaning


# ---- places ---------------------------------------------------------------------------------------------------------


def _place(word: _Around) -> str | None:
    kind = word.language.places.get(word.text)
    if kind is None or (word.named and word.language.name != "German"):
        return None
    if word.before in _words("whose") and word.after in _words("body") and word.at(2) != "side":
        return None  # his left hand is on the right as often as not
    check = {
        "English": _english_place, "German": _german_place,
        "French": _french_place, "Spanish": _spanish_place,
    }[word.language.name]  # fmt: skip
    return kind if check(word) else None


def _english_place(word: _Around) -> bool:
    text, before, after = word.text, word.before, word.after
    sides = word.language.places.keys()
    if text == "left":
        remains = after not in ("of", "side", "and", "or") or word.at(-2) in ("much", "many")
        if remains and before in _s("is are was were s"):
            return False
        if (before in _s("to in on") and after in _s("do go")) or after in _s("over behind out off handed alone wing"):
            return False
        fragment = len(word.words) <= 3 and before not in _s("who he she they it i we you")
        if after in _s("the his her their home school work early a an it him them us me") and before not in _words(
            "lead"
        ):
            return False
        return before in _words("lead") or before in sides or after in _words("parts") or after in sides or fragment
    if text == "right":
        if after in _words("rightly") or (before == "the" and after == "to") or after in _s("wing handed"):
            return False
        if before in _s("is s all that are was not be") and after not in _words("parts"):
            return False
        opening = word.place == 0 and bool(after)
        return before in _words("lead") or before in sides or after in _words("parts") or after in sides or opening
    if text in ("top", "bottom"):
        if after in _words("ranked") or after.isdigit() or (before == "on" and after == "of"):
            return False
        dressed = before in word.language.colours or before in _s(
            "tank crop a an her his wearing sleeveless striped halter"
        )
        return not (dressed and (not after or after not in _words("parts")))
    if text == "upper":
        return after not in _words("higher") and bool(after)
    if text in ("lower", "lowermost"):
        return after in _words("parts") - {"and", "or", "of", "most", "hand"} or after in sides
    if text in ("middle", "central", "centre", "center"):
        if (
            before in _words("institutions")
            or after in _words("middle") | _words("central")
            or (after == "for" and text != "middle")
        ):
            return False
        near = {word.at(distance) for distance in range(1, 5)}
        return not (after == "of" and near & _words("abstract"))
    if text in ("corner", "corners"):
        return not (after in _s("shop store kick kicks office stone deli") or word.at(-2) == "around"
                    or (word.at(-2) == "on" and after == "of" and before == "the"))  # fmt: skip
    return True


def _german_place(word: _Around) -> bool:
    if word.text.startswith("recht") and word.after in _s("winkel antwort zeit"):
        return False
    near = {word.at(distance) for distance in range(1, 3)}
    return not (word.text == "mitte" and near & _s("jahres monats jahrhunderts januar juli juni mai"))


def _french_place(word: _Around) -> bool:
    text, before, after = word.text, word.before, word.after
    if text in ("haut", "bas"):
        return before in _s("en du le au tout coin bord cote") and after not in _s("prix debit niveau")
    if text == "droit":
        return before in _s("cote coin bord panneau")
    if text == "droite":
        return before not in _s("ligne extreme")
    if text.startswith(("superieur", "inferieur")):
        return after != "a"
    if text == "centre":
        return after not in _s("commercial ville hospitalier culturel medical")
    return not (text == "milieu" and {word.at(2), word.at(3)} & _s("annee mois siecle journee"))


def _spanish_place(word: _Around) -> bool:
    text, before, after = word.text, word.before, word.after
    if text == "derecho":
        return before in _s("lado margen borde extremo panel")
    if text == "medio":
        return before == "el" and word.at(-2) == "en" and after not in _s("ambiente oriente")
    if text.startswith(("superior", "inferior")):
        return after != "a"
    return not (text == "centro" and (after == "comercial" or word.at(2) in _s("salud datos llamadas")))


# ---- reading --------------------------------------------------------------------------------------------------------


def _reads(word: _Around) -> bool:
    text, before, after = word.text, word.before, word.after
    if word.language.name == "German":
        ends = ("nummer", "preis", "betrag", "datum", "summe", "adresse", "steuer", "titel", "name")
        return text in word.language.reading or text.endswith(ends)
    if text not in word.language.reading:
        return False
    if word.language.name != "English":
        return True
    if text in ("phone", "telephone"):
        return after in _s("number numbers no bill") or before not in _s(
            "a the his her their my cell mobile smart using holding on with and pay"
        )
    if text in ("say", "said", "read", "print", "letter"):
        idle = {
            "say": _s("you i we they let to"), "said": _s("he she they who"), "letter": _s("a"),
            "read": _s("to they he she you i kids children can"), "print": _s("floral leopard animal finger foot"),
        }[text]  # fmt: skip
        return before not in idle or (text == "read" and after in _s("the this it what that"))
    if text in ("name", "names", "named"):
        ahead = {word.at(distance) for distance in range(2, 5)}
        return not (word.place == 0 and text == "name" and after) and not (
            after == "of" and ahead & _words("kinds_of_things")
        )
    if text == "figure":
        return after not in _s("skating skater skaters skate") and before not in _s(
            "human stick action the this father"
        )
    if text == "date":
        return before not in _s("a first blind") or after in _s("of on is was")
    if text == "number":
        return not (after == "of" and word.at(2) in _s("people persons dogs cats cars birds animals"))
    return True


# ---- ordinals -------------------------------------------------------------------------------------------------------


def _ordinal(word: _Around) -> Ordinal | None:
    """ "third line", "second chart"; "first name" and "second hand" are none: nobody counts names."""
    number = word.language.ordinals.get(word.text)
    if number is None:
        return None
    for distance in (1, 2):  # "the second red chart"
        noun = word.at(distance)
        if noun in _words("countable") or noun.removesuffix("s") in _words("countable"):
            said = " ".join([word.text, *(word.at(step) for step in range(1, distance + 1))])
            whole = word.at(distance + 1) not in _s("of von der des du de del") or any(
                word.at(distance + step) in _words("whole") for step in (2, 3)
            )  # the third line of the address is not the third of the page
            return Ordinal(number, said, noun in word.language.lines and whole)
    return Ordinal(number, f"{word.text} from", False) if word.after == "from" else None


def _counts_from(word: _Around) -> bool:
    """Whether a side is only where counting begins: "the third item from the left" may be anywhere."""
    ordinals, starts = word.language.ordinals, _s("from von vom partir desde por")
    where = next((step for step in range(1, 4) if word.at(-step) in starts), 0)
    return bool(where) and any(
        ordinals.get(word.at(-step), 1) not in (1,) for step in range(where + 1, where + 5) if word.at(-step)
    )
