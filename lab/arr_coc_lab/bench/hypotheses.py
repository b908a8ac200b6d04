"""`bench hypotheses`: each claim of the design a row that could have come out otherwise.

The numbers come from `train.measure`, picture by picture; here they become a table. Every comparison is at equal
tokens on the same pictures, and its verdict is read off the interval of the paired difference.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject

from ..statistics import FAILS, HOLDS, Estimate, mean, paired, proportion, ratio
from .options import HypothesesBenchOptions
from .report import Quantity, Report, Table, TableCell, written
from .run import BenchRun
from .suite import suite

SUITE = suite("hypotheses")
Row = dict[str, TableCell]
COLUMNS: Mapping[str, str] = SUITE["columns"]["wide"]
# Claims without a number of their own, by their first word.
OTHERS = {"each": "questions", "medical": "stakes", "and": "stakes", "outcomes": "outcomes"}
KEEPS: tuple[str, ...] = tuple(SUITE["keeps"])
UNTRAINED = "train them (python -m arr_coc_lab.train.train_hypotheses --out FOLDER) and give --trained FOLDER"
QUESTION_RATIO = 3.0
ENOUGH_RECALL = 0.9
# The three ways' own names in the table; the coupling is the shipped scorer.
NAMES = {"scorer": "scorer", "tension": "learned tensions", "adaptive": "adaptive tensions"}


def measure(options: HypothesesBenchOptions, run: BenchRun) -> Report:
    """The table of a saved measurement, or of a new one that is kept after every round."""
    facts = {}
    if options.saved is not None:
        measured = HypothesisMeasurement.load(options.saved)
    else:
        measured = HypothesisMeasurement(new_measurement(options, run))
        few = f"{SUITE['quick']} pictures only: most intervals are too wide to decide"
        facts = {"quick": few} if options.quick else {}
    lacking = [name for name in ("adaptive", "medical", "casual") if not measured.has(name)]
    if lacking:
        facts["left out"] = f"rows of {', '.join(lacking)}; {UNTRAINED}"
    table = hypotheses_table(measured, facts)
    return Report(table.to_json(), (narrow_table(table),), page=(table,))


def new_measurement(options: HypothesesBenchOptions, run: BenchRun) -> dict[str, object]:
    import torch
    from arr_coc.knowing.scorer.source import load_scorer

    from ..train.measure import Measuring, document_of, steps_of
    from ..train.measure import measure as measure_rivals
    from ..train.outcomes import load_reader
    from ..train.rivals import BalancerPlan, Rivals, fit_balancers

    model = load_reader(options.reader, torch.device(options.device))
    rivals = Rivals.load(load_scorer(options.scorer, options.device), options.trained, options.device)
    if not {"tension", "adaptive"} <= set(rivals.makers()):
        # Tensions belong to the scorer whose questions they read: those of another are learned anew.
        run.tell("learning tensions")
        each, steps = (2, 60) if options.quick else (24, 300)
        fit_balancers(rivals, BalancerPlan(device=options.device, each=each, steps=steps))
    plan = Measuring(
        number=SUITE["quick"] if options.quick else options.number,
        also=SUITE["quick_also"] if options.quick else None,
        at_once=SUITE["at_once"]["cpu" if options.device == "cpu" else "cuda"],
        seconds=options.seconds,
    )
    # After every round: whoever stops it early keeps what there is, balanced over the families.
    with run.progress(steps_of(plan), "measuring") as advance:
        return measure_rivals(
            model, rivals, plan, advance, lambda rounds: run.save(document_of(plan, rivals, rounds), "measured")
        )


@dataclass(frozen=True)
class HypothesisMeasurement:
    """The document of `train.measure`, read."""

    document: JsonObject

    @classmethod
    def load(cls, path: Path) -> HypothesisMeasurement:
        try:
            document = json.loads(path.read_text(encoding="utf-8"))
            found = cls(document)
            found.right("scorer", "0.25")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} is not a measurement of train_hypotheses ({error})") from error
        return found

    def has(self, *systems: str, keep: str = "0.25") -> bool:
        return all(f"{system}@{keep}" in self.document["cells"] for system in systems)

    def cell(self, system: str, keep: str) -> JsonObject:
        return self.document["cells"][f"{system}@{keep}"]

    def right(self, system: str, keep: str) -> np.ndarray:
        return np.frombuffer(self.cell(system, keep)["right"].encode(), dtype=np.uint8).astype(float) - ord("0")

    def recall(self, system: str, keep: str) -> np.ndarray:
        return np.asarray(self.cell(system, keep)["recall"], dtype=float)

    def tokens(self, system: str, keep: str) -> int:
        return int(self.cell(system, keep)["tokens"])


percent = Quantity.percent


def share(values: np.ndarray) -> Quantity:
    """The mean of shares; its interval ends where shares do."""
    found = mean(values)
    return percent(Estimate(found.value, max(0.0, found.low), min(1.0, found.high)))


def compare(measured: HypothesisMeasurement, asked: JsonObject, keep: str) -> Row:
    """One row: is the system's exact match above the other's (times scale), by more than the margin? asked: as the
    suite has it."""
    system, other, margin, scale = asked["system"], asked["other"], asked.get("margin", 0.0), asked.get("scale", 1.0)
    first, second = measured.right(system, keep), measured.right(other, keep)
    difference = paired(first, second, scale)
    against = NAMES.get(other, other) + (f" × {scale:g}" if scale != 1 else "")
    return {
        "claim": asked["claim"],
        "system": NAMES.get(system, system),
        "against": asked.get("against") or against + (f" + {100 * margin:g} points" if margin else ""),
        "tokens": measured.tokens(system, keep),
        "accuracy": percent(proportion(first)),
        "other": percent(proportion(second)),
        "difference": percent(difference),
        "n": len(first),
        "verdict": difference.above(margin),
        "measure": "exact match",
    }


def shares_row(
    who: Row, first: np.ndarray, second: np.ndarray, measure: str, difference: Quantity | None = None, verdict: str = ""
) -> Row:
    """One row of shares that are no exact match. who: claim, system, against, tokens. The difference is that of the
    pairs, and the verdict whether it is above nothing, unless they are given."""
    apart = paired(first, second)
    return {
        **who,
        "accuracy": share(first),
        "other": share(second),
        "difference": difference or percent(apart),
        "n": len(first),
        "verdict": verdict or apart.above(),
        "measure": measure,
    }


def _best_cells(measured: HypothesisMeasurement) -> Iterator[Row]:
    large, best = measured.document["large"], measured.document["best_cells"]
    cells = (large[0] // 32) * (large[1] // 32)
    for name, values in best.items():
        system, _, number = name.partition("@")
        if system == "scorer":
            who: Row = {
                "claim": f"H4 the best {number} of {cells} cells keep what is needed",
                "system": "scorer, top_k",
            }
            who |= {"against": f"recall {100 * ENOUGH_RECALL:g} %", "tokens": int(number)}
            found, blind = np.asarray(values), np.asarray(best[f"random@{number}"])
            about = "recall of the relevant cells; other's: random cells"
            yield shares_row(who, found, blind, about, verdict=mean(found).above(ENOUGH_RECALL))


def _questions(measured: HypothesisMeasurement) -> Iterator[Row]:
    for keep in KEEPS:
        asked = [one for one in measured.document["questions"] if f"{one['keep']:.4g}" == keep]
        if asked:
            own, others = (np.asarray([one[name] for one in asked], dtype=float) for name in ("own", "others"))
            times = ratio(own, others)
            who: Row = {"claim": "each question gets its own target", "system": "own target"}
            who |= {"against": f"others' × {QUESTION_RATIO:g}", "tokens": int(asked[0]["tokens"])}
            about = "share of a target's cells seen at level 0; difference: the ratio"
            found = Quantity(times.value, "×", times.low, times.high)
            yield shares_row(who, own, others, about, found, times.above(QUESTION_RATIO))


def _stakes(measured: HypothesisMeasurement) -> Iterator[Row]:
    if not measured.has("medical", "casual"):
        return
    for keep in ("0.25", "0.5"):
        if measured.has("medical", "casual", keep=keep):
            first, second = measured.recall("medical", keep), measured.recall("casual", keep)
            who: Row = {"claim": "medical stakes miss less", "system": "medical", "against": "casual"}
            who["tokens"] = measured.tokens("medical", keep)
            yield shares_row(who, first, second, "recall of the relevant cells at equal tokens")
    parts = {name: measured.document["stakes"][name] for name in ("medical", "casual")}
    claims = {"recall": ("medical marks more of what matters", "matter"), "waste": ("and wastes more", "do not")}
    for measure, (claim, places) in claims.items():
        first, second = (np.asarray(parts[name][measure], dtype=float) for name in ("medical", "casual"))
        who = {"claim": claim, "system": "medical, its own > 200", "against": "casual", "tokens": None}
        yield shares_row(who, first, second, f"{measure}: share of the places that {places} above 200")


def _collapse(measured: HypothesisMeasurement) -> Iterator[Row]:
    training = measured.document.get("training")
    if training:
        (low, high), (least, most) = training["bands"]["share_band"], training["bands"]["entropy_band"]
        yield {
            "claim": "outcomes train without collapse",
            "system": f"last half: budget spent in [{low:g}, {high:g}], entropy in [{least:g}, {most:g}]",
            **dict.fromkeys(("against", "tokens", "accuracy", "other", "difference")),
            "n": training["observations"],
            "verdict": FAILS if training["alarms"] else HOLDS,
            "measure": "; ".join(training["alarms"]) or "no observation of the last half left its band",
        }


# Rows that are no comparison of exact matches, by the name under which the suite has their place.
OWN_ROWS: Mapping[str, Callable[[HypothesisMeasurement], Iterator[Row]]] = {
    "best cells": _best_cells,
    "questions": _questions,
    "stakes": _stakes,
    "collapse": _collapse,
}


def all_rows(measured: HypothesisMeasurement) -> Iterator[Row]:
    """Every row that the measurement has the systems for, in the suite's order."""
    for asked in SUITE["claims"]:
        if "rows" in asked:
            yield from OWN_ROWS[asked["rows"]](measured)
            continue
        for keep in asked.get("keeps", KEEPS[:1]):
            if measured.has(asked["system"], asked["other"], keep=keep):
                yield compare(measured, asked, keep)


def named(row: Row) -> Row:
    """The row with its number and what a reader sees of the claim: the words and who is compared with whom."""
    first, _, rest = str(row["claim"]).partition(" ")
    number, words = (first, rest) if first[0] == "H" else (OTHERS[first], str(row["claim"]))
    return {"id": number, "shown": f"{words}: {versus(row)}", **row}


def versus(row: Mapping[str, TableCell]) -> str:
    """Who should be above whom."""
    return f"{row['system']} > {row['against']}" if row["against"] else str(row["system"])


def learning_story(training: JsonObject) -> str:
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
    return Table(table.title, SUITE["columns"]["narrow"], tuple(rows), table.facts)


def hypotheses_table(measured: HypothesisMeasurement, facts: dict[str, str] | None = None) -> Table:
    """The table of a measurement; rivals that were not trained have no row, and a fact says so."""
    rows = [named(row) for row in all_rows(measured)]
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
