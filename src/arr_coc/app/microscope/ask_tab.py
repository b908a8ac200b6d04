"""Ask: the answer, how sure it is, where the tokens went, what the model saw, and what that cost against full."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from ...answering.feedback import name_of, place_of
from ...attending.allocate import allocate
from ...attending.distance import LARGEST
from ...attending.grip import Grip
from ...core.errors import InputError
from ...core.unsure import is_unsure, sureness_words
from ...core.values import DEFAULT_CELL, Allocation, Answer, Relevance
from ...draw import foveated, heat, homunculus, overlay
from ...draw.grip import grip_picture
from ...knowing.registry import find_source
from ...knowing.scene import VIEW_SIDE, Scene
from ...looking import check_request
from ...pictures.load import Picture
from ...texture.type_height import letters_of
from . import kit
from .desk import Desk, give_back
from .linking import PageState
from .markup import Figure, budget, figures, meter, notes, sentence, shown_pixels, shown_size, table

STAGES = {
    "load": "load the picture",
    "read": "read the question",
    "know": "find what is relevant",
    "look": "decide where to look",
    "encode": "encode what is looked at",
    "answer": "say the answer",
}


# Seconds between two states of a view that grows: often enough to be seen, and to be called off.
SPOKEN_EVERY = 0.25
# Tokens of a picture whose question is also asked with all of them, for the table of stages.
MOST_FULL = 2048


def show_answer(desk: Desk, path: str | None, state: PageState, tokens: int) -> kit.SheetContent:
    """Ask the chosen model, in one pass or several, and show what led to the answer."""
    growing = tell_answer(desk, path, state, tokens)
    while True:
        try:
            next(growing)
        except StopIteration as ended:
            return ended.value


def tell_answer(desk: Desk, path: str | None, state: PageState, tokens: int) -> Generator[str, None, kit.SheetContent]:
    """`show_answer`, which first yields what has been said so far."""
    check_request([state.q])
    picture = desk.prepared(path).picture
    assert path is not None
    if state.passes == 1:
        answer, relevance = yield from ask_once(desk, path, state, tokens)
    else:
        answer, relevance = ask_again(desk, path, state, tokens)
    said = relevance.notes if relevance is not None else ()
    shown = answer_figures(picture, answer.allocation, relevance)
    shown += grip_figures(picture, answer.allocation, desk.eye(state.model).grip)
    html = "".join(
        [
            answer_card(answer, desk.truth(state.picture, state.q)),
            figures(shown, "pairs"),
            budget(answer.allocation),
            notes(list(dict.fromkeys([*picture.notes, *answer.notes, *said]))),
        ]
    )
    return kit.SheetContent(
        "ask",
        html,
        lambda: homunculus(picture, answer.allocation, relevance, state.q, answer=answer),
        lambda: {"query": state.q, "model": state.model, "answer": answer.to_json(), **answer.allocation.to_json()},
        answer_lines(state, tokens, picture.name, desk),
        state.link(),
        answer,
    )


def ask_once(
    desk: Desk, path: str, state: PageState, tokens: int
) -> Generator[str, None, tuple[Answer, Relevance | None]]:
    """One pass; yields cards with what has been said. The map that the learned scorer makes on the way is kept."""
    eye = desk.eye(state.model)
    made: list[Relevance] = []
    large = max(desk.prepared(path).picture.size) > VIEW_SIDE

    def kept(scene: Scene, query: str) -> Relevance:
        assert eye.scorer is not None
        made.append(cast("Relevance", eye.scorer(scene.given, query)))
        return made[-1]

    by_scorer = eye.relevance == "auto" and eye.scorer is not None
    source = replace(find_source("scorer"), function=kept, together=False) if by_scorer else None
    speaking = eye.set_image(desk.whole(path)).stream(state.q, tokens, relevance=source, scale=state.distance)
    said, shown = "", perf_counter()
    while True:
        try:
            said += next(speaking)
        except StopIteration as ended:
            if large:  # its patches are done with
                del eye, speaking
                give_back()
            return ended.value, made[-1] if made else None
        if perf_counter() - shown >= SPOKEN_EVERY:
            shown = perf_counter()
            yield (
                '<section class="card"><div><p class="label">Answer, being said</p>'
                f'<p class="answer">{escape(said)}…</p></div></section>'
            )


def ask_again(desk: Desk, path: str, state: PageState, tokens: int) -> tuple[Answer, Relevance | None]:
    """Several passes that share the tokens; the map is the one that the last look followed."""
    esper = desk.esper(state.model).set_image(desk.whole(path))
    story = esper.examine(state.q, tokens, passes=state.passes, scale=state.distance)
    steered = story.passes[-1].steered
    return story.answer, Relevance(steered / max(float(steered.max()), 1e-9), query=state.q)


def show_full(desk: Desk, path: str | None, state: PageState, answer: Answer | None) -> str:
    """The same question with every token, stage by stage beside what was just spent; not by itself on a large picture,
    where that takes minutes and gigabytes."""
    if answer is None or not path:
        return ""
    if answer.full > MOST_FULL:
        return notes([f"All {answer.full} tokens are not tried unasked; set the budget to 100 % for it."])
    eye = desk.eye(state.model)
    eye.record = None  # nobody asked this
    return stages(answer, eye.set_image(desk.whole(path)).ask(state.q, keep=1.0))


def judge_answer(desk: Desk, shown: kit.SheetContent | None, judged: str, place: str = "", right: str = "") -> str:
    """Say of the answer that is shown whether it was right; into the owner's record, where there is one."""
    record = desk.options.get("record")
    name = "" if shown is None else name_of(shown.kept)
    if record is None or not name:
        raise InputError("there is no recorded answer to judge yet: ask first")
    record.judge(judged, name, boxes=place_of(place) if judged == "better" else (), answer=right.strip())
    return sentence(f"Judged {judged}: kept with the record {name}.")


