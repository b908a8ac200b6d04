"""The one exception that means "the input is wrong, and here is what to do about it".

Everything a user can get wrong raises `InputError` with one line: what was given, why it will not do, what would.
The command line prints that line and exits with code 2; a library caller may catch it as a `ValueError`.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

# Packages that come with an extra, by the name under which they are imported.
EXTRAS = {"torch": "torch", "transformers": "torch", "safetensors": "torch", "scipy": "torch", "accelerate": "train"}
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
    """A package that is missing inside is told in one line, with the extra that brings it."""
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
