"""`Maps`: the relevance of several pictures, as a source hands it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Maps:
    """Relevance of several pictures. levels: the coarsest level that each map was made for, or None. realize: what the
    model's adapter may use again, such as tokens that a glance has encoded."""

    relevance: list[Any]
    levels: list[int | None]
    realize: Mapping[str, Any] = field(default_factory=dict)
