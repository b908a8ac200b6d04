"""Answering look by look with caches says what one long prompt says; padding and neighbours change nothing."""

from __future__ import annotations

from copy import copy

import pytest
import torch
from esper_models import QUESTIONS, SIDE, job_of, tiny_eye
from pass_runs import run_passes
from tiny_models import picture, tiny_model

from arr_coc.answering import passes
from arr_coc.answering.esper import Esper
from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.attending.tree import build_tree
from arr_coc.balancing.tempering import TemperingPolicy
from arr_coc.core.kept import ByteStore
from arr_coc.realizing.qwen3_vl.encode import (
    VisualTokens,
    encode_leaves,
    leaf_positions,
    own_attention,
    run_language_model,
)
from arr_coc.realizing.tokens.patches import LeafBatch, gather_leaf_patches

GRID = (SIDE // 32, SIDE // 32)
LAYERS = range(1, 3)


def three_looks(job: passes.PassJob) -> passes.Looks:
    generator = torch.Generator().manual_seed(4)
    looks = passes.first_look(job.relevance, job.tree, 13)
    for budget in (torch.tensor([9, 12, 10]), 8):
        noise = torch.rand(job.relevance.shape, generator=generator)
        looks = passes.look_again(looks, noise, budget[: len(noise)] if isinstance(budget, torch.Tensor) else budget)
    return looks


def all_passes(
    model, job: passes.PassJob, looks: passes.Looks, most: int = 5
) -> tuple[list[passes.LookAnswer], passes.Memory]:
    memory, tower, spoken = passes.Memory(GRID), passes.TowerMemory(), []
    for leaves in looks.blocks:
        tokens = passes.encode_block(model, job.pyramid, leaves, GRID, tower)
        spoken.append(passes.answer_look(model, memory, leaves, tokens, job.prompts, most=most, layers=LAYERS))
    return spoken, memory


def one_prompt(model, job: passes.PassJob, looks: passes.Looks, answer: torch.Tensor, **how):
    """The whole chat in one row without any cache; only for one picture, without padding."""
    start = job.prompts.head.shape[1]
    row = passes.text_row(job.prompts.head, torch.ones_like(job.prompts.head, dtype=torch.bool), 0.0)
    blocks = [leaves[:, leaves[0, :, 2] >= 0] for leaves in looks.blocks]
    for leaves in blocks:
        row = row + passes.leaf_row(leaves, GRID, float(start), model.config.image_token_id)
    tail = torch.cat([job.prompts.tail[:, : int(job.prompts.there.sum())], answer], 1)
    row = row + passes.text_row(tail, torch.ones_like(tail, dtype=torch.bool), float(start + GRID[0]))
    mask = row.there.long()
    tokens = encoded_at_once(model, job, blocks)
    return run_language_model(model, row.ids, tokens, row.positions(), mask, use_cache=False, **how)


def encoded_at_once(model, job: passes.PassJob, blocks: list[torch.Tensor]) -> VisualTokens:
    """Another route through the tower: all looks of one picture in one row, every patch under one mask."""
    leaves = torch.cat(blocks, 1)
    batch = LeafBatch.equal(leaves, GRID, job.pyramid.levels)
    patches = gather_leaf_patches(job.pyramid, batch.leaves, batch.owner, temporal=2)
    look = torch.cat([torch.full((4 * block.shape[1],), number) for number, block in enumerate(blocks)])

    def masked(module, query, key, value, attention_mask, scaling, **_):
        mixed = torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask=look[:, None] >= look, scale=scaling
        )
        return mixed.transpose(1, 2), None

    with own_attention(model.model.visual, "one_mask", masked):
        return encode_leaves(model, patches, batch)


@pytest.mark.parametrize("moe", [False, True])
def test_caches_change_nothing(moe):
    model = tiny_model(moe=True) if moe else tiny_eye().model
    job = job_of(0)
    looks = three_looks(job)
    with torch.no_grad():
        spoken, memory = all_passes(model, job, looks)
        for number, found in enumerate(spoken, start=1):
            so_far = passes.Looks(looks.tree, looks.blocks[:number])
            length = found.generated.ids.shape[1]
            state = one_prompt(model, job, so_far, found.generated.ids[:, :-1]).last_hidden_state[:, -length:]
            assert torch.allclose(model.lm_head(state).float(), found.generated.logits, atol=1e-4)
    # Question and answer are forgotten, what was seen is not.
    assert memory.cache.get_seq_length() == job.prompts.head.shape[1] + sum(b.shape[1] for b in looks.blocks)


def test_every_leaf_passes_through_the_tower_once_and_sees_those_before_it():
    model, job = tiny_eye().model, job_of(0, 1, 2)
    counted = []
    hook = model.model.visual.patch_embed.register_forward_hook(
        lambda module, inputs, output: counted.append(len(output))
    )
    records = run_passes(model, job, (13, 9), EsperSettings(stop=0.0, aroused=False), TemperingPolicy(), most=1)
    hook.remove()
    looks = records[-1].looks
    assert len(counted) == len(looks.blocks) == 4
    assert sum(counted) == 4 * int(looks.counts.sum())  # four patches a leaf, no padding, nothing again
    with torch.no_grad():
        tower = passes.TowerMemory()
        passes.encode_block(model, job.pyramid, looks.blocks[0], GRID, tower)
        remembered = tower.copy()
        seeing = passes.encode_block(model, job.pyramid, looks.blocks[1], GRID, tower)
        assert torch.equal(
            passes.encode_block(model, job.pyramid, looks.blocks[1], GRID, remembered).embeds, seeing.embeds
        )
        alone = passes.encode_block(model, job.pyramid, looks.blocks[1], GRID)
    assert not torch.allclose(seeing.embeds, alone.embeds, atol=1e-4)


