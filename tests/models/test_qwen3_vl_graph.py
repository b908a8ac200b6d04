"""What is recorded on a GPU gives, run as it is on a CPU, what the stock forward gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import picture, prompt, tiny_model, tiny_processor

from arr_coc import Eye
from arr_coc.answering.decoding import end_tokens, greedy_steps, speaking
from arr_coc.options import Options
from arr_coc.realizing.base import LeafPrompt, backbone_for
from arr_coc.realizing.glance import coarse_allocation
from arr_coc.realizing.qwen3_vl.graph import Graphs

PROMPTS = [
    ((256, 256), "what colour is the red square on the left and where", 1),
    ((128, 192), "how many", 1),
    ((128, 192), "please describe the picture", 0),
    ((256, 256), "what colour is the red square on the left and where", 2),
]


def prompts(tower: Any = None) -> Any:
    model, processor = tiny_model(), tiny_processor()
    backbone = backbone_for(model)
    for number, (size, question, level) in enumerate(PROMPTS):
        inputs = prompt(processor, [([picture(*size, number)], question)])
        coarse = [coarse_allocation(grid, level) for grid in backbone.grids(model, inputs)]
        realized = backbone.realize(model, inputs, coarse, tower=tower)
        short = realized.inputs
        yield LeafPrompt(short["input_ids"], realized.notes["tokens"], short["position_ids"], realized.next_position)


@pytest.mark.parametrize("busy", [False, True])
def test_prompts_of_all_lengths_are_answered_as_by_the_lean_loop(busy: bool) -> None:
    """One after the other, long before short: nothing of an earlier prompt is left in sight. Each three times: plainly
    first, then as it was recorded, then replayed. busy: another thread decodes, so the stock model goes on."""
    model = tiny_model()
    graphs = Graphs(model)
    if busy:
        graphs.decoding.acquire()
    with torch.no_grad():
        for _ in range(3):
            for plain, given in zip(prompts(), prompts(graphs.tower), strict=True):
                torch.testing.assert_close(given.tokens.embeds, plain.tokens.embeds, atol=1e-5, rtol=0)
                stocks, ours = speaking(model, plain, 4), speaking(model, given, 4, graphs)
                with torch.enable_grad(), stocks as stock, ours as recorded:
                    ends = end_tokens(model)
                    for wanted, found in zip(
                        greedy_steps(stock, ends, 4), greedy_steps(recorded, ends, 4), strict=True
                    ):
                        assert torch.equal(found.ids, wanted.ids)
                        assert not found.logits.requires_grad, "reading it would warn, and keep all layers' results"
                        torch.testing.assert_close(found.logits, wanted.logits, atol=1e-4, rtol=0)
    assert len(graphs.towers.held) == 4
    assert bool(graphs.steps.held) == bool(graphs.prompts.held) != busy
    assert graphs.decoding.locked() == busy


def test_graphs_are_for_cuda() -> None:
    assert not Graphs.safe(tiny_model())
    assert Eye(tiny_model(), tiny_processor()).engine.graphs is None


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_recorded_on_a_gpu() -> None:
    model, processor = tiny_model().to("cuda"), tiny_processor()
    try:
        recorded, plain = (Eye(model, processor, relevance="detail").set_image(picture(256, 256)) for _ in range(2))
        plain.engine.graphs = None
        for question in ("how many", "how many", "how many", "what colour is the red square on the left"):
            ours, other = (eye.ask(question, budget=16, options=Options(max_new_tokens=8)) for eye in (recorded, plain))
            assert ours.text == other.text
            assert ours.uncertainty == pytest.approx(other.uncertainty, abs=1e-3)
        assert recorded.engine.graphs.prompts.held
    finally:
        model.to("cpu")
