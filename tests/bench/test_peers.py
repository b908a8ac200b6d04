"""Every way of the comparison: exact counts, true places, nothing lost where nothing is dropped, the right signs."""

from __future__ import annotations

import copy
from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from peers_parts import pictures, scene, shared_scene, tiny_mini, tiny_weights
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from arr_coc.attending.tree import build_tree
from arr_coc.core.alphabet import CHARACTERS
from arr_coc.looking import examine
from arr_coc_lab.bench.peers import cdpruner, dart, holov, ours, sparse_vlm, tome, vispruner
from arr_coc_lab.bench.peers.cost import counted_cost, language_operations, tower_operations
from arr_coc_lab.bench.peers.maths import best, bipartite, cosines, greedy_determinant, max_min, others, pool, stages
from arr_coc_lab.bench.peers.model import BEFORE, LEVELS, Flow, PeerScene, PrunableMini, Told
from arr_coc_lab.bench.peers.registry import FULL, WAYS
from arr_coc_lab.train.pictures import cut, render_family
from arr_coc_lab.train.swift import cut_patches, run_language, run_tower

by_name = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.name)
TILED = {way.name for way in WAYS if "quadtree" in way.name or way.name == "uniform down-sampling"}
MERGES = {"SparseVLM", "VisionZip", "PruMerge+", "average pooling", "ToMe"}


class Watching:
    """Where the visual tokens stand in the last layer."""

    def __init__(self) -> None:
        self.places = torch.empty(0)

    def __call__(self, index: int, flow: Flow, query: torch.Tensor, key: torch.Tensor) -> None:
        self.places = flow.visual().places[..., 1:] - BEFORE


def last_places(way, tokens: int, where: PeerScene) -> tuple[torch.Tensor, list[int]]:
    mini, watching = tiny_mini(), Watching()
    _, counts = mini.language(where, way.make(mini, where, tokens), watching)
    return watching.places, counts


def test_the_forward_pass_is_that_of_the_project():
    mini, here = tiny_mini(), scene()
    hidden, _ = mini.language(here, Told(mini.full(here)))
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
    if not way.spares_tower and way.name not in MERGES:
        flat = places[..., 0] * 8 + places[..., 1]
        assert torch.equal(flat, flat.round())
        assert all(len(set(row.tolist())) == tokens for row in flat)


@by_name
def test_tokens_that_are_dropped_after_the_tower_leave_the_others_as_they_were(way):
    mini, here = tiny_mini(), scene()
    told = way.make(mini, here, 16)
    if way.where != "after" or way.name in MERGES:
        pytest.skip("reads or merges otherwise")
    full = mini.full(here)
    flat = (told.visual.places[..., 0] * 8 + told.visual.places[..., 1]).long()
    assert torch.equal(flat, flat.sort(1).values)
    index = flat[..., None].expand(-1, -1, full.embeds.shape[2])
    for mine, theirs in zip([told.visual.embeds, *told.visual.planes], [full.embeds, *full.planes], strict=True):
        assert torch.equal(mine, theirs.gather(1, index))


@by_name
def test_with_all_tokens_a_way_is_the_untouched_model(way):
    mini, here = tiny_mini(), scene()
    untouched, _ = mini.language(here, Told(mini.full(here)))
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


