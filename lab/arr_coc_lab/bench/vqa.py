"""`bench vqa`: a model's answers on a public set as it lies on the hub: all tokens, ours, and the controls at as many.

Every way sees the very same questions, so that differences are taken question by question. Answers are appended to a
file as they come, and a run that was stopped goes on behind them.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, write_text
from arr_coc.core.folders import MINI
from arr_coc.core.records import count_rows, first_of, image_of, is_table, read_rows, table_files
from arr_coc.draw.sheets import contact_sheet
from arr_coc.pictures.load import load_picture

from ..statistics import mean, paired, proportion
from .answers import AnswerStore
from .machine import machine_facts
from .options import VqaOptions
from .report import Quantity, Report, Table, fill_page
from .run import BenchRun
from .suite import parse_shares, suite
from .worst import beside

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import Answer


# ----------------------------------------------------------------------------------------------------------------------
# How an answer is held against the true ones, as each public set's own evaluation does it: a score from 0 to 1.
#
# anls: DocVQA, InfographicVQA (Mathew et al.). relaxed_accuracy: ChartQA (Masry et al.), 5 %. vqa_accuracy: VQAv2
# (Antol, Goyal et al.), ten people's answers, and TextVQA, whose texts are cut a little further. choice: multiple
# choice, V*.

ANLS_THRESHOLD, RELAXED = 0.5, 0.05
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
DIGITS = {"none": 0, **{name: number for number, name in enumerate(NUMBERS)}}
ARTICLES = ("a", "an", "the")
# An answer that lacks one of the apostrophes gets it back.
APOSTROPHES = re.findall(
    r"\S+",
    """
    ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've
    he's how'd how'll how's I'd've I'm I've isn't it'd it'd've it'll ma'am mightn't mightn't've might've mustn't must've
    needn't not've o'clock oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd've somebody'll
    somebody's someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd
    there'd've there're there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll
    what're what's what've when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't
    would've wouldn't wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
    """,
)
CONTRACTIONS = {
    word[: place.start()] + word[place.end() :]: word for word in APOSTROPHES for place in re.finditer("'", word)
} | {"somebody'd": "somebodyd"}  # so in the official table


def edit_distance(first: str, second: str) -> int:
    """Levenshtein's, a row of the table at a time."""
    if not first or not second:
        return len(first) + len(second)
    other, steps = np.frombuffer(second.encode("utf-32-le"), np.uint32), np.arange(len(second) + 1)
    row = steps.copy()
    for number, letter in enumerate(np.frombuffer(first.encode("utf-32-le"), np.uint32), 1):
        moved = np.concatenate([[number], np.minimum(row[1:] + 1, row[:-1] + (other != letter))])
        # What is left are insertions, which run along the row: the least of what stands before, and a step for each.
        row = np.minimum.accumulate(moved - steps) + steps
    return int(row[-1])


def anls(said: str, answers: Sequence[str]) -> float:
    """1 − edits over the longer length for the nearest answer; 0 below a half."""
    best = 0.0
    for answer in answers:
        distance = edit_distance(" ".join(answer.lower().split()), " ".join(said.lower().split()))
        longest = max(len(answer), len(said))
        best = max(best, 1.0 - distance / longest if longest else 1.0)
    return best if best >= ANLS_THRESHOLD else 0.0


def relaxed_accuracy(said: str, answers: Sequence[str]) -> float:
    """Numbers within 5 % of the true one, anything else by its letters whatever their case."""
    return float(any(_relaxed(said.strip(), answer.strip()) for answer in answers))


def _relaxed(said: str, answer: str) -> bool:
    found, true = _number(said), _number(answer)
    if found is not None and true:
        return abs(found - true) / abs(true) <= RELAXED
    return said.lower() == answer.lower()


def _number(text: str) -> float | None:
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def vqa_accuracy(said: str, answers: Sequence[str]) -> float:
    """Three of ten people are enough; averaged over leaving each of them out."""
    return _agreement(normalised(said), [normalised(answer) for answer in answers])


def textvqa_accuracy(said: str, answers: Sequence[str]) -> float:
    """The same behind the tokeniser of TextVQA's evaluation."""
    return _agreement(normalised(_tokenised(said)), [normalised(_tokenised(answer)) for answer in answers])


def _agreement(said: str, answers: Sequence[str]) -> float:
    same = np.array([answer == said for answer in answers])
    return float(np.minimum(1.0, (same.sum() - same) / 3).mean()) if len(same) else 0.0


