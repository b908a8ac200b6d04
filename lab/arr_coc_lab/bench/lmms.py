"""The model `arr_coc` for lmms-eval, registered by the entry point `lmms_eval.models`.

python -m lmms_eval --model arr_coc --model_args pretrained=mini,budget=64 --tasks …

Arguments: pretrained, device; budget or keep (neither: all tokens), strategy, relevance; tokens, a file for the number
of tokens spent. Tasks append instructions to their questions; only the question decides where tokens go.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, write_json
from arr_coc.core.runs import first_of
from arr_coc.options import Options

from .questions import QUESTIONS, bare_question

NAME = "arr_coc"
NEW_TOKENS = 64


def manifest() -> Any:
    """Return the description that lmms-eval gets from the entry point."""
    registry = import_module("lmms_eval.models.registry_v2")
    return registry.ModelManifest(model_id=NAME, simple_class_path=f"{__name__}.ArrCoc")


def __getattr__(name: str) -> object:
    # Its base class is in lmms-eval, which may be missing.
    if name == "ArrCoc":
        return adapter()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def adapter() -> type[object]:
    """Return the class of which lmms-eval makes a model."""
    parent = import_module("lmms_eval.api.model").lmms

    class ArrCoc(parent):
        is_simple = True

        def __init__(
            self,
            pretrained: str = MINI,
            device: str | None = None,
            budget: object = None,
            strategy: str | None = None,
            relevance: str = "auto",
            tokens: str | None = None,
            **_: object,  # batch sizes are ignored: questions are asked one by one
        ) -> None:
            from arr_coc.answering.eye import Eye

            super().__init__()
            self.options = Options(budget=1.0 if budget is None else str(budget), strategy=strategy)
            self.eye = Eye.from_pretrained(pretrained, device=device or "cpu", relevance=relevance)
            self.file = None if tokens is None else Path(tokens)
            self.spent = self.full = self.number = 0

        def generate_until(self, requests: Sequence[Any]) -> list[str]:
            said = [self._answer(*request.args) for request in requests]
            found = {"questions": self.number, "tokens": self.spent, "full": self.full}
            if self.file is not None:
                write_json(self.file, found)
            print(f"{NAME}: {self.spent} of {self.full} visual tokens for {self.number} questions")
            return said

        def _answer(self, context: str, settings: Any, visual: Any, number: Any, task: str, split: str) -> str:
            row = self.task_dict[task][split][number]
            pictures = visual(row)
            if len(pictures) != 1:
                raise InputError(f"{NAME} answers about one picture; row {number} of {task} has {len(pictures)}")
            most = int(settings.get("max_new_tokens") or NEW_TOKENS)
            self.eye.set_image(pictures[0].convert("RGB"))
            answer = self.eye.answer(self.eye.prepare(context, self.options, look_for=looked_for(row, context)), most)
            self.number, self.spent, self.full = self.number + 1, self.spent + answer.tokens, self.full + answer.full
            text = until(answer.text, settings.get("until"))
            self.cache_hook.add_partial("generate_until", (context, settings), text)
            return text

        def loglikelihood(self, requests: Sequence[object]) -> object:
            raise InputError(f"{NAME} generates text only; tasks by likelihood are not supported")

        def generate_until_multi_round(self, requests: Sequence[object]) -> object:
            raise InputError(f"{NAME} answers single questions only; tasks of several rounds are not supported")

    return ArrCoc


def looked_for(row: Mapping[str, object], context: str) -> str:
    """Return the question of the data set or, if it has none under a known name, the prompt's first line."""
    found = first_of(row, QUESTIONS)
    return bare_question(found if isinstance(found, str) and found.strip() else context.strip())


def until(text: str, ends: str | Sequence[str] | None) -> str:
    """Cut a text at the first of the strings that end it."""
    for end in [ends] if isinstance(ends, str) else ends or ():
        text = text.split(end)[0] if end else text
    return text.strip()
