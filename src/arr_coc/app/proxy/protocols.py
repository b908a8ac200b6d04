"""Where pictures and questions stand in requests and answers: one row of `PROTOCOLS` for each way of asking.

Nothing else in a request is looked at.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ...core.values import JsonObject


@dataclass(frozen=True, eq=False)
class Slot:
    """One picture of a request.

    address: a data: URL or another. part: the part of a message that shows it. content: the list in which that stands.
    detail: as OpenAI's clients ask for it.
    """

    address: str
    part: JsonObject
    content: list[object]
    detail: object = None

    def fill(self, parts: Sequence[JsonObject]) -> None:
        """Put other parts in its place, in the request itself."""
        place = next(number for number, one in enumerate(self.content) if one is self.part)
        self.content[place : place + 1] = parts


@dataclass(frozen=True)
class Protocol:
    """How one API is spoken.

    Args:
        path: The end of its path; hosts put their own beginnings before it.
        messages: The key of the messages in a body.
        texts: Types of parts that hold text, the type of new ones first.
        picture: The type of parts that show a picture.
        read: Gives address and detail of such a part.
        write: Gives what changes in such a part where it shows another picture, (bytes, media type).
        error: What an error has beside OpenAI's fields.
    """

    path: str
    messages: str
    texts: tuple[str, ...]
    picture: str
    read: Callable[[JsonObject], tuple[object, object]]
    write: Callable[[JsonObject, bytes, str], JsonObject]
    error: Mapping[str, str] = field(default_factory=dict)

    def find(self, body: JsonObject) -> tuple[list[Slot], str]:
        """The pictures of a request, and its question: the user's last text."""
        slots: list[Slot] = []
        question = ""
        for message in objects(body.get(self.messages)):
            content = message.get("content")
            parts = [{"type": self.texts[0], "text": content}] if isinstance(content, str) else objects(content)
            said = [part.get("text") for part in parts if part.get("type") in self.texts]
            text = "\n".join(one for one in said if isinstance(one, str))
            if message.get("role", "user") == "user" and text.strip():
                question = text
            slots += self._slots(content)
        return slots, question

    def _slots(self, content: object) -> Iterator[Slot]:
        for part in objects(content):
            address, detail = self.read(part) if part.get("type") == self.picture else (None, None)
            if isinstance(address, str) and isinstance(content, list):
                yield Slot(address, part, content, detail)
            elif part.get("type") == "tool_result":
                yield from self._slots(part.get("content"))

    def made(self, part: JsonObject, pictures: Sequence[tuple[bytes, str]], text: str) -> list[JsonObject]:
        """Parts that show packed pictures in place of one, with a text before them."""
        rest = {key: value for key, value in part.items() if key != "cache_control"}
        shown = [{**rest, **self.write(part, *one)} for one in pictures]
        if "cache_control" in part:  # behind all that stands for the picture, as it stood behind the picture
            shown[-1]["cache_control"] = part["cache_control"]
        return [*([{"type": self.texts[0], "text": text}] if text else []), *shown]


def objects(value: object) -> list[JsonObject]:
    """The objects of a list, where it is one."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def data_url(data: bytes, media: str) -> str:
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


def chat_address(part: JsonObject) -> tuple[object, object]:
    held = part.get("image_url")
    return (held.get("url"), held.get("detail")) if isinstance(held, dict) else (held, None)


def chat_picture(part: JsonObject, data: bytes, media: str) -> JsonObject:
    held = part["image_url"] if isinstance(part["image_url"], dict) else {}
    return {"image_url": {**held, "url": data_url(data, media)}}


def messages_address(part: JsonObject) -> tuple[object, object]:
    source = part.get("source")
    source = source if isinstance(source, dict) else {}
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return f"data:{source.get('media_type')};base64,{source['data']}", None
    return source.get("url") if source.get("type") == "url" else None, None


def messages_picture(part: JsonObject, data: bytes, media: str) -> JsonObject:
    return {"source": {"type": "base64", "media_type": media, "data": base64.b64encode(data).decode()}}


PROTOCOLS = (
    Protocol(
        path="/chat/completions",
        messages="messages",
        texts=("text",),
        picture="image_url",
        read=chat_address,
        write=chat_picture,
    ),
    Protocol(
        path="/responses",
        messages="input",
        texts=("input_text", "text"),
        picture="input_image",
        read=lambda part: (part.get("image_url"), part.get("detail")),
        write=lambda part, data, media: {"image_url": data_url(data, media)},
    ),
    Protocol(
        path="/messages",
        messages="messages",
        texts=("text",),
        picture="image",
        read=messages_address,
        write=messages_picture,
        error={"type": "error"},
    ),
)


def protocol_of(path: str) -> Protocol | None:
    """The protocol of a path; None: such requests only pass through."""
    return next((one for one in PROTOCOLS if path.endswith(one.path)), None)
