"""Question × words: the value of the label that is asked for scores above others, and is painted where it stands."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from arr_coc.knowing.words.answer import answer_shares
from arr_coc.knowing.words.source import map_of
from arr_coc.pictures.words import make_words

FIELDS = (
    ("Invoice number:", "XH-2651"),
    ("Invoice date:", "03/04/1997"),
    ("Customer:", "Hana Sibona"),
    ("Phone:", "(412) 555-1234"),
    ("Total amount:", "$1,204.50"),
    ("Delivery address:", "12 Mill Road"),
)


def page_of(*rows, letter=8.0, height=14.0, step=30.0, column=200.0, size=(400, 600)):
    """A page with a phrase in every cell: rows of strings, from the upper left; "" leaves a cell empty."""
    texts, boxes = [], []
    for line, cells in enumerate(rows):
        for place, cell in enumerate(cells):
            x, y = 20 + place * column, 20 + line * step
            for word in cell.split():
                texts.append(word)
                boxes.append([x, y, x + letter * len(word), y + height])
                x += letter * (len(word) + 0.5)
    return make_words(texts, boxes, size=size)


def shares_of(words, query):
    return answer_shares(words, query)


def phrase_scores(words, query):
    shares, phrases = shares_of(words, query)[:, 0], words.phrases
    order = np.argsort(words.boxes[:, 0], kind="stable")
    texts = {n: " ".join(words.texts[one] for one in order if phrases[one] == n) for n in set(phrases.tolist())}
    return {text: float(shares[phrases == number].max()) for number, text in texts.items()}


FORM = page_of(*FIELDS)
BELOW = page_of(*[row for label, value in FIELDS for row in ((label.rstrip(":"),), (value,))], step=22)
TABLE = page_of(
    ("Country", "2014", "2015", "2016"),
    ("Norway", "12.4", "18.9", "77.1"),
    ("Kenya", "33.8", "41.2", "50.6"),
    ("Peru", "61.3", "24.7", "19.5"),
    column=120,
)


@pytest.mark.parametrize(("label", "value"), FIELDS)
@pytest.mark.parametrize("asking", ["What is the {}?", "What is written for {}?", "{}"])
def test_the_value_of_the_label_asked_for_scores_above_other_values(label, value, asking):
    scores = phrase_scores(FORM, asking.format(label.rstrip(":").lower()))
    others = [scores[other] for _, other in FIELDS if other != value]
    assert scores[value] > max(others)


def test_values_may_stand_below_their_labels():
    right = [
        max(FIELDS, key=lambda f: phrase_scores(BELOW, f"What is the {label.rstrip(':')}?")[f[1]])[1] == value
        for label, value in FIELDS
    ]
    assert np.mean(right) >= 5 / 6


@pytest.mark.parametrize(
    ("country", "year", "value"), [("Norway", "2015", "18.9"), ("Kenya", "2014", "33.8"), ("Peru", "2016", "19.5")]
)
def test_a_cell_is_found_where_its_row_and_its_column_meet(country, year, value):
    scores = phrase_scores(TABLE, f"What is the value for {country} in {year}?")
    figures = {text: score for text, score in scores.items() if "." in text}
    assert max(figures, key=figures.get) == value


def test_a_kind_of_value_is_found_without_its_label():
    words = page_of(("Hana Sibona",), ("03/04/1997",), ("$1,204.50",), ("Mill Road",), step=60)
    when, much = phrase_scores(words, "When was this issued?"), phrase_scores(words, "How much was paid?")
    assert max(when, key=when.get) == "03/04/1997"
    assert max(much, key=much.get) == "$1,204.50"


def test_a_misread_label_still_leads_to_its_value():
    words = page_of(("lnvoice numbcr:", "XH-2651"), ("Shlpping date:", "03/04/1997"), ("Customer:", "Hana Sibona"))
    scores = phrase_scores(words, "What is the invoice number?")
    assert scores["XH-2651"] > max(scores["03/04/1997"], scores["Hana Sibona"])


def test_the_map_is_high_on_the_answer_lower_on_other_words_and_nothing_on_blank_ground():
    found = map_of(FORM, shares_of(FORM, "What is the invoice date?"))
    rows, cols = found.shape
    value = FORM.texts.index("03/04/1997")
    x0, y0, x1, y1 = (FORM.boxes[value] * [cols, rows, cols, rows]).astype(int)
    assert found[y0 + 1 : y1, x0 + 1 : x1].min() > 0.5
    other = FORM.texts.index("XH-2651")
    a0, b0, a1, b1 = (FORM.boxes[other] * [cols, rows, cols, rows]).astype(int)
    assert 0 < found[b0 + 1 : b1, a0 + 1 : a1].mean() < 0.5
    assert found[-rows // 4 :].max() == 0


def test_no_words_one_word_and_an_empty_question():
    assert shares_of(make_words([], np.zeros((0, 4))), "What?").shape == (0, 2)
    assert np.isfinite(shares_of(page_of(("Total",)), "What is the total?")).all()
    assert np.isfinite(shares_of(FORM, "?!")).all()
    assert np.isfinite(shares_of(FORM, " ".join(f"word{n}" for n in range(300)))).all()


def test_the_order_of_the_words_does_not_matter():
    order = np.random.default_rng(0).permutation(len(FORM))
    size = np.array([FORM.size[1], FORM.size[0]] * 2)
    mixed = make_words([FORM.texts[place] for place in order], FORM.boxes[order] * size, size=FORM.size)
    one, other = shares_of(FORM, "What is the total amount?"), shares_of(mixed, "What is the total amount?")
    np.testing.assert_allclose(one[order], other, atol=1e-4)


def test_nothing_here_needs_torch_or_opencv():
    code = (
        "import sys\nfrom arr_coc.pictures.words import as_words\n"
        "from arr_coc.knowing.words.answer import copied_answer\n"
        "copied_answer(as_words([('Total', (.1, .1, .2, .2)), ('9.50', (.3, .1, .4, .2))], (100, 100)), 'total?')\n"
        "assert not {'torch', 'cv2', 'scipy', 'transformers'} & set(sys.modules), 'heavy'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("query", ["Total amount of the Mill invoice?", "what is it", "?", ""])
def test_nothing_invalid_is_met_on_the_way(query):
    """Phrases that no part of the question weighs anything in, and questions without a part."""
    with np.errstate(invalid="raise", divide="raise"):
        for rows in (FIELDS, FIELDS[:1], [("?", "—")]):
            assert np.isfinite(shares_of(page_of(*rows), query)).all()
