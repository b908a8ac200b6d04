"""Find pictures, documents and questions in requests: the protocols as data, and one search for all of them.

A picture belongs to the text of its own message, or else to the user's last text before it, so that later messages
never change how it is packed.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import takewhile

from ...core.values import JsonObject


@dataclass(frozen=True)
class Form:
    """How a part of a message holds a file. data: the path to a data: URL, as keys joined by dots; or to base64, if
    `media` is the path to its media type."""

    data: str
    media: str = ""

    def read(self, part: JsonObject) -> str:
        """Return the file as a data: URL, or its address; "" if it has neither."""
        found, media = held(part, self.data), held(part, self.media)
        return "" if not isinstance(found, str) else f"data:{media};base64,{found}" if self.media else found

    def written(self, part: JsonObject, data: bytes, media: str) -> JsonObject:
        """Return a copy of the part with another picture and without `cache_control`."""
        part = {key: deepcopy(value) for key, value in part.items() if key != "cache_control"}
        text = base64.b64encode(data).decode()
        values = {self.data: text, self.media: media} if self.media else {self.data: f"data:{media};base64,{text}"}
        for way, value in values.items():
            outer, _, last = way.rpartition(".")
            inside = part if not outer else part.get(outer)
            if not isinstance(inside, dict):
                part[outer] = inside = {}
            inside[last] = value
        return part


def held(part: object, way: str) -> object:
    for key in way.split("."):
        part = part.get(key) if isinstance(part, dict) else part if isinstance(part, str) else None
    return part


# Type of a part → its form; Google's parts have no type, but a key of this name.
FORMS = {
    "image_url": Form("image_url.url"),
    **dict.fromkeys(("input_image", "computer_screenshot"), Form("image_url")),
    **dict.fromkeys(("image", "document"), Form("source.data", "source.media_type")),
    "file": Form("file.file_data"),
    "input_file": Form("file_data"),
    "inlineData": Form("inlineData.data", "inlineData.mimeType"),
    "inline_data": Form("inline_data.data", "inline_data.mime_type"),
}
# Keys under which messages and parts hold parts; under those of `ALONE` exactly one picture is allowed.
INSIDE = ("content", "output", "parts", "functionResponse", "function_response")
ALONE = ("output", "functionResponse", "function_response")


@dataclass(frozen=True, eq=False)
class Slot:
    """A picture or document of a request. part: the part that holds it. holder: the list with that part; None if it
    must be exactly one picture. question: the text it belongs to. address: a data: URL, another URL, or ""."""

    part: JsonObject
    holder: list[object] | None
    question: str
    address: str

    @property
    def is_document(self) -> bool:
        return self.address[:21].lower() == "data:application/pdf;"

    @property
    def is_open(self) -> bool:
        """Return whether it is a data: URL that may be replaced; cited documents and low detail may not."""
        low = (held(self.part, "image_url.detail") or self.part.get("detail")) == "low"
        return self.address[:5].lower() == "data:" and not low and not held(self.part, "citations.enabled")

    def fill(self, protocol: Protocol, pictures: Sequence[tuple[bytes, str]], texts: Sequence[str]) -> None:
        """Replace it in the request by other pictures, with texts before them."""
        if self.holder is None:
            return self.part.update(FORMS[form_name(self.part)].written(self.part, *pictures[0]))
        model = protocol.picture if self.is_document else self.part
        shown = [FORMS[form_name(model)].written(model, *one) for one in pictures]
        parts = [*(protocol.text(text) for text in texts if text), *shown]
        if "cache_control" in self.part:  # move the mark to the last of the new parts
            parts[-1]["cache_control"] = self.part["cache_control"]
        place = next(number for number, one in enumerate(self.holder) if one is self.part)
        self.holder[place : place + 1] = parts
        return None


@dataclass(frozen=True)
class Protocol:
    """The requests of one API. path: a pattern of the end of its path; hosts may put a prefix before it. messages,
    parts: keys of the messages, and of their parts. words, picture: empty parts for a text and for a picture. error:
    fields of its errors besides OpenAI's."""

    path: str
    messages: str
    parts: str
    words: JsonObject
    picture: JsonObject
    error: Mapping[str, str] = field(default_factory=dict)

    def text(self, text: str) -> JsonObject:
        return {**self.words, "text": text}

    def find(self, body: JsonObject) -> tuple[list[Slot], str]:
        """Return the slots of a request in order, and its latest question; "" if the model has begun to answer it."""
        messages = objects(body.get(self.messages))
        # Only before the first answer of the model may a question come after the message with its picture.
        question = next((said for said in map(self.said, takewhile(from_user, messages)) if said), "")
        slots: list[Slot] = []
        for message in messages:
            question = self.said(message) or question
            slots += slots_in(message, question)
        return slots, question if messages and from_user(messages[-1]) else ""

    def said(self, message: JsonObject) -> str:
        """Return the text of a user's message; "" for other messages."""
        content = message.get(self.parts)
        parts = [{"text": content}] if isinstance(content, str) else objects(content)
        texts = [part.get("text") for part in parts if part.get("type") in (None, "text", "input_text")]
        words = "\n".join(one for one in texts if isinstance(one, str)).strip()
        return words if message.get("role", "user") == "user" else ""

    def add(self, body: JsonObject, pictures: Sequence[tuple[bytes, str]], text: str) -> None:
        """Append pictures and a text: to the last message if it has the latest question, else as a new message."""
        form = FORMS[form_name(self.picture)]
        parts = [self.text(text), *(form.written(self.picture, *one) for one in pictures)]
        last = body[self.messages][-1]
        content = last.get(self.parts)
        if self.said(last):
            last[self.parts] = [*([self.text(content)] if isinstance(content, str) else content), *parts]
        else:
            body[self.messages].append({"role": "user", self.parts: parts})


