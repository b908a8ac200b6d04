"""`bench grip --constants`: the two numbers of the rule that chooses a scale, from drawn pages and Needle World only.

Every question is read at several fixed sizes, with as many tokens and the same map. Which of them the rule would have
taken with other numbers is then counted, not read again. Pages are printed by torch in faces that were held out
(`worlds.print`), Needle World is its split for validation: nothing here was trained on, and nothing is judged by it.
With `--data` pages that `arr-coc pages` drew are a third source; a seed that nothing is judged by is for the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from arr_coc.texture.type_height import letters_of

from arr_coc.attending.distance import COARSELY, WORTH, LetterDemand, ScaleChoice
from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.pictures.load import load_picture

from ..statistics import Estimate, mean, paired_bootstrap
from .answers import AnswerStore
from .machine import machine_facts
from .options import GripOptions
from .real import reading_questions
from .report import Quantity, Report, Table
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import anls, exact
from .workers import in_turn

SUITE = suite("grip")
CONSTANTS = SUITE["constants"]
SIZES: tuple[float, ...] = tuple(CONSTANTS["scales"])
PAGES, NEEDLE, DRAWN = "printed pages", "needle", "pages"
IN_A_ROW = 4  # pages of one size


@dataclass(frozen=True, eq=False)
class SizedQuestion:
    """A question about a drawn picture. source: which world. pixels: (H, W, 3) uint8."""

    name: str
    source: str
    pixels: np.ndarray
    text: str
    answer: str

    def score(self, said: str) -> float:
        return (exact if self.source == NEEDLE else anls)(said, (self.answer,))


@dataclass(frozen=True, eq=False)
class ReadQuestion:
    """What came of one question. scores: by size. choice: what the rule knew; None where there is no type."""

    source: str
    scores: Mapping[float, float]
    choice: ScaleChoice | None

    def score(self, worth: float, coarsely: float) -> float:
        """At the size that is nearest to the one that the rule takes with these numbers."""
        taken = 1.0 if self.choice is None else self.choice.best(worth, coarsely)
        return self.scores[min(self.scores, key=lambda size: abs(np.log(size / taken)))]


def asked_of_page(world: Any, number: int, size: tuple[int, int]) -> SizedQuestion:
    """One question about page `number` of a `PrintWorld`."""
    from arr_coc.core.alphabet import CHARACTERS

    def text(ids: Any) -> str:
        return "".join(CHARACTERS[one - 1] for one in ids.tolist() if 0 < one <= len(CHARACTERS))

    batch = world.render(1, size, number)
    asked = number % batch.questions.shape[1]
    answer = text(batch.tails[0, asked][batch.said[0, asked]])
    pixels = batch.pictures[0].permute(1, 2, 0).cpu().numpy()
    return SizedQuestion(f"{PAGES} {number}", PAGES, pixels, text(batch.questions[0, asked]), answer)


def drawn_pages(number: int, seed: int, atlas: Path | None) -> Iterator[SizedQuestion]:
    """One question about each of so many printed pages, of three sizes in turn."""
    from ..train.print_world import PrintWorld

    world = PrintWorld(atlas, "cpu", seed, split="val")
    canvases = [(int(high), int(wide)) for high, wide in CONSTANTS["canvases"]]
    for place in range(number):
        yield asked_of_page(world, place, canvases[place // IN_A_ROW % len(canvases)])


def drawn_needles(number: int, seed: int) -> Iterator[SizedQuestion]:
    """So many questions of Needle World, its families in turn."""
    from ..worlds import needle

    families = list(needle.FAMILIES)
    high, wide = CONSTANTS["needle"]
    for place in range(number):
        family = families[place % len(families)]
        start = place // len(families)
        batch = needle.render(family, 1, (int(high), int(wide)), seed, "validation", start=start)
        pixels = batch.pictures[0].permute(1, 2, 0).numpy()
        yield SizedQuestion(f"{NEEDLE} {place}", NEEDLE, pixels, batch.questions[0], batch.answers[0])


def pages_of(folder: Path, number: int, seed: int) -> Iterator[SizedQuestion]:
    """So many questions about pages that `arr-coc pages` drew; or one clear line where others lie there."""
    asked = reading_questions(folder, None, (), seed)
    if others := {one.source for one in asked if one.source.partition("/")[0] != DRAWN}:
        raise InputError(f"--constants is derived from drawn pages only, and {folder} has {sorted(others)[0]}")
    for place in np.random.default_rng(seed).permutation(len(asked))[:number].tolist():
        one = asked[place].question
        yield SizedQuestion(f"{DRAWN} {one.name}", DRAWN, load_picture(one.image).pixels, one.text, one.answers[0])


def read_sizes(eye: Callable[[], Any], keep: float, one: SizedQuestion) -> list[dict[str, Any]]:
    """Reads a question at every size, in whatever process it is."""
    return list(readings_of(eye(), one, keep))


def measure(options: GripOptions, run: BenchRun, eye: Callable[[str, str], Any]) -> Report:
    """Read what is not read yet, and derive both numbers. eye: gives the reader of a model on a device."""
    shares = parse_shares(options.keeps or SUITE["bars"]["share"])
    if len(shares) != 1:
        raise InputError(f"--constants reads at one share of the tokens, not at {len(shares)}; give --keeps 1/8")
    (keep,) = shares
    found: list[ReadQuestion] = []
    drawn = {"seed": options.seed, "atlas": None if options.atlas is None else options.atlas.name}
    settings = {"model": options.model, "keep": keep, **drawn}
    with run.answers("constants_", "out/grip-constants", settings) as answers:
        columns = [drawn_pages(options.n, options.seed, options.atlas), drawn_needles(options.n, options.seed)]
        columns += [pages_of(folder, options.n, options.seed) for folder in options.data]

        def waiting() -> Iterator[SizedQuestion]:
            for one in in_turn(columns):
                if all((one.name, f"×{size:g}") in answers.rows for size in SIZES):
                    found.append(read_question(one, answers))
                else:
                    yield one

        work = partial(read_sizes, partial(eye, options.model, options.device), keep)
        for one, rows in run.each(waiting(), work, "reading", options.workers, len(columns) * options.n):
            for row in rows:
                answers.add(row)
            found.append(read_question(one, answers))
    facts = {"model": f"{options.model} on {options.device}", "keep": f"1/{round(1 / keep)}", "seed": str(options.seed)}
    return report_of(found, {**facts, **machine_facts(("torch",))})


def scored_by(eye: Any, pixels: np.ndarray, text: str) -> Relevance:
    """The map of an eye's own scorer, on the eye's device."""
    return eye.scorer.of_pixels(pixels, text, str(eye.engine.device))


def readings_of(eye: Any, one: SizedQuestion, keep: float) -> Iterator[dict[str, Any]]:
    """A row for each size; that of ×1 also has what the rule knew."""
    eye.set_image(one.pixels)
    scored = scored_by(eye, one.pixels, one.text)
    for size in SIZES:
        answer = eye.ask(one.text, keep=keep, relevance=scored, scale=size, max_new_tokens=48)
        row = {"question": one.name, "cell": f"×{size:g}", "said": answer.text, "true": one.answer}
        row |= {"score": round(one.score(answer.text), 5), "tokens": answer.tokens}
        if size == 1:
            row["choice"] = known_choice(eye, one, scored.map, answer.tokens, answer.full)
        yield row


def known_choice(
    eye: Any, one: SizedQuestion, relevance: np.ndarray, tokens: int, full: int
) -> dict[str, list[float]] | None:
    """What the rule knows of a question at each scale; None where the picture has no type."""
    size, letters = one.pixels.shape[:2], letters_of(one.pixels)
    if not letters:
        return None
    need = LetterDemand.of(letters, relevance, eye.grip, size=size, canvas=size, full=full, tokens=tokens)
    choice = need.choice(eye.grip)
    return {name: getattr(choice, name).tolist() for name in ("tried", "read", "fine")}


def read_question(one: SizedQuestion, answers: AnswerStore) -> ReadQuestion:
    """From the rows of all sizes."""
    rows = {size: answers.rows[one.name, f"×{size:g}"] for size in SIZES}
    known = rows[1.0]["choice"]
    choice = None if known is None else ScaleChoice(*(np.array(known[name]) for name in ("tried", "read", "fine")))
    return ReadQuestion(one.source, {size: row["score"] for size, row in rows.items()}, choice)


# ---- what follows ----------------------------------------------------------------------------------------------------

Pair = tuple[float, float]
TODAY, NEVER = (WORTH, COARSELY), (np.inf, 1.0)


def scores_of(found: Sequence[ReadQuestion], pair: Pair) -> np.ndarray:
    """(N,) by the rule with these numbers."""
    return np.array([one.score(*pair) for one in found])


def weights_of(found: Sequence[ReadQuestion]) -> np.ndarray:
    """(N,) so that both sources count alike, whatever they have."""
    sources = [one.source for one in found]
    return np.array([len(found) / len(set(sources)) / sources.count(one.source) for one in found])


def best_pair(scores: Mapping[Pair, np.ndarray], which: Any = slice(None)) -> Pair:
    """Whose mean is largest; of equals, the one nearest to today's."""

    def rank(pair: Pair) -> tuple[float, float]:
        apart = abs(pair[0] - WORTH) + abs(pair[1] - COARSELY)
        return round(float(scores[pair][which].mean()), 9), -apart

    return max(scores, key=rank)


