"""ONNX graphs on a processor, without torch."""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any


def open_session(graph: str | bytes) -> Any:
    """An onnxruntime session of a file's path or its contents."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # Of itself the runtime takes every core; several processes of it on one machine then wait for one another.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
    return runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