PROTOCOLS = (
    Protocol("/chat/completions$", "messages", "content", {"type": "text"}, {"type": "image_url"}),
    Protocol("/responses$", "input", "content", {"type": "input_text"}, {"type": "input_image", "detail": "auto"}),
    Protocol(
        path="/messages$",
        messages="messages",
        parts="content",
        words={"type": "text"},
        picture={"type": "image", "source": {"type": "base64"}},
        error={"type": "error"},
    ),
    Protocol(":(stream)?[gG]enerateContent$", "contents", "parts", {}, {"inlineData": {}}),
)


def protocol_of(path: str) -> Protocol | None:
    """Return the protocol of a path, or None if its requests only pass through."""
    return next((one for one in PROTOCOLS if re.search(one.path, path)), None)


def model_of(body: JsonObject, path: str) -> object:
    """Return the name of the model, from the body or the path."""
    return body.get("model") or next(iter(re.findall("/models/([^/:]+):", path)), None)


def slots_in(
    part: JsonObject, question: str, holder: list[object] | None = None, alone: bool = False
) -> Iterator[Slot]:
    """Yield a slot for every picture and document of a message or part."""
    if form_name(part):
        yield Slot(part, holder, question, FORMS[form_name(part)].read(part))
        return
    for key in INSIDE:
        value = part.get(key)
        only = alone or (key in ALONE and not isinstance(value, list))
        for one in [value] if isinstance(value, dict) else objects(value):
            yield from slots_in(one, question, value if isinstance(value, list) and not only else None, only)


def form_name(part: JsonObject) -> str:
    """Return the name of a part's form; "" if it has no file."""
    kind = part.get("type")
    names = (kind,) if isinstance(kind, str) else ("inlineData", "inline_data")
    return next((name for name in names if name in FORMS and (name == kind or name in part)), "")


def objects(value: object) -> list[JsonObject]:
    """Return the objects in a list; [] if it is not a list."""
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def from_user(message: JsonObject) -> bool:
    """Return whether a message comes from the user's side (people, tools, programs) and not from the model."""
    kind = str(message.get("type", "message"))
    if "role" in message:
        return message["role"] not in ("assistant", "model")
    return kind == "message" or kind.endswith("_output")
