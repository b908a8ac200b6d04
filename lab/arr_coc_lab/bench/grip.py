"""`bench grip`: what a model reads from each distance, with as many tokens: fixed sizes, auto, several readings.

The scorer's map is made once for a question, so that only the distance differs; `uniform` has a flat one. Answers are
appended to a file as they come, and a run that was stopped goes on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from arr_coc.answering.light import quick_eye
from arr_coc.core.checks import shown
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.pictures.load import Picture, load_picture, resized

from ..statistics import Estimate, chance_error, expected_calibration_error, mean, paired, paired_bootstrap
from .answers import AnswerStore
from .grip_constants import measure as derive_constants
from .grip_constants import scored_by
from .grip_saving import measure as measure_saving
from .machine import machine_facts
from .options import GripOptions
from .real import SourceQuestion, reading_questions
from .report import Quantity, Report, Table
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import anls, exact, eye_of
from .workers import in_turn

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

SUITE = suite("grip")
SCALES: tuple[float, ...] = tuple(SUITE["scales"])
ONE, AUTO, SEVERAL, UNIFORM = "×1", "auto", f"surest of {SUITE['readings']}", "uniform"
LARGER, LARGER_AUTO = "upscaled, ×1", "upscaled, auto"
NEEDLE = "needle"
FLAT = np.ones((1, 1), np.float32)


@dataclass(frozen=True)
class GripWay:
    """A way to read, at a share of the tokens. how: keywords of `ask`. flat: without the scorer's map. times: the
    picture is enlarged so often before it is shown."""

    way: str
    keep: float
    how: Mapping[str, Any]
    flat: bool = False
    times: int = 1

    @property
    def name(self) -> str:
        return f"{self.way} {self.keep:g}"


def ways_at(keep: float) -> list[GripWay]:
    """×1 first, then what is held against it."""
    sizes = sorted(SCALES, key=lambda scale: abs(math.log(scale)))
    return [
        *(GripWay(f"×{scale:g}", keep, {"scale": scale}) for scale in sizes),
        GripWay(AUTO, keep, {"scale": "auto"}),
        GripWay(SEVERAL, keep, {"scale": "auto", "readings": SUITE["readings"]}),
        GripWay(UNIFORM, keep, {"scale": 1.0}, flat=True),
        GripWay(f"{UNIFORM}, auto", keep, {"scale": "auto"}, flat=True),
        GripWay(LARGER, keep, {"scale": 1.0}, times=SUITE["upscaled"]),
        GripWay(LARGER_AUTO, keep, {"scale": "auto"}, times=SUITE["upscaled"]),
    ]


def source_of(one: SourceQuestion) -> str:
    """Families of one world are one source: needle, pages."""
    return one.source.partition("/")[0]


def measure(options: GripOptions, run: BenchRun) -> Report:
    """Ask what is not answered yet; the table and the bars."""
    from arr_coc.app.cli.inputs import check_model

    check_model(options.model)
    own = {"--constants": derive_constants, "--saving": measure_saving}
    chosen = [flag for flag in own if getattr(options, flag[2:])]
    if chosen and (options.source or (options.saving and options.data)):
        raise InputError(f"{chosen[0]} draws its own pictures, so that nothing is tuned on data; leave out --data")
    if chosen:
        return own[chosen[0]](options, run, reader)
    if not options.data:
        raise InputError("nothing to read: give --data FOLDER, or --constants or --saving, which draw their own")
    shares = SUITE.shares("keeps") if options.keeps is None else parse_shares(options.keeps)
    asked = questions_of(options.data, options.source, options.n, options.seed)
    ways = [way for keep in shares for way in ways_at(keep)]
    with run.answers("grip_", "out/grip", {"model": options.model, "seed": options.seed}) as answers:
        work = partial(read_question, options.model, options.device)
        answers.fill(run.each(answers.waiting(asked, ways), work, "reading", options.workers))
    facts = {"model": f"{options.model} on {options.device}", "seed": str(options.seed), **machine_facts(("torch",))}
    return report_of(answers, asked, ways, facts)


def read_question(model: str, device: str, job: tuple[SourceQuestion, Sequence[GripWay]]) -> list[dict[str, Any]]:
    """Reads, in whatever process it is. job: a question and the ways in which it is not read yet."""
    return list(answers_to(reader(model, device), *job))


def questions_of(folders: Sequence[Path], sources: Sequence[str], n: int, seed: int) -> list[SourceQuestion]:
    """n of every source, those of one world together; in turn, so that a run that was stopped has as many of each."""
    found: list[list[SourceQuestion]] = []
    for folder in folders:
        several = reading_questions(folder, None, (), seed)
        several = [one for one in several if not sources or source_of(one) in (*sources, NEEDLE, "pages")]
        for source in dict.fromkeys(map(source_of, several)):
            own = [one for one in several if source_of(one) == source]
            order = np.random.default_rng(seed).permutation(len(own))[:n]
            found.append([with_folder(own[place]) for place in order.tolist()])
    if not found:
        raise InputError(f"none of {shown([str(folder) for folder in folders])} has questions of these sources")
    return list(in_turn(found))


def with_folder(one: SourceQuestion) -> SourceQuestion:
    """The question with the name of its folder before its own: several folders may have the same ones."""
    assert isinstance(one.question.image, Path)
    name = f"{one.question.image.parent.parent.name}: {one.name}"
    return replace(one, question=one.question._replace(name=name))


@cache
def reader(model: str, device: str) -> Any:
    """`mini` on a processor without torch, which is quicker there; anything else as an `Eye`."""
    return quick_eye() if model == MINI and device == "cpu" else eye_of(model, device, "auto")()


def answers_to(eye: Eye, one: SourceQuestion, ways: Sequence[GripWay]) -> Iterator[dict[str, Any]]:
    """One row for each way."""
    question, metric = one.question, exact if source_of(one) == NEEDLE else anls
    given = load_picture(question.image)
    eye.set_image(given)
    # A share is one of the picture as it is given, also where it is enlarged before anybody looks.
    full = eye.prepare(question.text, keep=1.0, relevance=FLAT, scale=1).full
    for times in dict.fromkeys(way.times for way in ways):
        picture = enlarged(given, times)
        eye.set_image(picture)
        scored = None if eye.scorer is None else scored_by(eye, picture.pixels, question.text)
        for way in (way for way in ways if way.times == times):
            amount: dict[str, Any] = (
                {"keep": way.keep} if times == 1 else {"budget": max(1, int(way.keep * full + 1e-9))}
            )
            relevance = FLAT if way.flat else scored
            answer = eye.ask(question.text, **amount, relevance=relevance, max_new_tokens=48, **way.how)
            yield {
                "question": one.name,
                "cell": way.name,
                "said": answer.text,
                "true": list(question.answers),
                "score": round(metric(answer.text, question.answers), 5),
                "tokens": answer.tokens,
                "full": answer.full,
                "scale": answer.allocation.scale,
                "finest": answer.allocation.finest,
                "uncertainty": round(answer.uncertainty, 5),
                "seconds": round(sum(answer.seconds.values()), 4),
            }


def enlarged(picture: Picture, times: int) -> Picture:
    """A picture of more pixels, as if it had been given so."""
    if times == 1:
        return picture
    height, width = picture.size[0] * times, picture.size[1] * times
    larger = resized(picture, (height, width))
    return Picture(larger.pixels, picture.name, height, width)


# ---- what came of it -------------------------------------------------------------------------------------------------


def report_of(
    answers: AnswerStore, asked: Sequence[SourceQuestion], ways: Sequence[GripWay], facts: Mapping[str, str]
) -> Report:
    """A row for each source, share and way, and what is said of the bars."""
    sources: dict[str, list[str]] = {}
    for one in asked:
        sources.setdefault(source_of(one), []).append(one.name)
    rows, scores = [], {}
    for source, names in sources.items():
        whole = answers.whole(names, ways)
        for way in ways if whole else ():
            own = scores[source, way.name] = answers.column(whole, way.name)
            base = answers.column(whole, f"{ONE} {way.keep:g}")
            rows.append(
                {
                    "source": f"{source} ({len(whole)})",
                    "keep": f"1/{round(1 / way.keep)}",
                    "way": way.way,
                    "tokens": float(answers.column(whole, way.name, "tokens").mean()),
                    "score": Quantity.percent(mean(own)),
                    "minus": None if way.way == ONE else Quantity.percent(paired(own, base)),
                    "seconds": Quantity(float(answers.column(whole, way.name, "seconds").mean()), "s"),
                }
            )
    if not rows:
        raise InputError("no question was read in every way; give the run more --seconds")
    table = Table("from how far it is read", SUITE["columns"], tuple(rows), dict(facts))
    bars = bars_of(scores, list(dict.fromkeys(source for source, _ in scores)))
    sure = sureness(answers, sources, ways)
    lines = [f"{name}: {quantity} (bar {bar:+g}): {holds}" for name, quantity, bar, holds in bars]
    lines += [f"ECE of {name}: {100 * one['ece']:.1f} % ({100 * one['chance']:.1f} by chance, n {one['n']})"
              for name, one in sure.items()]  # fmt: skip
    document = {**table.to_json(), "bars": [list(map(str, bar)) for bar in bars], "calibration": sure}
    return Report(document, (table,), lines=lines, page=(table,))


Bar = tuple[str, Quantity, float, str]


def bars_of(scores: Mapping[tuple[str, str], np.ndarray], sources: Sequence[str]) -> list[Bar]:
    """The bars of the suite at their share: what was measured, with its interval, and whether it holds."""
    bars, (keep,) = SUITE["bars"], parse_shares(SUITE["bars"]["share"])
    at = {(source, key.rsplit(" ", 1)[0]): own for (source, key), own in scores.items() if key.endswith(f" {keep:g}")}
    pages = [source for source in sources if source != NEEDLE]
    if not all((source, AUTO) in at for source in sources):
        return []
    found: list[tuple[str, Estimate, float]] = []
    for source in pages:
        best = max(SCALES, key=lambda scale: float(np.mean(at[source, f"×{scale:g}"])))
        against = paired(at[source, AUTO], at[source, f"×{best:g}"])
        found.append((f"{source}: auto minus the best size, ×{best:g}", against, bars["best"]))
    if "pages" in pages:
        larger = paired(at["pages", LARGER_AUTO], at["pages", AUTO])
        found.append(("pages upscaled, auto, minus as they are, auto", larger, bars["upscaled"]))
    if pages:
        # Every source counts alike, however many questions it has.
        each = np.concatenate([np.full(len(at[source, AUTO]), 1 / len(at[source, AUTO])) for source in pages])
        weights = each * len(each) / each.sum()
        auto, one, several = (
            weights * np.concatenate([at[source, way] for source in pages]) for way in (AUTO, ONE, SEVERAL)
        )
        found.append(("mean of the pages: auto minus ×1", paired_bootstrap(auto, one), bars["mean"]))
        more = paired_bootstrap(several, auto)
        found.append((f"mean of the pages: {SEVERAL} minus one reading", more, bars["readings"]))
    if NEEDLE in sources:
        found.append(("needle: auto minus ×1", paired(at[NEEDLE, AUTO], at[NEEDLE, ONE]), bars["needle"]))
    return [
        (name, Quantity.percent(one), bar, "kept" if 100 * one.value >= bar else "missed") for name, one, bar in found
    ]


def sureness(
    answers: AnswerStore, sources: Mapping[str, Sequence[str]], ways: Sequence[GripWay]
) -> dict[str, dict[str, float]]:
    """How far confidence is from being right, of single readings by auto; right is where nothing was misread."""
    found: dict[str, dict[str, float]] = {}
    keys = {way.name for way in ways if way.way == AUTO}
    groups = {**{name: [name] for name in sources}, "all": list(sources)}
    for group, members in groups.items():
        rows = [answers.rows[name, key] for one in members for name in sources[one] for key in keys
                if (name, key) in answers.rows]  # fmt: skip
        if rows:
            sure = np.array([1 - row["uncertainty"] for row in rows])
            right = np.array([exact(row["said"], row["true"]) for row in rows]) == 1
            found[group] = {
                "ece": expected_calibration_error(sure, right),
                "chance": chance_error(sure),
                "n": len(rows),
            }
    return found
