"""Work that can be called off: who starts it says when, and the work asks between its steps.

with stopping(lambda: client.gone): work()      `work` calls `check_stop()` now and then, which raises `Stopped`
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar

_STOP: ContextVar[Callable[[], bool] | None] = ContextVar("arr_coc_stop", default=None)


class Stopped(Exception):
    """Nobody wants the result any more."""


def check_stop() -> None:
    """Raises `Stopped` where the work around this call was called off."""
    stop = _STOP.get()
    if stop is not None and stop():
        raise Stopped


@contextmanager
def stopping(when: Callable[[], bool]) -> Generator[None]:
    """Work inside ends, at its next `check_stop`, once `when()` or that of a surrounding `stopping` is true."""
    around = _STOP.get()
    token = _STOP.set(when if around is None else lambda: around() or when())
    try:
        yield
    finally:
        _STOP.reset(token)