# ---- operations ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["uniform down-sampling", "ToMe"])
def test_formulas_count_what_torch_counts(name):
    mini, here = tiny_mini(), scene(answers=False)
    way = next(one for one in WAYS if one.name == name)
    here.pyramid()
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as tower:
            told = way.make(mini, here, 16)
        with FlopCounterMode(display=False) as language:
            _, counts = mini.language(here, told)
    config, text = mini.model.config, BEFORE + 1 + here.tails.shape[1]
    lengths = [count + text for count in counts]
    assert language.get_total_flops() == 2 * language_operations(config.text_config, lengths)
    matching = 0
    if name == "ToMe":
        units, keys = 64, 4 * 32
        for merged in tome.merge_plan(64, 16, 4):
            matching += 2 * (units // 2) * (units - units // 2) * keys if merged else 0
            units -= merged
    expected = tower_operations(config.vision_config, told.visual.patches) + matching
    assert tower.get_total_flops() == 2 * expected


def test_a_chooser_pays_for_what_it_does():
    batch = cut(pictures(), 0, 1)
    mini = tiny_mini()
    costs = {way.name: counted_cost(mini, way, 16, batch) for way in (FULL, *WAYS)}
    assert costs["full"].chooser == pytest.approx(0, abs=1e-9)
    assert costs["uniform down-sampling"].chooser == pytest.approx(0, abs=1e-9)
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as scorer:
        mini.scorer.score(batch.pictures, batch.question_ids)
    assert costs["scorer + overlay"].chooser == pytest.approx(scorer.get_total_flops() / 1e9, rel=1e-6)
    assert costs["scorer, dropped after the tower"].chooser == pytest.approx(
        costs["scorer + overlay"].chooser, rel=1e-6
    )
    width = mini.model.config.vision_config.hidden_size
    assert costs["VisPruner"].chooser > 2 * 256**2 * width / 1e9  # the tower's last attention, once more
    assert costs["glance + overlay"].chooser > 0.2 * costs["full"].total  # all 64 cells are its coarse view here
    assert costs["scorer + overlay"].tower < 0.3 * costs["scorer, dropped after the tower"].tower
    assert all(costs[name].tower == costs["full"].tower for name in ("FastV, K = 2", "DART", "HoloV"))


# ---- signs and rules -------------------------------------------------------------------------------------------------


def test_fastv_keeps_what_the_last_token_attends_to():
    mini, here = tiny_mini(), scene()
    seen = []

    def watch(index, flow, query, key):
        if index == 1:
            seen.append(flow.attention(query, key, *here.last_row()))

    mini.language(here, Told(mini.full(here)), watch)
    way = next(one for one in WAYS if one.name == "FastV, K = 2")
    places = last_places(way, 8, here)[0]
    kept = (places[..., 0] * 8 + places[..., 1]).long()
    assert torch.equal(kept, seen[0].topk(8, 1).indices.sort(1).values)


def test_rows_of_attention_are_the_models():
    """Against a plain softmax over everything before the token."""
    mini, here = tiny_mini(), scene()

    def watch(index, flow, query, key):
        place = int(here.last[1]) + flow.tail
        scores = (query[1, :, place] @ key[1].transpose(1, 2)[:, :, : place + 1]).diagonal(dim1=0, dim2=1).T
        plain = (scores * key.shape[-1] ** -0.5).softmax(-1).mean(0)[flow.seen]
        torch.testing.assert_close(flow.attention(query, key, *here.last_row())[1], plain)

    mini.language(here, Told(mini.full(here)), watch)


def test_cdpruner_prefers_what_resembles_the_question_and_the_released_sign_the_opposite(monkeypatch):
    mini, here = tiny_mini(), scene()
    similar = torch.linspace(0, 1, 64).expand(2, -1)
    monkeypatch.setattr(cdpruner, "text_similarity", lambda mini, scene: similar)
    means = []
    for sign in (1, -1):
        places = cdpruner.cdpruner(mini, here, 8, sign).visual.places
        means.append(float((places[..., 0] * 8 + places[..., 1]).mean()))
    assert means[0] > 31.5 > means[1]


def test_text_similarity_is_highest_for_a_token_that_is_the_question():
    mini, here = tiny_mini(), scene()
    embeds = mini.full(here).embeds
    words = mini.core.language_model.embed_tokens.weight[here.tails[:, 0]]
    before = cdpruner.text_similarity(mini, here)[:, 9]
    embeds[:, 9] = words
    after = cdpruner.text_similarity(mini, here)[:, 9]
    assert (after > before).all()


def test_the_greedy_determinant_is_the_best_next_one():
    torch.manual_seed(1)
    features = torch.randn(3, 7, 5)
    kernel = features @ features.transpose(1, 2) + 0.1 * torch.eye(7)
    chosen = greedy_determinant(kernel, 4)
    for one, picked in zip(kernel, chosen.tolist(), strict=True):
        for step in range(4):

            def volume(last, step=step, picked=picked, one=one):
                index = torch.tensor([*picked[:step], last])
                return float(torch.linalg.det(one[index][:, index]))

            rest = [place for place in range(7) if place not in picked[:step]]
            assert volume(picked[step]) == pytest.approx(max(map(volume, rest)), rel=1e-4)


def test_max_min_takes_no_double():
    torch.manual_seed(2)
    features = torch.randn(2, 6, 8)
    doubled = torch.cat([features, features], 1)
    chosen = max_min(1 - cosines(doubled), 6)
    assert all({place % 6 for place in row} == set(range(6)) for row in chosen.tolist())


def test_bipartite_joins_the_two_that_are_alike():
    metric = torch.eye(6)[None].repeat(2, 1, 1)
    metric[:, 4] = metric[:, 1]  # 4 is even, 1 is odd: the nearest pair
    slot = bipartite(metric, 1)
    assert slot[0, 4] == slot[0, 1]
    assert sorted(set(slot[0].tolist())) == list(range(5))


def test_vispruner_drops_the_doubles():
    torch.manual_seed(3)
    features = torch.randn(2, 8, 16)
    features[:, 6] = features[:, 1]
    left = vispruner.without_doubles(features, torch.arange(8).expand(2, -1), 7)
    assert all(6 not in row and 1 in row for row in left.tolist())


def test_dart_takes_what_is_least_like_its_pivots():
    states = torch.eye(8)[None].repeat(2, 1, 1) + 0.01
    states[:, 5] = -states[:, 0] - states[:, 1]
    size = torch.arange(8, 0, -1.0).expand(2, -1)  # tokens 0 and 1 are the pivots of four
    chosen = dart.least_alike(states, size, torch.zeros(2, 0, 8), 3)
    assert {0, 1, 5} == set(chosen[0].tolist())


def test_sparse_vlm_counts_its_clusters_among_the_tokens():
    mini, here = tiny_mini(), scene()
    ratings = torch.rand(2, 64, generator=torch.Generator().manual_seed(0))
    for tokens in (63, 40, 8, 2):
        left = sparse_vlm.sparsified(mini.full(here), ratings, tokens)
        assert len(left) == tokens
        clusters = min(sparse_vlm.cluster_count(64, tokens), tokens - 1)
        kept = best(ratings, tokens - clusters).sort(1).values
        places = mini.full(here).places.gather(1, kept[..., None].expand(-1, -1, 2))
        assert torch.equal(left.places[:, : tokens - clusters], places)
    raters = sparse_vlm.raters_of(mini, here)
    assert raters.any(1).all()
    assert not (raters & ~here.prompt).any()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(1e-4, 1), min_size=16, max_size=16), st.integers(1, 64))