def _tokenised(text: str) -> str:
    return text.lower().replace(",", "").replace("?", "").replace("'s", " 's").strip()


def normalised(text: str) -> str:
    """Without punctuation and articles, numbers as digits, apostrophes in their places."""
    text = text.replace("\n", " ").replace("\t", " ").strip()
    given, grouped = text, re.search(r"\d,\d", text) is not None
    for mark in PUNCTUATION:
        apart = f"{mark} " in given or f" {mark}" in given or grouped
        text = text.replace(mark, "" if apart else " ")
    text = re.sub(r"\.(?!\d)", "", text)
    words = (str(DIGITS.get(word, word)) for word in text.lower().split())
    return " ".join(CONTRACTIONS.get(word, word) for word in words if word not in ARTICLES)


def exact(said: str, answers: Sequence[str]) -> float:
    return float(said.strip() in [answer.strip() for answer in answers])


def choice(said: str, answers: Sequence[str]) -> float:
    """answers: the letter. Said alone or first, in brackets, or behind "answer is"."""
    said = said.strip()
    patterns = (r"\(?([A-Za-z])\)?(?:[.:),]|\s*$)", r".*?\(([A-Z])\)", r".*?\b(?i:answer)(?: is)?:? *\(?([A-Za-z])\b")
    found = next((match for match in (re.match(one, said, re.DOTALL) for one in patterns) if match), None)
    return float(found is not None and found[1].upper() in [answer.strip().strip("()").upper() for answer in answers])


# ----------------------------------------------------------------------------------------------------------------------

SUITE = suite("vqa")
FULL, OURS, WORDS, SMALLER = "full", "ours", "by its words", "smaller picture"
BOXES = "around the true boxes"
BOARD = 64
CONTROLS = ("uniform", "random", "shuffled")
WAYS = (OURS, "uniform", SMALLER, "random", "shuffled")
NAMES: Mapping[str, tuple[str, ...]] = {name: tuple(several) for name, several in SUITE["names"].items()}
QUESTIONS = NAMES["question"]
WORST, PANE = 12, 480


@dataclass(frozen=True)
class VqaTask:
    """metric: (said, true answers) → 0 to 1. prompt: what follows the question. new_tokens: of the longest answer."""

    measure: str
    metric: Callable[[str, Sequence[str]], float]
    prompt: str
    new_tokens: int = 32


TASKS = {
    name: VqaTask(one["measure"], globals()[one["metric"]], SUITE["prompts"][one["prompt"]], one["new_tokens"])
    for name, one in SUITE["tasks"].items()
}


def measure(options: VqaOptions, run: BenchRun) -> Report:
    """Ask what is not answered yet; the table, the page, and a sheet of what was lost."""
    shares = checked(options)
    task = TASKS[options.task]
    prompt = options.prompt if options.prompt is not None else "" if options.model == MINI else task.prompt
    style = AskingStyle(task, prompt, options.strategy, options.seed)
    conditions = conditions_at(shares)

    def questions() -> Iterator[Question]:
        return questions_of(options.data, options.limit, options.seed)

    settings: dict[str, object] = {"task": options.task, "model": options.model, "relevance": options.relevance}
    settings |= {"strategy": options.strategy, "prompt": prompt, "data": options.data, "seed": options.seed}
    eye = eye_of(options.model, options.device, options.relevance)
    number = sum(1 for _ in questions())  # and what cannot be read is refused before anything is written
    with run.answers("", settings=settings) as answers:
        with run.progress(number, "asking") as advance:
            names = measure_vqa(eye, questions(), conditions, style, answers, advance)
        facts = {"model": f"{options.model} on {options.device}", "data": options.data, "seed": str(options.seed)}
        facts |= {"measure": task.measure, "relevance": options.relevance}
        facts |= machine_facts(("torch", "transformers"))
        table = score_table(f"{options.task}: {options.model}", answers, names, conditions, facts)
        worst, sheet = worst_of(answers, names, conditions), options.out / "worst.png"
        if worst:
            shown = (one for one in questions() if one.name in worst)
            worst_sheet(sheet, eye, shown, style, Condition(OURS, shares[-1]), answers)
        better = verdict(answers, names, conditions)
        write_page(options.out / "vqa.md", table, sheet if worst else None)
    lines = [f"ours above uniform at {keep}: {holds}" for keep, holds in better.items()]
    document = {**table.to_json(), "better than uniform": better, "worst": worst}
    return Report(document, (narrow(table),), lines=[*lines, f"page: {options.out / 'vqa.md'}"], page=(table,))