def answer_card(answer: Answer, truth: str | None) -> str:
    """The answer in large letters, its uncertainty as a bar, and the truth where it is known."""
    known = "" if truth is None else truth_words(answer.text, truth)
    spent = 1000 * sum(answer.seconds.values())
    kind = sureness_words(answer.uncertainty).partition(",")[0]
    unsure = f'<p class="note">{"unsure: probably wrong" if is_unsure(answer.uncertainty) else kind}</p>'
    bar = meter(answer.uncertainty, f"{answer.uncertainty:.2f}", "uncertainty")
    looks = f" in {len(answer.passes)} passes" if len(answer.passes) > 1 else ""
    cost = f"{answer.tokens} of {answer.full} tokens ({100 * answer.tokens / max(answer.full, 1):.1f} %){looks}"
    return (
        '<section class="card"><div><p class="label">Answer</p>'
        f'<p class="answer" id="answer">{escape(answer.text) or "(nothing)"}</p>{known}</div>'
        f'<div><p class="label">Uncertainty</p>{unsure}{bar}'
        f'<p class="label">Spent</p><p class="spent">{cost}, {spent:.0f} ms</p></div></section>'
    )


def truth_words(said: str, truth: str) -> str:
    """Whether it is right, and what is."""
    right = said == truth
    words = "right" if right else f"in truth: {truth}"
    return f'<p class="truth {"right" if right else "wrong"}">{escape(words)}</p>'


def uniform_of(picture: Picture, tokens: int, like: Allocation | None = None) -> Allocation:
    """The same number of tokens, spread evenly: what down-sampling costs as much would see."""
    cell, canvas = (DEFAULT_CELL, None) if like is None else (like.cell, like.canvas)
    flat, size = np.ones((8, 8), dtype=np.float32), picture.size
    return allocate(flat, max(1, tokens), strategy="uniform", image_size=size, cell=cell, canvas=canvas)


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


def grip_figures(picture: Picture, allocation: Allocation, grip: Grip | None) -> list[Figure]:
    """How well the model reads letters of each height, with those of this picture marked; none where either is not
    known."""
    letters = letters_of(picture.pixels, size=picture.size)
    if grip is None or not letters:
        return []
    tall = letters.median() * (allocation.canvas or picture.size)[0] / picture.size[0]
    caption = f"The letters here have {letters.median():.0f} pixels, and {tall:.0f} as the model sees them."
    curve = grip_picture(grip.to_json(), 720, (tall,))
    return [Figure(np.asarray(curve), "What the model reads, by the height of letters", caption)]


