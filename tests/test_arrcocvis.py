"""`ARRCOCVIS` is `look` and `ask` as a module: the same answers, and a law of balancing that can be learned."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import picture, tiny_model, tiny_processor

import arr_coc
from arr_coc import ARRCOCVIS, Allocation, InputError, Options
from arr_coc.balancing.balance import balance_ways
from arr_coc.balancing.choosing import knowns
from arr_coc.balancing.law import NUMBERS, Law, read_law
from arr_coc.core.folders import EXAMPLES
from arr_coc.draw.layout import decided_words
from arr_coc.knowing.scene import Scene
from arr_coc.pictures.load import load_picture

STREET, QUERY = EXAMPLES / "street.png", "What does the pink sign say?"
PLAIN = Options(ocr=False)


@pytest.fixture(scope="module")
def model() -> ARRCOCVIS:
    return ARRCOCVIS(budget=96, options=PLAIN)


def test_its_answers_and_allocations_are_those_of_ask_and_look(model):
    answer, drawn = model(STREET, QUERY)
    same = arr_coc.ask(STREET, QUERY, 96, options=PLAIN)
    assert (answer.text, answer.uncertainty, answer.allocation) == (same.text, same.uncertainty, same.allocation)
    assert drawn.width == 1280
    assert model.look(STREET, QUERY).allocation == arr_coc.look(STREET, QUERY, 96, options=PLAIN)
    assert [name for name, _ in model.named_children()] == ["texture", "knowing", "balancing", "attending", "realizing"]


def test_its_stages_are_those_that_look_runs(model):
    looked = arr_coc.looking.examine(STREET, QUERY, Options(relevance="look", budget=96))
    texture = model.texture(STREET)
    ways = model.knowing.information(texture), model.knowing.perspective(texture)
    for way, shown in zip(ways, (looked.relevance.propositional, looked.relevance.perspectival), strict=True):
        assert way.mean() == pytest.approx(shown.mean(), rel=1e-3)
    assert model.attending(looked.relevance, 96, looked.picture.size).boxes.tolist() == looked.allocation.boxes.tolist()


def test_a_stock_model_is_a_child_that_is_saved_with_it(tmp_path):
    stock, processor = tiny_model(), tiny_processor()
    module = ARRCOCVIS(stock, processor, 8, Options(max_new_tokens=4))
    answer, _ = module(picture(128, 192), "What is it?")
    same = arr_coc.Eye(stock, processor).set_image(picture(128, 192)).ask("What is it?", 8, Options(max_new_tokens=4))
    assert (answer.text, answer.allocation) == (same.text, same.allocation)
    assert any(name.startswith("realizing.model.") for name in module.state_dict())
    assert module.train().realizing.model.training
    module.save_pretrained(tmp_path)
    again, _ = ARRCOCVIS.from_pretrained(tmp_path)(picture(128, 192), "What is it?")
    assert (again.text, again.allocation) == (same.text, same.allocation)
    with pytest.raises(InputError, match="processor"):
        ARRCOCVIS(stock)


def test_what_is_learned_is_saved_and_is_what_look_uses(model, tmp_path):
    torch.nn.init.constant_(model.balancing.steepness[:1], 1.0)
    try:
        changed = model.look(STREET, QUERY).allocation
        model.save_pretrained(tmp_path)
    finally:
        model.balancing.load_state_dict(ARRCOCVIS().balancing.state_dict())
    assert changed != model.look(STREET, QUERY).allocation
    assert arr_coc.look(STREET, QUERY, 96, options=Options(ocr=False, balancing=tmp_path)) == changed
    again = ARRCOCVIS.from_pretrained(tmp_path)
    assert again.look(STREET, QUERY).allocation == changed
    assert again.state_dict()["balancing.steepness"][0] == 1
    (tmp_path / "balancing.json").write_text("[]")
    with pytest.raises(InputError, match=r"balancing\.json"):
        ARRCOCVIS.from_pretrained(tmp_path)
    with pytest.raises(InputError, match="no law"):
        Options(balancing=tmp_path)


def test_every_number_of_the_law_gets_a_gradient_and_learns(model):
    found = model.relevance(STREET, "the red thing")
    parameters = dict(model.balancing.named_parameters())
    gradients = torch.autograd.grad(found.map.square().sum(), [parameters[name] for name in NUMBERS], allow_unused=True)
    assert all(one is not None and one.isfinite().all() and one.any() for one in gradients)


# ---- the one stage ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def known():
    scene = Scene(load_picture(STREET).pixels, share=0.1)
    return knowns(scene, "Where is the red car on the left?", ("scorer", "look"), learning=True)[0]


def varied(**changes: Any) -> Law:
    """The law that ships with other numbers. Tensions: the logit for every question."""
    found = read_law().to_json()
    for name, value in changes.items():
        if name in found["tensions"]:
            found["tensions"][name] = [0.0] * 10 + [value, 0.0]
        else:
            found[name] = value
    return Law.of(found)


def as_tensors(law: Law) -> Law:
    return Law(**{name: torch.tensor(getattr(law, name), requires_grad=True) for name in NUMBERS})


@pytest.mark.parametrize("changes", [{}, {"salient": 0.5, "compress_particularize": 1.0}])
def test_numpy_and_torch_balance_alike(known, changes):
    law = varied(**changes)
    plain, learned = balance_ways(known, law), balance_ways(known, as_tensors(law))
    np.testing.assert_allclose(plain.map, learned.map.detach().numpy(), atol=2e-5)
    assert plain.tensions == pytest.approx({name: float(one.detach()) for name, one in learned.tensions.items()})
    for name, weight in plain.weights.items():
        assert weight == pytest.approx(float(learned.weights[name].detach()), abs=1e-6)


def test_each_tension_does_what_it_is_called(known):
    assert read_law().steepness[1] > 0
    usual, steep = (
        balance_ways(known, varied(compress_particularize=logit, steepness=[0.0, 0.5])).map for logit in (-1.0, 2.0)
    )
    assert steep.mean() < 0.6 * usual.mean()
    assert steep.max() == pytest.approx(usual.max(), rel=1e-5)
    still, curious = (balance_ways(known, varied(exploit_explore=logit, salient=1.0)).map for logit in (-4.0, 2.0))
    salient = torch.nn.functional.interpolate(torch.tensor(known.salient)[None, None], still.shape, mode="area")[0, 0]
    places, added = salient.numpy() >= np.quantile(salient.numpy(), 0.95), curious - still
    assert added[places].mean() > 2 * added[~places].mean() > 0
    only = replace(known, maps={}, mixed=False)
    narrow, wide = (
        balance_ways(only, varied(focus_diversify=logit, look=[0.6, 0.3, 1.0])).map for logit in (-4.0, 2.0)
    )
    assert np.median(wide) > 5 * np.median(narrow)
    # What no place asks for goes beside the best place, the less of it the more attention is to be spread.
    spot = np.random.default_rng(0).random((24, 32), dtype=np.float32) / 20
    spot[5, 6] = 1.0
    reach = []
    for share in (0.02, 0.98):
        laid = arr_coc.allocate(arr_coc.Relevance(spot, tensions={"focus_diversify": share}), 120)
        fine = laid.boxes[laid.levels == 0]
        reach.append(np.hypot(fine[:, 0] / 32 - 5, fine[:, 1] / 32 - 6).mean())
    assert reach[0] < 0.7 * reach[1]


def test_who_decided_is_told_everywhere(tmp_path):
    allocation = arr_coc.look(STREET, QUERY, 60, relevance="look")
    assert {*allocation.ways} == {"propositional", "perspectival", "participatory"}
    assert sum(weight for one in allocation.ways.values() for weight in one.values()) == pytest.approx(1, abs=1e-3)
    data = json.loads(json.dumps(allocation.to_json()))
    assert Allocation.from_json(data).ways == allocation.ways
    assert data["tensions"] == allocation.tensions
    who, stood = decided_words(allocation)
    share = 100 * allocation.ways["participatory"]["plain words"]
    assert f"plain words {share:.0f} % (participatory)" in who
    particularize = 100 * allocation.tensions["compress_particularize"]
    assert f"compress {100 - particularize:.0f} : {particularize:.0f} particularize" in stood
    given = arr_coc.look(STREET, QUERY, 60, relevance=np.eye(8))
    assert (given.ways, given.tensions) == ({"given": {"map": 1.0}}, {})
    report = arr_coc.look([STREET, EXAMPLES / "form.png"], QUERY, 80, relevance="scorer")
    assert all(page.allocation.ways == {"participatory": {"scorer": 1.0}} for page in report.funded)
    frames = [load_picture(STREET).pixels[:256, :384]] * 2
    assert all({*one.ways} == {*allocation.ways} for one in arr_coc.watch(frames, "red sign", 60).allocations)
