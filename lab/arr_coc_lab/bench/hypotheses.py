"""`bench hypotheses`: each claim of the design a row that could have come out otherwise.

The numbers come from `learning.measure`, picture by picture; here they become a table. Every comparison is at equal
tokens on the same pictures, and its verdict is read off the interval of the paired difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError

from ..statistics import FAILS, HOLDS, Estimate, mean, paired, proportion, ratio
from .table import Cell, Quantity, Table, written

COLUMNS = {
    "id": "",
    "shown": "claim",
    "tokens": "tokens",
    "accuracy": "%",
    "other": "rival's %",
    "difference": "difference",
    "n": "n",
    "verdict": "verdict",
}
# In a terminal of 80 columns each claim takes a few lines instead: the words wrap, the numbers never do.
NARROW = {"id": "", "words": "claim", "counts": "tokens", "values": "%, rival's %, difference", "verdict": "verdict"}
# Claims without a number of their own, by their first word.
OTHERS = {"each": "questions", "medical": "stakes", "and": "stakes", "outcomes": "outcomes"}
KEEPS = ("0.25", "0.125", "0.0625")
SHUFFLED_MARGIN = 0.02
QUESTION_RATIO = 3.0
ENOUGH_RECALL = 0.9
OUTCOME_SHARE = 0.95
# The three ways' own names in the table; the coupling is the shipped scorer.
NAMES = {"scorer": "scorer", "tension": "learned tensions", "adaptive": "adaptive tensions"}


@dataclass(frozen=True)
class Measured:
    """The document of `learning.measure`, read."""

    document: dict[str, Any]

    @classmethod
    def load(cls, path: Path) -> Measured:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            found = cls(document)
            found.right("scorer", "0.25")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a measurement of train_hypotheses ({error})") from error
        return found

    def has(self, *systems: str, keep: str = "0.25") -> bool:
        return all(f"{system}@{keep}" in self.document["cells"] for system in systems)

    def cell(self, system: str, keep: str) -> dict[str, Any]:
        return self.document["cells"][f"{system}@{keep}"]

    def right(self, system: str, keep: str) -> np.ndarray:
        return np.frombuffer(self.cell(system, keep)["right"].encode(), dtype=np.uint8).astype(float) - ord("0")

    def recall(self, system: str, keep: str) -> np.ndarray:
        return np.asarray(self.cell(system, keep)["recall"], dtype=float)

    def tokens(self, system: str, keep: str) -> int:
        return int(self.cell(system, keep)["tokens"])


def percent(found: Estimate) -> Quantity:
    """In per cent, or in points where it is a difference; the column says so."""
    return Quantity(100 * found.value, "", 100 * found.low, 100 * found.high)


def share(values: np.ndarray) -> Quantity:
    """The mean of shares; its interval ends where shares do."""
    found = mean(values)
    return percent(Estimate(found.value, max(0.0, found.low), min(1.0, found.high)))


def compare(
    measured: Measured, claim: str, system: str, other: str, keep: str = "0.25", margin: float = 0.0, scale: float = 1.0
) -> dict[str, Cell]:
    """One row: is the system's exact match above the other's (times scale), by more than the margin?"""
    first, second = measured.right(system, keep), measured.right(other, keep)
    difference = paired(first, second, scale)
    against = NAMES.get(other, other) + (f" × {scale:g}" if scale != 1 else "")
    return {
        "claim": claim,
        "system": NAMES.get(system, system),
        "against": against + (f" + {100 * margin:g} points" if margin else ""),
        "tokens": measured.tokens(system, keep),
        "accuracy": percent(proportion(first)),
        "other": percent(proportion(second)),
        "difference": percent(difference),
        "n": len(first),
        "verdict": difference.above(margin),
        "measure": "exact match",
    }


def _h1(measured: Measured) -> Iterator[dict[str, Cell]]:
    for keep in KEEPS:
        if measured.has("scorer", "uniform", keep=keep):
            yield compare(measured, "H1 query-aware beats uniform", "scorer", "uniform", keep)
    yield compare(measured, "H1 query-aware beats random", "scorer", "random")
    yield compare(measured, "H1 a shuffled map loses", "scorer", "shuffled", margin=SHUFFLED_MARGIN)


def _h2(measured: Measured) -> Iterator[dict[str, Cell]]:
    if measured.has("tension"):
        for way in ("scorer", "propositional", "perspectival"):
            row = compare(measured, "H2 three ways beat each alone", "tension", way)
            yield row | ({"against": "participatory (the scorer)"} if way == "scorer" else {})


def _h3(measured: Measured) -> Iterator[dict[str, Cell]]:
    if measured.has("adaptive", "tension"):
        yield compare(measured, "H3 adaptive beats fixed weights", "adaptive", "fixed weights")
        yield compare(measured, "H3 adaptive beats learned but fixed", "adaptive", "tension")


def _h4(measured: Measured) -> Iterator[dict[str, Cell]]:
    large = measured.document["large"]
    cells = (large[0] // 32) * (large[1] // 32)
    for name, values in measured.document["best_cells"].items():
        system, _, number = name.partition("@")
        if system == "scorer":
            found, blind = np.asarray(values), np.asarray(measured.document["best_cells"][f"random@{number}"])
            yield {
                "claim": f"H4 the best {number} of {cells} cells keep what is needed",
                "system": "scorer, top_k",
                "against": f"recall {100 * ENOUGH_RECALL:g} %",
                "tokens": int(number),
                "accuracy": share(found),
                "other": share(blind),
                "difference": percent(paired(found, blind)),
                "n": len(found),
                "verdict": mean(found).above(ENOUGH_RECALL),
                "measure": "recall of the relevant cells; other's: random cells",
            }


def _h5(measured: Measured) -> Iterator[dict[str, Cell]]:
    if measured.has("texture", "rgb"):
        yield compare(measured, "H5 the texture beats RGB alone", "texture", "rgb")


def _h6(measured: Measured) -> Iterator[dict[str, Cell]]:
    row = compare(measured, "H6 variable sizes beat fixed ones", "scorer", "top_k")
    yield row | {"against": "top_k: finest cells only"}
    row = compare(measured, "H6 variable sizes beat fixed ones", "scorer", "uniform")
    yield row | {"against": "uniform: one size everywhere"}


def _questions(measured: Measured) -> Iterator[dict[str, Cell]]:
    for keep in KEEPS:
        asked = [one for one in measured.document["questions"] if f"{one['keep']:.4g}" == keep]
        if asked:
            own, others = (np.asarray([one[name] for one in asked], dtype=float) for name in ("own", "others"))
            found = ratio(own, others)
            yield {
                "claim": "each question gets its own target",
                "system": "own target",
                "against": f"others' × {QUESTION_RATIO:g}",
                "tokens": int(asked[0]["tokens"]),
                "accuracy": share(own),
                "other": share(others),
                "difference": Quantity(found.value, "×", found.low, found.high),
                "n": len(own),
                "verdict": found.above(QUESTION_RATIO),
                "measure": "share of a target's cells seen at level 0; difference: the ratio",
            }


def _stakes(measured: Measured) -> Iterator[dict[str, Cell]]:
    if not measured.has("medical", "casual"):
        return
    for keep in ("0.25", "0.5"):
        if measured.has("medical", "casual", keep=keep):
            first, second = measured.recall("medical", keep), measured.recall("casual", keep)
            difference = paired(first, second)
            yield {
                "claim": "medical stakes miss less",
                "system": "medical",
                "against": "casual",
                "tokens": measured.tokens("medical", keep),
                "accuracy": share(first),
                "other": share(second),
                "difference": percent(difference),
                "n": len(first),
                "verdict": difference.above(),
                "measure": "recall of the relevant cells at equal tokens",
            }
    parts = {name: measured.document["stakes"][name] for name in ("medical", "casual")}
    for measure, claim in (("recall", "medical marks more of what matters"), ("waste", "and wastes more")):
        first, second = (np.asarray(parts[name][measure], dtype=float) for name in ("medical", "casual"))
        difference = paired(first, second)
        yield {
            "claim": claim,
            "system": "medical, its own > 200",
            "against": "casual",
            "tokens": None,
            "accuracy": share(first),
            "other": share(second),
            "difference": percent(difference),
            "n": len(first),
            "verdict": difference.above(),
            "measure": f"{measure}: share of the places that {'matter' if measure == 'recall' else 'do not'} above 200",
        }


def _outcomes(measured: Measured) -> Iterator[dict[str, Cell]]:
    if measured.has("outcomes"):
        yield compare(measured, "outcomes teach as well as boxes", "outcomes", "scorer", scale=OUTCOME_SHARE)
        yield compare(measured, "outcomes beat random", "outcomes", "random")
        for keep in KEEPS[1:]:
            if measured.has("outcomes", keep=keep):
                yield compare(
                    measured, "outcomes teach as well as boxes", "outcomes", "scorer", keep, scale=OUTCOME_SHARE
                )


def _collapse(measured: Measured) -> Iterator[dict[str, Cell]]:
    training = measured.document.get("training")
    if training:
        (low, high), (least, most) = training["bands"]["share_band"], training["bands"]["entropy_band"]
        yield {
            "claim": "outcomes train without collapse",
            "system": f"last half: budget spent in [{low:g}, {high:g}], entropy in [{least:g}, {most:g}]",
            "against": None,
            "tokens": None,
            "accuracy": None,
            "other": None,
            "difference": None,
            "n": training["observations"],
            "verdict": FAILS if training["alarms"] else HOLDS,
            "measure": "; ".join(training["alarms"]) or "no observation of the last half left its band",
        }


PARTS: tuple[Callable[[Measured], Iterator[dict[str, Cell]]], ...] = (
    _h1, _h2, _h3, _h4, _h5, _h6, _questions, _stakes, _outcomes, _collapse
)  # fmt: skip


def named(row: dict[str, Cell]) -> dict[str, Cell]:
    """The row with its number and what a reader sees of the claim: the words and who is compared with whom."""
    first, _, rest = str(row["claim"]).partition(" ")
    number, words = (first, rest) if first[0] == "H" else (OTHERS[first], str(row["claim"]))
    return {"id": number, "shown": f"{words}: {versus(row)}", **row}


def versus(row: Mapping[str, Cell]) -> str:
    """Who should be above whom."""
    return f"{row['system']} > {row['against']}" if row["against"] else str(row["system"])


def learning_story(training: dict[str, Any]) -> str:
    """Where the scorer that saw no box started, and where it got to."""
    random = training["random"]
    blind = "" if random is None else f" (random trees: {100 * random:.1f} %)"
    return (
        f"from {100 * training['start']:.1f} %{blind} to {100 * training['end']:.1f} % at {training['keep']:g} of the "
        f"tokens, on {training['pictures']} validation pictures"
    )


def narrow_table(table: Table) -> Table:
    """The same for a terminal: who is compared with whom below the claim, the three values one below the other."""
    rows = []
    for row in table.rows:
        words = str(row["claim"]).removeprefix(f"{row['id']} ")
        rows.append(
            {
                "id": row["id"],
                "words": f"{words}\n{versus(row)}",
                "counts": f"{written(row['tokens'])}\nn {row['n']}",
                "values": "\n".join(written(row[name]) for name in ("accuracy", "other", "difference")),
                "verdict": row["verdict"],
            }
        )
    return Table(table.title, NARROW, tuple(rows), table.facts)


def hypotheses_table(measured: Measured, facts: dict[str, str] | None = None) -> Table:
    """The table of a measurement; rivals that were not trained have no row, and a fact says so."""
    rows = [named(row) for part in PARTS for row in part(measured)]
    document = measured.document
    wanted = ("tension", "adaptive", "texture", "rgb", "medical", "casual", "outcomes")
    missing = [name for name in wanted if not measured.has(name)]
    # A measurement that ran out of time has fewer pictures, of every family as many.
    wanted_pictures = document.get("wanted", document["each"]) * len(document["families"])
    short = (
        f"; {document['n']} of the {wanted_pictures} wanted, then time ran out"
        if wanted_pictures > document["n"]
        else ""
    )
    notes = {
        "pictures": f"{document['n']} of the {document['split']} split, {document['size'][0]}×{document['size'][1]}, "
        f"{document['each']} of each family ({', '.join(document['families'])}), seed {document['seed']}{short}",
        "full": f"{document['full']} tokens, exact match {percent(proportion(measured.right('full', '1')))} %"
        if measured.has("full", keep="1")
        else "not read",
        "%": "exact match, or recall of the cells that matter (H4, questions, stakes); differences in points, or as ×",
        "verdicts": "by the 95 % interval of the difference, paired picture by picture (H4: of the recall itself)",
        **({"learning from outcomes": learning_story(training)} if (training := document.get("training")) else {}),
        **({"not trained, so not compared": ", ".join(missing)} if missing else {}),
        **(facts or {}),
    }
    held = sum(row["verdict"] == HOLDS for row in rows)
    notes["held"] = f"{held} of {len(rows)} rows"
    return Table("hypotheses", COLUMNS, tuple(rows), notes)
