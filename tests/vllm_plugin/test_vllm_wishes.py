"""What a request may wish inside vLLM, and the leaves that follow: the same as `ask`'s. No vLLM is needed here."""

from __future__ import annotations

import base64
import io
import json
from copy import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont
from small_pdf import small_pdf

from arr_coc import Eye, look
from arr_coc.app.vllm.documents import open_documents
from arr_coc.app.vllm.wishes import NO_QUESTION, VllmServer
from arr_coc.attending.distance import scaled_size
from arr_coc.attending.frame import in_picture
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.realizing.base import VisualGrid
from arr_coc.realizing.tokens.patches import leaves_of

EXAMPLES = Path(__file__).parents[2] / "src" / "arr_coc" / "examples"
QUESTION = "What does the pink sign say?"
GRID = VisualGrid(24, 32, 768, 1024)
SIZE = (768, 1024)
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


def leaves(server: VllmServer, street: torch.Tensor, given=None, question=QUESTION, size=SIZE) -> np.ndarray:
    (wish,) = server.wishes(given, 1, question)
    return laid(server, wish, street, size=size)


def laid(server: VllmServer, wish, picture: torch.Tensor, grid=GRID, size=SIZE) -> np.ndarray:
    """The leaves of a wish as it comes out of vLLM's caches, on the grid of the distance that was chosen."""
    wish = json.loads(json.dumps(wish))

    def given() -> np.ndarray:
        return (picture.permute(1, 2, 0) * 255).round().to(torch.uint8).numpy()

    plan = server.plan(wish, picture, grid, size, given)
    high, wide = scaled_size((grid.height, grid.width), plan.distance.times, grid.cell)
    return server.leaves(wish, plan, VisualGrid(high // grid.cell, wide // grid.cell, high, wide), size)


@pytest.mark.parametrize(
    "how", [{}, {"keep": 0.5, **ANY}, ANY, {"budget": 31, **ANY}, {"strategy": "quadtree", **ANY}, {"levels": 1, **ANY}]
)
def test_leaves_are_those_of_ask(server, street, eye, how):
    amount = {"budget": 96} if not {"budget", "keep"} & how.keys() else {}
    planned = eye.prepare(QUESTION, **{**amount, **how}).plan.allocations[0]
    assert np.array_equal(leaves(server, street, how), leaves_of(planned))


def test_budget_is_exact_and_held_to_the_servers(server, street):
    assert len(leaves(server, street, ANY)) == 96
    assert len(leaves(server, street, {"budget": 400, **ANY})) == 400
    assert len(leaves(server, street, {"keep": 1.0, **ANY})) == 400
    (largest,) = server.wishes(server.largest, 1)
    assert len(laid(server, largest, street)) == 400
    free = VllmServer.of(None)
    assert len(laid(free, free.wishes(free.largest, 1)[0], street)) == GRID.tokens


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


def test_leaves_and_allocations_of_the_caller_are_taken(server, street, eye):
    given = [[16, 0, 3], [0, 0, 0], [0, 0, 3]]
    assert leaves(server, street, {"leaves": given}).tolist() == [[0, 0, 3], [0, 0, 0], [16, 0, 3]]
    answer = eye.ask(QUESTION, budget=60, **ANY)
    found = leaves(server, street, {"allocation": answer.allocation.to_json()})
    assert np.array_equal(found, leaves(server, street, {"budget": 60, **ANY}))


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"budget": 0}, "at least 1"),
        ({"budget": "x"}, "whole number"),
        ({"budget": 2.5}, "whole number"),
        ({"budget": [10, 20]}, "one number"),
        ({"budget": 401}, "above this server's 400"),
        ({"keep": 0}, "share above 0"),
        ({"keep": 0.5, "budget": 10}, "give one of them"),
        ({"bugdet": 10}, "arr_coc.bugdet is unknown"),
        ({"max_budget": 10}, "arr_coc.max_budget is unknown"),
        ({"strategy": "overlain"}, "did you mean overlay"),
        ({"strategy": 3}, "must be a name"),
        ({"strategy": "oracle"}, "boxes"),
        ({"relevance": "glance"}, "needs a model"),
        ({"relevance": str(EXAMPLES)}, "is unknown"),
        ({"relevance": [[1, 2], [3]]}, "must be numbers"),
        ({"relevance": [[float("inf")]]}, "infinity"),
        ({"query": ""}, "question is empty"),
        ({"query": 3}, "question is empty"),
        ({"words": "total.json"}, "must be a list"),
        ({"words": [{"text": "a", "box": [1, 2]}]}, "box"),
        ({"leaves": []}, "at least one"),
        ({"leaves": [[0, 0]]}, "[row, col, level]"),
        ({"leaves": [["a", 0, 0]]}, "must be numbers"),
        ({"leaves": [[0, 0, 9]] * 2}, "twice"),
        ({"leaves": [[24, 0, 0]]}, "off the 24×32 grid"),
        ({"leaves": [[-8, 0, 3]]}, "off the 24×32 grid"),
        ({"leaves": [[4, 0, 3]]}, "multiple of 2**l"),
        ({"leaves": [[0, 0, 6]]}, "coarsest is 5"),
        ({"leaves": [[0, 0, 16]]}, "must be 0 to 15"),
        ({"leaves": [[0, 0, -1]]}, "must be 0 to 15"),
        ({"leaves": [[row, col, 0] for row in range(24) for col in range(32)]}, "may have 400"),
        ({"leaves": [[0, 0, 0]], "allocation": {}}, "give one of them"),
        ({"allocation": {"schema": 99}}, "schema"),
        (7, "must be an object"),
        ([{}, {}], "2 entries for 1 pictures"),
        *(({"scale": wrong}, "is not possible; give auto") for wrong in (0, float("nan"), 1000, "near", True)),
        ({"scale": 2, "leaves": [[0, 0, 0]]}, "leave it out"),
        ({"readings": 3}, "unknown"),
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
    (planned,) = copy(eye).set_image(page).prepare("What is the total?", 64, **own, **ANY).plan.allocations
    found = leaves(server, pixels, {"budget": 64, **own, **ANY}, "What is the total?")
    assert np.array_equal(found, leaves_of(planned))
    assert len(found) == 64
    times = planned.scale * 2.0**-planned.finest
    assert times == (scale if isinstance(scale, int | float) else pytest.approx(1.6, 0.2))
    # Decided before and sent as it was told, it is seen from the same distance.
    given = in_picture(planned, SIZE).to_json()
    assert np.array_equal(leaves(server, pixels, {"allocation": given}), leaves_of(planned))


