"""The question is found in the chat."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import picture, tiny_model

from arr_coc.core.folders import MINI, part_folder
from arr_coc.realizing.base import backbone_for
from arr_coc.realizing.bundled import without_markers
from arr_coc.realizing.query import find_questions, load_processor


def ask(processor: Any, *chats: list[dict[str, Any]], generation: bool = True) -> list[str]:
    pictures = [
        picture(64, 64) for chat in chats for turn in chat for part in turn["content"] if part["type"] == "image"
    ]
    texts = [processor.apply_chat_template(chat, add_generation_prompt=generation, tokenize=False) for chat in chats]
    inputs = processor(text=texts, images=pictures or None, padding=True, return_tensors="pt")
    return find_questions(backbone_for(tiny_model()), processor, inputs)


def turn(role: str, *parts: str | None) -> dict[str, Any]:
    """None stands for a picture."""
    return {
        "role": role,
        "content": [{"type": "image"} if part is None else {"type": "text", "text": part} for part in parts],
    }


@pytest.mark.parametrize("generation", [True, False])
def test_the_last_user_turn_of_every_row(processor: Any, generation: bool) -> None:
    assert ask(
        processor,
        [turn("system", "be brief"), turn("user", None, "what colour is the square?")],
        [turn("user", None, "how many"), turn("assistant", "three"), turn("user", "and where, exactly — left?")],
        [turn("user", "the text comes first", None, None)],
        generation=generation,
    ) == ["what colour is the square?", "and where, exactly — left?", "the text comes first"]


def test_a_turn_of_pictures_only_asks_nothing(processor: Any) -> None:
    assert ask(processor, [turn("user", None)]) == [""]


def test_a_prompt_without_turns_is_one_question(processor: Any) -> None:
    inputs = processor.tokenizer("what colour", return_tensors="pt")
    assert find_questions(backbone_for(tiny_model()), processor, inputs) == ["what colour"]


def test_the_question_is_the_one_the_user_wrote() -> None:
    """In mini's tokenizer the role and its line break are one token, and the question mark stands for the unknown."""
    mini = load_processor(part_folder(MINI))
    question = "What does the pink sign say?"
    assert ask(mini, [turn("user", None, question)], [turn("user", question, None)]) == [question, question]


@pytest.mark.parametrize("question", ["is <|image_pad|> a <|im_end|>?", "<|im_start|>", "what colour is it"])
def test_markers_in_a_question_are_text(processor: Any, question: str) -> None:
    markers = processor.tokenizer.get_added_vocab()
    plain = without_markers(question, markers)
    assert not any(marker in plain for marker in markers)
    assert plain.replace("< |", "<|") == question
