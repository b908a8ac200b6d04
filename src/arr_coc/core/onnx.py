"""ONNX graphs on a processor, without torch. The laboratory writes them: `arr_coc_lab.train.onnx_graphs`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np


class Session(Protocol):
    """A session of onnxruntime whose values are arrays, which is all that graphs here have."""

    def run(self, names: Sequence[str] | None, values: Mapping[str, np.ndarray]) -> list[np.ndarray]: ...


def open_session(graph: Path) -> Session:
    """Open an ONNX graph, whose weights may lie beside it."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # Of itself the runtime takes every core; several processes of it on one machine then wait for one another.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
    # Its threads wait by spinning, which is quick, but not longer than there is work: others need the cores as well.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    return runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])


def stored(folder: Path, *names: str) -> list[np.ndarray]:
    """Read tensors of the safetensors in a folder, in single precision."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, np.ndarray] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="np") as file:
                known = file.keys()
                found |= {name: file.get_tensor(name).astype(np.float32) for name in names if name in known}
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return [found[name] for name in names]
