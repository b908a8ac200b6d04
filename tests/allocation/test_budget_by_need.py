"""`budget="auto"`: as many tokens as the question needs, never more than may be spent, and a line that says why."""

from __future__ import annotations

import re

import numpy as np
import pytest
from PIL import Image, ImageDraw

from arr_coc import Eye, InputError, Options, look, pack, watch
from arr_coc.core.folders import EXAMPLES

PAPER = np.full((512, 768, 3), 255, np.uint8)
FULL = 16 * 24


def lit(cells: int) -> np.ndarray:
    """A map that needs so many cells and no other."""
    found = np.zeros(FULL, np.float32)
    found[:cells] = 0.8
    return found.reshape(16, 24)


def spent(cells: int, query: str = "What is the number?", **options) -> int:
    return look(PAPER, query, "auto", relevance=lit(cells), options=Options(**options)).tokens


def test_the_wider_the_ground_that_is_needed_the_more_is_spent_up_to_a_quarter():
    found = [spent(cells) for cells in (2, 12, 60, FULL)]
    assert found == sorted(set(found))
    assert found[0] < FULL / 16
    assert found[-1] == FULL // 4


@pytest.mark.parametrize(
    ("query", "why"), [("Describe the picture.", "'describe' asks for"), ("Is the gas toxic?", "stakes of 'toxic'")]
)
def test_whole_scenes_and_grave_stakes_get_more_and_the_note_says_why(query, why):
    found = look(PAPER, query, "auto", relevance=lit(6))
    assert found.tokens > spent(6)
    assert any(why in note and f"{found.tokens} of at most {FULL // 4}" in note for note in found.notes)
    assert spent(6, query, ceiling=7) == 7


def test_letters_that_are_lost_are_named_with_the_budget_that_shows_them():
    page = Image.new("RGB", (1024, 768), "white")
    for row in range(30):
        ImageDraw.Draw(page).text((40, 20 + 24 * row), "A row of 16 pixels, " * 5, "black", font_size=16)

    upper = np.repeat(np.array([[1.0]] * 3 + [[0.0]] * 9), 12, axis=1)

    def notes(ceiling: int) -> tuple[str, ...]:
        options = Options(grip="mini", ceiling=ceiling)
        return look(page, "What is written here?", "auto", relevance=upper, options=options).notes

    (lost,) = (note for note in notes(24) if note.startswith("detail is lost"))
    enough = int(re.findall(r"(\d+) tokens show them", lost)[0])
    assert 24 < enough < 24 * 32
    assert not any("detail is lost" in note for note in notes(enough)), "as the note says"


def test_where_one_picture_is_not_all_it_is_refused():
    eye = Eye.from_pretrained("mini").set_image(EXAMPLES / "form.png")
    for ask in (
        lambda: look([EXAMPLES / "form.png", EXAMPLES / "chart.png"], "the date", "auto"),
        lambda: pack(PAPER, "the date", "auto", model="qwen3-vl"),
        lambda: watch([PAPER], "the date", "auto"),
        lambda: eye.ask("the date", "auto", Options(preset="two_pass")),
    ):
        with pytest.raises(InputError, match=r'budget="auto" works for one picture'):
            ask()
    with pytest.raises(InputError, match="leave out total"):
        Options(budget="auto", total=True)


def test_an_attached_model_reads_as_many():
    eye = Eye.from_pretrained("mini").set_image(EXAMPLES / "street.png")
    query = "What does the pink sign say?"
    answer = eye.ask(query, "auto")
    assert answer.text == "COFFEE"
    assert answer.tokens == look(EXAMPLES / "street.png", query, "auto", relevance="scorer").tokens < 768 / 8
