"""The source's line as one call. Each stage reads the one before, and each can be left out.

    picture, question
      → texture      40 channels, among them the features of the model's vision tower
      → glance       where the model glances before it answers
      → mips         the texture three levels down, by the learned downsampler
      → clusters     of the texture's clusters, the ten best by the coarse mip: the candidates
      → ways         what is there, what stands out, what couples to the question: three maps of the texture
      → balancing    tensions by the question make one map of them; ground outside the candidates counts a tenth
      → scale        64 to 400 tokens a patch
      → passes       an answer that is unsure is followed by a second look at what the first left open; the surest wins
      → words        the second look is for the question and the words of the first answer

    arr-coc ask page.png "What is the total?" --budget 0.5 --set preset=source

What each stage is worth: `arr-coc bench source` (docs/classic.md). The source's versions before it are presets, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from math import prod
from time import perf_counter
from typing import TYPE_CHECKING

import cv2
import numpy as np
import torch

from arr_coc.answering.esper import exploration_rule, temper
from arr_coc.attending.frame import Frame, to_cells
from arr_coc.balancing.arousal import arousal_of, keyword_stakes, modulate
from arr_coc.balancing.choosing import relevance_of
from arr_coc.balancing.tensions import balance, normalise, sharpen
from arr_coc.core.answer import Answer, comparable, summed
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation, JsonObject, Relevance
from arr_coc.knowing.language.lexical import Coupling, lexical
from arr_coc.knowing.scene import SENSE_SIDE
from arr_coc.knowing.ways import coupled_with, perspectival, propositional
from arr_coc.options import Options
from arr_coc.pictures.kind import is_photograph
from arr_coc.pictures.load import load_picture
from arr_coc.realizing.glance import glance_relevance

from .adaptive import adapted
from .participatory import participatory
from .scale import LEAST
from .strategies import labels_on, open_clusters
from .texture.channels40 import LOOK, BatchTexture, sense
from .texture.mips import mips
from .texture.pca import SemanticProjection
from .texture.superpixels import superpixels

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.pictures.load import Picture

STAGES = ("texture", "glance", "mips", "clusters", "balancing", "scale", "passes", "words")
# Versions of the source as choices of `Options`, and the share of the tokens where no budget is given: the 200 best of
# 1 024 cells by three ways; patches of 64 to 400 tokens by tensions of the question; the same by the model's own map.
VERSIONS: Mapping[str, JsonObject] = {
    "v01": {"budget": 200 / 1024, "relevance": "look", "strategy": "top_k"},
    "v02": {"relevance": "adaptive", "strategy": "classic"},
    "classic": {"strategy": "classic"},
}
# The longer side of the texture and of what the model glances at: its whole vision tower runs over that.
SIDE = 512
# Down to an eighth of the texture's side, as the downsampler was taught.
MIP_LEVELS = 4
# What ground outside the candidates counts, beside its relevance.
ELSEWHERE = 0.1
# How far a cell counts as away from full detail that no region covers.
UNSEEN = 5.0
# From this uncertainty on, a second look follows.
UNSURE = 0.3
# What the question counts in the second look, where relevance counts 1; as much is kept for the answer's own doubt.
ASKED = 0.5
# The second look is gathered around its best place: a Gaussian of this many cells; a third of it finds the place.
FOVEA = 2.0
OUTSIDE = 1e-3
# Texts that the projection is fitted on beside the question: things that pictures show.
PLAIN_TEXTS = ("a photo", "a word", "a number", "a person", "an animal", "a car", "the ground", "the sky", "a sign")


def ask_by_source(eye: Eye, query: str, options: Options) -> Answer:
    """Answer as the preset "source" of `Eye.ask` does, with all stages."""
    return SourceLine().ask(eye, eye.shown.picture, query, options, options.max_new_tokens)


def ask_by_version(name: str, eye: Eye, query: str, options: Options) -> Answer:
    """Answer as a preset of `VERSIONS` does."""
    row = dict(VERSIONS[name])
    options = options.default(budget=row.pop("budget", None))
    return eye.ask(query, options=replace(options, **row))


ask_by_v01, ask_by_v02, ask_by_classic = (partial(ask_by_version, name) for name in VERSIONS)


def source_texture(eye: Eye, pixels: np.ndarray, query: str) -> BatchTexture:
    """Sense the forty channels, with the model's view of the picture where it can glance at it in one piece."""
    small = load_picture(pixels, longest_side=SIDE).pixels
    if not eye.engine.backbone.can_glance or eye.engine.backbone.tiled:
        return sense(small, "full40")
    attention, tokens, words = model_view(copy(eye), small, query)
    projection = SemanticProjection.fit(tokens.flatten(0, 1), words)
    row, col = np.unravel_index(int(attention.argmax()), attention.shape)
    gaze = (row + 0.5) / attention.shape[0], (col + 0.5) / attention.shape[1]
    given = {"current_attention": attention}
    return sense(small, "full40", gaze=gaze, given=given, semantic=projection.planes(tokens[None]))


