"""What is captured on a GPU gives, run as it is on a CPU, what the stock forward gives."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import picture, prompt, tiny_model, tiny_processor

from arr_coc import Eye, InputError
from arr_coc.answering.decoding import end_tokens, generate_greedily, greedy_steps, steps
from arr_coc.core.cuda_graph import CudaGraph, OthersAtWork
from arr_coc.options import Options
from arr_coc.realizing.base import LeafPrompt, backbone_for
from arr_coc.realizing.glance import coarse_allocation
from arr_coc.realizing.qwen3_vl import graph
from arr_coc.realizing.qwen3_vl.graph import DecodeGraph, Graphs, TowerGraph, padded_length
from arr_coc.realizing.tokens.patches import LeafBatch

PROMPTS = [
    ((256, 256), "what colour is the red square on the left and where", 1),
    ((128, 192), "how many", 1),
    ((128, 192), "please describe the picture", 0),
    ((256, 256), "what colour is the red square on the left and where", 2),
]


def prompts() -> Any:
    model, processor = tiny_model(), tiny_processor()
    backbone = backbone_for(model)
    for number, (size, question, level) in enumerate(PROMPTS):
        inputs = prompt(processor, [([picture(*size, number)], question)])
        coarse = [coarse_allocation(grid, level) for grid in backbone.grids(model, inputs)]
        realized = backbone.realize(model, inputs, coarse)
        short = realized.inputs
        yield model, (short["input_ids"], realized.notes["tokens"], short["position_ids"], realized.next_position)


def test_prompts_of_all_lengths_are_answered_as_by_the_lean_loop() -> None:
    """One after the other, long before short: nothing of an earlier prompt is left in sight. Each twice: plainly first,
    then as it was recorded."""
    graphs = Graphs(tiny_model())
    with torch.no_grad():
        for model, given in [*prompts(), *prompts()]:
            wanted = generate_greedily(model, LeafPrompt(*given), most=12)
            found = generate_greedily(model, LeafPrompt(*given), most=12, graphs=graphs)
            length = wanted.ids.shape[1]
            assert torch.equal(found.ids[:, :length], wanted.ids)
            torch.testing.assert_close(found.logits[:, :length], wanted.logits, atol=1e-4, rtol=0)
            assert torch.equal(found.within.sum(1), wanted.within.sum(1))
            assert found.ids.shape[1] - length < 8, "the end is looked for every eighth step"
    assert len(graphs.decoders) == 1
    assert len(next(iter(graphs.decoders.values())).prompts) == 4


def test_a_step_that_could_not_be_recorded_is_recorded_another_time(monkeypatch) -> None:
    model, given = next(prompts())
    decoder, others = DecodeGraph(model, padded_length(given[0].shape[1]) + 9), [True, False]

    def record(*_: Any, recorded: bool = True) -> CudaGraph:
        if recorded and others and others.pop(0):
            raise OthersAtWork("another thread uses the device")
        return CudaGraph(decoder._step, model.device)

    with torch.no_grad():
        wanted = generate_greedily(model, LeafPrompt(*given), most=8).ids
        decoder.prompts.get = lambda *_: None  # the prompt is read plainly: only steps are looked at
        decoder.read(LeafPrompt(*given))
        del decoder.steps.held["step"]
        monkeypatch.setattr(graph, "CudaGraph", record)
        for there in (False, True):
            decoder.ready()
            assert ("step" in decoder.steps) is there
            assert torch.equal(decoder.step()[0], wanted[:, 1])
            decoder.place.sub_(1), decoder.positions.sub_(1), decoder.token.copy_(wanted[:, 0])


def test_an_answer_may_fill_the_cache_to_its_last_column() -> None:
    model, given = next(prompts())
    decoder = DecodeGraph(model, padded_length(given[0].shape[1]) + 9)
    with torch.no_grad():
        decoder.read(LeafPrompt(*given))
        steps = list(greedy_steps(decoder, [], 10))
        plain = generate_greedily(model, LeafPrompt(*given), most=10)
    assert len(steps) == 10
    length = plain.ids.shape[1]
    assert torch.equal(torch.stack([ids for ids, _ in steps], 1)[:, :length], plain.ids)
    assert end_tokens(model)


def test_graphs_are_for_cuda_and_refused_elsewhere() -> None:
    assert not Graphs.safe(tiny_model())
    assert Eye(tiny_model(), tiny_processor()).engine.graphs is None
    with pytest.raises(InputError, match="graphs=True needs"):
        Eye(tiny_model(), tiny_processor(), graphs=True)
    batch = LeafBatch.equal(torch.zeros(1, 1, 3, dtype=torch.long), (1, 1), 1)
    with pytest.raises(InputError, match="needs a CUDA device"):
        TowerGraph(tiny_model(), torch.zeros(4, 1536), batch)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_captured_on_a_gpu() -> None:
    model, processor = tiny_model().to("cuda"), tiny_processor()
    try:
        asked = [
            Eye(model, processor, relevance="detail", graphs=graphs).set_image(picture(256, 256))
            for graphs in (True, False)
        ]
        for question in ("how many", "what colour is the red square on the left"):
            ours, plain = (eye.ask(question, budget=16, options=Options(max_new_tokens=8)) for eye in asked)
            assert ours.text == plain.text
            assert ours.uncertainty == pytest.approx(plain.uncertainty, abs=1e-3)
    finally:
        model.to("cpu")


def test_rows_of_several_lengths_are_answered_step_by_step_as_without_graphs() -> None:
    """Also what a second batch of fewer rows finds in the buffers of the first."""
    model, processor = tiny_model(), tiny_processor()
    backbone, graphs = backbone_for(model), Graphs(model)
    rows = [([picture(*size, number)], question) for number, (size, question, _) in enumerate(PROMPTS)]
    with torch.inference_mode():
        for chosen in (rows[:3], rows[2:], rows[1:2], rows[:3]):
            inputs = prompt(processor, chosen)
            coarse = [coarse_allocation(grid, 1) for grid in backbone.grids(model, inputs)]
            realized = backbone.realize(model, inputs, coarse)
            wanted = list(steps(model, realized, 9))
            found = list(steps(model, realized, 9, graphs))
            assert not graphs.busy.locked()
            for one, other in zip(wanted, found, strict=True):
                assert torch.equal(one.ids, other.ids)
                torch.testing.assert_close(one.logits, other.logits, atol=1e-4, rtol=0)
    assert [key[0] for key in graphs.rows] == [2, 1, 4]


def test_rows_that_would_take_too_much_memory_are_answered_without_graphs(monkeypatch) -> None:
    monkeypatch.setattr("arr_coc.realizing.qwen3_vl.graph.MOST_BYTES", 1000)
    model, processor = tiny_model(), tiny_processor()
    backbone, graphs = backbone_for(model), Graphs(model)
    inputs = prompt(processor, [([picture(128, 128)], "how many")])
    realized = backbone.realize(model, inputs, [coarse_allocation(backbone.grids(model, inputs)[0], 1)])
    with torch.inference_mode():
        assert len(list(steps(model, realized, 3, graphs))) == len(list(steps(model, realized, 3)))
    assert not graphs.rows
