"""`arr-coc doctor`: check what is installed, what works, and what each feature lacks. Imports nothing heavy."""

from __future__ import annotations

import platform
import re
from importlib.metadata import PackageNotFoundError, requires, version
from typing import NamedTuple

from ... import __version__
from ...core.errors import InputError
from ...core.folders import MINI, SCORER, WEIGHTS, part_folder, verify
from ...knowing.photos.source import REMEDY, find_files
from ...pictures.ocr import FOLDER
from .console import USAGE_ERROR, print_json, say
from .options import OnlyJson

CORE = "look, ask with mini"
# Extras for developing the library, and those that only combine others.
NOT_FEATURES = ("dev", "docs", "all")


class Finding(NamedTuple):
    """The state of a feature. works: whether it can be used. detail: versions, or what is missing and how to install
    it. core: whether the library is broken without it."""

    feature: str
    works: bool
    detail: str
    core: bool = False


def command(as_json: OnlyJson = False) -> int:
    """Check what is installed, what works, and what each feature lacks.

    Fast: imports no package and needs no network. Exits with 2 if the library itself is incomplete.

    \b
    Examples:
      arr-coc doctor
      arr-coc doctor --json | jq '.findings[] | select(.works == false)'
    """
    findings = [*extras(), *parts()]
    machine = {"arr-coc": __version__, "python": platform.python_version()}
    machine |= {"system": f"{platform.system()} {platform.machine()}", "torch": number("torch") or "missing"}
    if as_json:
        print_json({"machine": machine, "findings": [one._asdict() for one in findings]})
    else:
        for one in findings:
            say(f"{'works' if one.works else 'MISSING' if one.core else 'missing'}  {one.feature}: {one.detail}")
        say(*(f"{key}: {value}" for key, value in machine.items()))
    return 0 if all(one.works for one in findings if one.core) else USAGE_ERROR


def number(package: str) -> str:
    """Return the version of a package, or "" if it is not installed."""
    try:
        return version(package)
    except PackageNotFoundError:
        return ""


def extras() -> list[Finding]:
    """Check the packages that the distribution requires, by extra."""
    packages: dict[str, list[str]] = {CORE: []}
    for requirement in requires("arr-coc") or ():
        package, extra = re.match(r"[\w.-]+", requirement), re.search(r"extra == ['\"](\w+)['\"]", requirement)
        if package and (extra is None or extra[1] not in NOT_FEATURES):
            packages.setdefault(CORE if extra is None else extra[1], []).append(package[0])
    findings = []
    for feature, needed in packages.items():
        core, missing = feature == CORE, [one for one in needed if not number(one)]
        detail = ", ".join(f"{one} {number(one)}" for one in needed)
        if missing:
            detail = f"without {', '.join(missing)}; pip install 'arr-coc{'' if core else f'[{feature}]'}'"
        findings.append(Finding(feature, not missing, detail, core))
    return findings


def parts() -> list[Finding]:
    """Verify the bundled weights, and look for the files of the object detector."""
    findings = []
    for part in (MINI, SCORER, FOLDER.name):
        try:
            verify(part_folder(part))
            findings.append(Finding(f"weights: {part}", True, f"complete, in {WEIGHTS / part}", core=True))
        except InputError as error:
            remedy = "pip install --force-reinstall --no-deps arr-coc"
            findings.append(Finding(f"weights: {part}", False, f"{error}; {remedy}", core=True))
    files = find_files()
    where = f"without a detector; {REMEDY}" if files is None else str(next(iter(files.values())).parent)
    findings.append(Finding("photos", files is not None, where))
    return findings
