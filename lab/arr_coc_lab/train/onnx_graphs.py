"""Write the ONNX graphs that the product runs without torch: those of the scorer and of a dense Qwen3-VL.

    write_scorer_graphs(folder)     see.onnx reads a picture, find.onnx matches a question with it
    write_reader_graphs(folder)     tower.onnx encodes leaves, speaker.onnx answers

A graph is a few kilobytes. Its weights are external data inside the safetensors next to it, in half precision; the
runtime casts, splits and quantises them once, when a session starts.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from arr_coc.core.folders import whole_folder

OPSET, MICROSOFT = 20, "com.microsoft"
KINDS = {"float32": TensorProto.FLOAT, "int8": TensorProto.INT8, "int64": TensorProto.INT64}
STORED = {"F16": TensorProto.FLOAT16, "F32": TensorProto.FLOAT, "I8": TensorProto.INT8}
TANH_GELU = "FastGelu"  # the runtime's name for GELU by the hyperbolic tangent, which the tower's blocks use
NARROW = 64  # maximum features of a row for which `norm_of_many` is faster


class GraphWriter:
    """A builder of a graph over the safetensors of a folder. Every method returns the name of a value."""

    def __init__(self, folder: Path) -> None:
        self.places: dict[str, tuple[str, int, int, str, list[int]]] = {}
        for path in sorted(folder.glob("*.safetensors")):
            with path.open("rb") as file:
                (length,) = struct.unpack("<Q", file.read(8))
                header = json.loads(file.read(length))
            for name, about in header.items():
                if name != "__metadata__":
                    first, last = about["data_offsets"]
                    self.places[name] = path.name, 8 + length + first, last - first, about["dtype"], about["shape"]
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.known: dict[str, str] = {}

    def shape(self, name: str) -> list[int]:
        return self.places[name][4]

    def input(self, name: str, *sides: int | str, kind: str = "float32") -> str:
        """Add an input. sides: sizes, or names of sizes that vary from run to run."""
        self.inputs.append(helper.make_tensor_value_info(name, KINDS[kind], sides))
        return name

    def stored(self, name: str) -> str:
        """Refer to a tensor of the safetensors, in single precision."""
        if name not in self.known:
            file, offset, length, kind, shape = self.places[name]
            tensor = TensorProto(name=name, data_type=STORED[kind], dims=shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", file), ("offset", offset), ("length", length)):
                tensor.external_data.add(key=key, value=str(value))
            self.initializers.append(tensor)
            self.known[name] = name if kind == "F32" else self.add("Cast", name, to=TensorProto.FLOAT)
            if kind == "I8":  # whole numbers, each with the scale of its channel
                self.known[name] = self.add("Mul", self.known[name], self.stored(f"{name}.scale"))
        return self.known[name]

    def constant(self, values: object, kind: str = "float32") -> str:
        array, name = np.ascontiguousarray(values, dtype=kind), f"c{len(self.initializers)}"
        self.initializers.append(helper.make_tensor(name, KINDS[kind], array.shape, array.ravel()))
        return name

    def add(self, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node with one result."""
        return self.several(1, kind, *inputs, domain=domain, **attributes)[0]

    def several(self, number: int, kind: str, *inputs: str, domain: str = "", **attributes: Any) -> list[str]:
        """Add a node with `number` results. inputs: "" for one left out."""
        names = [f"v{len(self.nodes)}_{place}" for place in range(number)]
        self.nodes.append(helper.make_node(kind, inputs, names, domain=domain, **attributes))
        return names

    def write(self, path: Path, *outputs: str) -> None:
        """Write the graph next to its weights; results come in the order of `outputs`."""
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, path.stem, self.inputs, results, self.initializers)
        sets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        with whole_folder(path.parent, always=False) as made:
            (made / path.name).write_bytes(
                helper.make_model(graph, opset_imports=sets, ir_version=9).SerializeToString()
            )

    def parts(self, value: str, number: int, size: int) -> list[str]:
        """Cut a value (number · size, …) along its first axis."""
        axis = self.constant([0], "int64")
        bounds = [self.constant([place * size], "int64") for place in range(number + 1)]
        return [self.add("Slice", value, bounds[n], bounds[n + 1], axis) for n in range(number)]

    def linear(self, states: str, weight: str, bias: str | None = None) -> str:
        """Multiply: (N, C) · weight (C', C) + bias → (N, C')."""
        return self.add("Gemm", states, weight, *(() if bias is None else (bias,)), transB=1)

    def coarse_linear(self, states: str, weight: str, bias: str) -> str:
        """Add `linear` in whole numbers: eight bits for states, scaled by their range, and seven for weights, with a
        scale for each row; with eight, the sums would saturate on processors without instructions for them."""
        largest = self.add("ReduceMax", self.add("Abs", weight), self.constant([1], "int64"), keepdims=1)
        scale = self.add("Div", self.add("Max", largest, self.constant([[1e-12]])), self.constant([[63.0]]))
        whole = self.add("Cast", self.add("Round", self.add("Div", weight, scale)), to=TensorProto.INT8)
        flat = self.shaped(scale, -1)
        nothing = self.add("Cast", self.add("Mul", flat, self.constant([0.0])), to=TensorProto.INT8)
        turned = self.add("Transpose", whole, perm=(1, 0))
        return self.add("DynamicQuantizeMatMul", states, turned, flat, nothing, bias, domain=MICROSOFT)

    def root_norm(self, states: str, weight: str, epsilon: float = 1e-6) -> str:
        """Divide every row by the root mean square of its features."""
        return self.add("SimplifiedLayerNormalization", states, weight, axis=-1, epsilon=epsilon)

    def norm(self, states: str, part: str, epsilon: float = 1e-6) -> str:
        given = self.stored(part + ".weight"), self.stored(part + ".bias")
        return self.add("LayerNormalization", states, *given, axis=-1, epsilon=epsilon)

    def shaped(self, states: str, *sides: int) -> str:
        return self.add("Reshape", states, self.constant(sides, "int64"))


