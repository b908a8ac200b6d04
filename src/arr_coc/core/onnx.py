"""ONNX graphs on a processor, without torch: opened from files, or written node by node from weights.

`Graph` is as much of the format as a forward pass needs. What it writes goes to the runtime and never to a file:
weights have one home, their safetensors, and nothing has to be exported.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, Protocol

import numpy as np

OPSET, MICROSOFT = 20, "com.microsoft"
KINDS = {"float32": 1, "int8": 3, "int64": 7}  # numbers of the format for what arrays hold
SMALL = 1024  # bytes that are written into the graph
Attribute = float | Sequence[int]  # of a node


class SessionValue(Protocol):
    """A value that a graph takes or gives."""

    name: str
    shape: list[Any]


class Session(Protocol):
    """A session of onnxruntime whose values are arrays, which is all that graphs here have."""

    def run(self, names: Sequence[str] | None, values: Mapping[str, np.ndarray]) -> list[np.ndarray]: ...
    def get_inputs(self) -> Sequence[SessionValue]: ...
    def get_outputs(self) -> Sequence[SessionValue]: ...


def open_session(graph: str | bytes, weights: Mapping[str, np.ndarray] | None = None) -> Session:
    """An onnxruntime session of a file's path or its contents. weights: those that the graph only names."""
    runtime: Any = import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    # Of itself the runtime takes every core; several processes of it on one machine then wait for one another.
    threads = os.environ.get("OMP_NUM_THREADS", "")
    options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
    # Its threads wait by spinning, which is quick, but not longer than there is work: others need the cores as well.
    options.add_session_config_entry("session.force_spinning_stop", "1")
    if weights:
        options.add_external_initializers(list(weights), [*map(runtime.OrtValue.ortvalue_from_numpy, weights.values())])
    session = runtime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    session.weights = weights  # the runtime reads them where they lie, so they live as long as it does
    return session


class Graph:
    """A graph in the making. What every method returns is the name of a value."""

    def __init__(self) -> None:
        self._nodes: list[bytes] = []
        self._constants: list[bytes] = []
        self._weights: dict[str, np.ndarray] = {}
        self._inputs: list[bytes] = []
        self._count = 0

    def input(self, name: str, *sides: int | str, kind: str = "float32") -> str:
        """sides: numbers, or names of those that differ from run to run."""
        dims = b"".join(_part(1, _number(1, one) if isinstance(one, int) else _part(2, one)) for one in sides)
        shape = _part(1, _number(1, KINDS[kind]) + _part(2, dims))
        self._inputs.append(_part(1, name) + _part(2, shape))
        return name

    def weight(self, values: object, kind: str = "float32") -> str:
        array, name = np.ascontiguousarray(values, dtype=kind), self._name()
        head = b"".join(_number(1, side) for side in array.shape) + _number(2, KINDS[kind]) + _part(8, name)
        if array.nbytes > SMALL:  # the runtime gets the array itself; the graph says that it lies elsewhere
            self._weights[name] = array
            self._constants.append(head + _part(13, _part(1, "location") + _part(2, "memory")) + _number(14, 1))
        else:
            self._constants.append(head + _part(9, array.tobytes()))
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """A node with one result."""
        return self.several(1, kind, *inputs, domain=domain, **attributes)[0]

    def several(self, number: int, kind: str, *inputs: str, domain: str = "", **attributes: Attribute) -> list[str]:
        """A node with so many results. inputs: "" where one is left out."""
        names = [self._name() for _ in range(number)]
        given = b"".join(_part(1, one) for one in inputs) + b"".join(_part(2, one) for one in names)
        given += _part(4, kind) + _part(7, domain)
        self._nodes.append(given + b"".join(_part(5, _attribute(*one)) for one in attributes.items()))
        return names

    def session(self, *outputs: str) -> Session:
        """Ready to run; results come in the order of `outputs`."""
        found = b"".join(_part(1, one) for one in self._nodes) + _part(2, "graph")
        found += b"".join(_part(5, one) for one in self._constants) + b"".join(_part(11, one) for one in self._inputs)
        found += b"".join(_part(12, _part(1, name)) for name in outputs)
        sets = _part(8, _number(2, OPSET)) + _part(8, _part(1, MICROSOFT) + _number(2, 1))
        return open_session(_number(1, 9) + sets + _part(7, found), self._weights)

    # ---- what many layers are made of --------------------------------------------------------------------------------

    def linear(self, states: str, weight: object, bias: object = None) -> str:
        """(N, C) · weight (C', C) + bias → (N, C')."""
        given = () if bias is None else (self.weight(bias),)
        return self.add("Gemm", states, self.weight(weight), *given, transB=1)

    def coarse_linear(self, states: str, weight: object, bias: object) -> str:
        """`linear` in whole numbers: eight bits for the states, by the range they have, and seven for the weights, each
        row by its own scale; with eight, processors without instructions for such sums would cut them off."""
        weight = np.asarray(weight)
        scale = np.maximum(np.abs(weight).max(1), 1e-12) / 63
        whole = np.rint(weight / scale[:, None]).T
        nothing = np.zeros(len(weight))
        given = self.weight(whole, "int8"), self.weight(scale), self.weight(nothing, "int8"), self.weight(bias)
        return self.add("DynamicQuantizeMatMul", states, *given, domain=MICROSOFT)

    def root_norm(self, states: str, weight: object, epsilon: float = 1e-6) -> str:
        """Every row divided by the root mean square of its features."""
        return self.add("SimplifiedLayerNormalization", states, self.weight(weight), axis=-1, epsilon=epsilon)

    def norm(self, states: str, weight: object, bias: object, epsilon: float = 1e-6) -> str:
        given = self.weight(weight), self.weight(bias)
        return self.add("LayerNormalization", states, *given, axis=-1, epsilon=epsilon)

    def shaped(self, states: str, *sides: int) -> str:
        return self.add("Reshape", states, self.weight(sides, "int64"))

    def _name(self) -> str:
        self._count += 1
        return f"v{self._count}"


# ---- the wire format of protocol buffers -----------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers are written as large ones
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _part(field: int, value: str | bytes) -> bytes:
    data = value.encode() if isinstance(value, str) else value
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _attribute(name: str, value: Attribute) -> bytes:
    if isinstance(value, float):
        return _part(1, name) + _varint(2 << 3 | 5) + struct.pack("<f", value) + _number(20, 1)
    if isinstance(value, int):
        return _part(1, name) + _number(3, value) + _number(20, 2)
    return _part(1, name) + b"".join(_number(8, int(one)) for one in value) + _number(20, 7)
