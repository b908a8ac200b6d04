"""Ways to spoil things: bytes, JSON, and values that no parameter was made for."""

from __future__ import annotations

import copy
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

TEXTS = (
    *("", " ", "x", "0", "-1", "1e3", "25%", "-5%", "nan", "inf", "1/4", "None", "true", "\0", "a\nb", "../../x"),
    *("🦊🦊", "‮abc", "\ud800", "%s%n", "{}", "{0.__class__}", "<b>", "[red]", "<|image_pad|>", "A" * 5000, "١٢"),
    *("quadtree", "overlay", "uniform", "oracle", "look", "scorer", "glance", "words", "detail", "cpu", "cuda:99", "-"),
    *("/dev/null", "/dev/zero", "/", "~", "file:///etc/passwd", "http://127.0.0.1:9/a.png"),
)
NUMBERS = (
    *(0, 1, 2, 3, 7, 64, -1, -7, 2**31, -(2**31), 2**63, 2**64, 10**400, 1e308, -1e308, 1e-320, 0.5, 2.5, -0.0),
    *(float("nan"), float("inf"), float("-inf"), True, False),
)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def plain(chance: random.Random) -> Any:
    """A value that JSON can hold."""
    kind = chance.randrange(8)
    if kind < 3:
        return chance.choice(NUMBERS)
    if kind < 5:
        return chance.choice(TEXTS)
    return chance.choice(
        (None, [], {}, [1, 2], [[]], [None], {"": 0}, {"a": [1]}, [1, "2", None], nested(50), [0.5] * 5)
    )


def anything(chance: random.Random) -> Any:
    """A value that Python can hold."""
    if chance.random() < 0.5:
        return plain(chance)
    made = np.random.default_rng(chance.randrange(2**32))
    return chance.choice(
        (
            lambda: b"",
            lambda: b"\x89PNG\r\n\x1a\n" + bytes(40),
            lambda: (3, 4),
            lambda: (-3, 0),
            lambda: (2.5, "x"),
            lambda: set(),
            lambda: range(3),
            lambda: object(),
            lambda: (value for value in [1]),
            lambda: Path("nowhere.png"),
            lambda: Path("."),
            lambda: print,
            lambda: lambda *what: 1,
            lambda: int,
            lambda: Decimal("0.3"),
            lambda: 3 + 4j,
            lambda: np.float32("nan"),
            lambda: np.int64(5),
            lambda: np.zeros(0, np.float32),
            lambda: np.zeros((0, 5, 3), np.uint8),
            lambda: np.zeros((2, 3), np.float32),
            lambda: made.random((3, 4), dtype=np.float32),
            lambda: np.full((3, 4), np.nan, np.float32),
            lambda: made.integers(-9, 300, (3, 4, 3)),
            lambda: np.array(["a", "b"]),
            lambda: np.array([None, 1], object),
            lambda: made.random((2, 3, 4, 5)),
            lambda: np.zeros((4, 6, 3), np.complex64),
            lambda: made.integers(0, 255, (40, 50, 3), dtype=np.uint8),
            lambda: np.array(7),
            lambda: [(0, 0, 1, 1)],
            lambda: [(0.1, 0.2), "x"],
            lambda: {"boxes": [[0, 0, 9, 9]], "x": 1},
        )
    )()


def spoil_bytes(chance: random.Random, data: bytes) -> bytes:
    """A few changes: bits, cuts, holes, repetitions, numbers at their limits."""
    spoilt = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 12))):
        # Heads are where sizes are told; they deserve half of it.
        end = min(len(spoilt), 64) if chance.random() < 0.5 else len(spoilt)
        place = chance.randrange(max(1, end))
        length = chance.choice((1, 2, 4, 16, 200))
        kind = chance.randrange(7)
        if kind == 0 and spoilt:
            spoilt[min(place, len(spoilt) - 1)] ^= 1 << chance.randrange(8)
        elif kind == 1:
            del spoilt[place:]
        elif kind == 2:
            del spoilt[place : place + length]
        elif kind == 3:
            spoilt[place:place] = spoilt[place : place + length] * chance.choice((1, 3, 50))
        elif kind == 4:
            spoilt[place : place + length] = chance.randbytes(length)
        elif kind == 5:
            spoilt[place : place + length] = chance.choice((b"\0", b"\xff")) * length
        else:
            number = chance.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, 65535, 65536, 100_000))
            spoilt[place : place + 4] = number.to_bytes(4, chance.choice(("big", "little")))
    return bytes(spoilt)


def spoil_json(chance: random.Random, document: Any) -> Any:
    """A few changes at places drawn by lot: another value, nothing, twice, another name."""
    spoilt = copy.deepcopy(document)
    for _ in range(chance.choice((1, 1, 2, 3))):
        places = list(_places(spoilt))
        if not places:
            return plain(chance)
        holder, key = chance.choice(places)
        kind = chance.randrange(6)
        if kind < 3:
            holder[key] = plain(chance)
        elif kind == 3:
            del holder[key]
        elif kind == 4 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(holder[key]))
        elif isinstance(holder, dict):
            holder[chance.choice(TEXTS)] = holder.pop(key)
        elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = chance.choice((-holder[key], holder[key] * 1000, holder[key] + 1))
    return plain(chance) if chance.random() < 0.03 else spoilt


def _places(value: Any) -> Any:
    if isinstance(value, dict | list):
        for key, inside in list(value.items() if isinstance(value, dict) else enumerate(value)):
            yield value, key
            yield from _places(inside)
