"""What the tests of `attach` share."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_models import ROWS, prompt, tiny_model, tiny_processor


@pytest.fixture(scope="module")
def processor() -> Any:
    return tiny_processor()


@pytest.fixture
def model() -> Any:
    return tiny_model()


@pytest.fixture(scope="module")
def inputs(processor: Any) -> dict[str, Any]:
    return prompt(processor, ROWS)
