"""The code stays within its ceilings: what one engineer can own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))
import code_size

LINES = {"library": 19_000, "app": 6_000, "lab": 21_000, "scripts, benchmarks": 1_600, "tests": 24_000}
FILES = {"library": 115, "app": 45, "lab": 120}
CLOSURES = {"look": 9_000, "attach": 10_000, "ask": 13_000}
COUNTS = {"public_names": 16, "extras": 8, "options": 60, "commands": 10, "lines_with_any": 300}
NONE = ("circles", "class_names_twice", "long_functions", "wide_functions")
CEILINGS = {
    **{f"lines of {name}": most for name, most in LINES.items()},
    **{f"files of {name}": most for name, most in FILES.items()},
    **{f"closure of {name}": most for name, most in CLOSURES.items()},
    **COUNTS,
    **dict.fromkeys(NONE, 0),
}


@pytest.fixture(scope="module")
def counts() -> dict[str, int]:
    found = code_size.measure()
    return {
        **{f"lines of {name}": found["sizes"][name]["lines"] for name in LINES},
        **{f"files of {name}": found["sizes"][name]["files"] for name in FILES},
        **{f"closure of {name}": found["closures"][name] for name in CLOSURES},
        **{name: found[name] for name in COUNTS},
        **{name: len(found[name]) for name in NONE},
    }


@pytest.mark.parametrize("name", CEILINGS)
def test_a_ceiling_holds(counts: dict[str, int], name: str) -> None:
    assert counts[name] <= CEILINGS[name]


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = "{'torch', 'transformers', 'cv2', 'scipy', 'numpy', 'PIL', 'gradio', 'rich'}"
    code = f"import arr_coc, sys; print(sorted({heavy} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
