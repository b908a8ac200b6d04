"""On what a measurement was taken: without it, a number of milliseconds says nothing."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path


def machine_facts(packages: tuple[str, ...] = ("torch", "opencv-contrib-python-headless", "numpy")) -> dict[str, str]:
    """Processor, system, versions and how busy the machine is; nothing that would name a person or a host."""
    facts = {
        "processor": f"{processor_name()}, {os.cpu_count()} cores",
        "system": f"{platform.system()} {platform.machine()}, Python {platform.python_version()}",
    }
    facts |= {name: _version(name) for name in packages}
    if hasattr(os, "getloadavg"):
        facts["load average at the start"] = f"{os.getloadavg()[0]:.1f}"
    return facts


def processor_name() -> str:
    listing = Path("/proc/cpuinfo")
    if listing.exists():
        for line in listing.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return " ".join(line.partition(":")[2].split())
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"
