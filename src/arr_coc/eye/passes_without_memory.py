"""Passes for models that cannot keep what they have seen: every pass asks again with more leaves, and counts in full.

Families that are merged after their encoder do not show their attention here, so the next look goes by relevance,
uncertainty of the whole answer and ground not examined.
"""

from __future__ import annotations

from copy import copy
from time import perf_counter
from typing import TYPE_CHECKING, Any

import torch

from ..allocation.frame import Frame
from ..allocation.tree import tree_for
from ..core.errors import InputError
from ..core.values import Answer, Pass
from ..pictures.load import Picture
from ..relevance.look.arousal import arousal_of, modulate
from .looks import first_look, look_again
from .pass_settings import EsperSettings
from .passes import enough
from .steering import Traces, glimpse, next_map
from .story import PassNote, Story

if TYPE_CHECKING:
    from .esper import Esper


def ask_again(
    esper: Esper,
    picture: Picture,
    query: str,
    budget: int | None,
    keep: float | None,
    settings: EsperSettings,
    source: Any,
    failures: int,
    most: int,
    stop_early: bool,
) -> Story:
    """The passes of one picture through `Eye.ask`, with an allocation that grows from pass to pass."""
    from PIL import Image

    from .esper import relevance_cells, salient_map, total_tokens

    eye = copy(esper.eye).set_image(picture.pixels)
    eye.record = None  # the passes are one answer
    content = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": query}]}]
    chat = eye.processor.apply_chat_template(content, add_generation_prompt=True, tokenize=False)
    inputs = dict(eye.processor(text=[chat], images=[Image.fromarray(picture.pixels)], return_tensors="pt"))
    grids = eye.backbone.grids(eye.model, inputs)
    if len(grids) != 1:
        raise InputError(f"{eye.name} shows this picture as {len(grids)} tiles or views; Esper looks at one grid")
    canvas = grids[0].height, grids[0].width
    frame, given = Frame(canvas, grids[0].cell), Frame(picture.size, grids[0].cell, canvas)
    (pixels,) = eye.backbone.pixels(eye.model, eye.processor, inputs)
    # All trees together must fit: a first of two units and each later one a unit larger.
    total = total_tokens(frame.full, budget, keep)
    unit = 2 * total // (settings.passes * (settings.passes + 3))
    tree = tree_for(canvas, max(2 * unit, 1), cell=frame.cell, levels=eye.levels)
    cells = relevance_cells(source, pixels, query, frame)
    stakes = esper.arousal.stakes(query).detach()
    nothing = torch.zeros_like(cells)
    # Without attention no place is known to be unsure or sure; halfway leaves the map as it is.
    unknown = Traces(nothing + 0.35, nothing, nothing)
    fixated, notes, uncertainties, looks = nothing, [], [], None
    seconds: dict[str, float] = {}
    for _ in range(settings.passes):
        exploration = esper.tempering.explore(uncertainties)
        last = torch.tensor([uncertainties[-1] if uncertainties else 0.0])
        arousal = arousal_of(stakes, last, failures + 0 * last)
        point = torch.full((1, 2), -1)
        if looks is None:
            glance = relevance_cells(salient_map(picture), pixels, query, frame) if esper.glance == "salient" else cells
            steered = modulate(glance, arousal) if settings.aroused else glance
            looks = first_look(steered, tree, max(2 * unit, 1))
        else:
            explored = torch.tensor([exploration])
            steered, point = next_map(cells, looks.levels(), unknown, explored, arousal, fixated, settings)
            looks = look_again(looks, steered, unit)
            if settings.fovea is not None:
                fixated = torch.maximum(fixated, glimpse(point, frame.grid, settings.fovea))
        leaves = looks.leaves()[0].numpy()
        allocation = frame.allocation(leaves, leaves[:, 2] * 0.0, len(leaves), "esper")
        started = perf_counter()
        answer = eye.ask(query, keep=1.0, allocation=allocation, max_new_tokens=most)
        took = perf_counter() - started
        for stage, value in answer.seconds.items():
            seconds[stage] = seconds.get(stage, 0.0) + value
        found = answer.passes[0]
        step = Pass(
            answer.allocation, answer.tokens, exploration, answer.text, answer.uncertainty, found.entropy, found.margin
        )
        row, col = point[0].tolist()
        middle = given.boxes(torch.tensor([[row, col, 0]]).numpy())[0] if row >= 0 else None
        notes.append(
            PassNote(
                step,
                steered[0].numpy(),
                None,
                given.boxes(looks.blocks[-1][0].numpy()),
                None if middle is None else (int(middle[0] + middle[2] // 2), int(middle[1] + middle[3] // 2)),
                float(arousal[0]),
                {"answer": took},
            )
        )
        uncertainties.append(answer.uncertainty)
        if stop_early and bool(enough(torch.tensor([uncertainties]), settings)[0, -1]):
            break
    last_step = notes[-1].step
    steps = tuple(note.step for note in notes)
    whole = Answer(last_step.text, uncertainties[-1], steps, seconds, frame.full, picture.notes)
    return Story(query, picture, whole, tuple(notes), settings.stop, settings.passes)
