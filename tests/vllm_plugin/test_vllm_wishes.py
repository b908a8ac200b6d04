"""What a request may wish inside vLLM, and the leaves that follow: the same as `ask`'s. No vLLM is needed here."""

from __future__ import annotations

import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from arr_coc import Eye, Options, look
from arr_coc.app.vllm.wishes import NO_QUESTION, SeenPicture, VllmServer
from arr_coc.attending.distance import scaled_size
from arr_coc.attending.leaves import in_picture, leaves_of
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.pictures.load import load_picture
from arr_coc.realizing.base import VisualGrid

EXAMPLES = Path(__file__).parents[2] / "src" / "arr_coc" / "examples"
QUESTION = "What does the pink sign say?"
GRID = VisualGrid(24, 32, 768, 1024)
SIZE = (768, 1024)
# One region that is coarser than the whole picture.
WHOLE = {"y": 0, "x": 0, "height": 768, "width": 1024, "level": 9, "tokens": 1, "score": 1.0}
COARSE = {"schema": 2, "strategy": "overlay", "budget": 1, "full": 768, "image": {"height": 768, "width": 1024}}
COARSE |= {"regions": [WHOLE]}
ANY = {"relevance": "look"}  # where any map will do: the scorer takes ten times as long


@pytest.fixture(scope="module")
def server() -> VllmServer:
    return VllmServer.of({"budget": 96, "max_budget": 400}, str(part_folder(MINI)))


@pytest.fixture(scope="module")
def eye() -> Eye:
    return Eye.from_pretrained().set_image(EXAMPLES / "street.png")


@pytest.fixture(scope="module")
def street() -> torch.Tensor:
    pixels = np.asarray(Image.open(EXAMPLES / "street.png").convert("RGB"))
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255


def leaves(server: VllmServer, street: torch.Tensor, given=None, question=QUESTION) -> np.ndarray:
    """The leaves of a wish as it comes out of vLLM's caches."""
    (wish,) = server.wishes(given, 1, question)
    pixels = (street.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()

    def resized(times: float) -> VisualGrid:
        high, wide = scaled_size((GRID.height, GRID.width), times, GRID.cell)
        return VisualGrid(high // GRID.cell, wide // GRID.cell, high, wide)

    picture = SeenPicture(load_picture(pixels), street, GRID, resized)
    return server.decide(json.loads(json.dumps(wish)), picture)[0]


@pytest.mark.parametrize(
    "how",
    [{}, {"budget": 0.5, **ANY}, ANY, {"budget": 31, **ANY}, {"strategy": "quadtree", **ANY}, {"levels": 1, **ANY}],
)
def test_leaves_are_those_of_ask(server, street, eye, how):
    planned = eye.prepare(QUESTION, Options(**{"budget": 96, **how})).plan.allocations[0]
    assert np.array_equal(leaves(server, street, how), leaves_of(planned))


def test_budget_is_exact_and_held_to_the_servers(server, street):
    assert len(leaves(server, street, ANY)) == 96
    assert len(leaves(server, street, {"budget": 400, **ANY})) == 400
    assert len(leaves(server, street, {"budget": 1.0, **ANY})) == 400
    assert len(leaves(server, street, server.largest)) == 400
    free = VllmServer.of(None)
    assert len(leaves(free, street, free.largest)) == GRID.tokens


def test_without_any_default_a_quarter_is_kept(street):
    free = VllmServer.of(None, str(part_folder(MINI)))
    assert len(leaves(free, street, ANY)) == GRID.tokens // 4


def test_another_question_is_another_wish_and_other_leaves(server, street):
    pink, blue = (server.wishes(None, 1, question)[0] for question in (QUESTION, "What does the blue sign say?"))
    assert pink != blue
    asked = leaves(server, street, ANY, blue["query"])
    assert not np.array_equal(leaves(server, street, ANY), asked)
    assert np.array_equal(leaves(server, street, {"query": blue["query"], **ANY}), asked)
    assert server.wishes(None, 1, " \n")[0]["query"] == NO_QUESTION


def test_words_of_the_caller_steer(server, street):
    words = [{"text": "Total", "box": [0.1, 0.8, 0.2, 0.85]}, {"text": "$9.10", "box": [0.8, 0.8, 0.9, 0.85]}]
    found = leaves(server, street, {"words": words, "budget": 40, "scale": 1}, "What is the total?")
    finest = found[found[:, 2] == 0]
    assert len(finest)
    assert (np.abs(finest[:, 0] + 0.5 - 0.825 * 24) < 3).mean() > 0.8
    pixels = [
        {"text": one["text"], "box": [x * s for x, s in zip(one["box"], (1024, 768) * 2, strict=True)]} for one in words
    ]
    assert np.array_equal(
        leaves(server, street, {"words": pixels, "budget": 40, "scale": 1}, "What is the total?"), found
    )


def test_a_map_of_the_caller_steers(server, street):
    found = leaves(server, street, {"relevance": [[0.0, 0.0], [0.0, 1.0]]})
    finest = found[found[:, 2] == 0]
    assert (finest[:, :2] >= (12, 16)).all()


def test_allocations_of_the_caller_are_taken(server, street, eye):
    answer = eye.ask(QUESTION, 60, Options(**ANY))
    found = leaves(server, street, {"allocation": answer.allocation.to_json()})
    assert np.array_equal(found, leaves(server, street, {"budget": 60, **ANY}))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"budget": 0}, "at least 1"),
        ({"budget": "x"}, "whole number"),
        ({"budget": 2.5}, "whole number"),
        ({"total": True}, "arr_coc.total is unknown"),
        ({"budget": [10, 20]}, "one number"),
        ({"budget": 401}, "above this server's limit of 400"),
        ({"bugdet": 10}, "arr_coc.bugdet is unknown"),
        ({"max_budget": 10}, "arr_coc.max_budget is unknown"),
        ({"strategy": "overlain"}, "did you mean overlay"),
        ({"strategy": 3}, "unknown strategy 3"),
        ({"strategy": "oracle"}, "boxes"),
        ({"relevance": "glance"}, "needs a model"),
        ({"relevance": str(EXAMPLES)}, "is unknown"),
        ({"relevance": [[1, 2], [3]]}, "must be numbers"),
        ({"relevance": [[float("inf")]]}, "infinity"),
        ({"query": ""}, "question is empty"),
        ({"query": 3}, "question is empty"),
        ({"words": "total.json"}, "must be a list"),
        ({"words": [{"text": "a", "box": [1, 2]}]}, "box"),
        ({"allocation": {"schema": 99}}, "schema"),
        (7, "must be an object"),
        ([{}, {}], "2 entries for 1 pictures"),
        *(({"scale": wrong}, "is not possible; give auto") for wrong in (0, float("nan"), 1000, "near", True)),
        ({"allocation": COARSE, "budget": 9}, "cannot be combined with budget"),
        ({"allocation": COARSE}, "coarsest level here is 5"),
    ],
)
def test_bad_wishes_are_one_line(server, street, given, line):
    with pytest.raises(InputError, match=r"^[^\n]+$") as error:
        leaves(server, street, given)
    assert line in str(error.value)


