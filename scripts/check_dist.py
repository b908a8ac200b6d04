"""Is what was built worth publishing? `make dist` asks.

python scripts/check_dist.py dist      contents of wheels and sdists, and what an index shows
python scripts/check_dist.py --try     with the product's wheel alone: it looks and answers, and says what is missing
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.parser import Parser
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_BYTES = 100 * 1000 * 1000  # what an index takes
WITHOUT = {"__pycache__", ".hypothesis", ".pytest_cache"}
# Folders of the repository that the product's source distribution holds whole.
WHOLE = ("src", "tests", "docs", "examples", "benchmarks", "scripts")
ALONE = ("Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "constraints.txt")
# Distribution → where its packages lie, and the licences that it must bring.
DISTRIBUTIONS = {
    "arr_coc": (ROOT / "src" / "arr_coc", ("LICENSE",)),
    "arr_coc_lab": (ROOT / "lab" / "arr_coc_lab", ("LICENSE", "LICENSES.txt")),
}


def files_under(folder: Path, base: Path = ROOT) -> set[str]:
    """Return every file below a folder that belongs to the repository, by its path from `base`."""
    present = (path for path in folder.rglob("*") if path.is_file() and not WITHOUT & set(path.parts))
    return {
        path.relative_to(base).as_posix() for path in present if not re.search(r"\.egg-info/|/build/", path.as_posix())
    }


def wheel_faults(wheel: Path) -> list[str]:
    package, licences = DISTRIBUTIONS[wheel.name.partition("-")[0]]
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        metadata_file = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(metadata_file).decode()
    wanted = files_under(package, package.parent)
    faults = [f"{wheel.name} lacks {name}" for name in sorted(wanted - names)]
    faults += [f"{wheel.name} should not hold {name}" for name in sorted(names - wanted) if ".dist-info/" not in name]
    for licence in licences:
        if not any(re.search(rf"\.dist-info/licenses/(.*/)?{re.escape(licence)}$", name) for name in names):
            faults.append(f"{wheel.name} has no {licence} among its licences")
    return faults + (metadata_faults(metadata) if package.name == "arr_coc" else [])


def metadata_faults(metadata: str) -> list[str]:
    """What an index would show wrongly."""
    message = Parser().parsestr(metadata)
    shown = str(message.get_payload())
    addresses = message.get_all("Project-URL", [])
    faults = [] if message["Description-Content-Type"] == "text/markdown" else ["the description is not Markdown"]
    relative = re.findall(r"\]\((?!https://|#)[^)]*\)", shown)
    faults += [f"the description has a link that leads nowhere: {link}" for link in relative]
    if addresses and not re.search(r"!\[[^\]]*\]\(https://raw\.", shown):
        faults.append("the repository is known, but the description shows no picture")
    classifiers = message.get_all("Classifier", [])
    faults += [] if any(one.endswith(":: 3.13") for one in classifiers) else ["no classifiers"]
    if not addresses:
        print("note: no repository on GitHub is known here, so no addresses and no pictures: set ARR_COC_REPOSITORY")
    return faults


def sdist_faults(sdist: Path) -> list[str]:
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    if sdist.name.startswith("arr_coc_lab"):
        wanted = files_under(ROOT / "lab" / "arr_coc_lab", ROOT / "lab")
    else:
        wanted = set(ALONE).union(*(files_under(ROOT / folder) for folder in WHOLE))
    return [f"{sdist.name} lacks {name}" for name in sorted(wanted - names)]


def check(folder: Path) -> int:
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    faults = [] if len(wheels) == len(sdists) == 2 else [f"{folder} must hold two wheels and two sdists"]
    large = [one for one in (*wheels, *sdists) if one.stat().st_size > MOST_BYTES]
    faults += [f"{one.name} has {one.stat().st_size / 1e6:.0f} MB, more than an index takes" for one in large]
    if not faults:
        faults = [fault for wheel in wheels for fault in wheel_faults(wheel)]
        faults += [fault for sdist in sdists for fault in sdist_faults(sdist)]
    print("\n".join(faults) or " and ".join(one.name for one in (*wheels, *sdists)) + " are whole")
    return bool(faults)


def try_alone() -> int:
    """Run the product where neither torch nor the laboratory is installed."""
    present = [name for name in ("torch", "transformers", "arr_coc_lab") if find_spec(name) is not None]
    if present:
        print(f"{', '.join(present)} is installed here; try the wheel in an environment of its own")
        return 1
    import arr_coc

    picture, question = str(Path(arr_coc.__file__).parent / "examples" / "street.png"), "What does the pink sign say?"
    arr_coc_command = [sys.executable, "-m", "arr_coc"]
    faults = []
    for words, code, message in (
        (("--help",), 0, ""),
        (("look", picture, question, "--set", "relevance=scorer", "--budget", "40"), 0, ""),
        (("ask", picture, question, "--budget", "40"), 0, "COFFEE"),
        (("ask", picture, question, "--set", "preset=saccades"), 2, "arr-coc[torch]"),
        (("train", "mini"), 2, "arr-coc-lab"),
        (("doctor",), 0, ""),
    ):
        done = subprocess.run([*arr_coc_command, *words], capture_output=True, text=True, check=False)
        print(f"arr-coc {' '.join(words[:1])}: {(done.stdout + done.stderr).strip().splitlines()[-1:]}")
        if done.returncode != code or message not in done.stdout + done.stderr or "Traceback" in done.stderr:
            faults.append(f"arr-coc {' '.join(words)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    print("\n".join(faults) or "the wheel alone looks and answers")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(try_alone() if sys.argv[1] == "--try" else check(Path(sys.argv[1])))
