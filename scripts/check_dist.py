"""Is what was built worth publishing? `make dist` asks: the wheel's and the sdist's contents, and what an index shows.

python scripts/check_dist.py dist
python scripts/check_dist.py --light pyproject.toml     the dependencies that `look` needs, for pip: all but torch's
"""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_BYTES = 100 * 1000 * 1000  # what an index takes
WITHOUT = {"__pycache__", ".hypothesis", ".pytest_cache"}
# Folders of the repository that a source distribution holds whole.
WHOLE = ("src", "tests", "docs", "examples", "benchmarks", "scripts")
ALONE = ("Makefile", "README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "constraints.txt")


def files_under(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if path.is_file() and not WITHOUT & set(path.parts))
    return {path.relative_to(ROOT).as_posix() for path in found if ".egg-info/" not in path.as_posix()}


def wheel_faults(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        told = next(name for name in names if name.endswith(".dist-info/METADATA"))
        metadata = archive.read(told).decode()
    wanted = {name.removeprefix("src/") for name in files_under(ROOT / "src")}
    faults = [f"{wheel.name} lacks {name}" for name in sorted(wanted - names)]
    faults += [f"{wheel.name} should not hold {name}" for name in sorted(names - wanted) if ".dist-info/" not in name]
    for licence in ("LICENSE", "LICENSES.txt"):
        if not any(re.search(rf"\.dist-info/licenses/(.*/)?{re.escape(licence)}$", name) for name in names):
            faults.append(f"{wheel.name} has no {licence} among its licences")
    return faults + metadata_faults(metadata)


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
    wanted = set(ALONE).union(*(files_under(ROOT / folder) for folder in WHOLE))
    return [f"{sdist.name} lacks {name}" for name in sorted(wanted - names)]


def main(folder: Path) -> int:
    wheels, sdists = sorted(folder.glob("*.whl")), sorted(folder.glob("*.tar.gz"))
    faults = [] if len(wheels) == len(sdists) == 1 else [f"{folder} must hold one wheel and one sdist"]
    large = [one for one in (*wheels, *sdists) if one.stat().st_size > MOST_BYTES]
    faults += [f"{one.name} has {one.stat().st_size / 1e6:.0f} MB, more than an index takes" for one in large]
    if not faults:
        faults = [*wheel_faults(wheels[0]), *sdist_faults(sdists[0])]
    print("\n".join(faults) or f"{wheels[0].name} and {sdists[0].name} are whole")
    return bool(faults)


def light(project: Path) -> str:
    wanted = tomllib.loads(project.read_text(encoding="utf-8"))["project"]["dependencies"]
    return " ".join(f"'{one}'" if " " in one else one for one in wanted if not re.match("torch|transformers", one))


if __name__ == "__main__":
    if sys.argv[1] == "--light":
        print(light(Path(sys.argv[2])))
    else:
        sys.exit(main(Path(sys.argv[1])))
