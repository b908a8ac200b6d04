"""Translate click coordinates: a model clicks in the reduced pictures that it sees, clients in those that they sent.

If a request declares a tool that takes coordinates, all its pictures are reduced by the same two factors, so that one
rule translates every coordinate: of answers, streamed ones too, and in reverse of earlier calls in the request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from ...core.errors import InputError, of_kind
from ...core.values import JsonObject
from .protocols import objects

# Tools of providers whose coordinates are pixels of the screen, in arguments that `kind_of` knows.
NATIVE = "computer|computer_use_preview|computer_(20241022|20250124|20251124)|(computer|browser)_toolset_20260801"
# Names of arguments with lists of coordinates; with x, with y; with horizontal and with vertical lengths.
LISTS = "coordinates?|(start|end)(_?coordinate|_?point)?|points?|position|from|to|target|path|region|(bounding_?|b)?box"
NUMBERS = ("((start|end|from|to|mouse)_?)?x[012]?", "((start|end|from|to|mouse)_?)?y[012]?", "(scroll_?|delta_?|d)x")
NUMBERS += ("(scroll_?|delta_?|d)y",)
SCREEN = r"(?i)computer|mouse|click|cursor|drag|scroll|\btap|touch|screen|pointer|hover|viewport|browser"
# Descriptions of coordinates that are shares of a picture, or pixels of a stated size.
SHARES = r"(?i)normali[sz]ed|relative|percent|\b0(\.0)? ?(-|–|to|\.\.) ?1(\.0|00|000)?\b|999|\d{3,} ?[x×] ?\d{3,}"
# Names of numbers that are not coordinates.
PLAIN = "(?i)amount|duration|count|clicks|times|delay|wait|second|(^|_)ms|timeout|index|(^|_)id$|button|step|number|tab"


def kind_of(name: str) -> int | None:
    """Classify an argument by name: its index in `NUMBERS`, -1 for a list, None if it holds no coordinates."""
    if re.fullmatch(LISTS, name, re.IGNORECASE):
        return -1
    return next((place for place, one in enumerate(NUMBERS) if re.fullmatch(one, name, re.IGNORECASE)), None)


@dataclass(frozen=True)
class Pointing:
    """The tools of a request that take coordinates. names: of these tools. display: the one that declares the size of
    the screen. shares: coordinates are shares of the picture and need no translation. frame: from the pixels that the
    model sees to those of its client."""

    names: frozenset[str]
    display: JsonObject | None = None
    shares: bool = False
    frame: PointFrame | None = None

    @classmethod
    def of(cls, body: JsonObject) -> Pointing | None:
        """Find the tools that take coordinates; None if there are none. Raises `InputError` for an unknown kind."""
        names: list[str] = []
        display, shares = None, False
        for entry in objects(body.get("tools")):
            tool = entry["function"] if isinstance(entry.get("function"), dict) else entry
            kind, name = str(tool.get("type") or ""), str(tool.get("name") or "")
            google = objects(tool.get("functionDeclarations") or tool.get("function_declarations"))
            if re.fullmatch(NATIVE, kind):
                names.append(name)
                display = tool if any(key.startswith("display_width") for key in tool) else display
            elif "computerUse" in tool or "computer_use" in tool:
                names.append(name)
                shares = True
            elif re.match("computer|browser_toolset", kind) or any(points(one) for one in google):
                raise InputError(f"the tool {name or kind} uses coordinates of an unknown kind")
            elif points(tool):
                names.append(name)
        if names and display is None and not shares and ("previous_response_id" in body or "conversation" in body):
            raise InputError("the answer may refer to a screen of an earlier request")
        return cls(frozenset(names), display, shares) if names else None

    def within(self, frame: PointFrame, messages: object) -> Pointing:
        """Set the frame; translate the size of the screen and earlier calls in the request into it."""
        self.calls(messages, frame.back)
        held = self.display or {}
        for key in [key for key in held if re.match("display_(width|height)", key)]:
            held[key] = round(held[key] / (frame.across if "width" in key else frame.down))
        return replace(self, frame=frame)

    def is_call(self, value: JsonObject) -> bool:
        return (bool(value.get("name")) and str(value["name"]) in self.names) or "toolset_name" in value

    def calls(self, value: object, frame: PointFrame) -> None:
        """Translate the coordinates of every call of these tools inside `value`, in place."""
        for one in value if isinstance(value, list) else ():
            self.calls(one, frame)
        if not isinstance(value, dict):
            return
        if value.get("type") == "tool_use" and self.is_call(value):
            value["input"] = frame.moved(value.get("input"))
        elif value.get("type") == "computer_call":
            value.update({key: frame.moved(value[key]) for key in ("action", "actions") if key in value})
        elif isinstance(value.get("arguments"), str) and self.is_call(value):
            value["arguments"] = frame.text(value["arguments"])
        else:
            for one in value.values():
                self.calls(one, frame)


def points(tool: JsonObject) -> bool:
    """Return whether a function takes screen coordinates. Raises `InputError` if that is unclear."""
    schema = next((tool[key] for key in ("parameters", "input_schema", "inputSchema") if key in tool), {})
    fields, words = dict(numeric_fields(schema)), json.dumps(tool, ensure_ascii=False)
    places = [name for name, several in fields.items() if (kind := kind_of(name)) is not None and several == (kind < 0)]
    unknown = [name for name in fields if name not in places and not re.search(PLAIN, name)]
    clear = bool(re.search(SCREEN, words)) and not unknown and not re.search(SHARES, words)
    if (places and not clear) or (unknown and re.search("(?i)click|tap|drag|mouse|pointer", str(tool.get("name")))):
        raise InputError(f"the tool {tool.get('name')} may use coordinates of an unknown kind")
    return bool(places)


def numeric_fields(schema: object) -> Iterator[tuple[str, bool]]:
    """Yield the fields of a JSON schema that hold numbers, at any depth, and whether each is a list."""
    for key, value in schema.items() if isinstance(schema, dict) else ():
        for name, one in value.items() if key == "properties" and isinstance(value, dict) else ():
            text = re.sub('"properties".*', "", json.dumps(one))
            if re.search('"(integer|number)"', text) or ('"array"' in text and '"items"' not in text):
                yield name, '"array"' in text
            yield from numeric_fields(one)
        for one in value if isinstance(value, list) else [value]:
            yield from numeric_fields(one) if key != "properties" else ()


@dataclass(frozen=True)
class PointFrame:
    """The pixels of one frame per pixel of another: across, down."""

    across: float
    down: float

    @property
    def back(self) -> PointFrame:
        return PointFrame(1 / self.across, 1 / self.down)

    def at(self, value: float, axis: int, *, edge: bool) -> float:
        """Translate one coordinate, from pixel centre to pixel centre; edges and lengths are only scaled."""
        if isinstance(value, float) and 0 <= value <= 1:  # a share of the picture
            return value
        by = (self.across, self.down)[axis]
        moved = value * by if edge else (value + 0.5) * by - 0.5
        return round(moved) if isinstance(value, int) else moved

    def moved(self, value: object, name: str = "") -> object:
        """Translate the arguments of a call into the other frame."""
        kind = kind_of(name)
        if isinstance(value, dict):
            return {key: self.moved(one, key) for key, one in value.items()}
        if isinstance(value, list):
            if kind == -1 and len(value) in (2, 4) and all(isinstance(one, int | float) for one in value):
                return [self.at(one, place % 2, edge=len(value) == 4) for place, one in enumerate(value)]
            return [self.moved(one, name) for one in value]
        if kind is None or isinstance(value, bool) or not isinstance(value, int | float | str):
            return value
        if isinstance(value, str):
            return self.text(value, name)
        return self.at(value, kind % 2, edge=kind > 1) if kind >= 0 else value

    def text(self, text: str, name: str = "") -> str:
        """Translate arguments written as JSON; other text is returned unchanged."""
        try:
            return json.dumps(self.moved(json.loads(text), name), ensure_ascii=False)
        except ValueError:
            return text


class TranslatedAnswer:
    """An answer with translated calls. streamed: as server-sent events; from the first piece of a call on, events wait
    for the end of the answer; then that piece holds the whole call and its other pieces are empty."""

    def __init__(self, pointing: Pointing, *, streamed: bool) -> None:
        self.pointing, self.frame, self.streamed = pointing, of_kind(pointing.frame, PointFrame, "frame"), streamed
        self._left = b""
        self._waiting: list[bytes | JsonObject] = []
        # Index of a call → the objects that hold its pieces, and under which key.
        self._pieces: dict[object, list[tuple[JsonObject, str]]] = {}

    def feed(self, data: bytes, *, end: bool = False) -> bytes:
        """Take a piece of the answer and return what can be sent now."""
        self._left += data
        if not self.streamed:
            return self._whole() if end else b""
        *events, self._left = re.split(rb"(?<=\n\n)|(?<=\r\n\r\n)", self._left)
        for raw in [*events, self._left] if end else events:
            event = read_event(raw)
            self._waiting.append(event or raw)
            with suppress(TypeError, AttributeError):  # an event of an unknown form is passed on unchanged
                self._note(event or {})
        if self._pieces and not end:
            return b""
        for pieces in self._pieces.values():
            whole = self.frame.text("".join(str(part.get(key) or "") for part, key in pieces))
            for number, (part, key) in enumerate(pieces):
                part[key] = "" if number else whole
        sent = b"".join(one if isinstance(one, bytes) else written_event(one) for one in self._waiting)
        self._waiting = []
        return sent

    def _whole(self) -> bytes:
        try:
            body = json.loads(self._left)
        except ValueError:
            return self._left
        self.pointing.calls(body, self.frame)
        return json.dumps(body, ensure_ascii=False).encode()

    def _note(self, event: JsonObject) -> None:
        """Collect the pieces of calls in an event, and translate complete calls."""
        kind, place = event.get("type"), event.get("index", event.get("output_index"))
        if kind in ("content_block_start", "response.output_item.added"):
            if self.pointing.is_call(event.get("content_block") or event.get("item") or {}):
                self._pieces[place] = []
        elif kind in ("content_block_delta", "response.function_call_arguments.delta") and place in self._pieces:
            delta = event.get("delta")
            if isinstance(delta, str | dict):
                self._pieces[place].append((event, "delta") if isinstance(delta, str) else (delta, "partial_json"))
        elif kind == "response.function_call_arguments.done" and place in self._pieces:
            event["arguments"] = self.frame.text(event["arguments"])
        elif "choices" not in event:
            self.pointing.calls(event, self.frame)
        for choice in objects(event.get("choices")):
            for call in objects((choice.get("delta") or {}).get("tool_calls")):
                function, key = call.get("function") or {}, (choice.get("index"), call.get("index"))
                if self.pointing.is_call(function) or key in self._pieces:
                    self._pieces.setdefault(key, []).append((function, "arguments"))


def read_event(raw: bytes) -> JsonObject | None:
    """Parse the JSON of one event; None if it has none."""
    try:
        event = json.loads(b"\n".join(line[5:] for line in raw.splitlines() if line.startswith(b"data:")))
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def written_event(event: JsonObject) -> bytes:
    """Write an event as providers do, named by its type if it has one."""
    name = f"event: {event['type']}\n" if "type" in event else ""
    return f"{name}data: {json.dumps(event, ensure_ascii=False)}\n\n".encode()