# ---- the scorer ------------------------------------------------------------------------------------------------------


def write_scorer_graphs(folder: Path, *, exact: bool = False) -> None:
    """Write the graphs of a trained `ReadingScorer` into its folder. exact: in single precision throughout."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    writer = _ScorerWriter(folder, config, exact)
    writer.write(folder / "see.onnx", *writer.seeing())
    writer = _ScorerWriter(folder, config, exact)
    writer.write(folder / "find.onnx", writer.finding())


class _ScorerWriter(GraphWriter):
    """The layers of `ReadingScorer`: places in rows, features in columns, most products in whole numbers."""

    def __init__(self, folder: Path, config: dict[str, Any], exact: bool) -> None:
        super().__init__(folder)
        self.config, self.exact = config, exact

    def seeing(self) -> tuple[str, str]:
        """Add pictures → features (N, C) at a stride of 8, and the queries of the first match."""
        config = self.config
        pictures = self.input("pictures", 1, 3, "height", "width")
        self.shape_inputs((4, 8))
        stem = self.add("Gelu", self.conv(pictures, "stem.0", strides=(2, 2)))
        stem = self.add("Transpose", self.conv(stem, "stem.2", strides=(2, 2)), perm=(0, 2, 3, 1))
        features = self.shaped(stem, -1, config["narrow"])
        for number in range(config["fine"]):
            features = self.block(features, f"fine.{number}", 4)
        features = self.down(features, "down8", 4)
        for number in range(config["before"]):
            features = self.block(features, f"read.{number}", 8)
        return features, self.asking(features, "matches.0")

    def finding(self) -> str:
        """Add the features and a question → logits of every cell."""
        config = self.config
        features = self.input("features", "places", config["middle"])
        asking = self.input("asking", 1, "places", self.shape("matches.0.ask.weight")[0])
        question = self.input("words", "letters", config["query_width"])
        there = self.input("there", 1)
        waves = self.input("waves", "cells", 4 * config["waves"])
        self.shape_inputs((8, 16, 32))
        words, summary = self.question(question, there)
        features = self.match(features, "matches.0", words, config["heads"] // 2, asking)
        for number in range(config["after"]):
            features = self.block(features, f"spell.{number}", 8, summary)
            if number == 0:
                features = self.match(features, "matches.1", words, config["heads"] // 2)
        features = self.down(features, "down16", 8)
        for number in range(2):
            features = self.block(features, f"words.{number}", 16, summary)
        placed = self.linear(waves, self.stored("place.weight"))
        features = self.add("Add", self.down(features, "down32", 16), placed)
        for number in range(config["coarse"]):
            features = self.match(features, f"asks.{number}", words, config["heads"])
            features = self.relate(features, f"relates.{number}")
            features = self.block(features, f"spreads.{number}", 32, summary)
        features = self.root_norm(features, self.stored("last.weight"))
        return self.linear(features, *self.of("head"))

    def shape_inputs(self, strides: Sequence[int]) -> None:
        """Add the sizes that vary by picture: of the map at each stride, and of its pairs except the last."""
        for stride in strides:
            self.input(f"map{stride}", 4, kind="int64")
            if stride < strides[-1]:
                self.input(f"pairs{stride}", 4, kind="int64")

    def of(self, part: str) -> tuple[str, str]:
        return self.stored(part + ".weight"), self.stored(part + ".bias")

    def product(self, states: str, part: str, weight: str, bias: str) -> str:
        """Multiply in whole numbers, except for the few products of the question."""
        exact = self.exact or part.startswith("question")
        return (self.linear if exact else self.coarse_linear)(states, weight, bias)

    def conv(self, maps: str, part: str, strides: Sequence[int] = (), group: int = 1) -> str:
        """Add a convolution of (1, C, …) that keeps the size except for its strides."""
        sides = self.shape(part + ".weight")[2:]
        around = [side // 2 for side in sides] * 2
        return self.add("Conv", maps, *self.of(part), pads=around, strides=strides or (1,) * len(sides), group=group)

    def question(self, words: str, there: str) -> tuple[str, str]:
        """Add (L, Q) → words (L, Q) with the context of neighbours and question, and (1, Q) for the question."""
        width = self.config["query_width"]
        for number in range(3):
            normed = self.norm(words, f"question.norms.{number}", 1e-5)
            turned = self.add("Transpose", self.add("Mul", normed, there), perm=(1, 0))
            seen = self.add("Gelu", self.conv(self.shaped(turned, 1, width, -1), f"question.convolve.{number}"))
            words = self.add("Add", words, self.add("Transpose", self.shaped(seen, width, -1), perm=(1, 0)))
        attended = self.attention(
            self.norm(words, "question.norms.3", 1e-5), "question.look", self.config["heads"] // 2
        )
        words = self.add("Add", words, self.linear(attended, *self.of("question.relate")))
        mean = self.add("ReduceMean", self.add("Mul", words, there), self.constant([0], "int64"), keepdims=1)
        return words, mean

    def attention(self, states: str, part: str, heads: int) -> str:
        """Add attention (N, C) → (N, C): every row to every row."""
        width = self.shape(part + ".weight")[0] // 3
        pairs = zip(*(self.parts(one, 3, width) for one in self.of(part)), strict=True)
        parts = [self.shaped(self.product(states, part, *one), 1, -1, width) for one in pairs]
        return self.shaped(self.add("MultiHeadAttention", *parts, domain=MICROSOFT, num_heads=heads), -1, width)

    def block(self, features: str, part: str, stride: int, query: str | None = None) -> str:
        """Add `ConvBlock` on (N, C)."""
        maps = self.add("Transpose", self.add("Reshape", features, f"map{stride}"), perm=(0, 3, 1, 2))
        width = self.shape(part + ".norm.weight")[0]
        seen = self.add("Transpose", self.conv(maps, part + ".spatial", group=width), perm=(0, 2, 3, 1))
        normed = self.norm_of_many(self.shaped(seen, -1, width), part + ".norm.weight")
        hidden = self.add("Gelu", self.product(normed, part, *self.of(part + ".expand")))
        if query is not None:
            scale, more = self.of(part + ".modulate")
            more = self.add("Add", more, self.constant([1.0]))
            hidden = self.add("Mul", hidden, self.linear(query, scale, more))
        return self.add("Add", features, self.product(hidden, part, *self.of(part + ".contract")))

    def norm_of_many(self, states: str, weight: str) -> str:
        """Add `root_norm` of (N, C), by the fused operator with an addition of zero: on many narrow rows the threads of
        the plain operator wait for one another."""
        (width,) = self.shape(weight)
        if width > NARROW:
            return self.root_norm(states, self.stored(weight))
        given = self.shaped(states, -1, 1, width), self.constant(np.zeros((1, 1, width))), self.stored(weight)
        normed = self.add("SkipSimplifiedLayerNormalization", *given, domain=MICROSOFT, epsilon=1e-6)
        return self.shaped(normed, -1, width)

    def down(self, features: str, part: str, stride: int) -> str:
        """Add a 2×2 convolution of stride 2 on (N, C): four places side by side, and a product."""
        pairs = self.add("Transpose", self.add("Reshape", features, f"pairs{stride}"), perm=(0, 2, 1, 3))
        weight, bias = self.of(part)
        wanted, given = self.shape(part + ".weight")[:2]
        flat = self.shaped(self.add("Transpose", weight, perm=(0, 2, 3, 1)), wanted, 4 * given)
        return self.product(self.shaped(pairs, -1, 4 * given), part, flat, bias)

    def asking(self, features: str, part: str) -> str:
        """Add the queries of every place of (N, C) to the characters; they do not depend on the question."""
        normed = self.root_norm(features, self.stored(part + ".norm.weight"))
        width = self.shape(part + ".ask.weight")[0]
        return self.shaped(self.product(normed, part, *self.of(part + ".ask")), 1, -1, width)

    def match(self, features: str, part: str, words: str, heads: int, asking: str | None = None) -> str:
        """Add `Match` on (N, C): attention of every row to every character. asking: the queries, if computed before."""
        inner = self.shape(part + ".key_value.weight")[0] // 2
        pairs = zip(*(self.parts(one, 2, inner) for one in self.of(part + ".key_value")), strict=True)
        keys, values = (self.shaped(self.linear(words, *one), 1, -1, inner) for one in pairs)
        asked = self.asking(features, part) if asking is None else asking
        mixed = self.add("MultiHeadAttention", asked, keys, values, domain=MICROSOFT, num_heads=heads)
        answer = self.product(self.shaped(mixed, -1, inner), part, *self.of(part + ".answer"))
        return self.add("Add", features, answer)

    def relate(self, features: str, part: str) -> str:
        """Add `Relate` on (N, C)."""
        normed = self.root_norm(features, self.stored(part + ".norms.0.weight"))
        attended = self.attention(normed, part + ".look", self.config["heads"])
        features = self.add("Add", features, self.product(attended, part, *self.of(part + ".relate")))
        normed = self.root_norm(features, self.stored(part + ".norms.1.weight"))
        hidden = self.add("Gelu", self.product(normed, part, *self.of(part + ".think.0")))
        return self.add("Add", features, self.product(hidden, part, *self.of(part + ".think.2")))


# ---- a dense Qwen3-VL ------------------------------------------------------------------------------------------------


def write_reader_graphs(folder: Path) -> None:
    """Write the graphs of a dense Qwen3-VL into its folder."""
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    _write_tower(folder, config["vision_config"])
    _write_speaker(folder, config)


def _turned(graph: GraphWriter, states: str, width: int, cosine: str = "cosine", sine: str = "sine") -> str:
    """Rotate every pair (i, i + half a head) of every head of (L, width) by its angle → (1, L, width)."""
    start = graph.constant([0], "int64")
    return graph.add("RotaryEmbedding", graph.shaped(states, 1, -1, width), start, cosine, sine, domain=MICROSOFT)


def _write_tower(folder: Path, vision: dict[str, Any]) -> None:
    """Add patches (N, ·), places (N, D) and the angles of the patches → embeds (N / merge², D'), and the planes."""
    graph, heads, width = GraphWriter(folder), vision["num_heads"], vision["hidden_size"]
    joined = width * vision["spatial_merge_size"] ** 2

    def of(part: str) -> tuple[str, str]:
        return graph.stored(f"model.visual.{part}.weight"), graph.stored(f"model.visual.{part}.bias")

    def normed(states: str, part: str) -> str:
        return graph.norm(states, f"model.visual.{part}")

    def merged(states: str, part: str, norm_after: bool) -> str:
        states = graph.shaped(states, -1, joined) if norm_after else states
        states = graph.shaped(normed(states, f"{part}.norm"), -1, joined)
        hidden = graph.add("Gelu", graph.linear(states, *of(f"{part}.linear_fc1")))
        return graph.linear(hidden, *of(f"{part}.linear_fc2"))

    weight, bias = of("patch_embed.proj")
    pixels = int(np.prod(graph.shape("model.visual.patch_embed.proj.weight")[1:]))
    patches, places = graph.input("patches", "N", pixels), graph.input("places", "N", width)
    for name in ("cosine", "sine"):
        graph.input(name, "N", width // heads // 2)
    states = graph.add("Add", graph.linear(patches, graph.shaped(weight, width, pixels), bias), places)
    planes = []
    for number in range(vision["depth"]):
        block = f"blocks.{number}"
        entered = normed(states, f"{block}.norm1")
        parts = zip(*(graph.parts(one, 3, width) for one in of(f"{block}.attn.qkv")), strict=True)
        queries, keys, values = (graph.linear(entered, *one) for one in parts)
        given = _turned(graph, queries, width), _turned(graph, keys, width), graph.shaped(values, 1, -1, width)
        attended = graph.add("MultiHeadAttention", *given, domain=MICROSOFT, num_heads=heads)
        attended = graph.linear(graph.shaped(attended, -1, width), *of(f"{block}.attn.proj"))
        states = graph.add("Add", states, attended)
        inner = graph.linear(normed(states, f"{block}.norm2"), *of(f"{block}.mlp.linear_fc1"))
        inner = graph.add(TANH_GELU, inner, domain=MICROSOFT)
        states = graph.add("Add", states, graph.linear(inner, *of(f"{block}.mlp.linear_fc2")))
        if number in vision["deepstack_visual_indexes"]:
            which = vision["deepstack_visual_indexes"].index(number)
            planes.append(merged(states, f"deepstack_merger_list.{which}", norm_after=True))
    graph.write(folder / "tower.onnx", merged(states, "merger", norm_after=False), *planes)


def _write_speaker(folder: Path, config: dict[str, Any]) -> None:
    """Add states (L, D), the planes (L, D) to add after the first layers, the angles of the tokens, and earlier keys
    and values → logits (1, vocabulary) of the last token, and keys and values for the next call."""
    graph, text, root = GraphWriter(folder), config["text_config"], "model.language_model"
    heads, shared, size, width = (
        text[name] for name in ("num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size")
    )

    def of(part: str) -> str:
        return graph.stored(f"{root}.{part}.weight")

    def spread(weight: str) -> str:
        """Repeat keys and values that several heads share for each of them."""
        if heads == shared:
            return weight
        grouped = graph.shaped(weight, shared, 1, size, width)
        shape = graph.constant([shared, heads // shared, size, width], "int64")
        return graph.shaped(graph.add("Expand", grouped, shape), heads * size, width)

    def normed(states: str, part: str) -> str:
        return graph.root_norm(states, of(part), text["rms_norm_eps"])

    states = graph.input("states", "L", width)
    for name in ("cosine", "sine"):
        graph.input(name, "L", size // 2)
    planes = [
        graph.input(f"plane{number}", "L", width)
        for number in range(len(config["vision_config"]["deepstack_visual_indexes"]))
    ]
    ends = [graph.constant([value], "int64") for value in (-1, 1 << 62)]
    angles, cache = ["cosine", "sine"], []
    for number in range(text["num_hidden_layers"]):
        layer, last = f"layers.{number}", number == text["num_hidden_layers"] - 1
        entered = normed(states, f"{layer}.input_layernorm")
        asking, laid = entered, planes[number : number + 1]
        if last:  # only the last token of its result is used
            states, asking, *angles = (graph.add("Slice", one, *ends) for one in (states, entered, *angles))
            laid = [graph.add("Slice", one, *ends) for one in laid]
        projected = [of(f"{layer}.self_attn.{name}_proj") for name in "qkv"]
        queries = graph.linear(asking, projected[0])
        keys, values = (graph.linear(entered, spread(one)) for one in projected[1:])
        queries, keys = (
            _turned(
                graph, normed(graph.shaped(one, -1, heads, size), f"{layer}.self_attn.{name}_norm"), heads * size, *by
            )
            for name, one, by in (("q", queries, angles), ("k", keys, ["cosine", "sine"]))
        )
        past = [graph.input(f"past{2 * number + part}", 1, heads, "P", size) for part in range(2)]
        given = (queries, keys, graph.shaped(values, 1, -1, heads * size), "", "", "", *past)
        attended, *present = graph.several(
            3, "MultiHeadAttention", *given, domain=MICROSOFT, num_heads=heads, unidirectional=int(not last)
        )
        cache += present
        attended = graph.linear(graph.shaped(attended, -1, heads * size), of(f"{layer}.self_attn.o_proj"))
        states = graph.add("Add", states, attended)
        entered = normed(states, f"{layer}.post_attention_layernorm")
        gate, up = (graph.linear(entered, of(f"{layer}.mlp.{name}_proj")) for name in ("gate", "up"))
        inner = graph.add("Mul", graph.add("QuickGelu", gate, domain=MICROSOFT, alpha=1.0), up)
        states = graph.add("Add", states, graph.linear(inner, of(f"{layer}.mlp.down_proj")))
        for plane in laid:
            states = graph.add("Add", states, plane)
    head = of("embed_tokens") if config.get("tie_word_embeddings", True) else graph.stored("lm_head.weight")
    graph.write(folder / "speaker.onnx", graph.linear(normed(states, "norm"), head), *cache)
