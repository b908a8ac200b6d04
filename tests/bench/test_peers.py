"""Every way of the comparison: exact counts, true places, nothing lost where nothing is dropped, the right signs."""

from __future__ import annotations

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peers_parts import pictures, scene, shared_scene, tiny_mini, tiny_weights

from arr_coc.attending.tree import build_tree
from arr_coc_lab.bench.peers.maths import best, stages
from arr_coc_lab.bench.peers.model import BEFORE, LEVELS, Flow, Inside, PeerScene, PrunableMini, PrunedInput
from arr_coc_lab.bench.peers.ways import WAYS, cluster_count, merge_plan, raters_of, sparsified
from arr_coc_lab.train.swift import cut_patches, run_language, run_tower
from arr_coc_lab.worlds.needle import render

by_name = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
TILED = {way.name for way in WAYS if "quadtree" in way.name or way.name == "uniform down-sampling"}
MERGES = {"SparseVLM", "VisionZip", "average pooling", "ToMe"}


class Watching(Inside):
    """What a way does, and what is seen of it: where the visual tokens stand, and the last token's attention."""

    def __init__(self, given: PrunedInput) -> None:
        self.inside, self.places, self.attended = given.inside or Inside(), torch.empty(0), list[torch.Tensor]()

    def before(self, index: int, flow: Flow) -> None:
        self.inside.before(index, flow)
        self.places = flow.visual().places[..., 1:] - BEFORE

    def after(self, index: int, flow: Flow, query: torch.Tensor, key: torch.Tensor) -> None:
        self.attended.append(flow.attention(query, key, *flow.scene.last_row()))
        place = int(flow.scene.last[1]) + flow.tail
        scores = (query[1, :, place] @ key[1].transpose(1, 2)[:, :, : place + 1]).diagonal(dim1=0, dim2=1).T
        plain = (scores * key.shape[-1] ** -0.5).softmax(-1).mean(0)[flow.seen]
        torch.testing.assert_close(self.attended[-1][1], plain, msg="a softmax over everything before the token")
        self.inside.after(index, flow, query, key)


def watched(given: PrunedInput, where: PeerScene) -> tuple[Watching, list[int]]:
    watching = Watching(given)
    return watching, tiny_mini().language(where, PrunedInput(given.visual, watching))[1]


def last_places(way, tokens: int, where: PeerScene) -> tuple[torch.Tensor, list[int]]:
    watching, counts = watched(way.make(tiny_mini(), where, tokens), where)
    return watching.places, counts


def test_the_forward_pass_is_that_of_the_project():
    mini, here = tiny_mini(), scene()
    hidden, _ = mini.language(here, PrunedInput(mini.full(here)))
    leaves = here.level(0)
    seen = run_tower(mini.core.visual, cut_patches(pictures().pictures, leaves, 1, torch.float32), leaves, here.grid)
    theirs = run_language(mini.core, seen, here.tails[:, None], leaves, here.grid).said
    torch.testing.assert_close(hidden, theirs, atol=1e-4, rtol=1e-4)


@by_name
@pytest.mark.parametrize("tokens", [16, 4])
def test_a_way_leaves_exactly_the_asked_number_at_true_places(way, tokens):
    here = shared_scene()
    places, counts = last_places(way, tokens, here)
    wanted = build_tree(*here.grid, LEVELS).reach(tokens) if way.name in TILED else tokens
    assert counts[-1] == places.shape[1] == wanted
    assert counts == sorted(counts, reverse=True)
    assert (places >= 0).all()
    assert (places <= 7).all()
    if way.where not in ("before", "tower") and way.name not in MERGES:
        flat = places[..., 0] * 8 + places[..., 1]
        assert torch.equal(flat, flat.round())
        assert all(len(set(row.tolist())) == tokens for row in flat)


