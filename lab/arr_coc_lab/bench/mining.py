"""`arr-coc mine`: one's own hardest cases. Where least of the answer's boxes is seen, or what a model answers wrong."""

from __future__ import annotations

import html
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from arr_coc.answering.eye import Eye
from arr_coc.core.files import replacing, write_json, write_text
from arr_coc.core.values import Allocation
from arr_coc.looking import prepare
from arr_coc.packing.prices.counting import tokens_for
from arr_coc.pictures.load import Picture, load_picture

from ..train.own_data import OwnRecord, spelt, write_records
from .real import coverage
from .worst import beside

PANE = 560
STYLE = "body{font:16px sans-serif;margin:2em auto;max-width:75em}img{max-width:100%}figure{margin:2em 0}"


@dataclass(frozen=True, eq=False)
class MinedCase:
    """A record and how it went. seen: share of its boxes at level 0, None where it has none. said, right: of a model,
    where one was asked."""

    record: OwnRecord
    picture: Picture
    allocation: Allocation
    seen: float | None
    said: str | None = None
    right: bool | None = None
    uncertainty: float = 0.0

    @property
    def ease(self) -> tuple[bool, float, float]:
        """The lowest are the hardest: wrong before right, then what was seen least, then what was least sure."""
        return bool(self.right), 1.0 if self.seen is None else self.seen, -self.uncertainty

    def to_json(self) -> dict[str, object]:
        told: dict[str, object] = {"line": self.record.line, "query": self.record.query, "answer": self.record.answer}
        told |= {} if self.seen is None else {"seen": round(self.seen, 4)}
        if self.said is not None:
            told |= {"said": self.said, "right": self.right, "uncertainty": round(self.uncertainty, 4)}
        return {**told, "tokens": self.allocation.tokens, "full": self.allocation.full}


def look_at(record: OwnRecord, keep: float, relevance: str, eye: Eye | None) -> MinedCase:
    """One record, by `look` or, with an eye, by what it answers."""
    picture = load_picture(record.image)
    if eye is None:
        budget = max(1, math.floor(keep * tokens_for(picture.size) + 1e-9))
        allocation = prepare(picture).look(record.query, budget, relevance=relevance).allocation
        return MinedCase(record, picture, allocation, _seen(allocation, record))
    answer = eye.set_image(picture.pixels).ask(record.query, keep=keep, relevance=relevance)
    seen = _seen(answer.allocation, record)
    return MinedCase(
        record,
        picture,
        answer.allocation,
        seen,
        answer.text,
        spelt(answer.text) == spelt(record.answer),
        answer.uncertainty,
    )


def _seen(allocation: Allocation, record: OwnRecord) -> float | None:
    return coverage(allocation, record.boxes) if len(record.boxes) else None


def hardest(
    records: Sequence[OwnRecord],
    number: int,
    *,
    keep: float,
    relevance: str,
    eye: Eye | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[MinedCase]:
    """The hardest `number` of the records, the hardest first; of no more are pictures held."""
    kept: list[MinedCase] = []
    for record in records:
        kept = sorted([*kept, look_at(record, keep, relevance, eye)], key=lambda case: case.ease)[:number]
        advance()
    return kept


def write_cases(folder: Path, cases: Sequence[MinedCase], facts: Mapping[str, object]) -> list[Path]:
    """index.html with a picture of each case, hardest.json, and hardest.jsonl, which can be learned from."""
    parts = []
    for number, case in enumerate(cases, 1):
        name = f"{number:03d}.png"
        with replacing(folder / name) as temporary:
            Image.fromarray(beside(case.picture, case.allocation, PANE, case.record.boxes)).save(temporary)
        said = "" if case.said is None else f"; said: {case.said or '(nothing)'} ({'right' if case.right else 'wrong'})"
        seen = "" if case.seen is None else f"; {100 * case.seen:.0f} % seen"
        words = f"line {case.record.line}: {case.record.query} {case.record.answer}{said}{seen}"
        parts.append(f'<figure><img src="{name}" alt=""><figcaption>{html.escape(words)}</figcaption></figure>')
    told = html.escape(", ".join(f"{name}: {value}" for name, value in facts.items()))
    head = f'<!doctype html><meta charset="utf-8"><title>Hardest cases</title><style>{STYLE}</style>'
    write_text(folder / "index.html", f"{head}<h1>Hardest cases</h1><p>{told}</p>{''.join(parts)}\n")
    write_json(folder / "hardest.json", {**facts, "cases": [case.to_json() for case in cases]})
    write_records(folder / "hardest.jsonl", [case.record for case in cases])
    return [folder / name for name in ("index.html", "hardest.json", "hardest.jsonl")]