@torch.no_grad()
def model_view(eye: Eye, pixels: np.ndarray, query: str) -> tuple[np.ndarray, torch.Tensor, torch.Tensor]:
    """Run a model on a picture before it answers.

    Returns:
        Where it looks, (rows, cols) in [0, 1]; what its vision tower makes of each cell, (rows, cols, D); and the words
        of the question and of plain texts as its language model reads them, (L, D).
    """
    inputs = eye.set_image(pixels).prepare(query, Options(budget=1.0, scale=1)).inputs
    (glimpse,), _ = glance_relevance(eye.engine.backbone, eye.model, inputs, [query])
    (grid,) = eye.engine.backbone.grids(eye.model, inputs)
    found = eye.model.get_image_features(**{name: inputs[name] for name in eye.engine.backbone.picture_keys})
    tokens = torch.cat(list(getattr(found, "pooler_output", found))).float().cpu()
    ids = [eye.processor.tokenizer(one, add_special_tokens=False)["input_ids"] for one in (query, *PLAIN_TEXTS)]
    embeddings = eye.model.get_input_embeddings()
    places = torch.tensor([one for row in ids for one in row], device=embeddings.weight.device)
    return glimpse.map, tokens.view(grid.rows, grid.cols, -1), embeddings(places).float().cpu()


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
        options: Options,
        most: int = 64,
        texture: BatchTexture | None = None,
    ) -> Answer:
        """Answer one question.

        Args:
            eye: The model; it shows this picture already.
            picture: The picture.
            query: The question.
            options: How many tokens all looks together may cost. The line reads at its own scale, 1, unless they say
                another number.
            most: The longest answer, in tokens.
            texture: Of `source_texture`, where it is known.

        Returns:
            The surest look's answer, with a note for each stage.
        """
        if isinstance(options.budget, list | tuple):
            raise InputError(f"got {len(options.budget)} budgets for one picture; give one")
        started = perf_counter()
        if texture is None and (self.has("texture") or self.has("glance")):
            texture = source_texture(eye, picture.pixels, query)
        found = self.relevance(eye, picture.pixels, query, texture)
        seconds = perf_counter() - started
        total = options.tokens(eye.full)
        later = total // 3
        first = total - later
        looks = self.has("passes") and (not self.has("scale") or first >= LEAST)
        strategy = "classic" if self.has("scale") else "overlay"
        scale = 1 if options.scale in (None, "auto") else options.scale
        own = Options(seed=options.seed, scale=scale, levels=options.levels, max_new_tokens=most)
        answers = [eye.ask(query, first if looks else total, replace(own, relevance=found, strategy=strategy))]
        doubt = answers[0].uncertainty
        line, words = f"passes: one look, uncertainty {doubt:.2f}", "words: no second look"
        if looks and doubt >= UNSURE:
            said = f"{query} {answers[0].text}" if self.has("words") else query
            again = open_ground(self.relevance(eye, picture.pixels, said, texture), answers[0], query)
            # What is left over would buy no patch: a second look is an overlay, as in the library's own passes.
            answers.append(eye.ask(query, later, replace(own, relevance=again, strategy="overlay")))
            line = f"passes: two looks, uncertainty {doubt:.2f} then {answers[1].uncertainty:.2f}; the surest wins"
            words = f"words: the second look is for {said!r}"
        elif self.has("passes") and not looks:
            line += f"; for two, the first needs {LEAST} tokens, two thirds of the budget, which has {total}"
        answer = surest(answers)
        line = line if self.has("passes") else "passes: left out"
        stages = (*found.notes, scale_note(answer.allocation), line, words if self.has("words") else "words: left out")
        spent = {"know": seconds, **answer.seconds}
        return replace(answer, notes=tuple(dict.fromkeys((*stages, *picture.notes))), seconds=spent)

    def relevance(self, eye: Eye, pixels: np.ndarray, query: str, texture: BatchTexture | None = None) -> Relevance:
        """Return the map of all stages before the scale, with a note for each. texture: of `source_texture`."""
        if texture is None and (self.has("texture") or self.has("glance")):
            texture = source_texture(eye, pixels, query)
        coupling, glance = None, "glance: left out"
        if texture is not None and self.has("glance"):
            coupling = glance_coupling(texture, alike=self.has("texture"))
            glance = "glance: the model's attention" if coupling else "glance: this model cannot"
        if texture is not None and self.has("texture"):
            live = len(texture.layout) - len(texture.silent())
            line = f"{texture.layout.name}, {live} of {len(texture.layout)} channels say something"
        else:
            texture = sense(pixels, LOOK, size=min(SENSE_SIDE, max(pixels.shape[:2])))
            line = f"left out; {len(texture.layout)} channels of look"
        notes = [f"texture: {line}", glance]
        inside = None
        if self.has("clusters"):
            inside, lines = self.candidates(texture, pixels, query)
            notes += lines
        drawn = self.has("balancing") and not is_photograph(pixels)
        found = relevance_of(texture.one(), query, coupling)
        found = adapted(found) if drawn else found
        plane = np.asarray(found.map)
        if self.has("balancing"):
            tensions = ", ".join(f"{name} {value:.2f}" for name, value in found.tensions.items())
            notes.append(f"balancing: {'learned, place by place' if drawn else f'set by hand, {tensions}'}")
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

    def candidates(self, texture: BatchTexture, pixels: np.ndarray, query: str) -> tuple[np.ndarray, list[str]]:
        """Return (h, w) bool at the coarse mip: area of the best clusters; and a note."""
        learned = self.has("mips") and self.has("texture")
        coarse = mips(texture, "learned" if learned else "average", MIP_LEVELS)[-1]
        known, size = coarse.one(), coarse.size
        note = f"mips: {'learned' if learned else 'averages'}, {size[0]}×{size[1]}"
        words = lexical(known, query).map
        seen = glance_coupling(coarse, alike=True) if self.has("glance") and self.has("texture") else None
        coupled = words if seen is None else coupled_with(words, seen.map)
        score = balance(*(one[None] for one in (propositional(known), perspectival(known), coupled)))[0]
        own = "cluster_id" in known
        labels = known["cluster_id"].astype(np.int64) if own else labels_on(superpixels(pixels), size)
        opened, line = open_clusters(labels, score, known["saliency"])
        return opened, [note, f"clusters: {line}"]


