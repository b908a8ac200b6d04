"""Answering look by look with caches says what one long prompt says; padding and neighbours change nothing."""

from __future__ import annotations

import pytest
import torch
from esper_models import SIDE, job_of, normalised, pixels_of, tiny_eye
from tiny_models import picture, tiny_model, tiny_processor

from arr_coc.attending.tree import build_tree
from arr_coc.backbones.qwen3_vl_encode import leaf_positions, run_language_model
from arr_coc.esper import Esper, EsperSettings
from arr_coc.esper.looks import Looks, first_look, look_again
from arr_coc.esper.passes import Job
from arr_coc.esper.prompt import Prompts, leaf_row, text_row
from arr_coc.esper.reading import encode_block, interleave, read_looks
from arr_coc.esper.speaking import Memory, Spoken, attention_layers, speak
from arr_coc.realizing.patches import LeafBatch

GRID = (SIDE // 32, SIDE // 32)
LAYERS = range(1, 3)


def three_looks(job: Job) -> Looks:
    generator = torch.Generator().manual_seed(4)
    looks = first_look(job.relevance, job.tree, 13)
    for budget in (torch.tensor([9, 12, 10]), 8):
        noise = torch.rand(job.relevance.shape, generator=generator)
        looks = look_again(looks, noise, budget[: len(noise)] if isinstance(budget, torch.Tensor) else budget)
    return looks


def all_passes(model, job: Job, looks: Looks, most: int = 5) -> tuple[list[Spoken], Memory]:
    memory, spoken = Memory(GRID), []
    for leaves in looks.blocks:
        tokens = encode_block(model, job.pyramid, leaves, GRID)
        spoken.append(speak(model, memory, leaves, tokens, job.prompts, most=most, layers=LAYERS))
    return spoken, memory


def one_prompt(model, job: Job, looks: Looks, answer: torch.Tensor, **how):
    """The whole chat in one row without any cache; only for one picture, without padding."""
    start = job.prompts.head.shape[1]
    row = text_row(job.prompts.head, torch.ones_like(job.prompts.head, dtype=torch.bool), 0.0)
    blocks = [leaves[:, leaves[0, :, 2] >= 0] for leaves in looks.blocks]
    for leaves in blocks:
        row = row + leaf_row(leaves, GRID, float(start), model.config.image_token_id)
    tail = torch.cat([job.prompts.tail[:, : int(job.prompts.there.sum())], answer], 1)
    row = row + text_row(tail, torch.ones_like(tail, dtype=torch.bool), float(start + GRID[0]))
    tokens = interleave(
        tuple(encode_block(model, job.pyramid, leaves, GRID) for leaves in blocks),
        tuple(leaves[..., 2] >= 0 for leaves in blocks),
    )
    return run_language_model(model, row.ids, tokens, row.positions(), row.there.long(), use_cache=False, **how)


@pytest.mark.parametrize("moe", [False, True])
def test_caches_change_nothing(moe):
    model = tiny_model(moe=True) if moe else tiny_eye().model
    job = job_of(0)
    looks = three_looks(job)
    with torch.no_grad():
        spoken, memory = all_passes(model, job, looks)
        for number, found in enumerate(spoken, start=1):
            so_far = Looks(looks.tree, looks.split, looks.blocks[:number])
            length = found.said.ids.shape[1]
            state = one_prompt(model, job, so_far, found.said.ids[:, :-1]).last_hidden_state[:, -length:]
            assert torch.allclose(model.lm_head(state).float(), found.said.logits, atol=1e-4)
    # Question and answer are forgotten, what was seen is not.
    assert memory.cache.get_seq_length() == job.prompts.head.shape[1] + sum(b.shape[1] for b in looks.blocks)


def test_the_attention_is_the_models_own():
    model = tiny_model(attention="eager")
    job = job_of(0)
    looks = three_looks(job)
    with torch.no_grad():
        found = all_passes(model, job, looks)[0][-1]
        output = one_prompt(model, job, looks, found.said.ids[:, :-1], output_attentions=True)
    own = torch.stack([output.attentions[layer][0].mean(0) for layer in LAYERS]).mean(0)
    first, tokens = job.prompts.head.shape[1], int(looks.counts.sum())
    steps = found.said.ids.shape[1]
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
            found = all_passes(model, alone, Looks(looks.tree, looks.split[number : number + 1], tuple(own)))[0][-1]
            length = found.said.ids.shape[1]
            assert torch.equal(found.said.ids[0], together.said.ids[number, :length])
            assert torch.allclose(found.said.logits[0], together.said.logits[number, :length], atol=1e-4)
            there = together.leaves[number, :, 2] >= 0
            assert torch.allclose(found.looked[0], together.looked[number, :length][:, there], atol=1e-5)


def test_reading_with_gradients_gives_the_chance_of_what_was_said():
    model, job = tiny_eye().model, job_of(0, 1, 2)
    looks = three_looks(job)
    said = all_passes(model, job, looks, most=4)[0][-1].said
    end = tiny_processor().tokenizer.eos_token_id
    answers = said.ids.masked_fill(said.ids == end, 0)
    read = read_looks(model, normalised(pixels_of(3)), looks, job.prompts, answers, end)
    short = said.chances()[:, :4].sum(1)
    ended = (said.ids == end).any(1)
    assert (read.chance.detach() <= short + 1e-4).all()  # the end of the answer is one more token to be sure of
    assert torch.allclose(read.chance.detach()[ended], short[ended], atol=1e-4)
    read.answer.backward()
    gradient = model.model.visual.blocks[0].attn.qkv.weight.grad
    assert gradient is not None
    assert gradient.abs().sum() > 0
    model.zero_grad(set_to_none=True)


@pytest.mark.parametrize("grid", [(8, 8), (5, 9)])
def test_one_block_has_the_positions_of_an_ordinary_prompt(grid):
    prompts, image = job_of(0).prompts, tiny_eye().model.config.image_token_id
    leaves = first_look(torch.rand(1, *grid), build_tree(*grid, 2), 20).blocks[0]
    start = prompts.head.shape[1]
    row = text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0)
    row = row + leaf_row(leaves, grid, float(start), image)
    row = row + text_row(prompts.tail, prompts.there, float(start + max(grid)))
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
    assert list(attention_layers(model, (0.5, 1.0))) == [2, 3]
    assert list(attention_layers(model, (0.9, 0.95))) == [3]


def test_prompts_packed_from_tokens_equal_those_of_the_template():
    eye = tiny_eye()
    questions = ["how many", "what colour is the red square"]
    wanted = Prompts.of(eye.processor, questions)
    ids = [eye.processor.tokenizer(question).input_ids for question in questions]
    padded = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in ids], batch_first=True)
    longest = wanted.tail[1][wanted.there[1]].tolist()
    at = next(i for i in range(len(longest)) if longest[i : i + len(ids[1])] == ids[1])
    packed = Prompts.packed(wanted.head[0].tolist(), longest[:at], padded, longest[at + len(ids[1]) :])
    assert torch.equal(packed.tail * packed.there, wanted.tail * wanted.there)
    assert torch.equal(packed.head, wanted.head)
