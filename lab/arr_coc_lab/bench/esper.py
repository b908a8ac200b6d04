"""`bench esper`: does looking again pay? Every row is measured on held-out pictures with the shipped weights.

python -m arr_coc_lab.bench.esper --device cuda --out benchmarks/results          all rows
python -m arr_coc_lab.bench.esper --tune --train 20 --save src/arr_coc/weights/esper   settings on validation pictures,
                                                                               tempering on training pictures, first
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any

import torch

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json, write_text
from arr_coc.core.folders import WEIGHTS
from arr_coc.eye.pass_settings import SETTINGS_NAME, EsperSettings
from arr_coc.relevance.look.tempering import TemperingPolicy

from ..train.checkpoints import forget_state
from ..train.train_tempering import TemperingExamples, TemperingOptions, TemperingTask, train_tempering
from .esper_rows import COLUMNS, Row, ablation_rows, arousal_rows, cost_rows, hard_rows, zoo_rows
from .esper_runs import (
    BLUR,
    BLUR_SEED,
    FIRST,
    HARD_FAMILIES,
    LATER,
    LONGEST_ANSWER,
    NOISE_SHARE,
    SIZE,
    TEST_SEED,
    TRAINING_SEED,
    VALIDATION_SEED,
    Advance,
    Models,
    PassOutcomes,
    QuestionSheet,
    hard_scenes,
    measuring,
    points_between,
    run,
    scorer_maps,
    share,
    zoo_scenes,
)
from .machine import machine_facts
from .table import Table, written

# When it is sure enough; when a further pass is not worth trying, because one lowered the uncertainty by less than this
# (None: always worth it); and whether the first look may be the only one.
STOPS, GAINS, LEASTS = (0.15, 0.3), (None, 0.0, 0.02, 0.05), (2, 1)
# How much accuracy early stopping may cost on validation pictures: half of what the target allows.
LOSS = 0.005


def tuning_grid() -> list[list[dict[str, Any]]]:
    """What is tried, one thing after the other, each with the best of what was tried before."""
    eyes = ((0.0, 0.0), (0.5, 0.0), (0.0, 1.0), (0.0, 3.0), (1.0, 1.0))
    return [
        [{"fovea": fovea} for fovea in (None, 1.5, 2.5, 4.0)],
        [{"attention": attention, "question": question} for attention, question in eyes],
        [{"layers": (1 / 3, 2 / 3)}, {"inhibition": 0.5}, {"layout": "apart"}],
    ]


def tune(
    models: Models,
    number: int,
    advance: Advance,
    in_time: Callable[[], bool] = lambda: True,
    watch: Callable[[EsperSettings, list[dict[str, Any]]], None] = lambda best, tried: None,
) -> tuple[EsperSettings, list[dict[str, Any]]]:
    """The best settings on validation pictures: by accuracy with early stopping, ties go to fewer tokens; then when to
    give up, which is read off the best run.

    in_time: whether to try another one. watch: told of the best so far, and of all that were tried.
    """
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    sheet = QuestionSheet.of(models, scenes, scorer_maps(models, BLUR_SEED + 1))
    tried: list[dict[str, Any]] = []
    best = chosen = EsperSettings()
    most = (-1.0, 0.0)
    for group in [[{}], *tuning_grid()]:
        start = best
        for change in group if not tried or in_time() else []:
            settings = replace(start, **change)
            found = run(models, sheet, (FIRST, LATER), settings)
            right, tokens, _ = found.stopped(settings)
            worth = float(right.float().mean()), -float(tokens.float().mean())
            stopping = choose_stopping(found, settings)
            tried.append({"settings": asdict(stopping), **share(right), "tokens": -worth[1]})
            advance(f"tuning {len(tried)}: {100 * worth[0]:.1f} % at {-worth[1]:.0f} tokens with {change}")
            if worth > most:
                best, chosen, most = settings, stopping, worth
            watch(chosen, tried)
            if not in_time():
                break
    return chosen, tried


def choose_stopping(found: PassOutcomes, settings: EsperSettings) -> EsperSettings:
    """The least, stop and gain that save most tokens, of those that cost at most `LOSS` of the accuracy of all passes;
    ties go to the first, and where none keeps it, the first is taken."""
    always = found.at(settings.passes - 1)[0]
    choices = product(LEASTS, STOPS, GAINS)
    options = [replace(settings, least=least, stop=stop, gain=gain) for least, stop, gain in choices]
    worth = []
    for option in options:
        right, tokens, _ = found.stopped(option)
        worth.append(float("inf") if points_between(right, always)["difference"] < -LOSS else float(tokens.sum()))
    return options[worth.index(min(worth))]


def train(
    models: Models,
    settings: EsperSettings,
    batch: int,
    options: TemperingOptions,
    advance: Advance = lambda name: None,
    watch: Callable[[TemperingPolicy, list[float]], None] = lambda policy, rewards: None,
) -> tuple[TemperingPolicy, list[float]]:
    """Learned tempering, from training pictures of the hard families with the blurred scorer.

    watch: told of the policy and all rewards, after every step.
    """

    def examples(step: int) -> TemperingExamples:
        scenes = hard_scenes(batch, TRAINING_SEED, "train", models.device, start=step)
        return QuestionSheet.of(models, scenes, scorer_maps(models, TRAINING_SEED + step * batch)).examples(models)

    def after(policy: TemperingPolicy, rewards: list[float]) -> None:
        advance(f"training step {len(rewards)}: reward {rewards[-1]:.3f}")
        watch(policy, rewards)

    how = {"temperature": models.temperature, "most": LONGEST_ANSWER}
    task = TemperingTask(models.reader, examples, (FIRST, LATER), settings, how)
    with measuring(models), torch.enable_grad():
        return train_tempering(task, options, watch=after)


def compare(models: Models, policy: TemperingPolicy, settings: EsperSettings, number: int) -> dict[str, Any]:
    """The learned tempering against the rule on validation pictures, stopping early: shares, and points between."""
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    sheet = QuestionSheet.of(models, scenes, scorer_maps(models, BLUR_SEED + 1))
    learned, rule = (
        run(models, sheet, (FIRST, LATER), settings, tempering).stopped(settings)[0] for tempering in (policy, None)
    )
    return {"learned": share(learned), "rule": share(rule), "points": points_between(learned, rule)}


# ---- all rows -------------------------------------------------------------------------------------------------------


TITLE = "Esper: does looking again pay?"
PARTS_TITLE = "Esper: parts and presets"
SMALL_TITLE = "Esper: what does a second pass cost, and what do high stakes change?"
SAID = ("what", "n", "tokens", "measured", "against", "kept")


def load_tempering(folder: Path | None) -> TemperingPolicy | None:
    """The learned policy of a folder, where there is one."""
    return TemperingPolicy.from_pretrained(folder) if folder and os.path.isfile(folder / "config.json") else None


def load_settings(folder: Path | None) -> EsperSettings:
    return EsperSettings.load(folder) if folder and os.path.isfile(folder / SETTINGS_NAME) else EsperSettings()


def esper_rows(
    models: Models,
    settings: EsperSettings,
    learned: TemperingPolicy | None,
    *,
    number: int,
    zoo: int,
    repeats: int,
    quick: bool,
    in_time: Callable[[], bool] = lambda: True,
    advance: Advance = lambda name: None,
) -> Iterator[Row]:
    """All rows, each as soon as it is measured; what matters least comes last. in_time: whether to begin another."""
    hard = QuestionSheet.of(
        models, hard_scenes(number, TEST_SEED, "test", models.device), scorer_maps(models, BLUR_SEED)
    )
    yield from hard_rows(models, hard, settings, learned, advance)
    animals = zoo_scenes(zoo, TEST_SEED, models.device)
    yield from zoo_rows(models, animals, settings, learned, advance)
    yield from arousal_rows(models, animals)
    advance("cost")
    yield from cost_rows(models, repeats, (512,) if quick else (512, 1024))
    if not quick:
        yield from ablation_rows(models, hard, settings, in_time, advance)


def esper_facts(models: Models, settings: EsperSettings) -> dict[str, str]:
    return {
        **machine_facts(("torch", "transformers")),
        "device": torch.cuda.get_device_name() if models.device.type == "cuda" else "cpu",
        "pictures": f"{SIZE[0]}×{SIZE[1]}, test split, seed {TEST_SEED}; hard: {', '.join(HARD_FAMILIES)}",
        "tokens": f"full {models.tree.full}; first look {FIRST}, later looks {LATER}; all passes are counted",
        "blur": f"Gaussian of {BLUR} cells, then {NOISE_SHARE:.0%} smooth noise, seed {BLUR_SEED}",
        "settings": str(asdict(settings)),
        "intervals": "95 %: Wilson's for accuracies, normal for paired differences",
    }


def esper_table(
    models: Models,
    *,
    number: int = 1024,
    zoo: int = 200,
    repeats: int = 9,
    quick: bool = False,
    folder: Path | None = None,
    seconds: float = float("inf"),
    watch: Callable[[Table], None] = lambda table: None,
    advance: Advance = lambda name: None,
) -> Table:
    """All rows; quick: few pictures and no ablations, for a look on a CPU. folder: settings and learned tempering.

    seconds: no ablation begins after so many. watch: called with the table so far, after every row.
    """
    folder = WEIGHTS / "esper" if folder is None else folder
    settings, learned = load_settings(folder), load_tempering(folder)
    if quick:
        number, zoo, repeats = min(number, 24), min(zoo, 12), min(repeats, 5)
    table = Table(TITLE, COLUMNS, (), esper_facts(models, settings))
    how: dict[str, Any] = {"number": number, "zoo": zoo, "repeats": repeats, "quick": quick, "advance": advance}
    for row in esper_rows(models, settings, learned, in_time=until(seconds), **how):
        table = Table(TITLE, COLUMNS, (*table.rows, row), table.facts)
        watch(table)
    return table


def small_table(models: Models, repeats: int = 9, zoo: int = 200) -> Table:
    """The rows that are soon measured anywhere: what a pass costs, which wants an idle machine, and arousal."""
    facts = machine_facts(("torch", "transformers"))
    device = torch.cuda.get_device_name() if models.device.type == "cuda" else "cpu"
    rows = [*cost_rows(models, repeats), *arousal_rows(models, zoo_scenes(zoo, TEST_SEED, models.device))]
    return Table(SMALL_TITLE, COLUMNS, tuple(rows), {**facts, "device": device})


def parts_table(
    models: Models,
    names: Sequence[str],
    number: int,
    folder: Path | None = None,
    watch: Callable[[Row], None] = lambda row: None,
) -> Table:
    """Some of the parts and presets alone, against Esper as it is on the same hard pictures."""
    settings = load_settings(WEIGHTS / "esper" if folder is None else folder)
    hard = QuestionSheet.of(
        models, hard_scenes(number, TEST_SEED, "test", models.device), scorer_maps(models, BLUR_SEED)
    )
    rows: list[Row] = []
    for row in ablation_rows(models, hard, settings, lambda: True, lambda name: None, names):
        rows.append(row)
        watch(row)
    facts = {**esper_facts(models, settings), "hard pictures": str(number)}
    return Table(PARTS_TITLE, COLUMNS, tuple(rows), facts)


def load_table(path: Path) -> Table:
    """A table that was saved."""
    try:
        return Table.from_json(json.loads(path.read_text(encoding="utf-8")), COLUMNS)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path} is no table of bench esper ({error}); give the esper.json of --out") from error


def until(seconds: float) -> Callable[[], bool]:
    """Whether there is still time, counted from now."""
    end = perf_counter() + seconds
    return lambda: perf_counter() < end


def main(arguments: Sequence[str] | None = None) -> None:
    """Optionally tune and train first; then measure. What is known by then is on the disk after every step.

    Needs no package but those that the models need: the `arr-coc` command is not installed on every GPU.
    """
    parser = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.esper", description=__doc__)
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--weights", type=Path, help="folder of mini and scorer; the shipped ones")
    parser.add_argument("--number", type=int, default=1024, help="hard pictures; 0 measures no rows")
    parser.add_argument("--zoo", type=int, default=200, help="zoo pictures")
    parser.add_argument("--repeats", type=int, default=9, help="of each timing")
    parser.add_argument("--quick", action="store_true", help="few pictures, no ablations")
    parser.add_argument(
        "--tune", nargs="?", type=int, const=512, default=0, help="choose settings on validation pictures"
    )
    parser.add_argument("--train", type=int, default=0, help="train the tempering, so many steps")
    parser.add_argument("--batch", type=int, default=128, help="pictures of a training step")
    parser.add_argument("--seconds", type=float, default=float("inf"), help="for tuning, training and rows, each")
    parser.add_argument("--save", type=Path, help="folder for settings and tempering")
    parser.add_argument("--out", type=Path, default=Path("out/bench"), help="folder for esper.json and esper.md")
    parser.add_argument("--only", nargs="+", default=(), help="only these parts or presets; writes esper_parts.json")
    given = parser.parse_args(arguments)
    started = perf_counter()

    def say(words: str) -> None:
        print(f"{perf_counter() - started:6.1f} s  {words}", flush=True)

    models, out = Models.load(given.weights, given.device), given.out
    folder = given.save or (given.weights or WEIGHTS) / "esper"

    def tell(row: Row) -> None:
        say("  ".join(written(row[key]) for key in SAID if row.get(key) is not None))

    if given.only:
        write_json(out / "esper_parts.json", parts_table(models, given.only, given.number, folder, tell).to_json())
        return
    if given.tune:

        def chosen(best: EsperSettings, tried: list[dict[str, Any]]) -> None:
            best.save(folder)
            write_json(out / "esper_tuning.json", {"chosen": asdict(best), "tried": tried})

        tune(models, min(given.tune, 48) if given.quick else given.tune, say, until(given.seconds), chosen)
    if given.train:

        def trained(policy: TemperingPolicy, curve: list[float]) -> None:
            policy.save_pretrained(folder)
            write_json(out / "esper_tempering.json", {"steps": len(curve), "batch": given.batch, "reward": curve})

        settings = load_settings(folder)
        run = TemperingOptions(steps=given.train, seconds=given.seconds, folder=out / "tempering-checkpoint")
        policy, curve = train(models, settings, given.batch, run, say, trained)
        forget_state(run.folder)  # it is done: the next time may be with other settings
        found = compare(models, policy, settings, 48 if given.quick else given.tune or 512)
        # What is no better than the rule is measured below all the same, but not used.
        replace(settings, learned=found["points"]["difference"] > 0).save(folder)
        record = {"steps": len(curve), "batch": given.batch, "reward": curve, "validation": found}
        write_json(out / "esper_tempering.json", record)

    def saved(table: Table) -> None:
        write_json(out / "esper.json", table.to_json())
        write_text(out / "esper.md", table.to_markdown() + "\n")
        tell(dict(table.rows[-1]))

    if not given.number:
        return
    sizes = {"number": given.number, "zoo": given.zoo, "repeats": given.repeats}
    esper_table(models, quick=given.quick, folder=folder, seconds=given.seconds, watch=saved, **sizes)


if __name__ == "__main__":
    main()