def glance_coupling(texture: BatchTexture, alike: bool) -> Coupling | None:
    """Return the model's glance, or None. alike: add places that its semantic channels find similar."""
    if "current_attention" not in texture or not bool(texture["current_attention"].any()):
        return None
    attention = texture["current_attention"]
    if not alike or not bool(texture.semantic.any()):
        return Coupling(attention[0].numpy(), ("coupling: the model's glance",))
    # What the glance rests on, as one vector of the semantic channels.
    rested = (texture.semantic * (attention / attention.sum())).sum((2, 3))
    found = participatory(texture, rested)
    note = "coupling: the model's glance, and what the semantic channels find alike"
    return Coupling(coupled_with(attention, found)[0].numpy(), (note,))


def surest(answers: list[Answer]) -> Answer:
    """Take the surest of several looks, with the passes, seconds and notes of all; looks that agree add up."""
    best = min(answers, key=lambda one: one.uncertainty)
    same = [one for one in answers if comparable(one.text) == comparable(best.text)]
    agreed = sum(1 - one.uncertainty for one in same) / max(sum(1 - one.uncertainty for one in answers), 1e-12)
    doubt = prod(one.uncertainty for one in same)
    # The surest comes last: it is the one that is shown.
    ordered = [one for one in answers if one is not best] + [best]
    return replace(
        best,
        uncertainty=best.uncertainty if len(answers) == 1 else min(1.0, max(0.0, 1 - (1 - doubt) * agreed)),
        passes=tuple(step for one in ordered for step in one.passes),
        seconds=summed(one.seconds for one in answers),
    )


def open_ground(found: Relevance, answer: Answer, query: str) -> np.ndarray:
    """Return where a second look goes, (rows, cols) in [0, 1]: relevant and asked for, and not seen in full detail."""
    allocation = answer.allocation
    frame = Frame((allocation.height, allocation.width), allocation.cell, allocation.canvas)
    maps = (found.map, found.map if found.participatory is None else found.participatory)
    relevance, asked = (np.asarray(to_cells(np.asarray(one, np.float64)[None], frame)) for one in maps)
    levels = seen_levels(allocation)[None]
    asked = asked * (levels > 0)
    mixed = (relevance + ASKED * asked / max(float(asked.max()), 1e-12)) / (1 + 2 * ASKED)
    arousal = arousal_of(keyword_stakes(query)[0], answer.uncertainty)
    aroused = modulate(mixed.clip(0, 1)[0], arousal)
    exploration = exploration_rule(2, answer.uncertainty)
    steered = temper(aroused, np.exp2(-2.0 * levels[0]), exploration) * (levels[0] > 0)
    blurred = cv2.GaussianBlur(steered, (5, 5), FOVEA / 3, borderType=cv2.BORDER_REPLICATE)
    row, col = np.unravel_index(int(blurred.argmax()), blurred.shape)
    down, across = np.indices(steered.shape)
    glimpse = np.exp(-((down - row) ** 2 + (across - col) ** 2) / (2 * FOVEA**2))
    return (steered * (OUTSIDE + glimpse)).clip(0, 1)


def seen_levels(allocation: Allocation) -> np.ndarray:
    """Return (rows, cols) float32: how many halvings away from full detail every cell was seen, at its finest."""
    cells = allocation.extents().prod(1)
    levels = 0.5 * np.log2(np.maximum(cells / allocation.counts, 1))
    return np.append(levels, UNSEEN)[allocation.leaf_map()].astype(np.float32)


def scale_note(allocation: Allocation) -> str:
    """Describe the result of the scale in one line."""
    if allocation.strategy != "classic":
        return f"scale: left out; {allocation.strategy}, {allocation.tokens} tokens"
    patches = allocation.counts[allocation.counts > 1]
    given = ", ".join(f"{int((patches == count).sum())} of {count}" for count in sorted(set(patches.tolist())))
    return f"scale: patches {given or 'none'} tokens, {int((allocation.counts == 1).sum())} single cells"
