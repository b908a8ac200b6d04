"""OpenAI's own client against `arr-coc serve`: every field, conversations, many at once, and clients that leave."""

from __future__ import annotations

import io
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import copy
from typing import Any
from urllib.parse import urlsplit

import pytest
from PIL import Image
from serve_client import PINK, SIGNS, STREET, Served, data_url, until

from arr_coc.options import Options

GRAY = "What does the gray sign say?"


def part_of_street(*box: int) -> bytes:
    memory = io.BytesIO()
    with Image.open(STREET) as street:
        street.crop(box).save(memory, "PNG")
    return memory.getvalue()


OTHER = part_of_street(100, 50, 420, 274)
SMALL = part_of_street(300, 100, 428, 164)
MIDDLE = part_of_street(400, 60, 592, 188)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def image(data: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(data)}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def said(words: str) -> dict[str, Any]:
    return {"role": "assistant", "content": words}


def system(words: str) -> dict[str, Any]:
    return {"role": "system", "content": words}


def agree(found: Any, answer: Any) -> None:
    """An answer of the server and one of `Eye.ask`."""
    assert found.choices[0].message.content == answer.text
    assert (found.arr_coc["tokens"], found.arr_coc["full"]) == (answer.tokens, answer.full)
    assert found.arr_coc["uncertainty"] == pytest.approx(answer.uncertainty, abs=1e-3)
    assert found.arr_coc["notes"] == list(answer.notes)
    given = found.arr_coc["allocation"]
    assert (given if isinstance(given, list) else [given]) == [look.allocation.to_json() for look in answer.passes]


WANT = {"want": ["allocation"]}
WORDS = [{"text": "coffee", "box": [0.1, 0.1, 0.2, 0.15]}, {"text": "open", "box": [0.6, 0.7, 0.8, 0.8]}]


@pytest.mark.parametrize(
    ("own", "how"),
    [
        ({"budget": 24}, {"budget": 24}),
        ({"budget": "50%"}, {"budget": 0.5}),
        ({"budget": "30%"}, {"budget": 0.3}),
        ({"budget": 999}, {"budget": 999}),
        ({}, {"budget": 0.25}),
        ({"budget": 24, "relevance": "detail"}, {"budget": 24, "relevance": "detail"}),
        ({"budget": 24, "relevance": "glance"}, {"budget": 24, "relevance": "glance"}),
        ({"budget": 24, "strategy": "uniform"}, {"budget": 24, "strategy": "uniform"}),
        ({"budget": 24, "words": WORDS}, {"budget": 24, "words": WORDS}),
        ({"budget": 24, "words": {"words": WORDS}}, {"budget": 24, "words": WORDS}),
    ],
    ids=lambda value: "-".join(f"{name}={str(one)[:12]}" for name, one in value.items()) or "nothing",
)
def test_every_field_means_what_it_does_in_ask(server: Served, eye: Any, own: Any, how: Any) -> None:
    agree(server.ask(own={**own, **WANT}), copy(eye).set_image(SIGNS).ask(PINK, options=Options(**how)))


CHATS: dict[str, tuple[list[Any], Any]] = {
    "a system text": ([system("Read."), user(image(SIGNS), text(PINK))], 24),
    "a developer's": ([{"role": "developer", "content": [text("Read.")]}, user(image(SIGNS), text(PINK))], 24),
    "a second turn": ([user(image(SIGNS), text(PINK)), said("COFFEE"), user(text(GRAY))], 40),
    "a second turn, as a string": (
        [user(image(SIGNS), text(PINK)), said("COFFEE"), {"role": "user", "content": GRAY, "name": "x"}],
        40,
    ),
    "two pictures": ([user(image(SIGNS), image(OTHER), text(PINK))], 24),
    "two pictures, two budgets": ([user(image(SIGNS), image(OTHER), text(PINK))], [30, 12]),
    "words between pictures": ([user(text("One:"), image(SIGNS), text("Two:"), image(SMALL), text(PINK))], [30, 4]),
    "a picture in each turn": (
        [system("Read."), user(image(OTHER), text(GRAY)), said("NO"), user(image(SIGNS), text(PINK))],
        [10, 24],
    ),
    "three pictures": ([user(image(SMALL), image(SIGNS), image(SMALL), text(PINK))], 8),
}


