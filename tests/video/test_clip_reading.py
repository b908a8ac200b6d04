"""Clips through mini: the stock's own prompt and logits, and readings that agree where they must."""

from __future__ import annotations

import pytest
import torch
from clip_scenes import scene

from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc.core.alphabet import IDS
from arr_coc.realizing.qwen3_vl.encode import foveate
from arr_coc.realizing.qwen3_vl.processor import load_processor
from arr_coc.realizing.qwen3_vl.video import video_inputs
from arr_coc.realizing.tokens.patches import LeafBatch
from arr_coc_lab.bench.clip_reading import (
    SYSTEMS,
    Clips,
    build_clip_prompt,
    clip_leaves,
    clip_seconds,
    evidence_of,
    read_clearest,
    read_pictures,
    read_pooled,
    read_video,
    see_frames,
)
from arr_coc_lab.train.mini_model import VIDEO, MiniConfig, build_image_processor, build_mini, build_tokenizer
from arr_coc_lab.train.reader import answer_logits, normalise_pictures
from arr_coc_lab.train.temporal_model import ClipMaps

FRAMES = 3
TREE = build_tree(8, 8, 3)


def ids(*texts: str) -> torch.Tensor:
    longest = max(map(len, texts))
    return torch.tensor([[IDS[one] for one in text] + [0] * (longest - len(text)) for text in texts])


@pytest.fixture(scope="module")
def mini():
    torch.manual_seed(0)
    model = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=2, deepstack=(0,))).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.1)
    return model


@pytest.fixture(scope="module")
def clips() -> Clips:
    pictures = [torch.from_numpy(frame).permute(2, 0, 1) for seed in (1, 2) for frame in scene(seed, FRAMES, step=3)]
    questions = ids("What number?", "Which number is it?")
    return Clips(torch.stack(pictures).unflatten(0, (2, FRAMES)), questions, ids("1001", "1002"))


@pytest.fixture(scope="module")
def maps() -> ClipMaps:
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(2, FRAMES, 8, 8, generator=generator) ** 3
    same = torch.ones(2, FRAMES, 8, 8)
    same[:, 0] = 0
    return ClipMaps(scores, scores, same)


@torch.no_grad()
def test_the_prompt_and_the_logits_are_the_stock_models(mini, clips, tmp_path) -> None:
    """Level 0 everywhere, through the library's batch and through the stock forward on the stock prompt."""
    build_tokenizer().save_pretrained(tmp_path)
    build_image_processor().save_pretrained(tmp_path)
    mini.config.save_pretrained(tmp_path)
    processor = load_processor(str(tmp_path))
    frames = clips.pictures[0].permute(0, 2, 3, 1)
    inputs = video_inputs(processor, frames, clip_seconds(FRAMES), "What number?")
    leaves = quadtree(torch.ones(2 * FRAMES, 8, 8), TREE, 64)
    counts = leaves.lengths.view(2, FRAMES)
    prompt = build_clip_prompt(clips.question_ids, clips.answer_ids, counts, clip_seconds(FRAMES))
    length = inputs["input_ids"].shape[1]
    assert torch.equal(prompt.input_ids[0, :length], inputs["input_ids"][0])
    tokens, batch = see_frames(mini, clips.pictures.flatten(0, 1), leaves)
    logits, wanted, rows = answer_logits(mini, prompt, tokens, batch, VIDEO)
    chances = logits.log_softmax(-1)
    stock = mini(**inputs).logits[0, -1].log_softmax(-1)
    assert torch.allclose(chances[0], stock, atol=1e-4)
    assert int(wanted[0]) == IDS["1"]
    assert rows.tolist() == [0] * 5 + [1] * 5


def test_frames_of_different_numbers_are_encoded_as_the_stock_tower_does_it(mini, clips, maps) -> None:
    """One padded pass with a mask, against the stock class on each frame alone: values and gradients."""
    leaves = clip_leaves("temporal", maps, 0.2, torch.Generator())
    assert len(set(leaves.lengths.tolist())) > 1
    pictures = clips.pictures.flatten(0, 1)
    weight = mini.model.visual.blocks[0].attn.qkv.weight
    together, batch = see_frames(mini, pictures, leaves)
    gradient = torch.autograd.grad(together.embeds.square().sum() + together.planes[0].sum(), weight)[0]
    alone = []
    for number, count in enumerate(batch.counts):
        one = LeafBatch.equal(leaves.cells[number : number + 1, :count], (8, 8), 4)
        alone.append(foveate(mini, normalise_pictures(pictures[number : number + 1]), one))
    for part, expected in zip(together.split(batch.counts), alone, strict=True):
        assert torch.allclose(part.embeds, expected.embeds, atol=1e-4)
        assert torch.allclose(part.planes[0], expected.planes[0], atol=1e-4)
    total = sum(part.embeds.square().sum() + part.planes[0].sum() for part in alone)
    expected = torch.autograd.grad(total, weight)[0]
    assert torch.allclose(gradient, expected, rtol=1e-3, atol=1e-3 * float(expected.abs().max()))


@torch.no_grad()
def test_readings_agree_where_there_is_one_frame(mini, clips, maps) -> None:
    one = Clips(clips.pictures[:, :1], clips.question_ids, clips.answer_ids)
    first = ClipMaps(*(part[:, :1] for part in (maps.scores, maps.relevance, maps.same_ground)))
    leaves = clip_leaves("frame by frame", first, 0.3, torch.Generator())
    evidence = evidence_of(first.relevance, leaves)
    clearest, pooled = (read(mini, one, leaves, evidence) for read in (read_clearest, read_pooled))
    assert torch.allclose(clearest.loss, pooled.loss, atol=1e-5)
    logits, wanted, _ = read_pictures(mini, one.pictures[:, 0], one.question_ids, one.answer_ids, leaves)
    assert torch.allclose(clearest.loss, torch.nn.functional.cross_entropy(logits, wanted))


@torch.no_grad()
def test_pooling_weighs_frames_by_their_evidence(mini, clips, maps) -> None:
    """All weight on one frame: what that frame alone says."""
    leaves = clip_leaves("frame by frame", maps, 0.3, torch.Generator())
    evidence = torch.zeros(2, FRAMES)
    evidence[0, 1] = evidence[1, 2] = 1.0
    assert torch.allclose(
        read_pooled(mini, clips, leaves, evidence).loss, read_clearest(mini, clips, leaves, evidence).loss, atol=1e-4
    )


def test_every_system_costs_the_same(maps) -> None:
    for keep in (1 / 16, 1 / 8, 1 / 4):
        totals = {
            system: clip_leaves(system, maps, keep, torch.Generator().manual_seed(0)).lengths.view(2, FRAMES).sum(1)
            for system in SYSTEMS
            if system != "full"
        }
        assert len({tuple(total.tolist()) for total in totals.values()}) == 1, totals


def test_evidence_is_the_relevance_seen_in_detail(maps) -> None:
    full = clip_leaves("full", maps, 1.0, torch.Generator())
    assert torch.allclose(evidence_of(maps.relevance, full), torch.ones(2, FRAMES), atol=1e-5)
    temporal = evidence_of(maps.relevance, clip_leaves("temporal", maps, 0.2, torch.Generator()))
    assert bool((temporal.argmax(1) == 0).all()), "the first look shows most"


def test_video_reading_learns(mini, clips, maps) -> None:
    leaves = clip_leaves("temporal", maps, 0.2, torch.Generator())
    read_video(mini, clips, leaves).loss.backward()
    weight = mini.model.visual.patch_embed.proj.weight
    assert weight.grad is not None
    assert float(weight.grad.abs().max()) > 0