def stages(answer: Answer, full: Answer) -> str:
    """Milliseconds by stage, foveated against full."""
    names = [name for name in STAGES if name in answer.seconds or name in full.seconds]
    rows: list[dict[str, object]] = [
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


def answer_lines(state: PageState, tokens: int, file_name: str, desk: Desk) -> str:
    imports, lines = kit.picture_lines(state.picture, file_name)
    query = kit.literal(state.q)
    given = f"{query}, budget={tokens}" + (f", scale={state.scale:g}" if state.scale else "")
    if desk.server is not None and state.model in desk.served:
        imports += ["from arr_coc.app.microscope.remote import Remote"]
        imports += [] if desk.server.key is None else ["import os"]
        key = "" if desk.server.key is None else ", os.environ['ARR_COC_API_KEY']"
        lines += [
            f"eye = Remote({desk.server.address!r}{key}).eye({desk.served[state.model]!r}).set_image(picture)",
            f"answer = eye.ask({given})",
        ]
    elif state.passes == 1:
        imports += ["from arr_coc.answering.eye import Eye"]
        lines += [
            f"eye = Eye.from_pretrained({state.model!r}).set_image(picture)",
            f"answer = eye.ask({given})",
        ]
    else:
        imports += ["from arr_coc.answering.esper import Esper"]
        lines += [
            f"esper = Esper.from_pretrained({state.model!r}).set_image(picture)",
            f"answer = esper.ask({given}, passes={state.passes})",
        ]
    imports += ["from arr_coc.draw import homunculus"]
    lines += [
        f"allocation = answer.allocation  # {tokens} tokens may be spent",
        f"homunculus(picture, allocation, query={query}).save('ask.png')",
        "print(answer.text, answer.uncertainty, answer.tokens)",
    ]
    return kit.program(imports, lines)


def ask_tab(page: kit.MicroscopePage) -> None:
    distance = page.settings["scale"] = kit.gradio().Slider(
        0,
        LARGEST,
        0,
        step=0.05,
        label="Distance: how many times as large it is read",
        info="0: by the size of the letters and what the model reads best. Tokens stay as many.",
        elem_id="distance",
    )
    sheet, inputs = kit.TabSheet(page, "ask"), [*page.common, distance]
    if page.desk.options.get("record") is not None:
        judge_row(page, sheet)
    sheet.exports()

    def state_of(common: tuple[Any, ...]) -> PageState:
        return page.state("ask", common[:-1], scale=float(common[-1] or 0))

    def answer(*common: Any) -> Generator[tuple[object, ...]]:
        state = state_of(common)
        for values in sheet.growing(lambda: tell_answer(page.desk, common[0], state, kit.tokens_of(common, page.desk))):
            yield *values, ""

    def remember(
        shown: kit.SheetContent | None, asked: list[PastQuestion] | None, *common: object
    ) -> tuple[object, ...]:
        kept = remembered(asked or [], of_this(shown, common), common)
        return kept, kit.gradio().Dataset(samples=[[one.told] for one in kept], visible=bool(kept))

    def of_this(shown: kit.SheetContent | None, common: tuple[object, ...]) -> kit.SheetContent | None:
        """What is shown, if it answers what is asked; after a question that was called off it answers another."""
        return shown if shown is not None and shown.link == state_of(common).link() else None

    def against_full(shown: kit.SheetContent | None, *common: Any) -> str:
        shown = of_this(shown, common)
        if shown is None:
            return ""
        state = state_of(common)
        html, trouble = kit.in_a_sentence(lambda: show_full(page.desk, common[0], state, shown.kept))
        return html or trouble

    distance.release(None, None, None, js=kit.RUN_BY_ITSELF)
    asked = sheet.runs(answer, inputs, [*sheet.outputs, sheet.below], api_name="ask", **kit.MODEL)
    asked.then(remember, [sheet.shown, page.history, *inputs], [page.history, page.asked], **kit.HIDDEN)
    page.running.append(
        asked.then(
            against_full,
            [sheet.shown, *inputs],
            [sheet.below],
            show_progress="minimal",
            **kit.MODEL,
            **kit.PRIVATE,
        )
    )


def judge_row(page: kit.MicroscopePage, sheet: kit.TabSheet) -> None:
    """Was it right? Only where the owner of the page keeps a record (`--record`)."""
    gr = kit.gradio()
    with gr.Row(elem_classes="export-row", elem_id="judge"):
        place = gr.Textbox(label="A better place: x0,y0,x1,y1 in 0–1", elem_id="judge-place", scale=2)
        right = gr.Textbox(label="The right answer, if you know it", elem_id="judge-answer", scale=2)
        buttons = {
            judged: gr.Button(label, size="sm", elem_id=f"judge-{judged}", min_width=90)
            for judged, label in (("right", "Right"), ("wrong", "Wrong"), ("better", "Better place"))
        }
    told = gr.HTML(elem_id="judged", padding=False)
    for judged, button in buttons.items():

        def judge(shown: kit.SheetContent | None, where: str, words: str, judged: str = judged) -> str:
            html, trouble = kit.in_a_sentence(lambda: judge_answer(page.desk, shown, judged, where or "", words or ""))
            return html or trouble

        button.click(judge, [sheet.shown, place, right], [told], **kit.HIDDEN)


# Questions of one session that can be asked again with a click.
REMEMBERED = 20


@dataclass(frozen=True)
class PastQuestion:
    """A question of this session: told, as it is listed; common, the inputs that ask it again."""

    told: str
    common: tuple[object, ...]


def remembered(
    asked: list[PastQuestion], shown: kit.SheetContent | None, common: tuple[object, ...]
) -> list[PastQuestion]:
    """The questions of a session, the newest first, each once, no more than `REMEMBERED`."""
    if shown is None:
        return asked
    query, tokens = str(common[2]).strip(), common[3]
    name = Path(str(common[0])).stem
    told = f"{query} → {shown.kept.text or '(nothing)'} ({name}, {tokens} tokens)"
    return [PastQuestion(told, common), *(one for one in asked if one.common != common)][:REMEMBERED]