def turns_of(chat: list[Any]) -> list[Any]:
    """The same conversation for `Eye.ask`, put together here a second time."""
    from arr_coc.answering.chat import Turn
    from arr_coc.pictures.load import load_picture

    pictures = {data_url(one): one for one in (SIGNS, OTHER, SMALL)}
    turns = []
    for message in chat:
        content = message["content"]
        parts = [text(content)] if isinstance(content, str) else content
        turns.append(
            Turn(
                message["role"].replace("developer", "system"),
                tuple(
                    part["text"] if part["type"] == "text" else load_picture(pictures[part["image_url"]["url"]])
                    for part in parts
                ),
            )
        )
    return turns


@pytest.mark.parametrize("name", CHATS)
def test_a_conversation_is_that_of_the_eye(server: Served, eye: Any, name: str) -> None:
    chat, budget = CHATS[name]
    found, turns = server.talk(chat, {"budget": budget, **WANT}), turns_of(chat)
    answer = eye.ask(turns, budget)
    agree(found, answer)
    assert isinstance(found.arr_coc["allocation"], list) == (len(answer.passes) > 1)
    # By another route: the stock template, its text counted whole, one placeholder for each token that was spent. The
    # bundled model reads the last turn only, and sees all pictures.
    earlier = [part for turn in turns[:-1] for part in turn.parts if not isinstance(part, str)]
    read = [text(part) if isinstance(part, str) else {"type": "image"} for part in (*earlier, *turns[-1].parts)]
    plain = [{"role": "user", "content": read}]
    assert any("was not read" in note for note in answer.notes) == (len(turns) > 1)
    written = eye.processor.apply_chat_template(plain, add_generation_prompt=True, tokenize=False)
    ids = eye.processor.tokenizer(written).input_ids
    assert found.usage.prompt_tokens == len(ids) - len(answer.passes) + answer.tokens


def test_a_conversation_streams(server: Served, eye: Any) -> None:
    chat, budget = CHATS["a picture in each turn"]
    chunks = list(server.talk(chat, {"budget": budget, **WANT}, stream=True, stream_options={"include_usage": True}))
    answer = eye.ask(turns_of(chat), budget)
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices]
    assert "".join(piece or "" for piece in pieces) == answer.text
    assert chunks[-2].arr_coc["tokens"] == answer.tokens == 34
    assert chunks[-2].arr_coc["allocation"] == [look.allocation.to_json() for look in answer.passes]
    assert chunks[-1].usage.total_tokens == chunks[-1].usage.prompt_tokens + chunks[-1].usage.completion_tokens


def test_text_before_the_picture_is_read_after_it(server: Served, eye: Any) -> None:
    """As OpenAI's own examples put it; models are taught the other order."""
    found = server.talk([user(text("Please."), text(PINK), image(SIGNS))], {"budget": 24, **WANT})
    agree(found, copy(eye).set_image(SIGNS).ask(f"Please.\n{PINK}", budget=24))


def test_what_steers_is_the_last_question_or_the_query(server: Served, eye: Any) -> None:
    chat = [user(image(SIGNS), text(PINK)), said("COFFEE"), user(text(GRAY))]
    own = copy(eye).set_image(SIGNS)
    for query, wanted in ((None, GRAY), (PINK, PINK)):
        found = server.talk(chat, {"budget": 24, "query": query, **WANT})
        assert found.arr_coc["allocation"] == own.ask(wanted, budget=24).allocation.to_json()


def test_words_and_allocations_are_lists_for_several_pictures(server: Served, eye: Any) -> None:
    chat, _ = CHATS["two pictures"]
    turns = turns_of(chat)
    agree(
        server.talk(chat, {"budget": 24, "words": [WORDS, None], **WANT}),
        eye.ask(turns, 24, options=Options(words=[WORDS, None])),
    )
    answer = eye.ask(turns, [12, 20])
    decided = [look.allocation.to_json() for look in answer.passes]
    again = server.talk(chat, {"allocation": decided, **WANT})
    assert again.choices[0].message.content == answer.text
    assert again.arr_coc["allocation"] == decided