def test_the_attention_is_the_models_own():
    model = tiny_model(attention="eager")
    job = job_of(0)
    looks = three_looks(job)
    with torch.no_grad():
        found = all_passes(model, job, looks)[0][-1]
        output = one_prompt(model, job, looks, found.generated.ids[:, :-1], output_attentions=True)
    own = torch.stack([output.attentions[layer][0].mean(0) for layer in LAYERS]).mean(0)
    first, tokens = job.prompts.head.shape[1], int(looks.counts.sum())
    steps = found.generated.ids.shape[1]
    assert torch.allclose(own[-steps:, first : first + tokens], found.looked[0], atol=1e-6)
    asking = own[first + tokens : len(own) - steps + 1, first : first + tokens]
    assert torch.allclose(asking.mean(0), found.asked[0], atol=1e-6)
    assert torch.allclose(asking[0], found.plain[0], atol=1e-6)


def test_a_picture_says_the_same_alone_and_in_a_padded_batch():
    model, job = tiny_eye().model, job_of(0, 1, 2)
    looks = three_looks(job)
    assert len({tuple(row) for row in looks.counts.tolist()}) > 1  # blocks of unequal length, so there is padding
    with torch.no_grad():
        together = all_passes(model, job, looks)[0][-1]
        for number in range(3):
            alone = job_of(number)
            own = [leaves[number][leaves[number, :, 2] >= 0][None] for leaves in looks.blocks]
            found = all_passes(model, alone, passes.Looks(looks.tree, tuple(own)))[0][-1]
            length = found.generated.ids.shape[1]
            assert torch.equal(found.generated.ids[0], together.generated.ids[number, :length])
            assert torch.allclose(found.generated.logits[0], together.generated.logits[number, :length], atol=1e-4)
            there = together.leaves[number, :, 2] >= 0
            assert torch.allclose(found.looked[0], together.looked[number, :length][:, there], atol=1e-5)


@pytest.mark.parametrize("grid", [(8, 8), (5, 9)])
def test_one_block_has_the_positions_of_an_ordinary_prompt(grid):
    prompts, image = job_of(0).prompts, tiny_eye().model.config.image_token_id
    leaves = passes.first_look(torch.rand(1, *grid), build_tree(*grid, 2), 20).blocks[0]
    start = prompts.head.shape[1]
    row = passes.text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0)
    row = row + passes.leaf_row(leaves, grid, float(start), image)
    row = row + passes.text_row(prompts.tail, prompts.there, float(start + max(grid)))
    wanted, _ = leaf_positions(row.ids, LeafBatch.equal(leaves, grid, 3), image)
    assert torch.equal(row.positions(), wanted)


def test_a_wide_picture_is_answered_as_by_the_eye():
    """Two routes on a grid that is not square: the loop's prompt, and `Eye.ask`."""
    esper = Esper(tiny_eye(), EsperSettings(aroused=False)).set_image(picture(160, 288))
    once = esper.examine("how many", budget=20, passes=1, max_new_tokens=4)
    asked = esper.eye.set_image(picture(160, 288)).ask("how many", budget=20, max_new_tokens=4)
    assert once.answer.text == asked.text
    assert once.answer.uncertainty == pytest.approx(asked.uncertainty, abs=1e-4)


def test_layers_are_shares_of_the_depth():
    model = tiny_eye().model  # four layers
    assert list(passes.attention_layers(model, (0.5, 1.0))) == [2, 3]
    assert list(passes.attention_layers(model, (0.9, 0.95))) == [3]


def test_another_question_of_passes_begins_behind_the_overview(monkeypatch):
    """Answers are those of passes that keep nothing; the tower sees the overview once a picture."""
    shown, counted = picture(SIDE, SIDE, 1), []
    answers = {}
    for most in (0, 1 << 26):
        eye = copy(tiny_eye())
        eye.order, eye.memory = "overview_first", ByteStore(most)
        esper = Esper(eye, EsperSettings(passes=2, stop=0.0)).set_image(shown)
        counted.append([])
        hook = eye.model.model.visual.register_forward_pre_hook(lambda _, given: counted[-1].append(len(given[0]) // 4))
        answers[most] = [esper.examine(query, 30, max_new_tokens=4) for query in (*QUESTIONS[:2], QUESTIONS[0])]
        hook.remove()
    for one, other in zip(*answers.values(), strict=True):
        assert one.answer.text == other.answer.text
        assert one.answer.tokens == other.answer.tokens
        assert one.answer.uncertainty == pytest.approx(other.answer.uncertainty, abs=1e-5)
    overview = sum(counted[0]) - sum(counted[1])
    assert overview == 2 * counted[0][0] > 0, "that of the second and of the third question"
    assert eye.memory.hits == 2
