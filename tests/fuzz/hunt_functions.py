"""Every public function, with right arguments of which some are replaced by what they were not made for."""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from fuzzing import Case
from hunt_files import coloured
from spoiling import anything, spoil_bytes

import arr_coc
from arr_coc.core.errors import InputError

# Names that are no doors: a version, an exception, and plain records that the library makes and nobody gives it.
NO_DOORS = {"__version__", "InputError", "Region", "Answer", "Packed", "Esper", "VideoStream", "watch"}


def functions(folder: Path) -> Callable[[random.Random], Case]:
    sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
    from tiny_weights import tiny_weights

    weights = tiny_weights(folder / "weights")
    picture = coloured(64, 96)
    found = arr_coc.look(picture, "red", 4)
    eye = arr_coc.Eye.from_pretrained(str(weights / "mini"))
    shown = copy(eye).set_image(picture)
    relevance = np.linspace(0, 1, 6, dtype=np.float32).reshape(2, 3)
    document = found.to_json()

    def attached(**given: Any) -> None:
        try:
            arr_coc.attach(**given)
        finally:
            arr_coc.detach(eye.model)

    def named(function: Any = len, **given: Any) -> None:
        from arr_coc.knowing.registry import remove_source

        arr_coc.relevance_source(**given)(function)
        remove_source(given["name"])

    few: dict[str, Any] = {"max_new_tokens": 1}

    def talked(**given: Any) -> None:
        chat = eye.chat(**given)
        chat.ask("red", 3, **few)
        chat.ask("and blue?", 3, **few)

    # Name → what is called, and arguments with which it works.
    doors: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
        "Allocation": (
            arr_coc.Allocation,
            {name: getattr(found, name) for name in inspect.signature(arr_coc.Allocation).parameters},
        ),
        "Allocation.from_json": (arr_coc.Allocation.from_json, {"document": document}),
        "Relevance": (arr_coc.Relevance, {"map": relevance, "query": "red", "participatory": relevance}),
        "Eye": (arr_coc.Eye, {"model": eye.model, "processor": eye.processor}),
        "Eye.from_pretrained": (arr_coc.Eye.from_pretrained, {"name": str(weights / "mini")}),
        "Eye.set_image": (eye.set_image, {"image": picture}),
        "Eye.ask": (shown.ask, {"query": "red", "budget": 3, **few}),
        "Eye.stream": (lambda **given: list(shown.stream(**given)), {"query": "red", "budget": 3, **few}),
        "Eye.ask_many": (eye.ask_many, {"images": [picture] * 2, "queries": ["red", "blue"], "budget": [3, 2], **few}),
        "Eye.chat": (talked, {"image": picture, "system": "Be brief.", "turns": ()}),
        "allocate": (arr_coc.allocate, {"relevance": relevance, "budget": 3}),
        "ask": (arr_coc.ask, {"image": picture, "query": "red", "model": eye, "budget": 3, **few}),
        "attach": (attached, {"model": eye.model, "processor": eye.processor, "budget": 3}),
        "compare": (arr_coc.compare, {"a": found, "b": found}),
        "detach": (arr_coc.detach, {"model": eye.model}),
        "load_picture": (arr_coc.load_picture, {"source": picture}),
        "look": (arr_coc.look, {"image": picture, "query": "red", "budget": 3}),
        "pack": (arr_coc.pack, {"image": picture, "query": "red", "budget": 6, "model": "qwen3-vl"}),
        "relevance_source": (named, {"name": "fuzz"}),
        "sense": (arr_coc.sense, {"image": picture, "query": "red", "layout": "mvp13"}),
        "tokens_for": (arr_coc.tokens_for, {"image_size": (64, 96)}),
    }
    missing = set(arr_coc.__all__) - {name.partition(".")[0] for name in doors} - NO_DOORS
    assert not missing, f"public names that nobody fuzzes: {missing}"
    parameters = {name: offered(arr_coc, name, given) for name, (_, given) in doors.items()}

    def draw(chance: random.Random) -> Case:
        name = chance.choice(sorted(doors))
        call, right = doors[name]
        given = dict(right)
        for parameter in chance.sample(parameters[name], min(len(parameters[name]), chance.choice((1, 1, 2, 3)))):
            given[parameter] = anything(chance)
        if name == "Allocation.from_json" and chance.random() < 0.3:
            given["document"] = spoil_bytes(chance, repr(document).replace("'", '"').encode())
        if isinstance(given.get("max_new_tokens"), int) and given["max_new_tokens"] > 8:
            given["max_new_tokens"] = 8  # a long answer is no mistake
        for key in {"image", "images", "source"} & given.keys():
            if isinstance(given[key], str | Path):  # the whole machine is not ours to read
                given[key] = Path("nowhere")
        changed = {key: value for key, value in given.items() if value is not right.get(key)}

        def tried() -> None:
            try:
                call(**given)
            except InputError:
                raise
            except TypeError as error:
                # Python's own line for a name that a function does not take is as good as ours.
                if "unexpected keyword argument" not in str(error):
                    raise

        return f"{name}({changed!r})", tried

    return draw


def offered(library: Any, name: str, given: dict[str, Any]) -> list[str]:
    """The parameters of a public name, and an option of a strategy or two."""
    target: Any = library
    for part in name.split("."):
        target = getattr(target, part)
    kinds = inspect.signature(target).parameters.values()
    taken = [one.name for one in kinds if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL) and one.name != "self"]
    options = ["boxes", "min_level", "power"] if any(one.kind is one.VAR_KEYWORD for one in kinds) else []
    return sorted({*taken, *given, *options} - ({"function"} if name != "relevance_source" else set()))