def checked(options: VqaOptions) -> tuple[float, ...]:
    """The shares to ask at, where everything that was given can be."""
    from arr_coc.knowing.registry import check_relevance

    from arr_coc.app.cli.inputs import check_model

    if options.task not in TASKS:
        raise InputError(f"unknown --task {options.task!r}; choose from {', '.join(TASKS)}")
    if options.limit is not None and options.limit < 1:
        raise InputError(f"--limit {options.limit} leaves nothing to ask; give at least 1")
    if options.strategy not in (None, "overlay", "quadtree"):
        raise InputError(f"--strategy {options.strategy} has no controls here; choose from overlay, quadtree")
    shares = parse_shares(options.keeps)
    if shares[0] >= 1:
        raise InputError(f"--keeps {options.keeps}: all tokens are asked anyway; give shares below 1")
    check_model(options.model)
    check_relevance(options.relevance, ("pixels", "texture", "model", "words", "scorer"))
    return shares


@cache
def eye_of(model: str, device: str, relevance: str) -> Callable[[], Eye]:
    """Gives the model, loaded when first needed."""

    @cache
    def eye() -> Eye:
        from arr_coc.answering.eye import Eye

        return Eye.from_pretrained(model, device=device, relevance=relevance)

    return eye


# ---- questions -------------------------------------------------------------------------------------------------------


class Question(NamedTuple):
    """name: of the question in its set. image: bytes or a path. answers: the true ones. words: of the picture, where
    they are known: the way `by its words` takes them. boxes: (N, 4) where the answer stands, for `BOXES`."""

    name: str
    image: bytes | Path
    text: str
    answers: tuple[str, ...]
    words: Any = None
    boxes: Sequence[Sequence[float]] | np.ndarray = ()

    @property
    def bare(self) -> str:
        """What is asked, without choices and instructions: what tokens are spent on."""
        return re.split(r"\n|\(A\)", self.text.strip())[0].strip() or self.text


def questions_of(data: str, limit: int | None = None, seed: int = 0) -> Iterator[Question]:
    """The questions of tables as they lie on the hub. limit: so many, drawn by the seed; a larger one draws the same
    and more. Pictures are read one after another."""
    files = table_files(data)
    if not files or not all(is_table(path) for path in files) or not all(os.path.exists(path) for path in files):
        raise InputError(f"--data {data} is no parquet or jsonl, and no folder or pattern of them")
    counts = [count_rows(path) for path in files]
    order = np.random.default_rng(seed).permutation(sum(counts))
    chosen = None if limit is None or limit >= len(order) else set(order[:limit].tolist())
    first = 0
    for path, count in zip(files, counts, strict=True):
        for number, row in read_rows(path):
            if chosen is None or first + number in chosen:
                yield question_of(row, path, number)
        first += count


def question_of(row: Mapping[str, object], path: Path, number: int) -> Question:
    where = f"row {number + 1} of {path}"
    text, image = first_of(row, QUESTIONS), image_of(first_of(row, NAMES["image"]), path.parent)
    if not isinstance(text, str) or not text.strip() or image is None:
        raise InputError(f"{where} needs a question and an image; it has {', '.join(sorted(row))}")
    answers = answers_of(first_of(row, NAMES["answers"]))
    if not answers:
        raise InputError(f"{where} has no true answer; take the validation split, not the test split")
    named = first_of(row, NAMES["id"])
    return Question(f"{path.name}#{number}" if named is None else str(named), image, text, answers)


def answers_of(value: Any) -> tuple[str, ...]:
    """One answer, several, or the ten of VQAv2, each with its own name."""
    if isinstance(value, dict):
        value = value.get("answer")
    if isinstance(value, str | int | float):
        return (str(value),)
    return tuple(answer for one in value or () for answer in answers_of(one))


# ---- answers ---------------------------------------------------------------------------------------------------------


class Condition(NamedTuple):
    """A way to spend tokens, and the share of the full count that it may spend."""

    way: str
    keep: float

    @property
    def name(self) -> str:
        return self.way if self.way == FULL else f"{self.way} {self.keep:g}"


def conditions_at(keeps: Sequence[float], ways: Sequence[str] = WAYS) -> list[Condition]:
    """All tokens, and every way at each of the shares."""
    return [Condition(FULL, 1.0), *(Condition(way, keep) for keep in keeps for way in ways)]


