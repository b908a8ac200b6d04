"""Results that were recorded still hold, in the part that takes seconds; `make goldens` compares them all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tiny_weights import needs_weights

ROOT = Path(__file__).parents[1]


@needs_weights
def test_the_quick_goldens_are_equal_and_a_changed_one_is_reported(tmp_path: Path) -> None:
    for path in (ROOT / "tests" / "goldens").glob("*.json"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    looks = json.loads((tmp_path / "looks.json").read_text(encoding="utf-8"))
    looks["street map"]["tokens"] += 1
    (tmp_path / "looks.json").write_text(json.dumps(looks), encoding="utf-8")
    line = [sys.executable, ROOT / "scripts" / "goldens.py", "--quick", "--no-notes", "--folder", tmp_path]
    line += ["--moved", "0.05"]  # where two places are about as relevant, processors may choose either
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    told = [one for one in done.stdout.splitlines() if "…" not in one]
    assert told[0].startswith("needle: equal (7)"), done.stdout
    assert told[1] == "looks: street map.tokens: expected 101, got 100", done.stdout
    assert told[2].startswith("looks: 1 differences"), done.stdout
    assert told[3].startswith("asks: equal (4)"), done.stdout
    assert len(told) == 4, done.stdout
    assert done.returncode == 1, done.stderr
