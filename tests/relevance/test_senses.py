"""In which sense words are meant: sentences judged by hand, four languages, and what must never couple."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.knowing.language.lexical import lexical
from arr_coc.knowing.language.senses import coupled_words
from arr_coc.texture.channels import sense

SIDES = {"top", "bottom", "left", "right", "centre", "corner"}


def sentences() -> tuple[list[tuple], list[tuple]]:
    """(question, colours, places, reads): those that the rules were mended by, and those held out."""
    lists: list[list[tuple]] = []
    path = Path(__file__).parent / "data" / "senses.txt"
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("# ") and "|" not in line:
            lists.append([])
        elif not line.startswith("#"):
            question, colours, places, reads = (part.strip() for part in line.split("|")[:4])
            lists[-1].append((question, set(colours.split()), set(places.split()), reads == "r"))
    return lists[0], lists[1]


def judged(rows: list[tuple]) -> tuple[dict[str, tuple[float, float]], list[str]]:
    """(precision, recall) of colours, places and reading over the rows, and the questions that are wrong."""
    hits = {kind: [0, 0, 0] for kind in ("colours", "places", "reading")}  # right, found, meant
    wrong = []
    for question, colours, places, reads in rows:
        words = coupled_words(question)
        pairs = {
            "colours": (set(words.colours.values()), colours),
            "places": (set(words.places.values()), places),
            "reading": ({"r"} if words.reading else set(), {"r"} if reads else set()),
        }
        for kind, (found, meant) in pairs.items():
            for place, count in enumerate((len(found & meant), len(found), len(meant))):
                hits[kind][place] += count
            if found != meant:
                wrong.append(f"{question}: {kind} {sorted(found)} for {sorted(meant)}")
    return {kind: (right / max(1, found), right / max(1, meant)) for kind, (right, found, meant) in hits.items()}, wrong


def test_words_are_taken_in_the_sense_that_is_meant():
    mended, held_out = sentences()
    assert len(mended) + len(held_out) >= 120
    measures, wrong = judged(mended)
    assert not wrong
    assert all(value == (1.0, 1.0) for value in measures.values())
    measures, wrong = judged(held_out)
    assert len(wrong) <= 0.04 * len(held_out), wrong
    for precision, recall in measures.values():
        assert precision >= 0.92
        assert recall >= 0.95


# question, colours, places, whether something is read, language
OTHER_LANGUAGES = [
    ("Was steht auf dem roten Schild?", "red", "", True, "German"),
    ("Welche Zahl steht oben links?", "", "top left", True, "German"),
    ("Wo ist das hellblaue Auto?", "blue", "", False, "German"),
    ("Wo ist der grüne Ball in der unteren rechten Ecke?", "green", "bottom right corner", False, "German"),
    ("Wer weiß die richtige Antwort?", "", "", False, "German"),
    ("Ist die Wand weiß?", "white", "", False, "German"),
    ("Was hält er in der Mitte?", "", "centre", False, "German"),
    ("Wie lautet die Rechnungsnummer?", "", "", True, "German"),
    ("Wie viel kostet es?", "", "", True, "German"),
    ("Wo steht das Rote Kreuz?", "", "", False, "German"),
    ("Was steht in der dritten Zeile?", "", "", True, "German"),
    ("Das Schild, auf dem „LINKS“ steht", "", "", False, "German"),
    ("rotes Schild", "red", "", False, "German"),
    ("Que dit le panneau rose ?", "pink", "", True, "French"),
    ("Quelle est la couleur de la rose ?", "", "", False, "French"),
    ("Où sont les voitures vertes ?", "green", "", False, "French"),
    ("Quel est le prix du jus d'orange ?", "", "", True, "French"),
    ("Qu'y a-t-il en haut à gauche ?", "", "top left", False, "French"),
    ("Qu'est-ce qui est en bas de l'image ?", "", "bottom", False, "French"),
    ("Quel produit a le plus bas prix ?", "", "", True, "French"),
    ("Qui a le droit de vote ?", "", "", False, "French"),
    ("Combien coûte le livre sur la table blanche ?", "white", "", True, "French"),
    ("Que montre le deuxième graphique ?", "", "", False, "French"),
    ("Quel est le numéro de la facture ?", "", "", True, "French"),
    ("Où est le panneau « STOP ROUGE » ?", "", "", False, "French"),
    ("¿Qué dice el cartel rojo?", "red", "", True, "Spanish"),
    ("¿Dónde están las flores amarillas?", "yellow", "", False, "Spanish"),
    ("¿Qué hay arriba a la izquierda?", "", "top left", False, "Spanish"),
    ("¿Cuánto cuesta el zumo de naranja?", "", "", True, "Spanish"),
    ("¿Quién tiene derecho a votar?", "", "", False, "Spanish"),
    ("¿Qué hay en el lado derecho?", "", "right", False, "Spanish"),
    ("¿Cuál es el número de teléfono?", "", "", True, "Spanish"),
    ("¿Qué muestra la segunda tabla?", "", "", False, "Spanish"),
    ("¿Qué valores son superiores a diez?", "", "", True, "Spanish"),
]


@pytest.mark.parametrize(("question", "colours", "places", "reads", "language"), OTHER_LANGUAGES)
def test_four_languages_are_known(question, colours, places, reads, language):
    words = coupled_words(question)
    assert set(words.colours.values()) == set(colours.split())
    assert set(words.places.values()) == set(places.split())
    assert bool(words.reading) == reads
    assert words.language == language


@pytest.mark.parametrize(
    "question", ["Где красный знак?", "赤い看板はどこですか", "빨간 표지판", "אדום", "红色的牌子", "xyzzy plugh"]
)
def test_a_language_that_is_not_known_is_told_and_couples_nothing(question):
    texture = sense(np.zeros((32, 48, 3), np.uint8))
    found = lexical(texture, question)
    assert found.map.max() == 0
    assert "English, German, French and Spanish" in found.notes[0]
    assert "are known" not in lexical(texture, "is anybody happy").notes[0]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(["red", "links", "haut", "verde", "the left", "'", '"', "«"]))
def test_no_text_breaks_it_and_quotes_hide_what_they_hold(text, word):
    words = coupled_words(f"{text} {word} {text}")
    assert set(words.places.values()) <= SIDES
    assert coupled_words(f'"{word}"'.replace("'", "").replace('""', "")) == coupled_words("")
