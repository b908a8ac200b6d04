"""What a second pass costs, and whether it says what one long prompt would: measured on one picture, in turns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from arr_coc.allocation.tree import build_tree
from arr_coc.eye.looks import Looks, first_look, look_again
from arr_coc.eye.pass_answers import LookAnswer, Memory, answer_look, attention_layers
from arr_coc.eye.pass_prompt import Prompts, leaf_row, text_row
from arr_coc.eye.vision_memory import TowerMemory, encode_block, interleave, picture_pyramid
from arr_coc.models.qwen3_vl.encode import VisualTokens, run_language_model

from ..worlds.needle import render
from .esper_runs import CELL, Models, measuring
from .machine import Timing, time_in_turns


@dataclass(frozen=True)
class Cost:
    """Medians in seconds. first: all that a first pass of as many leaves must do. second: a pass that adds them.
    whole: first and second look together, from scratch. All without the answer's later tokens, which cost the same."""

    size: int
    leaves: int
    first: Timing
    second: Timing
    whole: Timing
    encode_first: Timing
    encode_second: Timing

    @property
    def ratio(self) -> float:
        return self.second.median / self.first.median

    @property
    def ratio_to_whole(self) -> float:
        return self.second.median / self.whole.median

    @property
    def ratio_of_models(self) -> float:
        """Tower and language model alone."""
        return self.encode_second.median / self.encode_first.median


@dataclass(frozen=True)
class Sameness:
    """Largest differences of the first answer token's logits. cached: from the same looks in one long prompt, nothing
    cached. together: from the same tree with all leaves encoded together, and scale: how far another tree of as many
    tokens moves them."""

    cached: float
    together: float
    scale: float


@dataclass(frozen=True)
class Setting:
    """One forms picture, uint8, with its question, a first look of an eighth, and a second of as many new leaves."""

    pictures: Tensor
    question_ids: Tensor
    prompts: Prompts
    first: Looks
    looks: Looks


def two_looks(models: Models, size: int, seed: int = 0) -> Setting:
    batch = render("forms", 1, (size, size), seed, "test", device=models.device)
    prompts = Prompts.of(models.tokenizer, batch.questions, models.device)
    tree = build_tree(size // CELL, size // CELL, models.levels)
    generator = torch.Generator().manual_seed(seed)
    maps = torch.rand(2, 1, tree.rows, tree.cols, generator=generator).pow(4).to(models.device)
    first = first_look(maps[0], tree, tree.full // 8)
    looks = look_again(first, maps[1], int(first.counts[0, 0]))
    return Setting(batch.pictures, batch.question_ids, prompts, first, looks)


def _settle(models: Models) -> None:
    if models.device.type == "cuda":
        torch.cuda.synchronize(models.device)


def pass_cost(models: Models, size: int = 512, repeats: int = 9) -> Cost:
    """Time a first pass, a second one with as many new leaves, and both together from scratch."""
    setting = two_looks(models, size)
    pictures, prompts, looks, question = setting.pictures, setting.prompts, setting.looks, setting.question_ids
    tree, grid = looks.tree, (looks.tree.rows, looks.tree.cols)
    model, layers = models.reader, attention_layers(models.reader, (1 / 3, 1.0))
    old, new = looks.blocks
    maps = torch.rand(1, *grid, device=models.device)

    def prepare() -> Any:
        return picture_pyramid(model, pictures.float().div(127.5).sub(1), tree.levels)

    def answer(memory: Memory, pyramid: Any, leaves: Tensor, tower: TowerMemory) -> LookAnswer:
        tokens = encode_block(model, pyramid, leaves, grid, tower)
        spoken = answer_look(model, memory, leaves, tokens, prompts, most=1, layers=layers)
        _settle(models)
        return spoken

    pyramid = prepare()
    known, remembered = Memory(grid), TowerMemory()
    answer(known, pyramid, old, remembered)

    def first() -> None:
        scores = models.scorer.score(pictures, question)
        found = prepare()
        answer(Memory(grid), found, first_look(scores, tree, new.shape[1]).blocks[0], TowerMemory())

    def whole() -> None:
        scores = models.scorer.score(pictures, question)
        found = prepare()
        answer(Memory(grid), found, first_look(scores, tree, old.shape[1] + new.shape[1]).blocks[0], TowerMemory())

    def again() -> None:
        there, blocks, columns = known.there, list(known.blocks), list(known.columns)
        added = look_again(setting.first, maps, new.shape[1])
        answer(known, pyramid, added.blocks[-1], remembered.copy())
        forget(known, there, blocks, columns)

    def models_first() -> None:
        answer(Memory(grid), pyramid, new, TowerMemory())

    def models_second() -> None:
        there, blocks, columns = known.there, list(known.blocks), list(known.columns)
        answer(known, pyramid, new, remembered.copy())
        forget(known, there, blocks, columns)

    with measuring(models):
        timings = time_in_turns([first, again, whole, models_first, models_second], repeats)
    return Cost(size, int(new.shape[1]), *timings)


def forget(memory: Memory, there: Tensor | None, blocks: list[Tensor], columns: list[int]) -> None:
    """Take the last look back, so that the same second pass can be timed again."""
    assert there is not None
    memory.cache.crop(there.shape[1] - memory.cache.get_seq_length())
    memory.there, memory.blocks, memory.columns = there, blocks, columns


@torch.no_grad()
def sameness(models: Models, size: int = 512) -> Sameness:
    """Pass by pass with caches, against one long prompt, against all leaves encoded together."""
    setting = two_looks(models, size)
    pictures, prompts, looks = setting.pictures, setting.prompts, setting.looks
    model, grid = models.reader, (looks.tree.rows, looks.tree.cols)
    pyramid = picture_pyramid(model, pictures.float().div(127.5).sub(1), looks.tree.levels)
    layers = attention_layers(model, (1 / 3, 1.0))
    memory, tower, cached = Memory(grid), TowerMemory(), None
    for leaves in looks.blocks:
        tokens = encode_block(model, pyramid, leaves, grid, tower)
        cached = answer_look(model, memory, leaves, tokens, prompts, most=1, layers=layers).generated.logits[0, 0]
    assert cached is not None

    def at_once(blocks: tuple[Tensor, ...]) -> Tensor:
        start = prompts.head.shape[1]
        row = text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0)
        encoded: list[VisualTokens] = []
        again = TowerMemory()
        for leaves in blocks:
            row = row + leaf_row(leaves, grid, float(start), model.config.image_token_id)
            encoded.append(encode_block(model, pyramid, leaves, grid, again))
        row = row + text_row(prompts.tail, prompts.there, float(start + max(grid)))
        seen = interleave(tuple(encoded), tuple(leaves[..., 2] >= 0 for leaves in blocks))
        output = run_language_model(model, row.ids, seen, row.positions(), row.there.long(), use_cache=False)
        return model.lm_head(output.last_hidden_state[0, -1]).float()

    everything = looks.leaves()
    noise = torch.rand(1, *grid, generator=torch.Generator().manual_seed(1)).to(models.device)
    other = first_look(noise, looks.tree, everything.shape[1]).blocks[0]
    together = at_once((everything,))
    return Sameness(
        float((cached - at_once(looks.blocks)).abs().max()),
        float((cached - together).abs().max()),
        float((at_once((other,)) - together).abs().max()),
    )
