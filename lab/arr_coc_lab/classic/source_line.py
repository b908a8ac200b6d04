"""The source's line as one call. Each stage reads the one before, and each can be left out.

    picture, question
      → texture      40 channels, among them where the model glances and the features of its vision tower
      → mips         the texture three levels down, by the learned downsampler
      → clusters     of the texture's clusters, the ten best by the coarse mip: the candidates
      → ways         what is there, what stands out, what couples to the question: three maps of the texture
      → balancing    tensions by the question make one map of them; ground outside the candidates counts a tenth
      → scale        64 to 400 tokens a patch
      → passes       an answer that is unsure is followed by a second look at what the first left open; the surest wins

    arr-coc ask page.png "What is the total?" --preset source --keep 0.5
    Eye.from_pretrained("mini").set_image("page.png").ask("What is the total?", keep=0.5, preset="source")

What each stage is worth: `arr-coc bench source` (docs/classic.md).
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from arr_coc.answering.pass_settings import TWO_PASS
from arr_coc.answering.passes import Traces, next_map
from arr_coc.answering.readings import joined_answer
from arr_coc.texture.named_clusters import find_clusters
from arr_coc.texturing import mips_of, sense, silent_channels

from arr_coc.attending.frame import Frame, to_cells
from arr_coc.balancing.adaptive import adaptive_balance
from arr_coc.balancing.arousal import arousal_of
from arr_coc.balancing.learned import ArousalEstimator
from arr_coc.balancing.look import coupled_with, relevance_of
from arr_coc.balancing.tempering import TemperingPolicy
from arr_coc.balancing.tension import mixture, normalise, sharpen
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation, Answer, Relevance
from arr_coc.knowing.language.lexical import Coupling, lexical
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.ways import perspectival, propositional
from arr_coc.pictures.kind import is_photograph

from .clusters import labels_on, open_clusters
from .participatory import participatory
from .scale import LEAST

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.attending.request import Request
    from arr_coc.pictures.load import Picture
    from arr_coc_lab.classic.texture.texture import Texture

STAGES = ("texture", "mips", "clusters", "balancing", "scale", "passes")
# The longer side of the texture and of what the model glances at: its whole vision tower runs over that.
SIDE = 512
# Down to an eighth of the texture's side, as the downsampler was taught.
MIP_LEVELS = 4
# No place of an answer is known to be sure or unsure: halfway leaves the map as it is.
HALFWAY = 0.35
# What ground outside the candidates counts, beside its relevance.
ELSEWHERE = 0.1
# How far a cell counts as away from full detail that no region covers.
UNSEEN = 5.0


def ask_by_source(eye: Eye, picture: Picture, query: str, request: Request, most: int) -> Answer:
    """The preset "source" of `Eye.ask`, with all stages."""
    return SourceLine().ask(eye, picture, query, request, most)


def source_texture(eye: Eye, pixels: np.ndarray, query: str) -> Texture:
    """The forty channels, with the model's view of the picture where it can glance at it in one piece."""
    glances = eye.backbone.can_glance and not eye.backbone.tiled
    side = min(SIDE, max(pixels.shape[:2]))
    return sense(pixels, query, "full40", model=copy(eye) if glances else None, size=side)


