"""Two rules for every test: properties draw the same examples at every run, and nothing global is left behind.
And one for all of them: the garbage collector does not walk through torch and transformers again and again.

A run that draws new examples finds more, but a stranger's `make test` must not fail by chance:
`HYPOTHESIS_PROFILE=search` draws anew, with more examples.
"""

from __future__ import annotations

import gc
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from forked import Run, Zygote
from hypothesis import settings
from hypothesis.internal.conjecture import providers

settings.register_profile("same", derandomize=True, max_examples=60, deadline=None, database=None)
settings.register_profile("search", max_examples=1000, deadline=None, print_blob=True)
# What a developer has downloaded or read before is not there for tests; but matplotlib, which gradio imports, would
# list all fonts again in every process.
KEPT = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
os.environ.setdefault("MPLCONFIGDIR", os.path.join(KEPT, "matplotlib"))
os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="arr-coc-tests-")
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "same")
settings.load_profile(PROFILE)
# Hypothesis also draws numbers and texts that it finds in the modules imported so far: which these are depends on the
# tests that ran before.
if PROFILE == "same" and hasattr(providers, "_get_local_constants"):
    providers._get_local_constants = lambda: providers._local_constants


ZYGOTE = pytest.StashKey[Zygote]()
# Names of tests that take long, one a line, as FILE.py::test_name or FILE.py::test_name[case]: `pytest -m "not slow"`
# leaves them out. Chosen by `pytest --durations=0`.
SLOW = Path(__file__).parent / "slow.txt"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "slow: takes long; only `make test-all` runs it")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """First of all hooks that choose: whoever deselects by the marker must find it."""
    named = {line.strip() for line in SLOW.read_text(encoding="utf-8").splitlines() if line.strip()}
    for item in items:
        if {f"{item.path.name}::{name}" for name in (item.name, getattr(item, "originalname", item.name))} & named:
            item.add_marker(pytest.mark.slow)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Here everything is imported and nothing runs: the moment to fork."""
    if sys.platform == "linux" and any("zygote" in getattr(item, "fixturenames", ()) for item in session.items):
        session.stash[ZYGOTE] = Zygote()


def pytest_sessionfinish(session: pytest.Session) -> None:
    if ZYGOTE in session.stash:
        session.stash[ZYGOTE].close()


@pytest.fixture
def zygote(request: pytest.FixtureRequest) -> Zygote:
    """For processes that are killed or watched, without the seconds that each needs to import torch."""
    if ZYGOTE not in request.session.stash:
        pytest.skip("calls are made in forks, which only Linux does safely with torch loaded")
    return request.session.stash[ZYGOTE]


@pytest.fixture
def run(zygote: Zygote, tmp_path: Path) -> Run:
    """`arr-coc` in a fork, in this test's folder; see `Zygote.call`."""
    return partial(zygote.call, tmp_path)


def global_settings() -> dict[str, Any]:
    """What one test could change for the next: the folder, and torch's and OpenCV's settings where they are loaded."""
    found: dict[str, Any] = {"folder": os.getcwd()}
    torch: Any = sys.modules.get("torch")
    if hasattr(torch, "get_num_threads"):
        found["threads"] = torch.get_num_threads()
        found["precision of products"] = torch.get_float32_matmul_precision()
        found["default type"] = torch.get_default_dtype()
        found["gradients"] = torch.is_grad_enabled()
        found["repeatable kernels"] = torch.are_deterministic_algorithms_enabled()
    return found


@pytest.fixture(scope="module", autouse=True)
def the_collector_rests() -> None:
    """What is alive between two modules, mostly imported code, is not looked at again: a collection, of which some
    tests ask for dozens, then takes milliseconds instead of a second."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def nothing_is_left_behind() -> Iterator[None]:
    """Fails the test that leaves a global setting changed, not the one that trips over it later."""
    before = global_settings()
    yield
    after = global_settings()
    changed = {name: (value, after[name]) for name, value in before.items() if after[name] != value}
    if "folder" in changed:
        os.chdir(before["folder"])
    assert not changed, f"left behind (before, after): {changed}"
