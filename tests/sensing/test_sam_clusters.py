"""SAM and SAM 2 on tiny random models of the stock classes, saved to a folder and loaded from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

import arr_coc
from arr_coc.core.errors import InputError
from arr_coc.looking import examine
from arr_coc.texture.named_clusters import find_clusters
from arr_coc.texture.sam import MaskGenerator, distinct_masks, labels_from_masks, sam
from arr_coc.texture.sam_files import KNOWN, sam_pair
from arr_coc.video.clusters import finder_of

LENIENT = {"quality": -10.0, "stability": 0.0}


def save_model(kind: str, folder: Path) -> Path:
    from transformers import Sam2Config, Sam2Model, SamConfig, SamModel

    torch.manual_seed(0)
    decoder = {"hidden_size": 16, "mlp_dim": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    decoder |= {"iou_head_hidden_dim": 16, "iou_head_depth": 2}
    prompt = {"hidden_size": 16, "image_size": 64, "mask_input_channels": 4}
    if kind == "sam":
        vision = {"hidden_size": 16, "output_channels": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
        vision |= {"image_size": 64, "patch_size": 8, "window_size": 4, "global_attn_indexes": [0]}
        vision |= {"num_pos_feats": 8, "mlp_dim": 32, "initializer_range": 0.1}
        prompt |= {"patch_size": 8, "image_embedding_size": 8}
        model = SamModel(SamConfig(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder))
    else:
        backbone = {"model_type": "sam2_hiera_det_model", "hidden_size": 8, "image_size": [64, 64]}
        backbone |= {"blocks_per_stage": [1, 2, 2, 1], "embed_dim_per_stage": [8, 16, 32, 64]}
        backbone |= {"num_attention_heads_per_stage": [1, 1, 2, 2], "window_size_per_stage": [4, 2, 2, 2]}
        backbone |= {"global_attention_blocks": [4]}
        vision = {"backbone_config": backbone, "backbone_channel_list": [64, 32, 16, 8], "fpn_hidden_size": 16}
        vision |= {"backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]]}
        prompt |= {"patch_size": 16}
        model = Sam2Model(Sam2Config(vision_config=vision, prompt_encoder_config=prompt, mask_decoder_config=decoder))
    model.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["sam", "sam2"])
def test_masks_and_clusters_from_a_saved_model(kind: str, tmp_path: Path):
    picture = np.random.default_rng(0).integers(0, 256, (48, 80, 3), dtype=np.uint8)
    generator = MaskGenerator.from_pretrained(save_model(kind, tmp_path))
    masks = generator.masks(picture, points=3, **LENIENT)
    assert masks.dtype == torch.bool
    # SAM pads to a square, so its masks are cut to the picture's shape; SAM 2 squeezes, so its masks are square.
    assert tuple(masks.shape[1:]) == ((19, 32) if kind == "sam" else (16, 16))
    clusters = sam(picture, generator, points=3, **LENIENT)
    assert clusters.labels.shape == (48, 80)
    assert np.array_equal(np.unique(clusters.labels), np.arange(clusters.count))
    none_pass = sam(picture, tmp_path, points=2, quality=1e9)
    assert none_pass.count >= 1


def test_duplicates_and_unsteady_masks_go_and_the_best_stay():
    logits = torch.full((4, 8, 8), -9.0)
    logits[0, :4] = 9  # the upper half
    logits[1, :4] = 9
    logits[1, 3, 7] = -9  # nearly the same
    logits[2, 5:, 5:] = 9  # a corner
    logits[3, :, :3] = 0.5  # drawn tightly it vanishes
    scores = torch.tensor([0.9, 0.95, 0.93, 0.99])
    kept = distinct_masks(logits, scores, quality=0.88, stability=0.92, overlap=0.7)
    assert len(kept) == 2
    assert torch.equal(kept[0], logits[1] > 0)
    assert torch.equal(kept[1], logits[2] > 0)


def test_the_smallest_mask_wins_and_uncovered_ground_keeps_its_superpixels():
    ground = np.zeros((6, 6), np.int32)
    ground[:, 3:] = 1
    masks = np.zeros((2, 6, 6), bool)
    masks[0, 2:4, 2:4] = True
    masks[1, 1:5, 1:5] = True
    labels = labels_from_masks(masks, ground)
    assert labels[0, 0] != labels[0, 5]
    assert labels[1, 1] == labels[4, 4] != labels[2, 2]
    assert labels.max() + 1 == 4
    assert np.array_equal(labels_from_masks(masks[:0], ground), ground)


def test_a_missing_model_is_named(tmp_path: Path):
    with pytest.raises(InputError, match="nothing-here"):
        MaskGenerator.from_pretrained(tmp_path / "nothing-here")


# ---- by name, at every door -----------------------------------------------------------------------------------------


@pytest.fixture
def halves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a tiny SAM whose masks are the left half: random weights propose nothing that is worth keeping."""
    folder = save_model("sam", tmp_path / "tiny")
    proposed = torch.zeros(1, 32, 32, dtype=torch.bool)
    proposed[:, :, :16] = True
    real = MaskGenerator.masks

    def masks(self, picture, *points, **limits):
        real(self, picture, 2)
        return proposed

    monkeypatch.setattr(MaskGenerator, "masks", masks)
    return folder


