"""One budget over pages: exact, fair, and one page alone is what it always was."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc import Relevance
from arr_coc.attending.allocate import allocate
from arr_coc.attending.overlay import page_gains, share_tokens
from arr_coc.decide_document import PageRelevance, allocate_pages
from arr_coc.options import Options
from arr_coc.pictures.document import Document

maps = (
    st.integers(0, 2**31)
    .map(lambda seed: np.random.default_rng(seed))
    .map(lambda rng: (rng.random((int(rng.integers(1, 7)), int(rng.integers(1, 7)))) ** 3).astype(np.float32))
)
beliefs = st.floats(0.1, 1.0)


def gains_of(pages):
    return [page_gains(one, one.size, belief) for one, belief in pages]


@given(st.lists(st.tuples(maps, beliefs), min_size=1, max_size=6), st.integers(1, 120))
@settings(max_examples=60)
def test_the_budget_is_exact_and_overviews_are_kept_where_they_fit(pages, budget):
    full = [one.size for one, _ in pages]
    tokens = share_tokens(gains_of(pages), budget)
    assert sum(tokens) == min(budget, sum(full))
    assert all(0 <= spent <= whole for spent, whole in zip(tokens, full, strict=True))
    if 4 * len(pages) <= min(budget, sum(full)):
        assert min(tokens) >= 1


@given(st.lists(st.tuples(maps, beliefs), min_size=2, max_size=5), st.integers(1, 80), st.randoms())
@settings(max_examples=40)
def test_the_order_of_pages_does_not_matter(pages, budget, random):
    order = list(range(len(pages)))
    random.shuffle(order)
    gains = gains_of(pages)
    straight, mixed = share_tokens(gains, budget), share_tokens([gains[place] for place in order], budget)
    # Random maps have no equal gains but those of pages that are equal.
    spent = sorted(zip(map(tuple, gains), straight, strict=True))
    assert spent == sorted((tuple(gains[place]), tokens) for place, tokens in zip(order, mixed, strict=True))


@given(st.lists(st.tuples(maps, beliefs), min_size=2, max_size=5), st.integers(1, 80), st.floats(1.0, 5.0))
@settings(max_examples=40)
def test_more_relevance_never_means_fewer_tokens(pages, budget, times):
    before = share_tokens(gains_of(pages), budget)
    more = [(pages[0][0], pages[0][1] * times), *pages[1:]]
    assert share_tokens(gains_of(more), budget)[0] >= before[0]


def a_document(shapes):
    return Document.of([np.full((*shape, 3), 255, np.uint8) for shape in shapes])


@pytest.mark.parametrize("budget", [1, 7, 40, 10_000])
def test_one_page_is_an_ordinary_allocation_to_the_leaf(budget):
    found = np.random.default_rng(3).random((9, 7)).astype(np.float32)
    given_page = PageRelevance(Relevance(found))
    (page,) = allocate_pages(a_document([(280, 220)]), [given_page], Options(budget=budget)).pages
    alone = allocate(found, budget, image_size=(280, 220))
    assert page.allocation.to_json()["regions"] == alone.to_json()["regions"]


def test_pages_without_a_token_are_told_and_tokens_follow_relevance():
    document = a_document([(320, 320)] * 8)
    strong = np.zeros((10, 10), np.float32)
    strong[4, 4:7] = 0.9
    relevances = [PageRelevance() for _ in range(8)]
    relevances[5] = PageRelevance(Relevance(strong))
    few = allocate_pages(document, relevances, Options(budget=12))
    assert few.tokens == 12
    assert few.ranked[0].number == 6
    assert len(few.funded) < len(few.pages)
    assert "without a token: pages 1-5, 7-8" in few.notes
    more = allocate_pages(document, relevances, Options(budget=40))
    assert more.tokens == 40
    assert more.funded == more.pages
    assert [page.tokens for page in more.pages] == [1] * 5 + [33] + [1] * 2
    assert (more.pages[5].allocation.level_map()[4, 4:7] == 0).all()
    assert allocate_pages(document, relevances, Options(budget=99999)).tokens == 800
