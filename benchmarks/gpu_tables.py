"""Every table of a GPU in one call: each part in a process of its own with a limit of time, its numbers as JSON.

    python benchmarks/gpu_tables.py --out DIR                                  # all parts, about half an hour
    python benchmarks/gpu_tables.py --out DIR --parts scorer,mixed --seconds 300
    python benchmarks/gpu_tables.py --out DIR --tiny                           # does it run? On a CPU
    python benchmarks/gpu_tables.py --out DIR --parts "" --page docs/performance.md   # tables of what is there

A part whose JSON is complete is not measured again: delete DIR/<part>_gpu.json to have it anew. One that fails leaves
its last line in DIR/<part>.error, all it said in DIR/<part>.log, and the others go on. `--page` writes the tables, with
date, card and versions, between two marks of a page; a page without them is begun, or gets them at its end.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PARTS = ("scorer", "foveate", "glance", "mixed", "serve", "again")
# Of the seconds of a run, to each part.
SHARES = {"scorer": 0.1, "foveate": 0.3, "glance": 0.1, "mixed": 0.2, "serve": 0.2, "again": 0.1}
GRACE = 90.0  # seconds that a part may take beyond its own: imports, weights, the last case
OPEN, CLOSE = "<!-- gpu tables -->", "<!-- end of gpu tables -->"


def complete(path: Path) -> bool:
    """Is there a report of a part that came to its end?"""
    try:
        return bool(json.loads(path.read_text(encoding="utf-8"))["done"])
    except (OSError, ValueError, KeyError, TypeError):
        return False


def run_part(part: str, out: Path, seconds: float, tiny: bool) -> str | None:
    """Measure one part in a process of its own.

    Args:
        part: Of `PARTS`.
        out: Where its report, log and error go.
        seconds: That it is told to take; it is ended `GRACE` seconds later.
        tiny: On a CPU, to see that it runs.

    Returns:
        Why it failed, in one line; None where it did not.
    """
    script = Path(__file__).with_name(f"{part}_gpu.py")
    call = [sys.executable, str(script), "--out", str(out), "--seconds", f"{seconds:g}", *["--tiny"] * tiny]
    log, failed = out / f"{part}.log", out / f"{part}.error"
    failed.unlink(missing_ok=True)
    why = None
    with log.open("w", encoding="utf-8") as written:
        try:
            code = subprocess.run(call, stdout=written, stderr=subprocess.STDOUT, timeout=seconds + GRACE).returncode
            why = f"exit {code}" if code else None
        except subprocess.TimeoutExpired:
            why = f"ended after {seconds + GRACE:.0f} s"
        except OSError as error:
            why = repr(error)
    if why is not None:
        last = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
        why = f"{why}: {last[-1].strip()[:300] if last else 'it said nothing'}"
        failed.write_text(why + "\n", encoding="utf-8")
    return why


def tables_of(out: Path) -> str:
    """All tables of a folder of reports, each part with its date, card and versions."""
    parts = []
    for part in PARTS:
        path = out / f"{part}_gpu.json"
        if not path.is_file():
            continue
        report = json.loads(path.read_text(encoding="utf-8"))
        versions = ", ".join(f"{name} {report[name]}" for name in ("arr-coc", "torch", "transformers", "triton"))
        note = "" if report["done"] else " Not complete: the time was over."
        left = f" Left out: {', '.join(report['left_out'])}." if report.get("left_out") else ""
        for title, table in report["tables"].items():
            parts += [f"**{title}**", f"{report['card']}, {report['date']}, {versions}.{note}{left}", table]
    return "\n\n".join(parts)


def write_page(page: Path, tables: str) -> None:
    """The tables between their two marks."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    block = f"{OPEN}\n\n{tables}\n\n{CLOSE}"
    if OPEN in text and CLOSE in text:
        before, after = text.split(OPEN, 1)[0], text.split(CLOSE, 1)[1]
        text = before + block + after
    else:
        text = (text.rstrip() + "\n\n" if text else "") + block + "\n"
    page.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a folder for reports")
    parser.add_argument("--parts", default=",".join(PARTS), help=f"of {', '.join(PARTS)}; with commas")
    parser.add_argument("--seconds", type=float, default=1500, help="of all parts together, about")
    parser.add_argument("--tiny", action="store_true", help="on a CPU: does it run?")
    parser.add_argument("--page", type=Path, help="a page that gets the tables")
    options = parser.parse_args(arguments)
    parts = [part for part in options.parts.split(",") if part]
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no part {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}")
    options.out.mkdir(parents=True, exist_ok=True)
    whole, failures = sum(SHARES[part] for part in parts), {}
    for part in parts:
        if complete(options.out / f"{part}_gpu.json"):
            print(f"{part}: measured before", flush=True)
            continue
        started = time.perf_counter()
        why = run_part(part, options.out, options.seconds * SHARES[part] / whole, options.tiny)
        print(f"{part}: {why or 'done'} ({time.perf_counter() - started:.0f} s)", flush=True)
        if why:
            failures[part] = why
    tables = tables_of(options.out)
    if options.page:
        write_page(options.page, tables)
    print(tables)
    return {"failures": failures, "tables": tables}


if __name__ == "__main__":
    sys.exit(bool(main()["failures"]))
