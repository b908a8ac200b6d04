"""Check arguments, raise one-line errors, and stop work that is no longer wanted.

Everything a user can get wrong raises `InputError` with one line: what was given, what is wrong, what to do.
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

# Import name of a package → the extra that installs it.
EXTRAS = {"torch": "torch", "transformers": "torch", "safetensors": "torch", "scipy": "torch", "accelerate": "train"}
EXTRAS |= dict.fromkeys(("fastapi", "uvicorn", "prometheus_client", "httpx"), "serve")
EXTRAS |= {"mcp": "mcp", "gradio": "microscope"}
LONGEST = 1000  # characters of a line


class InputError(ValueError):
    """A user's input that cannot be used; the message is one line that names the input and the remedy.

    Args:
        message: The message, which is reduced to one line.

    Example:
        >>> look("no-such-file.png", "What?")  # doctest: +SKIP
        InputError: no-such-file.png does not exist; check the path
    """

    def __init__(self, message: str) -> None:
        # A lone surrogate can neither be printed nor sent.
        line = " ".join(str(message).encode(errors="replace").decode().split())
        # Cut long messages in the middle, because the remedy is at the end.
        super().__init__(line if len(line) <= LONGEST else f"{line[: LONGEST // 2]} … {line[3 - LONGEST // 2 :]}")


class MissingPackage(InputError, ImportError):
    """A package that is not installed, with the command that installs it."""


@contextmanager
def naming_extras() -> Generator[None]:
    """Turn the `ImportError` of an optional package into one line that names the extra to install."""
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
    """Return whether `value` is a number; booleans are not."""
    return isinstance(value, Real) and not isinstance(value, bool)


def whole(value: object, name: str, least: int = 0, most: int = sys.maxsize) -> int:
    """Return `value` as an integer from `least` to `most`, or raise `InputError`."""
    if not is_number(value) or not -math.inf < value < math.inf or int(value) != value:
        raise InputError(f"{name} must be a whole number, got {shown(value)}")
    if not least <= value <= most:
        raise InputError(f"{name} must be {f'at least {least}' if value < least else f'at most {most}'}, got {value}")
    return int(value)


def whole_size(value: object, name: str) -> tuple[int, int]:
    """Return `value` as (height, width) in whole pixels, or raise `InputError`."""
    try:
        height, width = cast("tuple[object, object]", () if isinstance(value, str) else value)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be (height, width) in pixels, got {shown(value)}") from error
    return whole(height, f"{name}: the height", 1), whole(width, f"{name}: the width", 1)


def positive(value: object, name: str) -> float:
    """Return `value` as a number above 0, or raise `InputError`."""
    if not is_number(value) or not 0 < value <= sys.float_info.max:
        raise InputError(f"{name} must be a number above 0, got {shown(value)}")
    return float(value)


def as_number(text: str) -> float | str:
    """Parse a number; return the text itself if it is not one."""
    try:
        return float(text)
    except ValueError:
        return text


def percentage(text: str, name: str) -> float:
    """Parse a percentage such as "25%" into a share, or raise `InputError`."""
    share = as_number(text.strip().removesuffix("%"))
    if isinstance(share, str) or not 0 < share <= 100:
        raise InputError(f"{name} {text!r} is not a percentage above 0 and up to 100; give, for example, 25%")
    return share / 100


def share_of(full: int, share: float) -> int:
    """Return the tokens of a share of `full`, rounded down, at least one."""
    return max(1, math.floor(share * full + 1e-9))


def of_kind(value: object, kind: type[Kind], name: str) -> Kind:
    """Return `value` if it is an instance of `kind`, or raise `InputError`."""
    if not isinstance(value, kind):
        raise InputError(f"{name} must be of class {kind.__name__}, got {shown(value)}")
    return value


def shown(value: object) -> str:
    """Show a value on one line of at most 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except Exception:  # a number with too many digits, or a broken __repr__
        text = f"something of class {type(value).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."


def meant(name: object, known: Iterable[str]) -> str:
    """Return " (did you mean NAME?)", or "" if no known name is similar."""
    near = get_close_matches(name if isinstance(name, str) else "", list(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""


def frozen(value: object, name: str, kind: type[np.generic]) -> np.ndarray:
    """Return `value` as a read-only array of `kind`, copied if the caller could change it; or raise `InputError`."""
    import numpy as np

    if isinstance(value, np.ndarray) and value.dtype == kind == np.int32:
        array = value.copy() if value.flags.writeable else value
        array.flags.writeable = False
        return array
    try:
        array = np.asarray(value)
        largest = np.abs(array.astype(np.float64, casting="same_kind")).max(initial=0.0)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be numbers, got {shown(value)}") from error
    integers = issubclass(kind, np.integer)
    if not largest <= (np.iinfo(np.int32).max if integers else np.finfo(np.float32).max):  # false for NaN, too
        raise InputError(f"{name} contains NaN, infinity or a number that is too large")
    if integers and array.dtype.kind == "f" and (array != np.rint(array)).any():
        raise InputError(f"{name} must be whole numbers")
    if array.dtype != kind or array.flags.writeable:
        array = array.astype(kind)
        array.flags.writeable = False
    return array


_STOP: ContextVar[Callable[[], bool] | None] = ContextVar("arr_coc_stop", default=None)


class Stopped(Exception):
    """The work was stopped, because its result is no longer wanted."""


def check_stop() -> None:
    """Raise `Stopped` if the work around this call should stop."""
    stop = _STOP.get()
    if stop is not None and stop():
        raise Stopped


@contextmanager
def stopping(when: Callable[[], bool]) -> Generator[None]:
    """Stop the work inside at its next `check_stop` once `when()`, or that of an outer `stopping`, is true."""
    around = _STOP.get()
    token = _STOP.set(when if around is None else lambda: around() or when())
    try:
        yield
    finally:
        _STOP.reset(token)
