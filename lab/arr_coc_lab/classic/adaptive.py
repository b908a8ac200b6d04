"""AdaptiveTensionBalancer as a source of relevance: `look --relevance adaptive` balances the three ways of `look` by
tensions that were learned on drawn worlds, for every place by the question."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import torch

from arr_coc.balancing.arousal import first_arousal, modulate
from arr_coc.balancing.choosing import look_relevance
from arr_coc.balancing.tensions import sharpen
from arr_coc.core.folders import CLASSIC_WEIGHTS
from arr_coc.core.values import Relevance
from arr_coc.knowing.registry import Source
from arr_coc.knowing.scene import Scene

from .balancers import AdaptiveTensionBalancer
from .selectors import QuestionWords

NOTE = "tensions by the question, place by place, as learned on drawn worlds"


@lru_cache(maxsize=1)
def bundled() -> tuple[QuestionWords, AdaptiveTensionBalancer]:
    """Return the words and the balancer that were trained together."""
    words = QuestionWords.from_pretrained(CLASSIC_WEIGHTS / "tension_words").float()
    return words, AdaptiveTensionBalancer.from_pretrained(CLASSIC_WEIGHTS / "adaptive").float()


@torch.no_grad()
def adapted(looked: Relevance) -> Relevance:
    """Balance the maps of `look` by learned tensions instead of those set by hand."""
    words, balancer = bundled()
    ways = [one for one in (looked.propositional, looked.perspectival, looked.participatory) if one is not None]
    maps = [torch.tensor(one)[None] for one in ways]
    balanced = balancer(*maps, words.mean(words.rows([looked.query])))
    arousal, _ = first_arousal(looked.query, ways)
    notes = tuple(dict.fromkeys((*looked.notes, NOTE)))
    return replace(looked, map=modulate(sharpen(balanced[0]).numpy(), arousal), tensions={}, notes=notes)


def adaptive_relevance(scene: Scene, query: str) -> Relevance:
    """Return the source "adaptive"."""
    return adapted(look_relevance(scene, query))


SOURCE = Source("adaptive", adaptive_relevance, "the three ways by tensions that were learned")