@dataclass(frozen=True)
class AskingStyle:
    """How all questions are asked. prompt: what follows each of them. strategy: instead of the eye's own."""

    task: VqaTask
    prompt: str
    strategy: str | None = None
    seed: int = 0

    def ask(self, eye: Eye, question: Question, condition: Condition, budget: int) -> Answer:
        """The eye has the picture; for a smaller one it is shown that, and afterwards the picture again."""
        asked, bare = question.text, question.bare
        if self.prompt.strip() and self.prompt.strip() not in asked:
            asked += self.prompt
        how: dict[str, Any] = {"max_new_tokens": self.task.new_tokens, "look_for": bare}
        if condition.way == FULL:
            return eye.ask(asked, keep=1.0, **how)
        if condition.way == SMALLER:
            try:
                show_smaller(eye, question.image, budget)
                return eye.ask(asked, keep=1.0, **how)
            finally:
                eye.set_image(question.image)
        if condition.way == BOXES:
            how["relevance"] = box_map(*question.boxes)
        if condition.way == WORDS:
            how |= {"words": question.words, "relevance": "words"}
        strategy = self.strategy or eye.strategy
        if condition.way in CONTROLS:
            # Controls are laid out like what they control.
            shaped = strategy in ("overlay", "quadtree") and condition.way != "uniform"
            how |= {"strategy": condition.way, **({"shape": strategy} if shaped else {})}
            how["seed"] = crc32(f"{self.seed} {question.name}".encode())
        else:
            how["strategy"] = strategy
        return eye.ask(asked, budget, **how)


def box_map(*boxes: Sequence[float]) -> np.ndarray:
    """(64, 64) float32: 1 where a box of x0, y0, x1, y1 in 0–1 reaches."""
    board = np.zeros((BOARD, BOARD), np.float32)
    for box in boxes:
        x0, y0, x1, y1 = (np.array(box) * BOARD).tolist()
        board[int(y0) : max(int(np.ceil(y1)), int(y0) + 1), int(x0) : max(int(np.ceil(x1)), int(x0) + 1)] = 1.0
    return board


def full_tokens(eye: Eye, text: str) -> int:
    """Visual tokens of the untouched prompt about the eye's picture."""
    return eye.prepare(text, keep=1.0).full


def show_smaller(eye: Eye, image: bytes | Path, budget: int) -> None:
    """The picture itself, reduced until the stock model takes no more than the budget: what one does without us."""
    from PIL import Image

    pixels = Image.fromarray(load_picture(image).pixels)
    scale = min(1.0, math.sqrt(budget / full_tokens(eye, "?")))
    while True:
        size = max(1, round(pixels.width * scale)), max(1, round(pixels.height * scale))
        eye.set_image(pixels.resize(size, Image.Resampling.LANCZOS))
        if full_tokens(eye, "?") <= budget or max(size) <= 8:
            return
        scale *= 0.97


def measure_vqa(
    eye: Callable[[], Eye],
    questions: Iterator[Question],
    conditions: Sequence[Condition],
    style: AskingStyle,
    answers: AnswerStore,
    advance: Callable[[], None] = lambda: None,
) -> list[str]:
    """Ask what is not answered yet; the names of all questions. eye: gives the model, loaded when first needed."""
    names: list[str] = []
    for question in questions:
        names.append(question.name)
        answers.fill((job, asked_of(eye(), *job, style)) for job in answers.waiting([question], conditions))
        advance()
    if len(set(names)) < len(names):
        raise InputError("two questions have the same name; give each an id of its own")
    return names


def asked_of(
    eye: Eye, question: Question, conditions: Sequence[Condition], style: AskingStyle
) -> Iterator[dict[str, object]]:
    """One row for each condition. A picture that cannot be used is one for all, without a score."""
    try:
        eye.set_image(question.image)
        full = full_tokens(eye, question.bare)
    except InputError as error:
        if "tiles or views" in str(error):
            raise  # of every picture, not of this one
        yield from (
            {"question": question.name, "cell": condition.name, "error": str(error)} for condition in conditions
        )
        return
    for condition in conditions:
        answer = style.ask(eye, question, condition, max(1, math.floor(condition.keep * full + 1e-9)))
        yield {
            "question": question.name,
            "cell": condition.name,
            "asked": question.bare,
            "said": answer.text,
            "true": list(dict.fromkeys(question.answers)),
            "score": round(style.task.metric(answer.text, question.answers), 5),
            "tokens": answer.tokens,
            "full": full,
            "uncertainty": round(answer.uncertainty, 5),
            "seconds": round(sum(answer.seconds.values()), 4),
        }