@pytest.mark.parametrize(
    ("chat", "own", "part"),
    [
        ([], {}, "at least 1"),
        ([user(image(SIGNS), text(PINK)), said("x")], {}, "last turn"),
        ([system("x")], {}, "last turn"),
        ([user(text(PINK))], {}, "no picture"),
        ([{"role": "tool", "content": "x", "tool_call_id": "1"}, user(image(SIGNS), text(PINK))], {}, "tool"),
        ([{"role": "assistant", "content": [image(SIGNS)]}, user(text(PINK))], {}, "turns of the user"),
        ([user(image(SIGNS), {"type": "input_audio", "input_audio": {}})], {}, "input_audio"),
        ([{"role": "user", "content": None}], {}, "content"),
        ([user(image(SIGNS), text(" "))], {}, "empty"),
        ([system("x" * 40_000), user(image(SIGNS), text(PINK))], {}, "conversation"),
        (CHATS["two pictures"][0], {"budget": [1, 2, 3]}, "3 budgets for 2"),
        (CHATS["two pictures"][0], {"budget": [24, 0]}, "budget"),
        (CHATS["two pictures"][0], {"words": WORDS[:1]}, "one entry for each"),
        (CHATS["two pictures"][0], {"words": ["/etc/passwd", None]}, "words"),
        (CHATS["two pictures"][0], {"allocation": {}}, "not an allocation"),
        ([user(image(SIGNS), text(PINK))], {"query": "x" * 5000}, "5000"),
    ],
)
def test_conversations_that_are_refused(server: Served, chat: list[Any], own: Any, part: str) -> None:
    from openai import BadRequestError

    with pytest.raises(BadRequestError) as raised:
        server.talk(chat, own)
    words = raised.value.response.json()["error"]["message"]
    assert part in words
    assert "\n" not in words


def test_budgets_have_a_default_and_a_ceiling(serving: Callable[..., Any], eye: Any) -> None:
    from openai import BadRequestError

    from arr_coc import Allocation

    own = copy(eye).set_image(SIGNS)
    with serving(max_budget=20, budget=12) as served:
        plain = served.ask(own={})
        assert plain.arr_coc["tokens"] == 12
        assert not any("may cost" in note for note in plain.arr_coc["notes"])
        wanted = own.ask(PINK, budget=20).allocation.to_json()
        for asked in ({"budget": 64}, {"budget": 0.5}, {"budget": "100%"}):
            lowered = served.ask(own={**asked, **WANT})
            assert lowered.arr_coc["tokens"] == 20
            assert any("20 tokens" in note for note in lowered.arr_coc["notes"])
            assert lowered.arr_coc["allocation"] == wanted
        two = served.talk(CHATS["two pictures"][0], {"budget": [64, 4], **WANT})
        assert [Allocation.from_json(one).tokens for one in two.arr_coc["allocation"]] == [20, 4]
        with pytest.raises(BadRequestError, match="at most 20"):
            served.ask(own={"allocation": own.ask(PINK, budget=24).allocation.to_json()})


def test_two_dozen_at_once(serving: Callable[..., Any], eye: Any) -> None:
    """All kinds together: questions, budgets, sources, conversations, streams; everyone gets what is theirs."""
    own = copy(eye).set_image(MIDDLE)
    chat, budget = CHATS["a second turn"]
    kinds: list[tuple[Any, Any, bool]] = [
        ([user(image(MIDDLE), text(question))], how, stream)
        for question, how, stream in (
            (PINK, {"budget": 8}, False),
            (GRAY, {"budget": 12}, True),
            (PINK, {"budget": 12, "relevance": "glance"}, True),
            (GRAY, {"budget": 8, "relevance": "glance"}, False),
            (GRAY, {"budget": 1.0}, False),
        )
    ]
    kinds.append((chat, {"budget": budget}, False))
    wanted = [own.ask(messages[-1]["content"][-1]["text"], options=Options(**how)) for messages, how, _ in kinds[:-1]]
    wanted.append(eye.ask(turns_of(chat), budget))

    batches = []

    def ask(number: int) -> tuple[str, int]:
        messages, how, stream = kinds[number % len(kinds)]
        answer = served.talk(messages, how, stream=stream)
        if not stream:
            batches.append(answer.arr_coc["batch"])
            return answer.choices[0].message.content, answer.arr_coc["tokens"]
        chunks = list(answer)
        return "".join(chunk.choices[0].delta.content or "" for chunk in chunks), chunks[-1].arr_coc["tokens"]

    with serving() as served, ThreadPoolExecutor(24) as pool:
        found = list(pool.map(ask, range(24)))
    assert max(batches) > 1
    assert found == [(wanted[number % len(kinds)].text, wanted[number % len(kinds)].tokens) for number in range(24)]


