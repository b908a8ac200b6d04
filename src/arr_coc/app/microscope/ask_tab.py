"""Ask: the answer, how sure it is, where the tokens went, what the model saw, and what that cost against full."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from html import escape
from typing import Any, cast

import numpy as np

from ...attending import allocate
from ...draw import foveated, heat, homunculus, overlay
from ...looking import check_request
from ...pictures import Picture
from ...values import Allocation, Answer, Relevance
from .desk import Desk
from .exports import Shown, literal, picture_lines, program
from .linking import PageState
from .markup import Figure, budget, figures, meter, notes, shown_pixels, shown_size, table

STAGES = {
    "load": "load the picture",
    "read": "read the question",
    "know": "find what is relevant",
    "look": "decide where to look",
    "encode": "encode what is looked at",
    "answer": "say the answer",
}


def show_answer(desk: Desk, path: str | None, state: PageState, tokens: int) -> Shown:
    """Ask the chosen model, in one pass or several, and show what led to the answer."""
    check_request([state.q])
    picture = desk.prepared(path).picture
    assert path is not None
    answer, relevance = (
        ask_once(desk, path, state, tokens) if state.passes == 1 else ask_again(desk, path, state, tokens)
    )
    html = "".join(
        [
            answer_card(answer, desk.truth(state.picture, state.q)),
            figures(answer_figures(picture, answer.allocation, relevance), "pairs"),
            budget(answer.allocation),
            notes([*picture.notes, *(relevance.notes if relevance is not None else ())]),
        ]
    )
    return Shown(
        "ask",
        html,
        lambda: homunculus(picture, answer.allocation, relevance, state.q),
        lambda: {"query": state.q, "model": state.model, "answer": answer.to_json(), **answer.allocation.to_json()},
        answer_lines(state, tokens, picture.name),
        state.link(),
        answer,
    )


def ask_once(desk: Desk, path: str, state: PageState, tokens: int) -> tuple[Answer, Relevance | None]:
    """One pass. The map that the learned scorer makes on the way is kept, to be drawn."""
    eye = desk.eye(state.model)
    made: list[Relevance] = []

    def remembered(pixels: Any, query: str) -> Any:
        assert eye.scorer is not None
        made.append(cast("Relevance", eye.scorer(pixels, query)))
        return made[-1]

    source = remembered if eye.relevance == "auto" and eye.scorer is not None else None
    answer = eye.set_image(desk.whole(path)).ask(state.q, tokens, relevance=source)
    return answer, made[-1] if made else None


def ask_again(desk: Desk, path: str, state: PageState, tokens: int) -> tuple[Answer, Relevance | None]:
    """Several passes that share the tokens; the map is the one that the last look followed."""
    story = desk.esper(state.model).set_image(desk.whole(path)).examine(state.q, tokens, passes=state.passes)
    steered = story.passes[-1].steered
    return story.answer, Relevance(steered / max(float(steered.max()), 1e-9), query=state.q)


def show_full(desk: Desk, path: str | None, state: PageState, answer: Answer | None) -> str:
    """The same question with every token, stage by stage beside what was just spent."""
    if answer is None or not path:
        return ""
    full = desk.eye(state.model).set_image(desk.whole(path)).ask(state.q, keep=1.0)
    return stages(answer, full)


def answer_card(answer: Answer, truth: str | None) -> str:
    """The answer in large letters, its uncertainty as a bar, and the truth where it is known."""
    known = "" if truth is None else truth_words(answer.text, truth)
    spent = 1000 * sum(answer.seconds.values())
    looks = f" in {len(answer.passes)} passes" if len(answer.passes) > 1 else ""
    cost = f"{answer.tokens} of {answer.full} tokens ({100 * answer.tokens / max(answer.full, 1):.1f} %){looks}"
    return (
        '<section class="card"><div><p class="label">Answer</p>'
        f'<p class="answer" id="answer">{escape(answer.text) or "(nothing)"}</p>{known}</div>'
        f'<div><p class="label">Uncertainty</p>{meter(answer.uncertainty, f"{answer.uncertainty:.2f}", "uncertainty")}'
        f'<p class="label">Spent</p><p class="spent">{cost}, {spent:.0f} ms</p></div></section>'
    )


def truth_words(said: str, truth: str) -> str:
    """Whether it is right, and what is."""
    right = said == truth
    words = "right" if right else f"in truth: {truth}"
    return f'<p class="truth {"right" if right else "wrong"}">{escape(words)}</p>'


def uniform_of(picture: Picture, tokens: int, like: Allocation | None = None) -> Allocation:
    """The same number of tokens, spread evenly: what down-sampling costs as much would see."""
    how: dict[str, Any] = {} if like is None else {"cell": like.cell, "canvas": like.canvas}
    flat = np.ones((8, 8), dtype=np.float32)
    return allocate(flat, max(1, tokens), strategy="uniform", image_size=picture.size, **how)


def answer_figures(picture: Picture, allocation: Allocation, relevance: Relevance | None) -> list[Figure]:
    """Where the tokens go, what the model sees, relevance, and uniform; drawn side by side, since somebody waits."""
    size = shown_size(picture.size)
    pixels = shown_pixels(picture.pixels, size)
    even = uniform_of(picture, allocation.tokens, allocation)
    boxes, regions = "Each box is one token; small boxes see detail.", "Every region at its own resolution."
    evenly = f"{even.tokens} tokens spread evenly: plain down-sampling."
    makers = [
        lambda: Figure(foveated(picture, allocation, size), "What the model sees", regions),
        lambda: Figure(foveated(picture, even, size), "Uniform at the same cost", evenly),
        lambda: Figure(overlay(pixels, allocation), "Where the tokens go", boxes),
    ]
    if relevance is not None:
        needs = "Bright is where the question needs detail."
        makers.append(lambda: Figure(heat(relevance, size, pixels), "Relevance", needs))
    with ThreadPoolExecutor(2) as pool:
        sees, evenly_seen, goes, *needed = pool.map(lambda make: make(), makers)
    return [goes, sees, *needed, evenly_seen]


def stages(answer: Answer, full: Answer) -> str:
    """Milliseconds by stage, foveated against full."""
    names = [name for name in STAGES if name in answer.seconds or name in full.seconds]
    rows: list[dict[str, Any]] = [
        {"stage": STAGES[name], "here": _milliseconds(answer.seconds, name), "full": _milliseconds(full.seconds, name)}
        for name in names
    ]
    here, everything = (1000 * sum(one.seconds.values()) for one in (answer, full))
    rows += [
        {"stage": "all stages", "here": f"{here:.0f} ms", "full": f"{everything:.0f} ms", "kind": "sum"},
        {"stage": "visual tokens", "here": f"{answer.tokens}", "full": f"{full.tokens}"},
        {"stage": "answer", "here": answer.text or "(nothing)", "full": full.text or "(nothing)"},
        {"stage": "uncertainty", "here": f"{answer.uncertainty:.2f}", "full": f"{full.uncertainty:.2f}"},
    ]
    columns = {"stage": "", "here": f"this budget ({answer.tokens})", "full": f"all tokens ({full.tokens})"}
    return table(columns, rows, "Tokens and milliseconds against full")


def _milliseconds(seconds: Mapping[str, float], stage: str) -> str:
    return f"{1000 * seconds[stage]:.0f} ms" if stage in seconds else "–"


def answer_lines(state: PageState, tokens: int, file_name: str) -> str:
    imports, lines = picture_lines(state.picture, file_name)
    query = literal(state.q)
    if state.passes == 1:
        imports += ["from arr_coc.asking import Eye"]
        lines += [
            f"eye = Eye.from_pretrained({state.model!r}).set_image(picture)",
            f"answer = eye.ask({query}, budget={tokens})",
        ]
    else:
        imports += ["from arr_coc.esper import Esper"]
        lines += [
            f"esper = Esper.from_pretrained({state.model!r}).set_image(picture)",
            f"answer = esper.ask({query}, budget={tokens}, passes={state.passes})",
        ]
    imports += ["from arr_coc.draw import homunculus"]
    lines += [
        f"allocation = answer.allocation  # {tokens} tokens may be spent",
        f"homunculus(picture, allocation, query={query}).save('ask.png')",
        "print(answer.text, answer.uncertainty, answer.tokens)",
    ]
    return program(imports, lines)