def small_print() -> Image.Image:
    """A page with letters of half the height that mini reads."""
    picture = Image.new("RGB", SIZE[::-1], (250, 250, 246))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(8)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due 91.20", "Reference HX 20391") * 8):
        pen.text((40, 40 + number * 16), line, (20, 20, 20), font)
    return picture


@pytest.mark.parametrize("scale", [None, "auto", 0.5, 1, 2])
def test_a_picture_is_read_from_the_distance_of_ask_and_the_budget_stays(server, eye, scale):
    page, own = small_print(), {} if scale is None else {"scale": scale}
    pixels = torch.from_numpy(np.asarray(page).copy()).permute(2, 0, 1) / 255
    asked = Options(budget=64, **own, **ANY)
    (planned,) = copy(eye).set_image(page).prepare("What is the total?", asked).plan.allocations
    found = leaves(server, pixels, {"budget": 64, **own, **ANY}, "What is the total?")
    assert np.array_equal(found, leaves_of(planned))
    assert len(found) == 64
    times = planned.scale
    assert times == (scale if isinstance(scale, int | float) else pytest.approx(1.6, 0.2))
    # Decided before and sent as it was told, it is seen from the same distance.
    given = in_picture(planned, SIZE).to_json()
    assert np.array_equal(leaves(server, pixels, {"allocation": given}), leaves_of(planned))


def test_the_servers_scale_holds_until_a_request_says_otherwise(street):
    fixed = VllmServer.of({"budget": 96, "scale": 2, **ANY}, str(part_folder(MINI)))
    assert leaves(fixed, street)[:, :2].max() > 32
    assert leaves(fixed, street, {"scale": 1})[:, :2].max() < 32
    with pytest.raises(InputError, match="is not possible"):
        VllmServer.of({"scale": 9})


def test_an_allocation_of_another_picture_is_refused(server, street):
    other = look(EXAMPLES / "form.png", QUESTION, 60, options=Options(**ANY))
    with pytest.raises(InputError, match="the allocation is for 32×24"):
        leaves(server, street, {"allocation": other.to_json()})


@pytest.mark.parametrize("given", [{"max_budget": 0}, {"budget": 500, "max_budget": 400}, {"nonsense": 1}, [1]])
def test_a_server_does_not_start_on_bad_defaults(given):
    with pytest.raises(InputError):
        VllmServer.of(given)


def test_a_server_does_not_start_beside_a_damaged_grip(tmp_path):
    (tmp_path / "grip.json").write_text("{")
    with pytest.raises(InputError, match=r"^[^\n]+is not the grip of a model[^\n]+$"):
        VllmServer.of(None, str(tmp_path))
