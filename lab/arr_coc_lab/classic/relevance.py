"""The classic sources of relevance, as entry points of `arr_coc.relevance`: names and summaries, nothing heavy."""

from __future__ import annotations

from arr_coc.relevance.registry import Source

CASCADE = Source(
    "cascade",
    "arr_coc_lab.classic.cascade:cascade_relevance",
    summary="as look, coarse to fine: a finer mip is sensed only where the coarser one was relevant",
    option="clusters",
)


def _selector(name: str, summary: str) -> Source:
    home = "arr_coc_lab.classic.sources"
    return Source(name, f"{home}:{name}_relevance", summary=summary, ready=f"{home}:classic_missing")


EDGE_LOD = _selector("edge_lod", "how many edges a patch has: the selector of phase 1")
QUERY_AWARE_LOD = _selector(
    "query_aware_lod", "a level of detail for each patch, by the question: the selector of phase 2"
)
REALIZER = _selector("realizer", "patches and the question's words through one network")
PATCH_TRUNK = _selector("patch_trunk", "what each patch has learned from the words, against the whole question")
PARTICIPATORY = _selector("participatory", "what the question couples to, by learned semantic channels")