def crossed(scores: Mapping[Pair, np.ndarray], base: np.ndarray) -> Estimate:
    """What deriving brings on questions that it has not seen: each half by the numbers of the other."""
    even = np.arange(len(base)) % 2 == 0
    taken = np.where(even, scores[best_pair(scores, ~even)], scores[best_pair(scores, even)])
    return paired_bootstrap(taken, base)


def report_of(found: Sequence[ReadQuestion], facts: Mapping[str, str]) -> Report:
    """Every size, both numbers, what they bring over ×1 and over those of today, and those that come next."""
    weights, sources = weights_of(found), np.array([one.source for one in found])
    pairs = [(worth, coarsely) for worth in CONSTANTS["worth"] for coarsely in CONSTANTS["coarsely"]]
    scores = {pair: weights * scores_of(found, pair) for pair in pairs}
    derived, (one, today) = best_pair(scores), (weights * scores_of(found, pair) for pair in (NEVER, TODAY))
    others = sorted(pairs, key=lambda pair: -float(scores[pair].mean()))[: CONSTANTS["shown"]]
    sizes = sorted(set.intersection(*(set(question.scores) for question in found)))
    ways = {f"×{size:g}": weights * np.array([question.scores[size] for question in found]) for size in sizes}
    ways |= {
        "×1": one,
        "today: {:g}, {:g}".format(*TODAY): today,
        "derived: {:g}, {:g}".format(*derived): scores[derived],
    }
    ways |= {"{:g}, {:g}".format(*pair): scores[pair] for pair in others if pair != derived}
    rows = tuple(
        {
            "way": name,
            "score": Quantity.percent(mean(own)),
            "minus": None if name == "×1" else Quantity.percent(paired_bootstrap(own, one)),
            **{
                source: Quantity.percent(mean((own / weights)[sources == source]))
                for source in dict.fromkeys(sources.tolist())
            },
        }
        for name, own in ways.items()
    )
    table = Table("the numbers of the rule, by what is read", CONSTANTS["columns"], rows, dict(facts))
    typed = sum(question.choice is not None for question in found)
    lines = [
        f"WORTH = {derived[0]:g}, COARSELY = {derived[1]:g} (today {WORTH:g} and {COARSELY:g}), from {len(found)} "
        f"questions, {typed} of them about pictures with type",
        f"derived minus today, on the same questions: {Quantity.percent(paired_bootstrap(scores[derived], today))}",
        f"derived on one half minus today, on the other: {Quantity.percent(crossed(scores, today))}",
    ]
    document = {**table.to_json(), "worth": derived[0], "coarsely": derived[1], "n": len(found), "lines": lines}
    return Report(document, (table,), lines=lines)
