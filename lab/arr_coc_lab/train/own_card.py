"""The model card of a scorer that was taught on one's own pictures, filled from the record of its run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from arr_coc.core.files import write_text

CARD = """---
library_name: arr-coc
tags: [arr-coc, relevance, visual-tokens]
---
# {name}

Where does the answer to a question stand in a picture? A scorer of
[arr-coc](https://pypi.org/project/arr-coc/) (`ReadingScorer`), taught further on {records} records of {pictures}
pictures, from {source}.

```python
from arr_coc import look

look("picture.png", "a question", keep=1 / 8, relevance="{folder}")
```

| coverage of the answers | before | after |
|---|---|---|
{rows}

Share of the answers' cells among the best of a budget: on {judged} held-out questions (pictures that it never learned
from) and on as many of Needle World, which is drawn, to see what it forgot. `held_out.jsonl` lists what was held out;
`arr-coc bench real --data held_out.jsonl` measures with intervals.

Began from {start}; {steps} steps in {seconds:.0f} s, seed {seed}, learning rate {rate:g}, {mix:.0%} of every batch
drawn. {skipped} records could not be used. record.json has every option and the curve.
"""


def write_card(folder: Path, record: Mapping[str, Any]) -> None:
    """README.md beside the weights."""
    plan, before, after = record["plan"], record.get("before", {}), record.get("after", {})
    rows = [f"| {name} | {100 * before[name]:.1f} % | {100 * after[name]:.1f} % |" for name in before if name in after]
    text = CARD.format(
        name=folder.name,
        folder=folder.name,
        records=record["records"],
        pictures=record["pictures"],
        source=plan["source"],
        rows="\n".join(rows),
        judged=min(plan["judged"], record["held_out"]),
        start="the scorer that comes with the library" if plan["start"] == "bundled" else Path(plan["start"]).name,
        steps=record["step"],
        seconds=record["seconds"],
        seed=plan["seed"],
        rate=plan["learning_rate"],
        mix=plan["mix"],
        skipped=record["skipped"],
    )
    write_text(folder / "README.md", text)