# ---- the table, the worst, the page ----------------------------------------------------------------------------------


def scores_of(
    answers: AnswerStore, names: Sequence[str], conditions: Sequence[Condition]
) -> dict[Condition, np.ndarray]:
    """(n,) for each condition, of the questions that all of them answered."""
    whole = answers.whole(names, conditions)
    if not whole:
        raise InputError("no question was answered by every way; look at the errors in answers.jsonl")
    return {condition: answers.column(whole, condition.name) for condition in conditions}


def score_table(
    title: str, answers: AnswerStore, names: Sequence[str], conditions: Sequence[Condition], facts: Mapping[str, str]
) -> Table:
    scores, whole = scores_of(answers, names, conditions), answers.whole(names, conditions)
    full = next(condition for condition in conditions if condition.way == FULL)
    rows = []
    for condition in conditions:
        own, ours = scores[condition], scores.get(Condition(OURS, condition.keep))
        found = [answers.rows[name, condition.name] for name in whole]
        spent = np.array([[row["tokens"], row["full"], row["seconds"]] for row in found])
        rows.append(
            {
                "way": condition.way,
                "share": f"{100 * spent[:, 0].sum() / spent[:, 1].sum():.1f} %",
                "tokens": float(spent[:, 0].mean()),
                "score": Quantity.percent(proportion(own) if np.isin(own, (0, 1)).all() else mean(own)),
                "lost": None if condition == full else Quantity.percent(paired(own, scores[full])),
                "ours": None if condition.way in (FULL, OURS) or ours is None else Quantity.percent(paired(ours, own)),
                "seconds": Quantity(float(spent[:, 2].mean()), "s"),
            }
        )
    broken = sum("error" in answers.rows.get((name, full.name), {}) for name in names)
    left = {"whose picture cannot be used": broken, "not asked yet": len(names) - len(whole) - broken}
    told = "".join(f", and {number} {what}" for what, number in left.items() if number)
    facts = {"questions": f"{len(whole)}{told}", **facts}
    return Table(title, SUITE["columns"], tuple(rows), facts)


def narrow(table: Table) -> Table:
    """For terminals of 80 columns."""
    return replace(table, columns={key: heading for key, heading in SUITE["columns"].items() if key != "share"})


def verdict(
    answers: AnswerStore, names: Sequence[str], conditions: Sequence[Condition], way: str = "uniform"
) -> dict[str, str]:
    """Share → whether ours is better than the other way there: holds, fails, undecided."""
    scores = scores_of(answers, names, conditions)
    return {
        f"{condition.keep:g}": paired(scores[Condition(OURS, condition.keep)], scores[condition]).above()
        for condition in conditions
        if condition.way == way
    }


def worst_of(answers: AnswerStore, names: Sequence[str], conditions: Sequence[Condition]) -> list[str]:
    """Questions that lost most against the untouched model at the smallest budget; none that lost nothing."""
    ours, whole = (
        min((one for one in conditions if one.way == OURS), key=lambda one: one.keep),
        answers.whole(names, conditions),
    )
    change = answers.column(whole, ours.name) - answers.column(whole, conditions[0].name)
    return [whole[place] for place in np.argsort(change, kind="stable") if change[place] < 0][:WORST]


def worst_sheet(
    path: Path,
    eye: Callable[[], Eye],
    questions: Iterable[Question],
    style: AskingStyle,
    condition: Condition,
    answers: AnswerStore,
) -> None:
    """The picture and beside it where the tokens went; what was said, what full said and what is true."""
    tiles, captions = [], []
    for question in questions:
        model = eye().set_image(question.image)
        row = answers.rows[question.name, condition.name]
        seen = style.ask(model, question, condition, row["tokens"])
        tiles.append(beside(load_picture(question.image), seen.allocation, PANE))
        captions.append(f"{row['said']!r}, true {row['true'][0]!r}: {row['asked']}")
    with replacing(path) as temporary:
        contact_sheet(tiles, captions, columns=2, width=1600, shape=0.5).save(temporary)


def write_page(path: Path, table: Table, sheet: Path | None) -> None:
    """One page: the table, its facts, and the worst pictures; prose of somebody's own in it is left alone."""
    if not os.path.exists(path):
        write_text(path, SUITE["template"]["page"].format(title=table.title))
    lost = f"### What was lost\n\n![Questions that full answers and ours does not]({sheet.name})" if sheet else None
    fill_page(path, "vqa", table.section(titled=False), *([lost] if lost else []))
