"""`arr-coc train`: the trainings that made the bundled weights. Thin: every option is the training's own."""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.core.errors import InputError

app = typer.Typer(no_args_is_help=True)
# What follows the name of a training goes to it as it is, --help too.
HANDED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}

# Trainings to which records of image, question and answer say nothing.
NO_RECORDS = {
    "hypotheses": "its rivals are compared on Needle World, where every cell is known; use train scorer --data or "
    "train tensions --data",
}


@app.callback()
def train() -> None:
    """Train on your own pictures (--data), or train the bundled weights again. A stopped run goes on.

    \b
    Examples:
      arr-coc train mini --help
      arr-coc train mini --seconds 520 --total 1040 --folder runs/mini --out runs/mini/export
      arr-coc train mini --steps 20 --scale 0.004 --width 64 --largest 256 --evaluate 0
      arr-coc train scorer --data invoices --start bundled --seconds 420 --out my-scorer
      arr-coc train scorer --from outcomes --reader runs/mini/export
      arr-coc train calibration --weights src/arr_coc/weights
      arr-coc train curve runs/mini/export/record.json
    """


def add_training(name: str, module: str, what: str, *examples: str) -> None:
    """A command whose options are those of `python -m arr_coc_lab.MODULE`."""

    def run(context: typer.Context) -> None:
        if name in NO_RECORDS and any(one.split("=")[0] == "--data" for one in context.args):
            raise InputError(f"train {name} takes no --data: {NO_RECORDS[name]}")
        main = import_module(f"arr_coc_lab.{module}").main
        before = sys.argv[0]
        sys.argv[0] = f"arr-coc train {name}"  # what its usage line begins with
        try:
            main(context.args)
        finally:
            sys.argv[0] = before

    run.__doc__ = f"{what}\n\nTakes the options of `python -m arr_coc_lab.{module}`; --help lists them.\n\n\b\n"
    run.__doc__ += "\n".join(["Examples:", *(f"  arr-coc train {name} {example}" for example in examples)])
    app.command(name, context_settings=HANDED_ON, add_help_option=False)(run)


add_training(
    "mini",
    "train.train_mini",
    "The bundled model mini: with --data on your own pictures, else from drawn ones; can be stopped and resumed.",
    "--seconds 520 --total 1040 --folder runs/mini --out runs/mini/export",
    "--steps 20 --scale 0.004 --width 64 --largest 256 --evaluate 0",
    "--data invoices --seconds 600 --out my-mini",
)
add_training(
    "lora",
    "train.train_prompts",
    "Adapters for any model, on your own pictures at small budgets (extra [lora]).",
    "--model Qwen/Qwen3-VL-2B-Instruct --data invoices --keeps 0.25 0.125 --out my-adapter",
    "--model my-model-folder --data answers.jsonl --steps 200 --rank 16",
)
add_training(
    "scorer",
    "train.train_scorer",
    "Where to look (the scorer): with --data on your own pictures, else a small one on drawn pictures.",
    "--data invoices --start bundled --seconds 420 --out my-scorer",
    "--data answers.jsonl --from outcomes --out my-scorer",
    "--data . --help",
    "--from outcomes --reader runs/mini/export",
    "--from boxes --reader src/arr_coc/weights/mini --seconds 300",
)
add_training(
    "words",
    "train.train_words",
    "Which words answer: with --data on your own pictures and their words, else on drawn pages.",
    "--data invoices --steps 400 --out my-words",
    "--pages packs/train-00.bin --aside packs/val-00.bin --out runs/words/export",
)
add_training(
    "tensions",
    "classic.tensions",
    "The balance of --relevance look: with --data on your own pictures, in seconds; else on drawn ones.",
    "--data photos --out my-tensions",
)
add_training(
    "tempering",
    "classic.tempering",
    "How much ask --passes explores, on your own pictures and their answers.",
    "--data invoices --steps 60 --out my-tempering",
)
add_training(
    "hypotheses",
    "train.train_hypotheses",
    "All scorers that bench hypotheses compares, and their measurement.",
    "--reader src/arr_coc/weights/mini --scorer src/arr_coc/weights/scorer --seconds 690",
)
add_training(
    "video",
    "train.train_video",
    "How clips are followed (temporal), or mini on clips (reader).",
    "temporal --out runs/video --seconds 100",
    "temporal --data clips --out my-video --seconds 300",
    "reader --out runs/video --seconds 100 --device cuda",
)


@app.command("calibration")
def calibration(
    weights: Annotated[
        Path | None, typer.Option(help="Folder with mini and scorer. [default: those of the package]")
    ] = None,
    n: Annotated[int, typer.Option("--n", help="Validation questions of each family and allocation.")] = 512,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Of the validation pictures.")] = 20,
    print_from: Annotated[
        Path | None,
        typer.Option("--print", help="An atlas of type: as many questions about printed pages too (docs/print.md)."),
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON and nothing else.")] = False,
) -> None:
    """Fit the one temperature of mini's uncertainty, and write it into the folder of mini.

    \b
    Examples:
      arr-coc train calibration --n 64
      arr-coc train calibration --n 256 --print atlas.npz --device cuda
      arr-coc train calibration --weights runs/ship --device cuda --json | jq .temperature
    """
    from arr_coc.app.cli.console import progress, wait_asleep
    from arr_coc.core.folders import MINI, part_folder
    from arr_coc.looking import check_device
    from arr_coc.models.bundled import Calibration

    from ..bench.suite import chosen_families

    wait_asleep()
    if n < 1:
        raise InputError(f"--n {n} measures nothing; give at least 1")
    check_device(device)
    from ..bench.needle import BATCH, Weights
    from ..train.calibration import calibrate

    families = chosen_families(family)
    loaded = Weights.load(weights, device)
    batch_size = BATCH.get(device.split(":")[0], BATCH["cpu"])
    printed = None
    if print_from is not None:
        from ..bench.page_reading import print_answers
        from ..train.print_world import PrintWorld

        world = PrintWorld(print_from, device, seed, split="val")
        printed = print_answers(loaded, world, n * len(families), batch_size)
    with progress(families, "asking about", hidden=as_json) as advance:
        found = calibrate(
            *(loaded.mini, loaded.scorer),
            families=families,
            number=n,
            seed=seed,
            batch_size=batch_size,
            advance=advance,
            more=printed or (),
        )
    rest = {name: value for name, value in found.items() if name not in ("temperature", "levels")}
    path = Calibration(found["temperature"], found["levels"]).write(part_folder(MINI, weights), **rest)
    if as_json:
        print(json.dumps({**found, "file": str(path)}))
    else:
        ece = found["overall"]
        print(f"temperature {found['temperature']:.3f}: {path}")
        print(f"ECE {100 * ece['ece_before']:.1f} % before, {100 * ece['ece_after']:.1f} % after, n = {ece['n']}")


@app.command("curve")
def curve(
    record: Annotated[Path, typer.Argument(help="A record.json, or the folder it lies in.", show_default=False)],
    out: Annotated[Path | None, typer.Option(help="The picture. [default: curve.png beside the record]")] = None,
) -> None:
    """Draw the learning curve of a training.

    \b
    Examples:
      arr-coc train curve runs/mini/export
      arr-coc train curve runs/mini/export/record.json --out curve.png
    """
    from ..train.curves import plot_record

    print(f"files: {plot_record(record, out)}")
