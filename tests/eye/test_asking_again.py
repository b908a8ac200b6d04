"""Later questions about a picture: what is used again is right, and the answers are those of asking anew."""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy

import numpy as np
import pytest
import torch
from PIL import Image
from tiny_weights import needs_weights, signs

from arr_coc import Eye, InputError
from arr_coc.answering.again import LEAVES, PARTS, encoded, joined, store_of
from arr_coc.answering.eye import beside
from arr_coc.answering.light import LightEngine, normalised, prompt_ids, quick_eye
from arr_coc.attending.frame import leaves_of, segments_of
from arr_coc.core.kept import ByteStore, PictureStore, bytes_of, pixels_key
from arr_coc.knowing.scorer.onnx_scorer import OnnxScorer
from arr_coc.realizing.qwen3_vl.onnx import OnnxSpeaker, VisualFeatures

FIRST = "overview_first"
PICTURE, TOKENS = np.ascontiguousarray(signs()[:160, :224]), 16
QUESTIONS = ("What does the pink sign say?", "What does the gray sign say?", "What does the pink sign say?")


# ---- the store -------------------------------------------------------------------------------------------------------


def test_a_store_holds_what_was_used_last_to_the_byte():
    store = ByteStore(100)
    store.put("a", np.zeros(40, np.uint8))
    store.put("b", (np.zeros(10, np.uint8), [np.zeros(5, np.float64)]))
    assert store.size == 90
    assert store.get("a") is not None
    store.put("c", np.zeros(20, np.uint8))
    assert (store.get("b"), store.size, len(store)) == (None, 60, 2)
    store.put("a", np.zeros(1, np.uint8))
    assert store.size == 21
    store.put("d", np.zeros(101, np.uint8))
    assert (store.get("d"), store.size) == (None, 21)
    store.clear()
    assert (store.size, len(store)) == (0, 0)


def test_many_threads_leave_the_bytes_right():
    store = ByteStore(1000)

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for number in rng.integers(0, 40, 200).tolist():
            store.put(number, np.zeros(number, np.uint8))
            store.get(int(rng.integers(0, 40)))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert store.size == sum(bytes_of(value) for value, _ in store._values.values()) <= 1000


def test_a_picture_is_known_by_its_pixels_and_their_shape():
    pixels = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
    assert pixels_key(pixels) == pixels_key(pixels.copy())
    assert pixels_key(pixels) == pixels_key(np.asfortranarray(pixels))
    others = [pixels.reshape(4, 2, 3), pixels.astype(np.int16), pixels + np.eye(2, 4, dtype=np.uint8)[..., None]]
    assert len({pixels_key(one) for one in (pixels, *others)}) == 4


@pytest.mark.parametrize("wrong", [-1, 1.5, "much", True, None])
def test_a_store_of_nothing_sensible_is_refused(wrong):
    with pytest.raises(InputError, match="memory="):
        store_of(wrong)


# ---- leaves ----------------------------------------------------------------------------------------------------------


def test_only_leaves_that_nobody_has_seen_are_encoded():
    asked: list[list] = []

    def encode(leaves: np.ndarray) -> tuple[np.ndarray, ...]:
        asked.append(leaves.tolist())
        return leaves * 1.0, leaves[:, :1] + leaves.sum()  # the second hangs on the leaves around

    def whole(*given) -> tuple[np.ndarray, ...]:
        return joined(encoded(*given))

    kept = PictureStore(ByteStore(10_000), "picture")
    overview = np.array([[0, 0, 3], [0, 8, 3]])
    one, two = np.array([[0, 0, 0], [1, 2, 0]]), np.array([[1, 2, 0], [4, 4, 1], [5, 5, 0]])
    first = whole(kept, 1, np.concatenate([overview, one]), (2, 2), encode, LEAVES)
    assert asked == [overview.tolist(), one.tolist()]
    second = whole(kept, 1, np.concatenate([overview, two]), (2, 3), encode, LEAVES)
    assert asked[2:] == [two[1:].tolist()]
    assert second[0].tolist() == [*overview.tolist(), *two.tolist()]
    assert second[1][2] == first[1][3], "as it was seen with the first question"
    again = whole(kept, 1, np.concatenate([overview, one]), (2, 2), encode, LEAVES)
    assert len(asked) == 3
    assert all((a == b).all() for a, b in zip(first, again, strict=True))
    encoded(kept, 2, overview, (2,), encode)
    assert asked[3:] == [overview.tolist()], "another canvas"
    parts = whole(kept, 1, np.concatenate([overview, two]), (2, 3), encode, PARTS)
    assert asked[4:] == [two.tolist()], "all of a part, as at once"
    assert (parts[1][2:] == two[:, :1] + two.sum()).all()


