"""Where pictures and questions stand in the requests of three protocols, and how packed pictures take their place.

OpenAI's chat completions and responses, and Anthropic's messages. Nothing else in a request is looked at.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...core.values import JsonObject

CHAT, RESPONSES, MESSAGES = "/v1/chat/completions", "/v1/responses", "/v1/messages"
# Parts that are nested deeper are no conversation.
DEEPEST = 4
NOT_PACKED = ("low",)


@dataclass(eq=False)
class Slot:
    """One picture of a request. address: a data: URL or another. parts: what is to stand in its place, once it is
    known; None leaves it as it is. detail: as OpenAI's clients ask for it."""

    address: str
    part: Any
    detail: str | None = None
    parts: list[object] | None = None


@dataclass(eq=False)
class Found:
    """The pictures of a request and its question: the user's last text. `apply` puts in what was packed."""

    slots: list[Slot] = field(default_factory=list)
    question: str = ""
    lists: list[list[object]] = field(default_factory=list)

    def apply(self) -> None:
        """In the request itself."""
        taken = {id(slot.part): slot.parts for slot in self.slots if slot.parts is not None}
        for content in self.lists:
            content[:] = [new for part in content for new in taken.get(id(part), [part])]


@dataclass(frozen=True)
class Protocol:
    """find: the pictures of a body. made: parts that show packed pictures in place of one. answers: the texts of an
    answer, as (holder, key)."""

    name: str
    find: Callable[[JsonObject], Found]
    made: Callable[[JsonObject, Sequence[tuple[bytes, str]], str], list[object]]
    answers: Callable[[JsonObject], Iterator[tuple[JsonObject, str]]]


def data_url(data: bytes, media: str) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def objects(value: object) -> list[JsonObject]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def texts_in(content: object, kinds: Sequence[str]) -> str:
    """The texts of a message's content, joined."""
    if isinstance(content, str):
        return content
    texts = [
        part["text"] for part in objects(content) if part.get("type") in kinds and isinstance(part.get("text"), str)
    ]
    return "\n".join(texts)


def walk(
    messages: object, address: Callable[[JsonObject], tuple[str, str | None] | None], kinds: Sequence[str]
) -> Found:
    """Messages whose content is a list of parts. address: of a part that is a picture, with its detail."""
    found = Found()

    def look_into(content: object, depth: int) -> None:
        if not isinstance(content, list) or depth > DEEPEST:
            return
        found.lists.append(content)
        for part in objects(content):
            place = address(part)
            if place is not None:
                found.slots.append(Slot(place[0], part, place[1]))
            elif part.get("type") == "tool_result":
                look_into(part.get("content"), depth + 1)

    for message in objects(messages):
        content = message.get("content")
        own = texts_in(content, kinds)
        if message.get("role", "user") == "user" and own.strip():
            found.question = own
        look_into(content, 0)
    return found


# ---- OpenAI ----------------------------------------------------------------------------------------------------------


def chat_picture(part: JsonObject) -> tuple[str, str | None] | None:
    held = part.get("image_url")
    url = held.get("url") if isinstance(held, dict) else held
    if part.get("type") != "image_url" or not isinstance(url, str):
        return None
    return url, held.get("detail") if isinstance(held, dict) else None


def chat_made(part: JsonObject, pictures: Sequence[tuple[bytes, str]], text: str) -> list[object]:
    held = part["image_url"] if isinstance(part["image_url"], dict) else {}
    shown = [{**part, "image_url": {**held, "url": data_url(*one)}} for one in pictures]
    return [*([{"type": "text", "text": text}] if text else []), *shown]


def chat_answers(body: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    for choice in objects(body.get("choices")):
        message = choice.get("message")
        if isinstance(message, dict) and isinstance(message.get("content"), str):
            yield message, "content"


def responses_picture(part: JsonObject) -> tuple[str, str | None] | None:
    url = part.get("image_url")
    return (url, part.get("detail")) if part.get("type") == "input_image" and isinstance(url, str) else None


def responses_made(part: JsonObject, pictures: Sequence[tuple[bytes, str]], text: str) -> list[object]:
    shown = [{**part, "image_url": data_url(*one)} for one in pictures]
    return [*([{"type": "input_text", "text": text}] if text else []), *shown]


def parts_answers(body: JsonObject) -> Iterator[tuple[JsonObject, str]]:
    """Texts in `content`, as Anthropic answers, or in `output[].content`, as OpenAI's responses do."""
    for holder in (body, *objects(body.get("output"))):
        for part in objects(holder.get("content")):
            if isinstance(part.get("text"), str):
                yield part, "text"


# ---- Anthropic -------------------------------------------------------------------------------------------------------


def messages_picture(part: JsonObject) -> tuple[str, str | None] | None:
    source = part.get("source")
    if part.get("type") != "image" or not isinstance(source, dict):
        return None
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return f"data:{source.get('media_type')};base64,{source['data']}", None
    return (source["url"], None) if source.get("type") == "url" and isinstance(source.get("url"), str) else None


def messages_made(part: JsonObject, pictures: Sequence[tuple[bytes, str]], text: str) -> list[object]:
    rest = {key: value for key, value in part.items() if key not in ("source", "cache_control")}
    shown = [
        {**rest, "source": {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}}
        for data, media in pictures
    ]
    if "cache_control" in part:  # behind all that stands for the picture, as it stood behind the picture
        shown[-1]["cache_control"] = part["cache_control"]
    return [*([{"type": "text", "text": text}] if text else []), *shown]


PROTOCOLS: dict[str, Protocol] = {
    CHAT: Protocol("chat", lambda body: walk(body.get("messages"), chat_picture, ("text",)), chat_made, chat_answers),
    RESPONSES: Protocol(
        "responses",
        lambda body: walk(body.get("input"), responses_picture, ("input_text", "text")),
        responses_made,
        parts_answers,
    ),
    MESSAGES: Protocol(
        "messages", lambda body: walk(body.get("messages"), messages_picture, ("text",)), messages_made, parts_answers
    ),
}


def protocol_of(path: str) -> Protocol | None:
    """By the end of the path: hosts put their own beginnings before it."""
    for ending, protocol in PROTOCOLS.items():
        if path == ending or path.endswith(ending) or re.search(rf"{re.escape(ending.removeprefix('/v1'))}$", path):
            return protocol
    return None
