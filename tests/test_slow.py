"""The list of slow tests names tests that are there: a line that names nothing would be passed over in silence."""

from __future__ import annotations

from pathlib import Path

TESTS = Path(__file__).parent


def test_every_slow_test_is_there() -> None:
    for line in (TESTS / "slow.txt").read_text("utf-8").splitlines():
        file, _, name = line.partition("::")
        (path,) = TESTS.rglob(file)
        assert f"def {name.partition('[')[0]}(" in path.read_text("utf-8"), line
