"""The reading scorer as a graph for an ONNX runtime, beside its safetensors and without a second copy of the weights.

The graph's weights are external data: they point into model.safetensors, half precision as they are stored there, and
are made single precision when the runtime folds constants. The two files belong together and are written together.
"""

from __future__ import annotations

import json
import struct
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from ...alphabet import QUESTION
from ...errors import InputError
from ...files import replacing
from ...knowing.onnx_scorer import GRAPH_NAME
from ...knowing.reading_scorer import CELL, ReadingScorer
from ...manifest import changing, whole_folder
from ...pretrained import WEIGHTS_NAME

OPSET = 20
LARGEST = 128  # cells along a side


def export_scorer(scorer: ReadingScorer, folder: Path, like: Path | None = None) -> None:
    """Write config.json, model.safetensors (half precision) and model.onnx into a folder. like: see `write_graph`."""
    half = ReadingScorer(scorer.config)
    half.load_state_dict(scorer.state_dict())
    missing: InputError | None = None
    with whole_folder(folder) as made:
        half.half().save_pretrained(made)
        try:
            write_graph(made, like)
        except InputError as error:  # onnx is not installed: the weights are written all the same
            missing = error
    if missing is not None:
        raise missing


def write_graph(folder: Path, like: Path | None = None) -> None:
    """model.onnx beside the model.safetensors of a scorer's folder. like: the folder of the scorer from which this one
    was taught further: of the same shape, its graph is this one's too, which saves a quarter of a minute of tracing."""
    if like is not None and (like / GRAPH_NAME).is_file() and laid_out(like) == laid_out(folder):
        data = (like / GRAPH_NAME).read_bytes()
    else:
        graph = as_graph(ReadingScorer.from_pretrained(folder).float())
        share_weights(graph, folder / WEIGHTS_NAME)
        data = graph.SerializeToString()
    with changing(folder / GRAPH_NAME), replacing(folder / GRAPH_NAME) as temporary:
        Path(temporary).write_bytes(data)


def laid_out(folder: Path) -> tuple[Any, Any]:
    """The shape of a scorer, and where in its file each weight lies: all of it that a graph depends on."""
    return json.loads((folder / "config.json").read_text(encoding="utf-8")), header_of(folder / WEIGHTS_NAME)


def header_of(weights: Path) -> tuple[dict[str, Any], int]:
    """The header of a safetensors file, and its length."""
    with weights.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        return json.loads(file.read(length)), length


def as_graph(scorer: ReadingScorer) -> Any:
    """An ONNX model: pictures (1, 3, H, W) in [0, 1], H and W multiples of 32, question (1, 96) → logits (1, h, w)."""
    height, width = (torch.export.Dim(name, min=1, max=LARGEST) for name in ("rows", "cols"))
    pictures = torch.rand(1, 3, 3 * CELL, 5 * CELL)
    question = torch.ones(1, QUESTION, dtype=torch.int64)
    shapes = {"pictures": {2: CELL * height, 3: CELL * width}, "question_ids": {}}
    try:
        program = torch.onnx.export(
            scorer,
            (pictures, question),
            input_names=["pictures", "question"],
            output_names=["cells"],
            dynamo=True,
            opset_version=OPSET,
            dynamic_shapes=shapes,
            optimize=False,
            verbose=False,
        )
    except ModuleNotFoundError as error:
        raise InputError(
            f"writing {GRAPH_NAME} needs onnx and onnxscript ({error}); pip install onnx onnxscript"
        ) from error
    assert program is not None
    return program.model_proto


def share_weights(model: Any, weights: Path) -> None:
    """Replace the graph's own weights by references into a safetensors file of the same names, in half precision."""
    onnx: Any = import_module("onnx")
    header, length = header_of(weights)
    graph, kept, casts = model.graph, [], []
    for tensor in graph.initializer:
        place = header.get(tensor.name)
        if place is None:
            kept.append(tensor)
            continue
        start, stop = place["data_offsets"]
        half = onnx.TensorProto(name=f"{tensor.name}.half", data_type=onnx.TensorProto.FLOAT16, dims=place["shape"])
        half.data_location = onnx.TensorProto.EXTERNAL
        for key, value in (("location", weights.name), ("offset", 8 + length + start), ("length", stop - start)):
            half.external_data.add(key=key, value=str(value))
        kept.append(half)
        casts.append(onnx.helper.make_node("Cast", [half.name], [tensor.name], to=onnx.TensorProto.FLOAT))
    nodes = list(graph.node)
    del graph.initializer[:]
    del graph.node[:]
    graph.initializer.extend(kept)
    graph.node.extend([*casts, *nodes])
    del graph.value_info[:]
    for part in (model, graph, *graph.node, *graph.initializer, *graph.input, *graph.output):
        # Where in the source a node came from: two thirds of the file, paths of this machine, and of no use.
        del part.metadata_props[:]
        part.doc_string = ""


if __name__ == "__main__":  # for a folder that was trained where there is no onnx
    write_graph(Path(sys.argv[1]))
