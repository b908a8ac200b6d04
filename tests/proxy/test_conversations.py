"""Conversations through the proxy: caches hold, clicks land, and nothing that shows something is passed by."""

from __future__ import annotations

import base64
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import httpx
import numpy as np
import pytest
from PIL import Image
from proxy_parts import PAGE, QUESTION, Upstream, data_url, page_bytes, running

from arr_coc.packing.prices.tables import table_for

PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}
PATHS["gemini"] = "/v1beta/models/gemini-2.5-pro:generateContent"
SCREEN = (800, 1280)


def shown(protocol: str, data: bytes, **more: Any) -> dict[str, Any]:
    text = base64.b64encode(data).decode()
    parts: dict[str, dict[str, Any]] = {
        "chat": {"type": "image_url", "image_url": {"url": data_url(data)}},
        "messages": {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": text}},
        "responses": {"type": "input_image", "image_url": data_url(data), "detail": "auto"},
        "gemini": {"inlineData": {"mimeType": "image/png", "data": text}},
    }
    return {**parts[protocol], **more}


def said(protocol: str, text: str, **more: Any) -> dict[str, Any]:
    kinds = {"chat": {"type": "text"}, "messages": {"type": "text"}, "responses": {"type": "input_text"}}
    return {**kinds.get(protocol, {}), "text": text, **more}


def user(protocol: str, *parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "parts" if protocol == "gemini" else "content": list(parts)}


def assistant(protocol: str, text: str) -> dict[str, Any]:
    if protocol == "gemini":
        return {"role": "model", "parts": [{"text": text}]}
    kind = "output_text" if protocol == "responses" else "text"
    return {"role": "assistant", "content": [{"type": kind, "text": text}]}


def body_of(protocol: str, messages: list[Any], **more: Any) -> dict[str, Any]:
    models = {"chat": "qwen2.5-vl", "messages": "claude-sonnet-4-5", "responses": "gpt-4.1-mini"}
    key = {"gemini": "contents", "responses": "input"}.get(protocol, "messages")
    own = {"model": models[protocol]} if protocol in models else {}
    return {**own, key: messages, **more}


def messages_of(body: dict[str, Any]) -> list[Any]:
    return next(body[key] for key in ("messages", "input", "contents") if key in body)


def send(address: str, protocol: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.post(f"{address}{PATHS[protocol]}", json=body, headers=sent, timeout=120)


def ten_turns(protocol: str) -> list[list[Any]]:
    """The messages of ten requests of one conversation, in which three pictures are shown."""
    pictures = {0: page_bytes(512, 640), 3: page_bytes(640, 512), 6: page_bytes(600, 600)}
    marked = {"cache_control": {"type": "ephemeral"}} if protocol == "messages" else {}
    told: list[Any] = []
    requests = []
    for turn in range(10):
        picture = [shown(protocol, pictures[turn], **marked)] if turn in pictures else []
        told.append(user(protocol, *picture, said(protocol, f"What does line {turn} say?")))
        requests.append(json.loads(json.dumps(told)))
        told.append(assistant(protocol, f"Line {turn}."))
    return requests


def by_line(pixels: np.ndarray, question: str) -> np.ndarray:
    """Relevance that follows the question: the number in it names a line."""
    found = np.full((20, 20), 0.01, np.float32)
    found[2 * int(question.split("line ")[1][0]), 3:9] = 1
    return found


@pytest.mark.parametrize("protocol", PATHS)
def test_the_prefix_of_a_conversation_keeps_its_bytes(protocol: str, fronting: Callable[..., Any]) -> None:
    upstream = Upstream()
    with running(upstream) as behind, fronting(behind, relevance=by_line) as address:
        follow(protocol, upstream, address)


def follow(protocol: str, upstream: Upstream, address: str) -> None:
    """Ten requests: each sends all that the one before sent, byte by byte."""
    budget = {"gemini": "520"}.get(protocol, "120")
    before: list[Any] = []
    parts = "parts" if protocol == "gemini" else "content"
    for messages in ten_turns(protocol):
        answer = send(address, protocol, body_of(protocol, messages), x_arr_coc_budget=budget)
        assert answer.headers["x-arr-coc"] == "packed", dict(answer.headers)
        got = messages_of(upstream.last)
        # All that was sent is sent again, but for what was added behind the question that was the latest then.
        if before:
            again = got[len(before) - 1][parts]
            assert json.dumps(got[: len(before) - 1]) == json.dumps(before[:-1])
            assert json.dumps(again) == json.dumps(before[-1][parts][: len(again)])
        assert len(got) == len(messages)
        before = got
    late = [part for part in before[-1][parts] if "enlarged" in part.get("text", "")]
    assert late, "the latest question sees more of earlier pictures"
    if protocol == "messages":
        kept = [part for message in before for part in message["content"] if "cache_control" in part]
        assert [part["type"] for part in kept] == ["image"] * 3


def test_other_processes_pack_to_the_same_bytes(upstream: Upstream, address: str) -> None:
    body = body_of("messages", ten_turns("messages")[4])
    send(address, "messages", body, x_arr_coc_budget="120")
    code = (
        "import asyncio, json, sys; from arr_coc.app.proxy.packer import Packer, ProxySettings;"
        "from arr_coc.app.proxy.protocols import protocol_of; from arr_coc.options import Options;"
        "packer = Packer(ProxySettings('http://x', options=Options(budget=120, relevance='detail')));"
        "body = json.load(sys.stdin);"
        "asyncio.run(packer.request(body, protocol_of('/v1/messages'), body['model'], '120'));"
        "print(json.dumps(body))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(body), capture_output=True, text=True, check=True
    )
    assert json.loads(told.stdout) == upstream.last


# ---- clicks ----------------------------------------------------------------------------------------------------------


def marked_screen(seed: int) -> tuple[bytes, tuple[int, int, int, int]]:
    """A screen with one red button of 24 to 60 pixels, and where that is: x0, y0, x1, y1."""
    draw = random.Random(seed)
    pixels = np.full((*SCREEN, 3), 225, np.uint8)
    for _ in range(30):  # windows and letters, none of them red
        y, x = draw.randrange(SCREEN[0] - 60), draw.randrange(SCREEN[1] - 200)
        pixels[y : y + draw.randrange(8, 60), x : x + draw.randrange(8, 200)] = draw.choice(
            [(90, 110, 130), (250,) * 3]
        )
    wide, tall = draw.randrange(24, 61), draw.randrange(24, 61)
    x, y = draw.randrange(SCREEN[1] - wide), draw.randrange(SCREEN[0] - tall)
    pixels[y : y + tall, x : x + wide] = (220, 20, 20)
    memory = io.BytesIO()
    Image.fromarray(pixels).save(memory, "PNG")
    return memory.getvalue(), (x, y, x + wide, y + tall)


def seen_button(data: str) -> list[int]:
    """The middle of what is red in the picture that the upstream was sent: what a model would point at."""
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(data.rpartition(",")[2]))).convert("RGB")).astype(int)
    rows, cols = np.nonzero((pixels[..., 0] > 150) & (pixels[..., 1] < 120))
    return [int((cols.min() + cols.max()) // 2), int((rows.min() + rows.max()) // 2)]


ACTIONS = ("left_click", "left_click_drag", "zoom", "scroll", "mouse_move")
FUNCTION = {"x": {"type": "integer"}, "y": {"type": "integer"}, "button": {"type": "string"}}
CLICK = {"name": "click", "description": "Click the screen.", "parameters": {"type": "object", "properties": FUNCTION}}
TOOLSET = {"type": "computer_toolset_20260801"}
ANTHROPIC = {"type": "computer_20251124", "name": "computer", "display_width_px": 1280, "display_height_px": 800}


def anthropic_case(
    screen: bytes, number: int
) -> tuple[str, dict[str, Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """A request, the model's answer to the body that it is sent, and where the client then clicks."""
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [shown("messages", screen)]}
    call = {"type": "tool_use", "id": "t1", "name": "computer", "input": {"action": "screenshot"}}
    messages = [user("messages", said("messages", "Press the red button.")), {"role": "assistant", "content": [call]}]
    body = body_of(
        "messages", [*messages, user("messages", result)], tools=[dict(ANTHROPIC) if number % 2 else TOOLSET]
    )
    action = ACTIONS[number % len(ACTIONS)]

    def reply(got: Any) -> Any:
        tool, picture = got["tools"][0], got["messages"][2]["content"][0]["content"][-1]["source"]["data"]
        size = Image.open(io.BytesIO(base64.b64decode(picture))).size
        assert "name" not in tool or (tool["display_width_px"], tool["display_height_px"]) == size
        x, y = seen_button(picture)
        own = {
            "left_click_drag": {"start_coordinate": [x, y], "coordinate": [1, 1]},
            "zoom": {"region": [x - 1, y - 1, x + 1, y + 1]},
            "scroll": {"coordinate": [x, y], "scroll_direction": "down", "scroll_amount": 3},
        }
        named = {"action": action} if "name" in tool else {}
        return {**named, **own.get(action, {"coordinate": [x, y]})}

    def clicked(given: Any) -> Any:
        if action == "zoom":
            x0, y0, x1, y1 = given["region"]
            return (x0 + x1) // 2, (y0 + y1) // 2
        assert given.get("scroll_amount", 3) == 3
        return given["start_coordinate"] if action == "left_click_drag" else given["coordinate"]

    return "messages", body, reply, clicked


def computer_case(screen: bytes, number: int) -> tuple[str, dict[str, Any], Callable[[Any], Any], Callable[[Any], Any]]:
    output = {"type": "computer_screenshot", "image_url": data_url(screen)}
    items = [
        user("responses", said("responses", "Press the red button.")),
        {"type": "computer_call", "call_id": "c1", "id": "i1", "action": {"type": "screenshot"}},
        {"type": "computer_call_output", "call_id": "c1", "output": output},
    ]
    display = {"type": "computer_use_preview", "display_width": 1280, "display_height": 800, "environment": "browser"}
    body = body_of("responses", items, tools=[display if number % 2 else {"type": "computer"}])

    def reply(got: Any) -> Any:
        x, y = seen_button(got["input"][2]["output"]["image_url"])
        return (
            {"type": "drag", "path": [{"x": x, "y": y}, {"x": 0, "y": 0}]}
            if number % 3
            else {"type": "click", "x": x, "y": y}
        )

    return (
        "responses",
        body,
        reply,
        lambda given: [given["path"][0][key] if "path" in given else given[key] for key in "xy"],
    )


def function_case(screen: bytes, number: int) -> tuple[str, dict[str, Any], Callable[[Any], Any], Callable[[Any], Any]]:
    content = user("chat", said("chat", "Press the red button."), shown("chat", screen))
    body = body_of("chat", [content], tools=[{"type": "function", "function": CLICK}])

    def reply(got: Any) -> Any:
        picture = next(part for part in got["messages"][0]["content"] if part["type"] == "image_url")
        return dict(zip("xy", seen_button(picture["image_url"]["url"]), strict=True))

    return "chat", body, reply, lambda given: [given["x"], given["y"]]


def block_of(arguments: Any) -> dict[str, Any]:
    """A call of the tool, or of a member of the toolset, without what it is called with."""
    names = {"name": "computer"} if "action" in arguments else {"name": "left_click", "toolset_name": "computer"}
    return {"type": "tool_use", "id": "t2", **names, "input": {}}


def whole_answer(protocol: str, arguments: Any) -> Any:
    text = json.dumps(arguments)
    if protocol == "messages":
        return {"type": "message", "content": [{**block_of(arguments), "input": arguments}]}
    if protocol == "chat":
        calls = [{"id": "f1", "type": "function", "function": {"name": "click", "arguments": text}}]
        return {"choices": [{"index": 0, "message": {"role": "assistant", "tool_calls": calls}}]}
    key, value = ("actions", [arguments]) if len(text) % 2 else ("action", arguments)
    return {"object": "response", "output": [{"type": "computer_call", "id": "i2", "call_id": "c2", key: value}]}


def streamed_answer(protocol: str, arguments: Any) -> bytes:
    """The same in pieces, with other events between."""
    text = json.dumps(arguments)
    cut = [text[place : place + 5] for place in range(0, len(text), 5)]
    if protocol == "messages":
        words = {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
        block = {"type": "content_block_start", "index": 1, "content_block": block_of(arguments)}
        events: list[Any] = [words, {"type": "content_block_stop", "index": 0}, block, {"type": "ping"}]
        delta = [{"type": "input_json_delta", "partial_json": one} for one in cut]
        events += [{"type": "content_block_delta", "index": 1, "delta": one} for one in delta]
        events += [{"type": "content_block_stop", "index": 1}, {"type": "message_stop"}]
    elif protocol == "chat":
        first = {"index": 0, "id": "f1", "type": "function", "function": {"name": "click", "arguments": ""}}
        calls = [first, *({"index": 0, "function": {"arguments": one}} for one in cut)]
        choices = [{"index": 0, "delta": {"tool_calls": [one]}, "finish_reason": None} for one in calls]
        events = [{"choices": [one]} for one in [*choices, {"index": 0, "delta": {}, "finish_reason": "tool_calls"}]]
    else:
        item = whole_answer(protocol, arguments)["output"][0]
        events = [{"type": "response.output_item.done", "output_index": 0, "item": item}]
    return b"".join(b"data: " + json.dumps(one).encode() + b"\n\n" for one in events)


def arguments_in(protocol: str, answer: httpx.Response) -> Any:
    """What a client reads out of an answer, streamed or whole."""
    if "event-stream" not in answer.headers["content-type"]:
        got = answer.json()
        if protocol == "messages":
            return got["content"][0]["input"]
        if protocol == "chat":
            return json.loads(got["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"])
        return next(iter(got["output"][0].get("actions", [got["output"][0].get("action")])))
    events = [json.loads(line[6:]) for line in answer.text.splitlines() if line.startswith("data: ")]
    if protocol == "messages":
        return json.loads("".join(one["delta"]["partial_json"] for one in events if "delta" in one))
    if protocol == "chat":
        deltas = [call for one in events for call in one["choices"][0]["delta"].get("tool_calls", [])]
        return json.loads("".join(one["function"]["arguments"] for one in deltas))
    item = events[0]["item"]
    return next(iter(item.get("actions", [item.get("action")])))


@pytest.mark.parametrize("numbers", [range(12), range(12, 168)], ids=["few", "many"])
@pytest.mark.parametrize("case", [anthropic_case, computer_case, function_case])
def test_clicks_land(case: Any, numbers: range, upstream: Upstream, address: str) -> None:
    """504 clicks in all: every one lies inside its button."""
    landed = 0
    for number in numbers:
        screen, (x0, y0, x1, y1) = marked_screen(number)
        protocol, body, reply, clicked = case(screen, number)
        streams = number % 4 == 3
        upstream.headers = [(b"content-type", b"text/event-stream" if streams else b"application/json")]
        write = streamed_answer if streams else lambda *given: json.dumps(whole_answer(*given)).encode()
        upstream.respond = lambda got, write=write, protocol=protocol, reply=reply: write(protocol, reply(got))
        answer = send(address, protocol, body, x_arr_coc_budget=random.Random(number).choice(["12%", "25%", "50%"]))
        assert answer.headers["x-arr-coc"] == "packed", dict(answer.headers)
        x, y = clicked(arguments_in(protocol, answer))
        landed += x0 <= x < x1 and y0 <= y < y1
    assert landed == len(numbers)


UNKNOWN = {
    "a tool of tomorrow": ({"type": "computer_20991231", "name": "computer"}, "coordinates of an unknown kind"),
    "thousandths": (
        {"name": "click", "description": "on the screen, 0-1000", "input_schema": CLICK["parameters"]},
        "may",
    ),
    "no screen": ({"name": "plot", "description": "A chart.", "input_schema": CLICK["parameters"]}, "may use"),
    "no picture here": (ANTHROPIC, "a screen that it does not contain"),
}


@pytest.mark.parametrize("case", UNKNOWN)
def test_what_is_not_understood_is_not_packed(case: str, upstream: Upstream, address: str) -> None:
    tool, reason = UNKNOWN[case]
    remote = {"type": "image", "source": {"type": "url", "url": "http://127.0.0.1:9/a.png"}}
    more = [remote] if case == "no picture here" else []
    body = body_of(
        "messages", [user("messages", shown("messages", PAGE), *more, said("messages", QUESTION))], tools=[tool]
    )
    answer = send(address, "messages", body)
    assert upstream.last == body
    assert reason in answer.headers["x-arr-coc-fallback"]


def test_tools_that_do_not_point_change_nothing(upstream: Upstream, address: str) -> None:
    fields = {
        "read_file": {"path": {"type": "string"}, "start": {"type": "integer"}},
        "browser_click": {"target": {"type": "string"}, "ref": {"type": "string"}},
        "browser_resize": {"width": {"type": "number"}, "height": {"type": "number"}},
    }
    tools = [{"name": name, "input_schema": {"type": "object", "properties": one}} for name, one in fields.items()]
    upstream.body = b'{"content": [{"type": "tool_use", "name": "read_file", "input": {"start": 7, "x": 9}}]}'
    body = body_of("messages", [user("messages", shown("messages", PAGE), said("messages", QUESTION))], tools=tools)
    answer = send(address, "messages", body)
    assert answer.headers["x-arr-coc"] == "packed"
    assert answer.content == upstream.body


def test_earlier_calls_are_told_in_the_frame_of_the_model(upstream: Upstream, address: str) -> None:
    """What a client was given as a click comes back to the upstream as the model has said it."""
    _, body, *_ = anthropic_case(marked_screen(3)[0], 1)
    upstream.body = json.dumps(whole_answer("messages", {"action": "left_click", "coordinate": [201, 99]})).encode()
    upstream.headers = [(b"content-type", b"application/json")]
    answer = send(address, "messages", body, x_arr_coc_budget="12%").json()
    result = {"type": "tool_result", "tool_use_id": "t2", "content": [shown("messages", marked_screen(4)[0])]}
    assert answer["content"][0]["input"]["coordinate"] != [201, 99]
    more = [{"role": "assistant", "content": answer["content"]}, user("messages", result)]
    send(address, "messages", {**body, "messages": [*body["messages"], *more]}, x_arr_coc_budget="12%")
    assert upstream.last["messages"][3]["content"][0]["input"] == {"action": "left_click", "coordinate": [201, 99]}


# ---- what shows something, wherever it stands ------------------------------------------------------------------------


@pytest.fixture(scope="module")
def report() -> bytes:
    """A PDF of six pages with a text layer; only the fourth names the loss."""
    from pypdfium2 import PdfDocument, raw

    document = PdfDocument.new()
    for number in range(6):
        page = document.new_page(595, 842)
        line = "The loss in 2021 was 4711 euros." if number == 3 else f"Nothing of note in section {number}."
        for row in range(20):
            text = raw.FPDFPageObj_NewTextObj(document, b"Helvetica", 14)
            held = (line if row == 9 else f"Row {row} of section {number}.").encode("utf-16-le") + b"\0\0"
            raw.FPDFText_SetText(text, (raw.c_ushort * (len(held) // 2)).from_buffer_copy(held))
            raw.FPDFPageObj_Transform(text, 1, 0, 0, 1, 60, 780 - 30 * row)
            raw.FPDFPage_InsertObject(page, text)
        raw.FPDFPage_GenerateContent(page)
    memory = io.BytesIO()
    document.save(memory)
    return memory.getvalue()


DOCUMENTS: dict[str, Callable[[str], dict[str, Any]]] = {
    "messages": lambda text: {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": text},
        "cache_control": {"type": "ephemeral"},
    },
    "chat": lambda text: {
        "type": "file",
        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{text}"},
    },
    "responses": lambda text: {
        "type": "input_file",
        "filename": "a.pdf",
        "file_data": f"data:application/pdf;base64,{text}",
    },
    "gemini": lambda text: {"inlineData": {"mimeType": "application/pdf", "data": text}},
}


@pytest.mark.parametrize("protocol", DOCUMENTS)
def test_documents_are_text_and_packed_pages(protocol: str, report: bytes, upstream: Upstream, address: str) -> None:
    part = DOCUMENTS[protocol](base64.b64encode(report).decode())
    body = body_of(protocol, [user(protocol, part, said(protocol, "What was the loss in 2021?"))])
    answer = send(address, protocol, body, x_arr_coc_budget="25%")
    assert answer.headers["x-arr-coc"] == "packed", dict(answer.headers)
    got = messages_of(upstream.last)[0]["parts" if protocol == "gemini" else "content"]
    assert any("Page 4 of 6 reads" in one.get("text", "") and "4711" in one["text"] for one in got)
    assert int(answer.headers["x-arr-coc-tokens"]) <= int(answer.headers["x-arr-coc-full"]) / 4
    assert base64.b64encode(report).decode() not in json.dumps(got)
    assert len(got) >= 3
    assert ("cache_control" in got[-2]) == (protocol == "messages")


def test_pictures_of_tools_and_streams_of_gemini(upstream: Upstream, address: str) -> None:
    output = {"type": "function_call_output", "call_id": "c", "output": [shown("responses", PAGE)]}
    asked = user("responses", said("responses", QUESTION))
    call = {"type": "function_call", "call_id": "c", "name": "screenshot", "arguments": "{}"}
    send(address, "responses", body_of("responses", [asked, call, output]), x_arr_coc_budget="300")
    got = upstream.last["input"][2]["output"]
    assert [one["type"] for one in got[:2]] == ["input_text", "input_image"]
    assert got[1]["image_url"] != data_url(PAGE)
    upstream.pieces = [b'data: {"candidates": [{"content": {"parts": [{"te', b'xt": "STOP"}]}}]}\r\n\r\n']
    body = body_of("gemini", [user("gemini", shown("gemini", PAGE), said("gemini", QUESTION))])
    body["contents"].append(
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "parts": [shown("gemini", PAGE)]}}]}
    )
    path = PATHS["gemini"].replace("generate", "streamGenerate")
    answer = httpx.post(f"{address}{path}?alt=sse", json=body, headers={"x-arr-coc-budget": "520"}, timeout=60)
    assert answer.content == b"".join(upstream.pieces)
    first, second = upstream.last["contents"]
    assert first["parts"][0]["text"].startswith("Picture 1 is the whole picture")
    assert list(second["parts"][0]["functionResponse"]["parts"][0]) == ["inlineData"]


def test_screens_fade_in_steps(fronting: Callable[..., Any]) -> None:
    upstream, changed = Upstream(), []
    with running(upstream) as behind, fronting(behind, budget=100, fade=3) as address:
        before: list[str] = []
        for steps in range(1, 11):
            pages = [
                user("chat", shown("chat", page_bytes(512, 640 + 32 * n)), said("chat", QUESTION)) for n in range(steps)
            ]
            messages = [one for page in pages for one in (page, assistant("chat", "Next."))][:-1]
            send(address, "chat", body_of("chat", messages))
            got = [json.dumps(one) for one in messages_of(upstream.last)]
            changed += [steps] if got[: len(before)] != before else []
            before = got
    sizes = [len(one) for one in before[::2]]
    assert changed == [6, 9]
    assert max(sizes[:6]) < min(sizes[6:])


def test_no_picture_is_refused_for_its_size(upstream: Upstream, address: str) -> None:
    long = page_bytes(64, 9000)
    content = user("messages", shown("messages", long), said("messages", QUESTION))
    send(address, "messages", body_of("messages", [content]), x_arr_coc_budget="9000")
    sent = next(part for part in upstream.last["messages"][0]["content"] if part["type"] == "image")
    assert max(Image.open(io.BytesIO(base64.b64decode(sent["source"]["data"]))).size) <= 8000


def test_counting_imports_nothing_heavy() -> None:
    code = (
        "import sys; from arr_coc.packing.prices.tables import table_for;"
        "print(table_for('claude').limits.side, {'numpy', 'cv2', 'PIL'} & set(sys.modules))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "8000 set()\n"
    table = table_for("claude-sonnet-4-5")
    assert not table.limits.takes((100, 100), 4_000_000)
    assert table.limits.takes((100, 8000), 3_900_000)
    assert not table.limits.takes((100, 2001), 1, pictures=21)
