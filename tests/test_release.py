"""What an index will show, without building anything; `make dist` builds and looks inside."""

from __future__ import annotations

import importlib.util
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import arr_coc

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
NAME = "somebody/arr-coc"


def script(path: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"release_{Path(path).stem}", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("address", "name"),
    [
        (f"https://github.com/{NAME}", NAME),
        (f"https://github.com/{NAME}.git", NAME),
        (f"git@github.com:{NAME}.git", NAME),
        (f"ssh://git@github.com/{NAME}.git", NAME),
        ("/srv/git/arr-coc", None),
        ("https://example.org/somebody/arr-coc", None),
        ("https://github.com/only-an-owner", None),
        ("", None),
    ],
)
def test_only_a_repository_that_the_world_can_open_is_named(address, name):
    assert script("setup.py").repository(address) == name


def test_llms_txt_names_pages_that_are_there():
    text = (ROOT / "docs" / "llms.txt").read_text(encoding="utf-8")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 15
    assert [link for link in links if not (ROOT / "docs" / link).is_file()] == []


def test_every_link_of_the_long_description_is_absolute_and_points_at_a_file():
    shown = script("setup.py").long_description(README, NAME, "v1")
    links = re.findall(r"\]\(([^)]+)\)", shown)
    assert len(links) > 20
    assert all(link.startswith(("https://", "#")) for link in links)
    pictures = re.findall(rf"!\[[^\]]*\]\(https://raw.githubusercontent.com/{NAME}/v1/([^)]+)\)", shown)
    files = re.findall(rf"\]\(https://github.com/{NAME}/blob/v1/([^)#]+)", shown)
    assert len(pictures) >= 2
    assert all((ROOT / path).is_file() for path in (*pictures, *files))
    assert "<details>" not in shown


def test_without_a_repository_no_link_leads_nowhere():
    module = script("setup.py")
    shown = module.long_description(README, None)
    assert not re.search(r"\]\((?!https?://|#)", shown)
    assert module.addresses(None) == {}
    assert all(address.startswith(f"https://github.com/{NAME}") for address in module.addresses(NAME).values())


def test_metadata_that_an_index_shows_badly_is_found():
    check = script("scripts/check_dist.py").metadata_faults
    head = "Description-Content-Type: text/markdown\nClassifier: Programming Language :: Python :: 3.13\n"
    assert check(head + "\n[a](https://x.org)\n") == []
    assert any("leads nowhere" in fault for fault in check(head + "\n![a](docs/a.png)\n"))
    assert any("no picture" in fault for fault in check(head + "Project-URL: Repository, https://x.org\n\ntext\n"))
    assert any("classifiers" in fault for fault in check("Description-Content-Type: text/markdown\n\ntext\n"))


def test_version_changelog_and_licences_agree():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    versions = re.findall(r"^## \[([^\]]+)\]", changelog, flags=re.MULTILINE)
    assert project["version"] == arr_coc.__version__
    assert f"\nversion: {arr_coc.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert project["version"] in versions
    assert all((ROOT / path).is_file() for path in project["license-files"])
    assert {"docs", "microscope", "serve", "torch"} <= project["optional-dependencies"].keys()
    supported = {one.rsplit(" ", 1)[1] for one in project["classifiers"] if re.search(r":: 3\.\d+$", one)}
    workflow = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    assert set(re.findall(r'"(3\.\d+)"', workflow)) == supported
