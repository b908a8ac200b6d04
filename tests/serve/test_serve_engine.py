"""The engine behind the server, by itself: rows of one batch, readers that go, models that are served one by one."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from typing import Any

import pytest
from serve_client import GRAY, PINK, SIGNS

from arr_coc.options import Options


def asked_of(question: str, how: dict[str, Any], picture: Any = SIGNS, **more: Any) -> Any:
    from arr_coc.answering.chat import Turn
    from arr_coc.app.serve.chat import ChatRequest

    return ChatRequest((Turn("user", (picture, question)),), Options(**how), **more)


def answered(eye: Any, asked: list[Any], leave: int | None = None, lookers: int = 1) -> list[list[Any]]:
    """What the engine tells of requests that it takes as one batch. leave: the one whose reader goes at a word.
    lookers: how many pictures are looked at side by side."""
    from arr_coc.app.serve.engine import Engine, ServeJob

    told: list[list[Any]] = [[] for _ in asked]
    jobs: list[ServeJob] = []

    def tell(number: int, item: Any) -> None:
        told[number].append(item)
        jobs[number].gone = number == leave and isinstance(item, str)

    jobs += [ServeJob(one, lambda item, number=number: tell(number, item)) for number, one in enumerate(asked)]
    engine = Engine(eye)
    engine.lookers = lookers
    engine._jobs.extend(jobs)
    engine.start()
    engine.close(60)
    return told


@pytest.mark.parametrize("lookers", [1, 4])
def test_the_models_own_glances_are_batched_too(eye: Any, wanted: Callable[..., Any], lookers: int) -> None:
    """Each row with options of its own: what its glance has encoded stays its own, and is used, as alone."""
    glance, plain = {"budget": 48, "relevance": "glance"}, {"budget": 48}
    kinds = [(PINK, plain), (GRAY, glance), (PINK, glance), (GRAY, plain)]
    told = answered(copy(eye), [asked_of(question, how) for question, how in kinds], lookers=lookers)
    for (question, how), items in zip(kinds, told, strict=True):
        answer = wanted(question, **how)
        assert items[-1].batch == 4
        assert items[-1].answer.text == answer.text
        assert items[-1].answer.allocation == answer.allocation
        assert items[-1].answer.uncertainty == pytest.approx(answer.uncertainty, abs=1e-5)


def test_a_model_that_needs_its_own_generate_is_served_one_by_one() -> None:
    pytest.importorskip("torch")
    from tiny_models import tiny_model, tiny_processor

    from arr_coc import Eye

    model = tiny_model()
    model.generation_config.repetition_penalty = 1.5  # which the lean loop does not know
    eye = Eye(model, tiny_processor(), relevance="detail")
    how = {"budget": 12}
    told = answered(eye, [asked_of(PINK, {**how, "max_new_tokens": number}) for number in (5, 9)])
    for number, items in zip((5, 9), told, strict=True):
        answer = copy(eye).set_image(SIGNS).ask(PINK, options=Options(max_new_tokens=number, **how))
        assert items[-1].answer.text == answer.text
        assert items[-1].answer.uncertainty == pytest.approx(answer.uncertainty, abs=1e-5)
        assert (items[-1].answer.tokens, items[-1].batch) == (answer.tokens, 1) == (12, 1)
