"""What a package index shows: the README with absolute links, and the addresses of the project.

Neither is written down anywhere: both follow from the repository that the build is made of, so that a fork's package
points at the fork. Where no repository on GitHub is known, pictures and links inside the repository become their words.
"""

from __future__ import annotations

import os
import re
import subprocess
from email.parser import Parser
from pathlib import Path

from setuptools import setup

ROOT = Path(__file__).parent
REPOSITORY = re.compile(r"(?:https://|git@|ssh://git@)github\.com[/:]([\w.-]+/[\w.-]+?)(?:\.git)?/?")
LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|#)([^)#\s]+)(#[^)\s]*)?\)")


def told() -> str:
    """The address of the repository, from whoever knows it: the variable, a GitHub workflow, git, or the sdist."""
    environment = os.environ
    if environment.get("ARR_COC_REPOSITORY"):
        return environment["ARR_COC_REPOSITORY"]
    if environment.get("GITHUB_REPOSITORY"):
        return f"{environment.get('GITHUB_SERVER_URL', 'https://github.com')}/{environment['GITHUB_REPOSITORY']}"
    package = ROOT / "PKG-INFO"
    if package.is_file():
        addresses = Parser().parsestr(package.read_text(encoding="utf-8"), headersonly=True).get_all("Project-URL", [])
        return next((one.partition(", ")[2] for one in addresses if one.startswith("Repository, ")), "")
    command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:  # no git
        return ""


def repository(address: str) -> str | None:
    """owner/name on GitHub; None for anything else, which the world could not open."""
    found = REPOSITORY.fullmatch(address)
    return found[1] if found else None


def addresses(name: str | None) -> dict[str, str]:
    if name is None:
        return {}
    home = f"https://github.com/{name}"
    return {
        "Repository": home,
        "Documentation": f"{home}/tree/main/docs",
        "Changelog": f"{home}/blob/main/CHANGELOG.md",
        "Issues": f"{home}/issues",
    }


def long_description(readme: str, name: str | None, ref: str = "main") -> str:
    """The README as an index can show it: the map of files is left out, links and pictures are absolute."""
    text = re.sub(r"<details>.*?</details>\n*", "", readme, flags=re.DOTALL)

    def absolute(link: re.Match[str]) -> str:
        picture, words, path, anchor = link[1], link[2], link[3], link[4] or ""
        if name is None:
            return f"*{words}*" if picture else words
        where = f"raw.githubusercontent.com/{name}/{ref}" if picture else f"github.com/{name}/blob/{ref}"
        return f"{picture}[{words}](https://{where}/{path}{anchor})"

    return LINK.sub(absolute, text)


if __name__ == "__main__":
    name = repository(told())
    ref = os.environ["GITHUB_REF_NAME"] if os.environ.get("GITHUB_REF_TYPE") == "tag" else "main"
    setup(
        long_description=long_description((ROOT / "README.md").read_text(encoding="utf-8"), name, ref),
        long_description_content_type="text/markdown",
        project_urls=addresses(name),
    )
