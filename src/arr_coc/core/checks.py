"""What an argument may be: each check gives the value back in its proper type, or raises one clear line."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np

from .errors import InputError

Kind = TypeVar("Kind")


def whole(value: object, name: str, least: int = 0, most: int = sys.maxsize) -> int:
    """`value` as a whole number from `least` to `most`, or one clear line."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not -np.inf < value < np.inf or int(value) != value:
        raise InputError(f"{name} must be a whole number, got {shown(value)}")
    if not least <= value <= most:
        raise InputError(f"{name} must be {f'at least {least}' if value < least else f'at most {most}'}, got {value}")
    return int(value)


def whole_size(value: object, name: str) -> tuple[int, int]:
    """`value` as (height, width) in whole pixels, or one clear line."""
    try:
        sides = list(value) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping) else []
    except TypeError:  # no sequence, or an array without axes
        sides = []
    if len(sides) != 2:
        raise InputError(f"{name} must be (height, width) in pixels, got {shown(value)}")
    return whole(sides[0], f"{name}: the height", 1), whole(sides[1], f"{name}: the width", 1)


def positive(value: object, name: str) -> float:
    """`value` as a number above 0, or one clear line."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not number or not 0 < value <= sys.float_info.max:
        raise InputError(f"{name} must be a number above 0, got {shown(value)}")
    return float(value)


def as_number(text: str) -> float | str:
    """A number that was given as text; the text where it is none."""
    try:
        return float(text)
    except ValueError:
        return text


def percentage(text: str, name: str) -> float:
    """The share that "25%" means, or one clear line."""
    share = as_number(text.strip().removesuffix("%"))
    if isinstance(share, str) or not 0 < share <= 100:
        raise InputError(f"{name} {text!r} is not a percentage above 0 and up to 100; give for example 25%")
    return share / 100


def share_of(full: int, share: float) -> int:
    """Tokens of a share of `full`: at least one, and never more than the share."""
    return max(1, math.floor(share * full + 1e-9))


def of_kind(value: object, kind: type[Kind], name: str) -> Kind:
    """`value`, which is one of `kind`, or one clear line."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be of class {kind.__name__}, got {shown(value)}")
    return value


def shown(value: object) -> str:
    """What was given, on one line of bearable length."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number of too many digits, an object that cannot tell itself
        text = f"something of class {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def frozen(value: object, name: str, kind: type[np.generic]) -> np.ndarray:
    """`value` as a read-only array of `kind`, copied only where the caller could still change it; or one clear line."""
    try:
        array = np.asarray(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers, got {shown(value)}") from error
    if array.dtype.kind not in "iuf" and array.size:
        raise InputError(f"{name} must be numbers, got {shown(value)}")
    integers = issubclass(kind, np.integer)
    if array.dtype != kind:
        limit = np.iinfo(np.int32).max if integers else np.finfo(np.float32).max
        if array.size and (not np.isfinite(array).all() or (np.abs(array.astype(np.float64)) > limit).any()):
            raise InputError(f"{name} contains NaN, infinity or a number that is too large")
        if integers and array.dtype.kind == "f" and (array != np.rint(array)).any():
            raise InputError(f"{name} must be whole numbers")
    elif not integers and not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinity")
    if array.dtype != kind or array.flags.writeable:
        array = array.astype(kind)
        array.flags.writeable = False
    return array