def test_the_servers_scale_holds_until_a_request_says_otherwise(street):
    fixed = VllmServer.of({"budget": 96, "scale": 2, **ANY}, str(part_folder(MINI)))
    assert leaves(fixed, street)[:, :2].max() > 32
    assert leaves(fixed, street, {"scale": 1})[:, :2].max() < 32
    assert len(leaves(fixed, street, {"leaves": [[0, 0, 0]]})) == 1
    with pytest.raises(InputError, match="is not possible"):
        VllmServer.of({"scale": 9})


def test_an_allocation_of_another_picture_is_refused(server, street):
    other = look(EXAMPLES / "form.png", QUESTION, budget=60, **ANY)
    with pytest.raises(InputError, match="this one has 1024×768"):
        leaves(server, street, {"allocation": other.to_json()})


@pytest.mark.parametrize("given", [{"max_budget": 0}, {"budget": 500, "max_budget": 400}, {"nonsense": 1}, [1]])
def test_a_server_does_not_start_on_bad_defaults(given):
    with pytest.raises(InputError):
        VllmServer.of(given)


def test_a_server_does_not_start_beside_a_damaged_grip(tmp_path):
    (tmp_path / "grip.json").write_text("{")
    with pytest.raises(InputError, match=r"^[^\n]+is not the grip of a model[^\n]+$"):
        VllmServer.of(None, str(tmp_path))


# ---- several pictures and documents ----------------------------------------------------------------------------------

SMALL = VisualGrid(4, 6, 128, 192)


def pixels_of(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 255, (128, 192, 3), dtype=np.uint8)