# ---- answers ---------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def light() -> Eye:
    return quick_eye()


@pytest.fixture(scope="module")
def stock() -> Eye:
    return Eye.from_pretrained("mini")


def anew(eye: Eye) -> Eye:
    """The same model, which keeps nothing."""
    other = copy(eye)
    other.memory = ByteStore(0)
    return other


def fresh(eye: Eye, most: int = 1 << 26) -> Eye:
    """The same model with an empty store of its own."""
    other = copy(eye)
    other.memory = ByteStore(most)
    return other


def same(one, other) -> None:
    assert one.text == other.text
    assert one.allocation == other.allocation
    for name in ("uncertainty", "entropy", "margin"):
        assert getattr(one.passes[0], name) == pytest.approx(getattr(other.passes[0], name), abs=1e-4)


@needs_weights
@pytest.mark.parametrize("order", [FIRST, "raster"])
@pytest.mark.parametrize("engine", ["light", "stock"])
def test_answers_are_those_of_asking_anew(request, engine, order):
    eye = request.getfixturevalue(engine)
    warm, cold = fresh(eye).set_image(PICTURE), anew(eye).set_image(PICTURE)
    for question in QUESTIONS:
        same(warm.ask(question, TOKENS, order=order), cold.ask(question, TOKENS, order=order))
    assert warm.memory.hits > 0
    assert cold.memory.size == 0


@needs_weights
@pytest.mark.parametrize("engine", ["light", "stock"])
def test_the_second_question_pays_for_its_own_leaves_only(request, engine, monkeypatch):
    eye = fresh(request.getfixturevalue(engine)).set_image(PICTURE)
    with watching(eye, monkeypatch) as (leaves, read, seen):
        answers = [eye.ask(question, TOKENS, order=FIRST) for question in QUESTIONS]
    overview = answers[0].allocation.overview
    assert 0 < overview < TOKENS
    assert sum(leaves) == overview + 2 * (TOKENS - overview), "the overview once, the same question's leaves once"
    assert len(seen) == 1, "the scorer reads the picture once"
    assert len([length for length in read if length > 1]) == 1 + len(QUESTIONS), "the beginning once, then what follows"