@by_name
def test_tokens_that_are_dropped_after_the_tower_leave_the_others_as_they_were(way):
    mini, here = tiny_mini(), scene()
    given = way.make(mini, here, 16)
    if way.where != "after" or way.name in MERGES:
        pytest.skip("reads or merges otherwise")
    full = mini.full(here)
    flat = (given.visual.places[..., 0] * 8 + given.visual.places[..., 1]).long()
    assert torch.equal(flat, flat.sort(1).values)
    index = flat[..., None].expand(-1, -1, full.embeds.shape[2])
    for mine, theirs in zip([given.visual.embeds, *given.visual.planes], [full.embeds, *full.planes], strict=True):
        assert torch.equal(mine, theirs.gather(1, index))


@by_name
def test_with_all_tokens_a_way_is_the_untouched_model(way):
    mini, here = tiny_mini(), scene()
    untouched, _ = mini.language(here, PrunedInput(mini.full(here)))
    hidden, counts = mini.language(here, way.make(mini, here, here.full))
    assert counts[-1] == here.full
    torch.testing.assert_close(hidden, untouched, atol=1e-4, rtol=1e-4)


@by_name
def test_no_way_sees_the_answer(way):
    """The same choice whether the right answer stands behind the prompt, another one, or none."""
    scenes = (shared_scene(), shared_scene(wrong=True), shared_scene(answers=False))
    places = [last_places(way, 16, one)[0] for one in scenes]
    assert torch.equal(places[0], places[1])
    assert torch.equal(places[0], places[2])


@pytest.mark.parametrize(
    "way", [way for way in WAYS if "random" in way.name or "shuffled" in way.name], ids=lambda w: w.name
)
def test_chance_depends_on_the_seed_and_on_nothing_that_ran_before(way):
    fresh, used = scene(), scene()
    for earlier in WAYS[:3]:
        earlier.make(tiny_mini(), used, 8)
    torch.rand(7)
    alone = last_places(way, 16, fresh)[0]
    assert torch.equal(alone, last_places(way, 16, used)[0])
    assert not torch.equal(alone, last_places(way, 16, scene(seed=6))[0])


# ---- signs and rules -------------------------------------------------------------------------------------------------


def test_fastv_keeps_what_the_last_token_attends_to():
    mini, here = tiny_mini(), scene()
    watching, _ = watched(PrunedInput(mini.full(here)), here)
    way = next(one for one in WAYS if one.name == "FastV, K = 2")
    places = last_places(way, 8, here)[0]
    kept = (places[..., 0] * 8 + places[..., 1]).long()
    assert torch.equal(kept, watching.attended[1].topk(8, 1).indices.sort(1).values)


def test_sparse_vlm_counts_its_clusters_among_the_tokens():
    mini, here = tiny_mini(), scene()
    ratings = torch.rand(2, 64, generator=torch.Generator().manual_seed(0))
    for tokens in (63, 40, 8, 2):
        left = sparsified(mini.full(here), ratings, tokens)
        assert len(left) == tokens
        clusters = min(cluster_count(64, tokens), tokens - 1)
        kept = best(ratings, tokens - clusters).sort(1).values
        places = mini.full(here).places.gather(1, kept[..., None].expand(-1, -1, 2))
        assert torch.equal(left.places[:, : tokens - clusters], places)
    raters = raters_of(mini, here)
    assert raters.any(1).all()
    assert not (raters & ~here.prompt).any()


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 256), st.data())
def test_plans_end_where_they_should(full, data):
    tokens = data.draw(st.integers(max(1, -(-full // 64)), full))
    assert stages(full, tokens)[-1] == tokens
    plan = merge_plan(full, tokens, 6)
    assert full - sum(plan) == tokens


def test_half_precision_reads_by_every_way():
    weights = tiny_weights()
    model = copy.deepcopy(weights.mini)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    mini = PrunableMini(model, weights.scorer)
    with torch.inference_mode():
        here = PeerScene(render("cards", 1, (128, 128), 77, "test"), mini.dtype, 5)
        for way in WAYS:
            right, counts = mini.right(here, way.make(mini, here, 4))
            assert right.shape == (1,)
            assert counts[-1] <= 4