def test_holov_quotas_are_exact_and_follow_the_scores(scores, tokens):
    given_out = holov.quotas(torch.tensor([scores]), tokens, 4)[0].tolist()
    assert sum(given_out) == tokens
    assert max(given_out) <= 4
    order = np.argsort(scores, kind="stable")
    assert all(given_out[low] <= given_out[high] for low, high in pairwise(order) if scores[low] < scores[high])


def test_holov_fills_its_quotas_by_attention():
    mini, here = tiny_mini(), scene()
    places = holov.holov(mini, here, 16).visual.places
    kept = (places[..., 0] * 8 + places[..., 1]).long()
    attention = mini.received(here).view(2, 16, 4)
    torch.testing.assert_close(attention.sum((1, 2)), torch.ones(2))
    for row, seen in zip(kept.tolist(), attention, strict=True):
        for crop in range(16):
            mine = [place % 4 for place in row if place // 4 == crop]
            assert set(mine) == set(seen[crop].topk(len(mine)).indices.tolist())


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 256), st.data())
def test_plans_end_where_they_should(full, data):
    tokens = data.draw(st.integers(max(1, -(-full // 64)), full))
    assert stages(full, tokens)[-1] == tokens
    plan = tome.merge_plan(full, tokens, 6)
    assert full - sum(plan) == tokens


def test_pooling_is_a_weighted_mean_and_others_are_the_rest():
    values = torch.tensor([[[1.0], [3.0], [10.0]]])
    slot = torch.tensor([[0, 0, 1]])
    assert pool(values, slot, 2).flatten().tolist() == [2.0, 10.0]
    assert pool(values, slot, 2, torch.tensor([[3.0, 1.0, 5.0]])).flatten().tolist() == [1.5, 10.0]
    assert others(torch.tensor([[3, 0]]), 5).tolist() == [[1, 2, 4]]


def test_the_tiny_model_is_a_stock_class():
    assert type(tiny_weights().mini).__name__ == "Qwen3VLForConditionalGeneration"


def test_half_precision_reads_by_every_way():
    weights = tiny_weights()
    model = copy.deepcopy(weights.mini)
    for parameter in model.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)
    mini = PrunableMini(model, weights.scorer)
    with torch.inference_mode():
        here = PeerScene(render_family("cards", 1, (128, 128), 77, 0, "cpu", None, "test"), mini.dtype, 5)
        for way in WAYS:
            right, counts = mini.right(here, way.make(mini, here, 4))
            assert right.shape == (1,)
            assert counts[-1] <= 4


def test_look_is_the_librarys():
    """The batch by torch against `arr_coc.examine` of each picture, which goes by OpenCV."""
    here = scene()
    found = ours.looked_at(here)
    for number, picture in enumerate(pictures().pictures):
        ids = pictures().question_ids[number]
        question = "".join(CHARACTERS[index - 1] for index in ids.tolist() if index)
        seen = examine(
            picture.permute(1, 2, 0).numpy(), question, keep=0.25, relevance="look:fixed", photos=False
        ).relevance.map
        cells = torch.from_numpy(np.array(seen)).unflatten(1, (8, -1)).unflatten(0, (8, -1)).mean((1, 3))
        assert np.corrcoef(cells.flatten(), found[number].flatten())[0, 1] > 0.97