@contextmanager
def watching(eye: Eye, monkeypatch) -> Generator[tuple[list[int], list[int], list[int]]]:
    """Leaves that the tower is given, tokens that the language model is, and pictures that the scorer reads."""
    counts: tuple[list[int], list[int], list[int]] = [], [], []
    leaves, read, seen = counts
    see = OnnxScorer.see
    monkeypatch.setattr(OnnxScorer, "see", lambda self, canvas: seen.append(1) or see(self, canvas))
    if isinstance(eye.engine, LightEngine):
        reader = eye.engine.reader
        tower, begin = reader.see, OnnxSpeaker.begin
        monkeypatch.setattr(reader, "see", lambda picture, part: leaves.append(len(part)) or tower(picture, part))
        monkeypatch.setattr(OnnxSpeaker, "begin", lambda self: read.append(len(self.states)) or begin(self))
        yield counts
        return
    visual, language = eye.model.model.visual, eye.model.model.language_model

    def reading(_, given, named) -> None:
        read.append(named["inputs_embeds"].shape[1])

    hooks = [
        visual.register_forward_pre_hook(lambda _, given: leaves.append(len(given[0]) // 4)),
        language.register_forward_pre_hook(reading, with_kwargs=True),
    ]
    yield counts
    for hook in hooks:
        hook.remove()


@needs_weights
def test_leaves_of_several_questions_are_as_if_their_parts_were_shown_at_once(light):
    """Nothing is kept here: every part goes through the tower by itself, and the prompt is read in one piece."""
    eye = fresh(Eye(LightEngine(light.engine.folder), reuse=LEAVES, **beside(light.engine.folder))).set_image(PICTURE)
    first, second = (eye.ask(question, TOKENS, order=FIRST, hints="none") for question in QUESTIONS[:2])
    engine, view = light.engine, light.view(PICTURE)
    picture = normalised(engine.folder, view.tensors["canvas"])
    one, two = (leaves_of(answer.allocation) for answer in (first, second))
    overview = segments_of(second.allocation)[0]
    known = {tuple(leaf): number for number, leaf in enumerate(one[overview:].tolist())}
    shared = np.array([tuple(leaf) in known for leaf in two[overview:].tolist()])
    assert shared.any()
    assert not shared.all()
    parts = [engine.reader.see(picture, part) for part in (two[:overview], one[overview:], two[overview:][~shared])]
    place = [known.get(tuple(leaf), -1) for leaf in two[overview:].tolist()]
    new = np.cumsum(~shared) - 1

    def gathered(*three: np.ndarray) -> np.ndarray:
        rows = [three[1][old] if old >= 0 else three[2][fresh_] for old, fresh_ in zip(place, new, strict=True)]
        return np.concatenate([three[0], np.stack(rows)])

    planes = zip(*(part.planes for part in parts), strict=True)
    at_once = VisualFeatures(gathered(*(part.embeds for part in parts)), tuple(gathered(*three) for three in planes))
    query = eye.prepare(QUESTIONS[1], TOKENS, order=FIRST).inputs["query"]
    ids = prompt_ids(engine.folder, query, len(two))
    logits = OnnxSpeaker(engine.reader, ids, at_once, two, view_grid(view)).begin().logits
    looked = eye.prepare(QUESTIONS[1], TOKENS, order=FIRST, hints="none")
    step = next(eye.engine.speak(looked, 4)[0])
    assert np.abs(step.logits - logits).max() < 1e-4
    assert second.text == eye.ask(QUESTIONS[1], TOKENS, order=FIRST, hints="none").text


def view_grid(view) -> tuple[int, int]:
    height, width = view.tensors["canvas"].shape[:2]
    return height // 32, width // 32


@needs_weights
def test_many_questions_about_one_picture_share_its_beginning(stock):
    warm, cold = fresh(stock), anew(stock)
    several = [*QUESTIONS, "What is the number on the very small and far away brown sign there?"]
    for one, question in zip(warm.ask_many(PICTURE, several, TOKENS, order=FIRST), several, strict=True):
        same(one, cold.set_image(PICTURE).ask(question, TOKENS, order=FIRST))
    hits = warm.memory.hits
    for one, question in zip(warm.ask_many(PICTURE, several, TOKENS, order=FIRST), several, strict=True):
        same(one, cold.ask(question, TOKENS, order=FIRST))
    assert warm.memory.hits > hits


@needs_weights
def test_a_chat_keeps_its_picture(stock):
    warm, cold = fresh(stock).chat(PICTURE), anew(stock).chat(PICTURE)
    for question in QUESTIONS:
        same(warm.ask(question, TOKENS, order=FIRST), cold.ask(question, TOKENS, order=FIRST))
    assert warm.eye.memory.hits > 4


@needs_weights
def test_several_pictures_of_a_prompt_are_kept_each_by_itself(stock):
    from arr_coc.answering.chat import USER, Turn

    warm, cold = fresh(stock), anew(stock)
    for pictures in ((PICTURE, PICTURE[:, ::-1]), (PICTURE[:, ::-1], PICTURE)):
        turns = (Turn(USER, (*pictures, QUESTIONS[0])),)
        one, other = (eye.ask(turns, [12, 9], order=FIRST) for eye in (warm, cold))
        assert one.text == other.text
        assert one.uncertainty == pytest.approx(other.uncertainty, abs=1e-4)


@needs_weights
def test_all_tokens_are_read_once_too(light):
    """What a user of a plain model with a prefix cache has."""
    warm, cold = fresh(light).set_image(PICTURE), anew(light).set_image(PICTURE)
    for question in QUESTIONS:
        one, other = warm.ask(question, keep=1.0, order=FIRST), cold.ask(question, keep=1.0)
        assert (one.text, one.allocation.overview) == (other.text, one.tokens)
        assert one.uncertainty == pytest.approx(other.uncertainty, abs=1e-4)


# ---- nothing wrong is used again -------------------------------------------------------------------------------------


@needs_weights
def test_another_picture_under_the_same_name_is_another_picture(light, tmp_path):
    path, eye = tmp_path / "sign.png", fresh(light)
    turned = np.ascontiguousarray(PICTURE[::-1])
    for pixels in (PICTURE, turned, PICTURE):
        Image.fromarray(pixels).save(path)
        same(
            eye.set_image(path).ask(QUESTIONS[0], TOKENS, order=FIRST),
            anew(light).set_image(pixels).ask(QUESTIONS[0], TOKENS, order=FIRST),
        )


@needs_weights
def test_a_single_changed_pixel_is_another_picture(light):
    eye, changed = fresh(light), PICTURE.copy()
    changed[5, 5] ^= 1
    eye.set_image(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
    size = eye.memory.size
    same(
        eye.set_image(changed).ask(QUESTIONS[0], TOKENS, order=FIRST),
        anew(light).set_image(changed).ask(QUESTIONS[0], TOKENS, order=FIRST),
    )
    assert eye.memory.size == 2 * size


@needs_weights
def test_scopes_share_nothing(light):
    eye = fresh(light)
    eye.set_image(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
    other = copy(eye)
    other.scope, hits = "another key", eye.memory.hits
    other.set_image(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
    assert eye.memory.hits == hits
    other.ask(QUESTIONS[0], TOKENS, order=FIRST)
    assert eye.memory.hits > hits


@needs_weights
def test_a_store_too_small_for_anything_changes_no_answer(light):
    cold = anew(light).set_image(PICTURE)
    for most in (1, 50_000):
        eye = fresh(light, most).set_image(PICTURE)
        for question in QUESTIONS:
            same(eye.ask(question, TOKENS, order=FIRST), cold.ask(question, TOKENS, order=FIRST))
            assert eye.memory.size <= most


@needs_weights
@pytest.mark.parametrize("engine", ["light", "stock"])
def test_what_is_forgotten_in_the_middle_of_an_answer_is_not_missed(request, engine):
    model = request.getfixturevalue(engine)
    eye, wanted = fresh(model).set_image(PICTURE), anew(model).set_image(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
    eye.ask(QUESTIONS[1], TOKENS, order=FIRST)
    speaking = eye.stream(QUESTIONS[0], TOKENS, order=FIRST)
    pieces = [next(speaking)]
    eye.memory.clear()
    eye.memory.most = 1
    pieces += list(speaking)
    assert "".join(pieces) == wanted.text


@needs_weights
def test_threads_ask_about_their_own_pictures(light):
    eye, turned = fresh(light, 1_000_000), np.ascontiguousarray(PICTURE[:, ::-1])
    pictures = (PICTURE, turned)
    wanted = {
        (number, question): anew(light).set_image(pixels).ask(question, TOKENS, order=FIRST)
        for number, pixels in enumerate(pictures)
        for question in QUESTIONS[:2]
    }

    def work(number: int) -> list:
        own = copy(eye).set_image(pictures[number % 2])
        return [(number % 2, question, own.ask(question, TOKENS, order=FIRST)) for question in QUESTIONS]

    with ThreadPoolExecutor(4) as pool:
        for found in pool.map(work, range(4)):
            for number, question, answer in found:
                same(answer, wanted[number, question])


@needs_weights
def test_changed_weights_are_not_served_from_before(stock):
    eye = fresh(stock).set_image(PICTURE)
    before = eye.ask(QUESTIONS[0], TOKENS, order=FIRST)
    bias = stock.model.model.visual.merger.linear_fc2.bias
    original = bias.detach().clone()
    try:
        with torch.no_grad():
            bias.add_(0.5)
        changed = eye.ask(QUESTIONS[0], TOKENS, order=FIRST)
        same(changed, anew(stock).set_image(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST))
        assert changed.uncertainty != before.uncertainty
    finally:
        with torch.no_grad():
            bias.copy_(original)


@needs_weights
def test_memory_stays_flat_over_many_questions(light):
    """Words of questions and pictures come and go; the bytes that are told are those that are held."""
    eye, most = fresh(light, 300_000), 300_000
    small = [np.ascontiguousarray(np.roll(PICTURE, shift, 1)[:96, :128]) for shift in range(4)]
    for number in range(24):
        eye.set_image(small[number % 4]).ask(f"What does sign {number % 7} say?", 8, order=FIRST, max_new_tokens=1)
        held = sum(bytes_of(value) for value, _ in eye.memory._values.values())
        assert eye.memory.size == held <= most
    assert len(eye.memory) < 400


# ---- screens ---------------------------------------------------------------------------------------------------------


@needs_weights
@pytest.mark.parametrize("engine", ["light", "stock"])
def test_of_a_changed_screen_only_what_changed_is_encoded(request, engine, monkeypatch):
    eye = fresh(request.getfixturevalue(engine))
    changed = PICTURE.copy()
    changed[130:150, 200:220] ^= 255  # inside the last cell
    map_ = np.zeros((5, 7), np.float32)
    map_[4, 5:] = map_[0, :3] = 1
    how = {"relevance": map_, "order": FIRST}
    first = eye.see(PICTURE).ask(QUESTIONS[0], TOKENS, **how)
    same(first, anew(eye).set_image(PICTURE).ask(QUESTIONS[0], TOKENS, **how))
    with watching(eye, monkeypatch) as (leaves, read, _):
        same(eye.see(PICTURE.copy()).ask(QUESTIONS[0], TOKENS, **how), first)
        assert sum(leaves) == 0
        so_far = len(read)
        second = eye.see(changed).ask(QUESTIONS[0], TOKENS, **how)
    covers = [(row, col, level) for row, col, level in leaves_of(second.allocation).tolist() if over(row, col, level)]
    assert sum(leaves) == len(covers) == 2, "the tile over it, and the cell itself"
    assert read[so_far] == TOKENS - (second.allocation.overview - 1), "from the changed tile on"
    assert second.uncertainty != first.uncertainty


def over(row: int, col: int, level: int) -> bool:
    """Does this leaf lie over the cell (4, 6)?"""
    side = 1 << level
    return row <= 4 < row + side and col <= 6 < col + side


@needs_weights
def test_a_changed_screen_is_read_as_the_same_features_at_once(light, stock, monkeypatch):
    changed = PICTURE.copy()
    changed[0:20, 60:70] ^= 255
    answers = []
    for model in (light, stock):
        eye = fresh(model)
        eye.see(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
        answers.append(eye.see(changed).ask(QUESTIONS[0], TOKENS, order=FIRST))
    same(*answers)
    eye = fresh(light)
    eye.see(PICTURE).ask(QUESTIONS[0], TOKENS, order=FIRST)
    looked = eye.see(changed).prepare(QUESTIONS[0], TOKENS, order=FIRST)
    step = next(eye.engine.speak(looked, 1)[0])
    engine, (view,), (allocation,) = eye.engine, looked.views, looked.plan.allocations
    leaves = leaves_of(allocation)
    embeds, *planes = joined(engine._see(view, leaves, segments_of(allocation)))
    ids = prompt_ids(engine.folder, looked.inputs["query"], len(leaves))
    at_once = OnnxSpeaker(engine.reader, ids, VisualFeatures(embeds, tuple(planes)), leaves, view_grid(view)).begin()
    assert np.abs(step.logits - at_once.logits).max() < 1e-4


@needs_weights
def test_screens_and_pictures_are_kept_apart(light):
    eye = fresh(light)
    eye.see(PICTURE, "left").ask(QUESTIONS[0], TOKENS, order=FIRST)
    changed = PICTURE.copy()
    changed[0:20, 60:70] ^= 255
    wanted = anew(light).set_image(changed).ask(QUESTIONS[0], TOKENS, order=FIRST)
    same(eye.see(changed, "right").ask(QUESTIONS[0], TOKENS, order=FIRST), wanted)
    same(eye.set_image(changed).ask(QUESTIONS[0], TOKENS, order=FIRST), wanted)
