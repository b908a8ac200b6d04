"""`arr-coc judge`: was a recorded answer right, wrong, or is there a better place?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from ...answering.feedback import Feedback, place_of
from ...core.errors import InputError
from .console import say


def command(
    file: Annotated[Path, typer.Argument(help="What --record wrote.")],
    judged: Annotated[str, typer.Argument(help="right, wrong or better.")],
    record: Annotated[str | None, typer.Option(help="The record's name. [default: the last one]")] = None,
    place: Annotated[
        str | None,
        typer.Option(
            metavar="X0,Y0,X1,Y1", help="With better: where the answer stands, in shares of the picture (0–1)."
        ),
    ] = None,
    answer: Annotated[str, typer.Option(help="What the right answer would have been.")] = "",
) -> None:
    """Say whether a recorded answer was right; it is added to the file, and `train scorer --data FILE` learns from it.

    \b
    Examples:
      arr-coc ask form.png "What is the date?" --record feedback.jsonl
      arr-coc judge feedback.jsonl right
      arr-coc judge feedback.jsonl better --place 0.6,0.1,0.9,0.15 --answer "3 May"
    """
    boxes = place_of(place or "")
    if not os.path.isfile(file):
        raise InputError(f"{file} does not exist; record some answers with arr-coc ask --record {file}")
    Feedback(file).judge(judged, record, boxes=boxes, answer=answer)
    say(f"{file}: {judged}")
