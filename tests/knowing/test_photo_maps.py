"""The photo encoder: its sign on a classifier that is known by construction, and the real packages where installed."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from torch import nn

from arr_coc.balancing.three_ways import coupled_with
from arr_coc.errors import InputError
from arr_coc.knowing import participatory, photo_words, photos
from arr_coc.knowing.photo_words import class_names, content_words, named_words, photos_installed, worth_asking
from arr_coc.knowing.photos import PhotoEncoder, find_photo_encoder
from arr_coc.lab.classic.query_encoders import ImageTextQueryEncoder
from arr_coc.looking import examine
from arr_coc.sensing import sense

installed = pytest.mark.skipif(not photos_installed(), reason="the extra [photos] is not installed")
WORDS = {"dog": 0, "hound": 0, "car": 1, "truck": 1, "cup": 2}


class Colours(nn.Module):
    """A classifier whose dog is red, whose car is green and whose cup is blue."""

    def __init__(self) -> None:
        super().__init__()
        self._fc = nn.Linear(3, 3)
        self._fc.weight.data = 8 * torch.eye(3)
        self._fc.bias.data.zero_()

    def extract_features(self, pixels: torch.Tensor) -> torch.Tensor:
        return nn.functional.avg_pool2d(pixels, 32)


def embed(texts: list[str]) -> np.ndarray:
    """Words of one thing point the same way, a word of its own slightly aside."""
    result = np.zeros((len(texts), 24), np.float32)
    for place, text in enumerate(texts):
        for word in text.split():
            result[place, WORDS.get(word, 3)] += 1
            result[place, 4 + sum(map(ord, word)) % 20] += 0.2
    return result


@pytest.fixture
def encoder() -> PhotoEncoder:
    return PhotoEncoder(Colours(), embed, [["dog", "hound"], ["car"], ["cup"]])


@pytest.fixture
def picture() -> torch.Tensor:
    """Red on the left, green on the right."""
    pixels = torch.zeros(1, 3, 64, 128)
    pixels[:, 0, :, :64] = 1
    pixels[:, 1, :, 64:] = 1
    return pixels


def test_what_is_asked_for_is_where_it_is(encoder, picture):
    """The sign, and that two questions give two maps."""
    for query, left in (("Where is the dog?", True), ("Find the truck.", False), ("the hound", True)):
        found = encoder.couple(picture, query)[0]
        middle = found.shape[1] // 2
        assert 0 <= float(found.min()) <= float(found.max()) <= 1
        assert bool(found[:, :middle].mean() > found[:, middle:].mean() + 0.3) == left, query
        assert bool(found[:, :middle].mean() < found[:, middle:].mean() - 0.3) == (not left), query
    assert encoder.couple_to(picture, "a dog", (32, 64)).shape == (1, 32, 64)


def test_it_is_used_like_any_image_text_encoder(encoder, picture):
    texture = sense(picture, "full40", encoder=encoder, clusters=None)
    for query, left in (("Where is the dog?", True), ("Where is the car?", False)):
        tokens, counts = encoder.encode_query(query)
        assert tokens.shape == (1, 5, 16)
        assert counts[0].tolist() == [False, False, False, True, True]
        found = participatory(texture, tokens, counts)[0]
        assert bool(found[:, :64].mean() > found[:, 64:].mean()) == left
    asked = ImageTextQueryEncoder(encoder)
    assert asked.width == asked.encode_query("Where is the dog?").summary.shape[0] == 24


def test_words_that_only_ask_do_not_count(encoder):
    assert content_words("Where is the red dog?") == ["red", "dog"]
    assert content_words("What is this?") == ["what", "is", "this"]
    weights = encoder.class_weights("Please find the dog")
    assert int(weights.argmax()) == 0
    assert float(weights.sum()) == pytest.approx(1)
    with pytest.raises(InputError, match="empty"):
        encoder.text_features(["…"])


def test_it_is_asked_always_and_answers_where_it_knows_the_word(encoder, picture, monkeypatch):
    monkeypatch.setattr(photos, "find_photo_encoder", lambda: encoder)
    pixels = (picture[0].permute(1, 2, 0) * 255).to(torch.uint8).numpy()
    found = photos.photo_coupling(pixels, "Where is the dog?")
    assert found is not None
    assert "(dog)" in found.notes[0]
    assert found.map[:, : found.map.shape[1] // 2].mean() > found.map[:, found.map.shape[1] // 2 :].mean() + 0.3
    assert photos.photo_coupling(pixels, "What is the total?") is None
    assert photos.photo_coupling(pixels, "Where is the dogma?") is None, "whole words only"
    monkeypatch.setattr(photos, "find_photo_encoder", lambda: None)
    assert photos.photo_coupling(pixels, "Where is the dog?") is None


def test_a_class_is_called_by_the_last_word_of_its_name():
    heads = photo_words.head_words([["street sign"], ["red fox", "Vulpes vulpes"], ["orange"], ["can opener"]])
    assert named_words("Where is the fox near the signs?", heads) == ["fox", "signs"]
    assert named_words("the red street", heads) == [], "what a name only begins with, it does not name"
    assert named_words("the orange thing in the middle", heads) == [], "colours and places are never things"
    assert named_words("How high is the red bar?", frozenset({"bar"})) == [], "a chart's bar is no horizontal bar"


def asked(monkeypatch, encoder: PhotoEncoder) -> None:
    """As if the packages were there, with the classifier of this file."""
    monkeypatch.setattr(photos, "find_photo_encoder", lambda: encoder)
    monkeypatch.setattr(photo_words, "PACKAGES", ())
    monkeypatch.setattr(photo_words, "known_heads", lambda: encoder.heads)


def test_look_chooses_it_by_itself_and_says_so(encoder, picture, monkeypatch):
    """Where the extra is installed and the question names a class: the map moves, a note tells, a switch stops it."""
    asked(monkeypatch, encoder)
    pixels = (nn.functional.interpolate(picture, scale_factor=4)[0].permute(1, 2, 0) * 255).to(torch.uint8).numpy()
    for query, left in (("Where is the dog?", True), ("Where is the car?", False)):
        found = examine(pixels, query, keep=0.25).relevance
        assert found.participatory is not None
        middle = found.participatory.shape[1] // 2
        assert (found.participatory[:, :middle].mean() > found.participatory[:, middle:].mean() + 0.3) == left
        assert [note for note in found.notes if "photo coupling" in note]
        assert not [note for note in found.notes if "is zero" in note]
        without = examine(pixels, query, keep=0.25, photos=False).relevance
        assert without.participatory is not None
        assert float(without.participatory.max()) == 0
        assert not [note for note in without.notes if "photo" in note]
    # With a colour, what meets both comes first: there is no red car, but a green one is still a car.
    both = examine(pixels, "the red dog", keep=0.25).relevance
    assert both.participatory is not None
    assert both.participatory[:, :middle].mean() > both.participatory[:, middle:].mean() + 0.3
    assert len(both.notes) == 3


def test_questions_about_print_leave_it_out(encoder, picture, monkeypatch):
    asked(monkeypatch, encoder)
    assert worth_asking("Where is the dog?")
    assert not worth_asking("What number is on the car?"), "it does not read"
    assert not worth_asking("Where is the mountain?")
    heads = frozenset({"sign", "car"})
    assert photo_words.things("What is on the red sign?", heads) == []
    assert photo_words.things("Where is the red sign?", heads) == ["sign"]
    assert photo_words.things("the car by the sign", heads) == ["car"]


def test_without_the_packages_it_is_none_and_says_what_to_install(monkeypatch):
    monkeypatch.setattr(photo_words, "PACKAGES", ("a_package_that_is_not_there",))
    find_photo_encoder.cache_clear()
    assert find_photo_encoder() is None
    assert not worth_asking("Where is the dog?")
    find_photo_encoder.cache_clear()
    with pytest.raises(InputError, match=r"arr-coc\[photos\]"):
        PhotoEncoder.load()


@installed
def test_the_packages_know_their_classes():
    before = (list(logging.getLogger().handlers), logging.getLogger().level)
    encoder = find_photo_encoder()
    assert encoder is not None
    assert (list(logging.getLogger().handlers), logging.getLogger().level) == before
    names = class_names()
    assert len(names) == 1000
    assert encoder.known_words("Where are the buses and the clock?") == ["buses", "clock"]
    assert encoder.known_words("What is the tax? Read the total.") == []
    for query, wanted in (("Where is the clock?", "clock"), ("Find the microwave.", "microwave")):
        best = names[int(encoder.class_weights(query).argmax())]
        assert any(wanted in name for name in best), best
    # Two routes: the network's own answer, and the mean of its class map.
    pixels = torch.rand(1, 3, 448, 448, generator=torch.Generator().manual_seed(0))
    logits = encoder.class_logits(pixels)
    assert logits.shape == (1, 1000, 14, 14)
    plain = encoder.classifier(pixels * 2 - 1)
    assert torch.allclose(logits.mean((2, 3)), plain, atol=1e-3)
    assert encoder.couple(torch.rand(2, 3, 100, 300), "a dog").shape[0] == 2


def test_words_and_photo_map_join_and_silence_takes_no_part():
    words, photo = np.array([[1.0, 1, 0, 0]]), np.array([[1.0, 0, 1, 0]])
    both, one, other, none = coupled_with(words, photo)[0]
    assert both > one == other > none == 0
    assert np.array_equal(coupled_with(words, 0 * photo), words)
    assert np.array_equal(coupled_with(0 * words, photo), photo)
    assert np.allclose(coupled_with(torch.from_numpy(words), torch.from_numpy(photo)), coupled_with(words, photo))