def drawn() -> np.ndarray:
    picture = np.full((96, 128, 3), 220, np.uint8)
    picture[20:60, 76:116] = (200, 30, 30)
    picture[30:50:4, 84:108] = 255
    return picture


def left_half_is_one(labels: np.ndarray) -> bool:
    return len(np.unique(labels[:, : labels.shape[1] // 2 - 2])) == 1


def test_clusters_by_sam_reach_sense_look_and_the_page(halves: Path, monkeypatch: pytest.MonkeyPatch):
    found = find_clusters(drawn(), halves)
    assert left_half_is_one(found.labels)
    assert not left_half_is_one(find_clusters(drawn()).labels)
    texture = arr_coc.sense(drawn(), layout="full40", clusters=str(halves))
    assert left_half_is_one(texture["cluster_id"])
    asked = {"relevance": "look", "strategy": "clusters", "keep": 0.5}
    seen = examine(drawn(), "the red sign", **asked, clusters=str(halves))
    assert any(str(halves) in note and "quality" in note for note in seen.notes)
    with pytest.raises(InputError, match="ARR_COC_SAM"):
        arr_coc.look(drawn(), "the red sign", **asked, clusters="sam")
    monkeypatch.setenv("ARR_COC_SAM", str(halves))
    assert np.array_equal(arr_coc.look(drawn(), "the red sign", **asked, clusters="sam").scores, seen.allocation.scores)
    with pytest.raises(InputError, match="'slic', 'sam'"):
        find_clusters(drawn(), "magic")


def test_clusters_use_saliency_parents_and_quality():
    plain = {"relevance": "look", "strategy": "clusters", "keep": 0.5}
    own = examine(drawn(), "the red sign", **plain)
    assert any("quality" in note for note in own.notes)
    labels = find_clusters(drawn()).labels
    blind = arr_coc.look(drawn(), "the red sign", **plain, labels=labels)
    salient = arr_coc.look(drawn(), "the red sign", **plain, labels=labels, saliency=drawn()[..., 1] / np.float32(255))
    assert not np.array_equal(blind.scores, salient.scores)
    assert own.allocation.tokens == own.allocation.budget
    levels = own.allocation.level_map()
    assert levels[:2, 2:4].min() == 0, "the sign is seen in full"


# ---- as two ONNX graphs ---------------------------------------------------------------------------------------------


@pytest.fixture
def graphs(tmp_path: Path) -> Path:
    """A folder with an encoder and a decoder under the names and with the inputs of SAM 2's export. The features are
    brightness; the mask of a point in the lower half is what is bright, of one in the upper half what is dark."""
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT

    def write(name: str, nodes: list, inputs: dict, outputs: list, **constants: list) -> None:
        values = [
            helper.make_tensor(key, onnx.TensorProto.INT64 if key == "shape" else kind, [len(value)], value)
            for key, value in constants.items()
        ]
        given = [helper.make_tensor_value_info(key, kind, shape) for key, shape in inputs.items()]
        made = [helper.make_tensor_value_info(key, kind, None) for key in outputs]
        graph = helper.make_graph(nodes, name, given, made, values)
        onnx.save(
            helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8),
            tmp_path / "dist" / name,
        )

    (tmp_path / "dist").mkdir()
    node, features = helper.make_node, ("image_embed", "high_res_feats_0", "high_res_feats_1")
    write(
        "tiny_encoder.onnx",
        [
            node("ReduceMean", ["image"], ["image_embed"], axes=[1]),
            *(node("Identity", ["image"], [name]) for name in features[1:]),
        ],
        {"image": [1, 3, 16, 16]},
        list(features[::-1]),
    )
    write(
        "tiny_decoder.onnx",
        [
            node("Sub", ["point_coords", "middle"], ["offset"]),
            node("Mul", ["offset", "across"], ["aside"]),
            node("ReduceMean", ["aside"], ["mean"], axes=[1, 2]),
            node("Reshape", ["mean", "shape"], ["sides"]),
            node("Mul", ["image_embed", "sides"], ["drawn"]),
            node("Add", ["drawn", "mask_input"], ["corrected"]),
            node("Add", ["corrected", "has_mask_input"], ["masks"]),
            node("Mul", ["point_labels", "sure"], ["iou_predictions"]),
        ],
        {
            **{name: [1, 1 if name == "image_embed" else 3, 16, 16] for name in features},
            "point_coords": ["n", "p", 2],
            "point_labels": ["n", "p"],
            "mask_input": ["n", 1, 16, 16],
            "has_mask_input": [1],
        },
        ["masks", "iou_predictions"],
        middle=[0.0, 8.0],
        across=[0.0, 9.0],
        shape=[-1, 1, 1, 1],
        sure=[0.95],
    )
    return tmp_path


def partly_bright() -> np.ndarray:
    picture = np.zeros((48, 80, 3), np.uint8)
    picture[:, 50:] = 255
    return picture


def test_two_graphs_are_a_sam_at_every_door(graphs: Path):
    masks = MaskGenerator.from_pretrained(graphs).masks(partly_bright(), points=6)  # more points than go at once
    bright = torch.zeros(16, 16, dtype=torch.bool)
    bright[:, 10:] = True
    assert len(masks) == 2
    assert all(any(torch.equal(one, part) for one in masks) for part in (bright, ~bright))
    found = find_clusters(partly_bright(), graphs)
    assert found.parents is not None
    assert found.parents.max() == 1
    coarse = found.parents[found.labels]
    assert np.array_equal(coarse == coarse[0, 0], partly_bright()[..., 0] == 0)
    assert np.array_equal(finder_of(f"sam:{graphs}")(partly_bright()), found.labels)
    seen = examine(drawn(), "the red sign", relevance="look", strategy="clusters", keep=0.5, clusters=str(graphs))
    assert any("not a graph that was tested" in note for note in seen.notes)


def test_graphs_that_are_no_sam_are_refused_in_one_line(graphs: Path):
    encoder, decoder = sam_pair(graphs) or (graphs, graphs)
    right = decoder.read_bytes()
    for content, wrong in ((encoder.read_bytes(), "asks for image"), (b"nothing", "onnxruntime cannot open")):
        decoder.write_bytes(content)
        with pytest.raises(InputError, match=wrong) as refusal:
            MaskGenerator.from_pretrained(graphs)
        assert "\n" not in str(refusal.value)
    decoder.write_bytes(right)
    known = next(name for name in KNOWN if "encoder" in name)
    encoder.rename(encoder.with_name(known))
    with pytest.raises(InputError, match=f"{known} is damaged or was changed"):
        MaskGenerator.from_pretrained(graphs)
    encoder.with_name(known).unlink()
    with pytest.raises(InputError, match="0 graphs named encoder and 1 named decoder"):
        find_clusters(drawn(), graphs)