@dataclass(frozen=True)
class SourceLine:
    """without: the stages that are left out, of `STAGES`."""

    without: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        unknown = sorted(set(self.without) - set(STAGES))
        if unknown:
            raise InputError(f"the source's line has no stage {unknown[0]!r}; its stages are {', '.join(STAGES)}")

    def has(self, stage: str) -> bool:
        return stage not in self.without

    def ask(
        self,
        eye: Eye,
        picture: Picture,
        query: str,
        request: Request,
        most: int = 64,
        texture: Texture | None = None,
    ) -> Answer:
        """Answer one question.

        Args:
            eye: The model; it shows this picture already.
            picture: The picture.
            query: The question.
            request: How many tokens all looks together may cost, and from how far they read.
            most: The longest answer, in tokens.
            texture: Of `source_texture`, where it is known.

        Returns:
            The surest look's answer, with a note for each stage.
        """
        if isinstance(request.budget, list | tuple):
            raise InputError(f"got {len(request.budget)} budgets for one picture; give one")
        started = perf_counter()
        found = self.relevance(eye, picture.pixels, query, texture)
        seconds = perf_counter() - started
        total = request.tokens(eye.one_picture(query)[1])
        first, later = TWO_PASS.shares(total)
        looks = self.has("passes") and (not self.has("scale") or first >= LEAST)
        scale = "classic" if self.has("scale") else "overlay"
        ask = partial(
            eye.ask, query, seed=request.seed, scale=request.scale, levels=request.levels, max_new_tokens=most
        )
        answers = [ask(first if looks else total, relevance=found, strategy=scale, scale=request.scale)]
        doubt = answers[0].uncertainty
        told = f"passes: one look, uncertainty {doubt:.2f}"
        if looks and doubt >= TWO_PASS.stop:
            again = open_ground(found, answers[0], query)
            # What is left over would buy no patch: a second look is an overlay, as in the library's own passes.
            answers.append(ask(later, relevance=again, strategy="overlay", scale=request.scale))
            told = f"passes: two looks, uncertainty {doubt:.2f} then {answers[1].uncertainty:.2f}; the surest wins"
        elif self.has("passes") and not looks:
            told += f"; for two, the first needs {LEAST} tokens, two thirds of the budget, which has {total}"
        answer = joined_answer(answers)
        stages = (*found.notes, scale_note(answer.allocation), told if self.has("passes") else "passes: left out")
        spent = {"know": seconds, **answer.seconds}
        return replace(answer, notes=tuple(dict.fromkeys((*stages, *picture.notes))), seconds=spent)

    def relevance(self, eye: Eye, pixels: np.ndarray, query: str, texture: Texture | None = None) -> Relevance:
        """The map of all stages before the scale, with a note for each."""
        coupling = None
        if self.has("texture"):
            texture = source_texture(eye, pixels, query) if texture is None else texture
            live = len(texture.names) - len(silent_channels(texture))
            notes = [f"texture: {texture.layout.name}, {live} of {len(texture.names)} channels say something"]
            coupling = semantic_coupling(texture)
        else:
            texture = Scene(pixels).texture
            notes = [f"texture: left out; {len(texture.names)} channels of look"]
        inside = None
        if self.has("clusters"):
            inside, lines = self.candidates(texture, pixels, query)
            notes += lines
        drawn = self.has("balancing") and not is_photograph(pixels)
        found = relevance_of(texture, query, coupling, adaptive_balance if drawn else None)
        plane = np.asarray(found.map)
        if self.has("balancing"):
            tensions = ", ".join(f"{name} {value:.2f}" for name, value in found.tensions.items())
            notes.append(f"balancing: {'learned' if drawn else 'set by hand'}, {tensions}")
        else:
            ways = (found.propositional, found.perspectival, found.participatory)
            plane = sharpen(normalise(np.mean([np.asarray(one) for one in ways], axis=0)[None]))[0]
            notes.append("balancing: left out; the mean of three ways")
        if inside is None:
            notes.append("clusters: left out; every place is a candidate")
        else:
            kept = labels_on(inside.astype(np.int64), plane.shape) > 0
            plane = np.where(kept, plane, ELSEWHERE * plane)
        return replace(found, map=plane.astype(np.float32), notes=(*notes, *found.notes))

    def candidates(self, texture: Texture, pixels: np.ndarray, query: str) -> tuple[np.ndarray, list[str]]:
        """(h, w) bool at the coarse mip: ground of the best clusters; and what was done."""
        learned = self.has("mips") and self.has("texture")
        coarse = mips_of(texture, "learned" if learned else "average", MIP_LEVELS)[-1].cropped()
        size = coarse.height, coarse.width
        note = f"mips: {'learned' if learned else 'averages'}, {size[0]}×{size[1]}"
        words, seen = lexical(coarse, query).map, semantic_coupling(coarse)
        coupled = words if seen is None else coupled_with(np.asarray(words), np.asarray(seen.map))
        score = mixture(*(np.asarray(one) for one in (propositional(coarse), perspectival(coarse), coupled)))
        own = "cluster_id" in coarse
        labels = (
            np.asarray(coarse["cluster_id"]).astype(np.int64) if own else labels_on(find_clusters(pixels).labels, size)
        )
        opened, told = open_clusters(labels, score, np.asarray(coarse["saliency"]))
        return opened, [note, f"clusters: {told}"]


def semantic_coupling(texture: Texture) -> Coupling | None:
    """Where the model glances, and what its features find alike elsewhere; None where it has not glanced."""
    if "current_attention" not in texture or not bool(np.asarray(texture["current_attention"]).any()):
        return None
    tensors = texture.tensors()
    attention = tensors["current_attention"].float()
    semantic = tensors.semantic.float()
    if not bool(semantic.any()):
        return Coupling(attention.numpy(), ("coupling: the model's glance",))
    # What the glance rests on, as one vector of the semantic channels.
    weights = attention / attention.sum()
    rested = (semantic * weights).sum((1, 2))
    alike = participatory(tensors, rested)
    note = "coupling: the model's glance, and what the semantic channels find alike"
    return Coupling(np.asarray(coupled_with(attention, alike)), (note,))


def open_ground(found: Relevance, answer: Answer, query: str) -> np.ndarray:
    """(rows, cols) in [0, 1]: where a second look goes, by the rule of passes with what is known of the first."""
    allocation = answer.allocation
    frame = Frame((allocation.height, allocation.width), allocation.cell, allocation.canvas)
    maps = [found.map, found.map if found.participatory is None else found.participatory]
    relevance, asked = (to_cells(torch.tensor(np.array(one))[None].float(), frame) for one in maps)
    nothing = torch.zeros_like(relevance)
    doubt = torch.tensor([answer.uncertainty])
    arousal = arousal_of(ArousalEstimator().stakes(query).detach(), doubt, 0 * doubt)
    exploration = torch.tensor([TemperingPolicy().explore([answer.uncertainty])])
    levels = torch.from_numpy(seen_levels(allocation))[None]
    traces = Traces(nothing + HALFWAY, nothing, asked)
    mapped, _ = next_map(relevance, levels, traces, exploration, arousal, nothing, TWO_PASS)
    return mapped[0].clamp(0, 1).numpy()


def seen_levels(allocation: Allocation) -> np.ndarray:
    """(rows, cols) float32: how many halvings away from full detail every cell was seen, at its finest."""
    cells = allocation.extents().prod(1)
    levels = 0.5 * np.log2(np.maximum(cells / allocation.counts, 1))
    return np.append(levels, UNSEEN)[allocation.leaf_map()].astype(np.float32)


def scale_note(allocation: Allocation) -> str:
    """What the scale did, in one line."""
    if allocation.strategy != "classic":
        return f"scale: left out; {allocation.strategy}, {allocation.tokens} tokens"
    patches = allocation.counts[allocation.counts > 1]
    given = ", ".join(f"{int((patches == count).sum())} of {count}" for count in sorted(set(patches.tolist())))
    return f"scale: patches {given or 'none'} tokens, {int((allocation.counts == 1).sum())} single cells"
