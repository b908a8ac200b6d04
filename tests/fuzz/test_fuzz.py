"""Spoilt inputs at every door: a result or one line; never a traceback, a hang over 10 s, or more than 1 GB.

`make test` tries the same few cases at every run. `make fuzz` tries new ones for ARR_COC_FUZZ_SECONDS in all, from
ARR_COC_FUZZ_SEED or from a seed that it draws and prints.
"""

from __future__ import annotations

import os
import secrets
import sys

import pytest
from forked import Zygote
from fuzzing import HUNTERS, hunt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="cases are weighed by /proc, which Linux has")
SECONDS = float(os.environ.get("ARR_COC_FUZZ_SECONDS", "0"))
SEED = int(os.environ.get("ARR_COC_FUZZ_SEED", str(secrets.randbelow(10**6) if SECONDS else 0)))
# Cases of a plain run: about ten seconds of the processor in all.
CASES = {
    "pictures": 125,
    "documents": 400,
    "words": 75,
    "pdfs": 75,
    "commands": 20,
    "server": 15,
    "page": 6,
}
NEEDS = {"pdfs": ("pypdfium2",), "server": ("fastapi", "prometheus_client", "httpx"), "page": ("gradio", "httpx")}


@pytest.mark.parametrize("kind", list(HUNTERS))
def test_every_input_gets_a_result_or_one_line(zygote: Zygote, kind: str) -> None:
    for package in NEEDS.get(kind, ()):
        pytest.importorskip(package)
    count, seconds = (10**9, SECONDS / len(HUNTERS)) if SECONDS else (CASES[kind], 600.0)
    tried, found = hunt(zygote, kind, SEED, count, seconds)
    print(f"{kind}: {tried} cases of seed {SEED}, {len(found)} findings")
    assert not found, f"{len(found)} of {tried} cases of seed {SEED}:\n" + "\n\n".join(found)
    assert tried >= (1 if SECONDS else CASES[kind])