def test_one_budget_for_all_pictures_of_a_prompt_follows_relevance(server):
    wishes = server.wishes({"budget": 20, "total": True, "relevance": "look"}, 3, QUESTION)
    for wish, level in zip(wishes, (0.0, 0.9, 0.0), strict=True):
        wish["relevance"] = [[level]]
    shared = server.shared(wishes, [pixels_of(seed) for seed in range(3)], [SMALL] * 3)
    assert [wish["budget"] for wish in shared] == [1, 18, 1]
    assert not any("total" in wish for wish in shared)
    picture = torch.from_numpy(pixels_of(1)).permute(2, 0, 1) / 255
    for wish in shared:  # as vLLM's caches key it
        assert len(laid(server, wish, picture, SMALL, (128, 192))) == wish["budget"]
    each = server.wishes({"budget": 20, **ANY}, 3, QUESTION)
    assert server.shared(each, [], []) == each
    default = server.wishes({"total": True, **ANY}, 2, QUESTION)
    quarter = server.shared(default, [pixels_of(1), pixels_of(2)], [SMALL] * 2)
    assert sum(one["budget"] for one in quarter) == 48


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ([{"total": True}, {}], "some pictures only"),
        ([{"total": True, "budget": 9}, {"total": True, "budget": 8}], "give the same"),
        ({"total": True, "leaves": [[0, 0, 0]]}, "decided"),
        ({"total": 1}, "arr_coc.total"),
        ({"total": True, "budget": 1, **ANY}, "leaves some without any"),
    ],
)
def test_a_shared_budget_that_cannot_be_is_one_line(server, given, line):
    with pytest.raises(InputError, match=r"^[^\n]+$") as error:
        server.shared(server.wishes(given, 2, QUESTION), [pixels_of(1), pixels_of(2)], [SMALL] * 2)
    assert line in str(error.value)


def test_documents_are_opened_for_vllm_at_the_pages_that_get_tokens(server, tmp_path):
    pytest.importorskip("pypdfium2")
    pages = tuple((f"72 {700 - n} Td (Total of {n}: {n}0.50) Tj", "") for n in range(1, 13))
    data = small_pdf(tmp_path / "report.pdf", pages).read_bytes()
    memory = io.BytesIO()
    Image.fromarray(pixels_of(1)).save(memory, "PNG")
    urls = [f"data:{kind};base64,{base64.b64encode(one).decode()}"
            for kind, one in (("application/pdf", data), ("image/png", memory.getvalue()))]  # fmt: skip
    content = [
        {"type": "file", "file": {"file_data": urls[0]}},
        {"type": "image_url", "image_url": {"url": urls[1]}},
        {"type": "text", "text": "What is the total of 3?"},
    ]
    chat = [{"role": "user", "content": content}]
    messages, kwargs = open_documents(chat, {"budget": 40, "total": True})
    parts, wishes = messages[-1]["content"], kwargs["arr_coc"]
    texts = [part["text"] for part in parts if part["type"] == "text"]
    shown = [part for part in parts if part["type"] == "image_url"]
    assert "Page 3 of 12:" in texts
    assert "not shown" in texts[-1]
    assert "What is the total of 3?" in texts[-1]
    assert len(shown) == len(wishes) == 8
    assert sum(wish["budget"] for wish in wishes) == 40
    marks = [text for text in texts if text.startswith("Page")]
    assert wishes[marks.index("Page 3 of 12:")]["budget"] == max(wish["budget"] for wish in wishes)
    # What the server makes of them is the sum: each is checked as any other wish.
    assert [wish["budget"] for wish in server.wishes(json.loads(json.dumps(wishes)), 8)] == [
        wish["budget"] for wish in wishes
    ]
    # The page in question is seen from where the caller says, what is shown small as it is.
    nearer = open_documents(chat, {"budget": 40, "total": True, "scale": 1.5})[1]["arr_coc"]
    assert nearer[marks.index("Page 3 of 12:")]["scale"] == 1.5
    assert {wish["scale"] for wish in nearer} == {1.0, 1.5}
    each = open_documents(chat, {"budget": 12})[1]["arr_coc"]
    assert sum(wish["budget"] for wish in each) == 24
    for wish, line in (({"leaves": []}, "leaves is not for documents"), ({"budget": 0}, "at least 1")):
        with pytest.raises(InputError, match=line):
            open_documents(chat, wish)
