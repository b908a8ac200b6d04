"""Check arguments, refuse them in one line, and call work off.

Everything a user can get wrong raises `InputError` with one line: what was given, why it will not do, what would.
The command line prints that line and exits with code 2; a library caller may catch it as a `ValueError`.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from difflib import get_close_matches
from numbers import Real
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

if TYPE_CHECKING:
    import numpy as np

# Packages that come with an extra, by the name under which they are imported.
EXTRAS = {"torch": "torch", "transformers": "torch", "safetensors": "torch", "scipy": "torch", "accelerate": "train"}
EXTRAS |= dict.fromkeys(("fastapi", "uvicorn", "prometheus_client", "httpx"), "serve")
EXTRAS |= {"mcp": "mcp", "gradio": "microscope"}
LONGEST = 1000  # characters of a line


class InputError(ValueError):
    """A user's input that cannot be used; the message is one line that names the input and the remedy.

    Args:
        message: Of which one line is made.

    Example:
        >>> look("no-such-file.png", "What?")  # doctest: +SKIP
        InputError: no-such-file.png does not exist; check the path
    """

    def __init__(self, message: str) -> None:
        # Half a character (a lone surrogate) can neither be printed nor sent.
        line = " ".join(str(message).encode(errors="replace").decode().split())
        # A name of thousands of letters must not hide what is wrong with it; the remedy is at the end.
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[3 - LONGEST // 2 :]}")


class MissingPackage(InputError, ImportError):
    """A package that is not installed, with the command that installs it."""


@contextmanager
def naming_extras() -> Generator[None]:
    """Name the extra that brings a package which is missing inside, in one line."""
    try:
        yield
    except MissingPackage:
        raise
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        line = f'this needs {package}, which is not installed; install it: pip install "arr-coc[{EXTRAS[package]}]"'
        raise MissingPackage(line) from error


Kind = TypeVar("Kind")


def is_number(value: object) -> TypeGuard[float]:
    """Whether `value` is one number; true and false are none."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(value: object, name: str, least: int = 0, most: int = sys.maxsize) -> int:
    """`value` as a whole number from `least` to `most`, or one clear line."""
    if not is_number(value) or not -math.inf < value < math.inf or int(value) != value:
        raise InputError(f"{name} must be a whole number, got {shown(value)}")
    if not least <= value <= most:
        raise InputError(f"{name} must be {f'at least {least}' if value < least else f'at most {most}'}, got {value}")
    return int(value)


def whole_size(value: object, name: str) -> tuple[int, int]:
    """`value` as (height, width) in whole pixels, or one clear line."""
    try:
        height, width = cast("tuple[object, object]", () if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be (height, width) in pixels, got {shown(value)}") from error
    return whole(height, f"{name}: the height", 1), whole(width, f"{name}: the width", 1)


def positive(value: object, name: str) -> float:
    """`value` as a number above 0, or one clear line."""
    if not is_number(value) or not 0 < value <= sys.float_info.max:
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


def meant(name: object, known: Iterable[str]) -> str:
    """ " (did you mean NAME?)", or nothing where no known name is near."""
    near = get_close_matches(name if isinstance(name, str) else "", list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def frozen(value: object, name: str, kind: type[np.generic]) -> np.ndarray:
    """`value` as a read-only array of `kind`, copied only where the caller could still change it; or one clear line."""
    import numpy as np

    try:
        array = np.asarray(value)
        largest = np.abs(array.astype(np.float64, casting="same_kind")).max(initial=0.0)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers, got {shown(value)}") from error
    integers = issubclass(kind, np.integer)
    if not largest <= (np.iinfo(np.int32).max if integers else np.finfo(np.float32).max):  # nor is NaN
        raise InputError(f"{name} contains NaN, infinity or a number that is too large")
    if integers and array.dtype.kind == "f" and (array != np.rint(array)).any():
        raise InputError(f"{name} must be whole numbers")
    if array.dtype != kind or array.flags.writeable:
        array = array.astype(kind)
        array.flags.writeable = False
    return array


_STOP: ContextVar[Callable[[], bool] | None] = ContextVar("arr_coc_stop", default=None)


class Stopped(Exception):
    """The work was called off; its result is not wanted any more."""


def check_stop() -> None:
    """Raise `Stopped` where the work around this call was called off."""
    stop = _STOP.get()
    if stop is not None and stop():
        raise Stopped


@contextmanager
def stopping(when: Callable[[], bool]) -> Generator[None]:
    """End the work inside at its next `check_stop`, once `when()` or that of a surrounding `stopping` is true."""
    around = _STOP.get()
    token = _STOP.set(when if around is None else lambda: around() or when())
    try:
        yield
    finally:
        _STOP.reset(token)