# ---- other models ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A model by its path, drawn at random, that goes on for as long as it may."""
    pytest.importorskip("torch")
    from tiny_models import save_stock

    from arr_coc import Eye

    eye = Eye.from_pretrained(str(save_stock(tmp_path_factory.mktemp("endless"))), relevance="detail")
    eye.model.generation_config.eos_token_id = []
    return eye


def test_a_client_that_hangs_up_while_it_is_told_ends_its_row(serving: Callable[..., Any], endless: Any) -> None:
    """A bare socket, closed after the first words of an answer that would take minutes."""
    body = {"model": endless.engine.name, "messages": [user(image(SMALL), text("what colour"))], "stream": True}
    sent = json.dumps({**body, "max_tokens": 100_000}).encode()
    with serving(model=endless, new_tokens=100_000) as served:
        place = urlsplit(served.address)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {len(sent)}\r\n"
        head += "Content-Type: application/json\r\n\r\n"
        with socket.create_connection((place.hostname or "", place.port or 0), timeout=60) as line:
            line.sendall(head.encode() + sent)
            heard = b""
            while heard.count(b"data: ") < 4:
                piece = line.recv(4096)
                assert piece, heard
                heard += piece
        until(lambda: served.counted("arr_coc_batch_size_count") == 1)
        assert served.talk(body["messages"], {}, max_tokens=3).usage.completion_tokens == 3


def test_a_time_limit_ends_a_stream_and_its_row(serving: Callable[..., Any], endless: Any) -> None:
    from openai import APIError, APIStatusError

    with serving(model=endless, new_tokens=100_000, seconds=1) as served:
        chat = [user(image(SMALL), text("what colour"))]
        with pytest.raises(APIStatusError) as raised:
            served.talk(chat, {}, max_tokens=100_000)
        assert raised.value.status_code == 504
        with pytest.raises(APIError, match="no answer within 1 s"):
            list(served.talk(chat, {}, max_tokens=100_000, stream=True))
        until(lambda: served.counted("arr_coc_batch_size_count") == 2)


@pytest.mark.parametrize("stream", [False, True])
def test_a_family_that_merges_is_served_by_its_path(
    serving: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory, stream: bool
) -> None:
    from merging_families import save_family

    from arr_coc import Eye

    folder = tmp_path_factory.mktemp("merging")
    model = Eye.from_pretrained(str(save_family(folder, "qwen2_5_vl")), relevance="detail")
    chat = [system("w30"), user(image(SIGNS), text("w20 w21")), said("w22"), user(image(OTHER), text("w23"))]
    answer = model.ask(turns_of(chat), [9, 6], options=Options(max_new_tokens=5))
    with serving(model=model) as served, ThreadPoolExecutor(4) as pool:
        how = {"max_tokens": 5, "stream": stream}
        asked = [pool.submit(served.talk, chat, {"budget": [9, 6], **WANT}, **how) for _ in range(4)]
        for one in asked:
            if stream:
                chunks = list(one.result())
                assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == answer.text
                assert chunks[-1].choices[0].finish_reason == "length"
            else:
                agree(one.result(), answer)
        with ThreadPoolExecutor(1) as other:
            refused = other.submit(served.talk, [user(image(SIGNS), text("w20"))], {"budget": 0})
            assert "budget" in str(refused.exception())
