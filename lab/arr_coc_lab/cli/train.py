"""`arr-coc train`: the trainings that made the bundled weights. Thin: every option is the training's own."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, wait_asleep
from arr_coc.app.cli.options import OnlyJson
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, part_folder
from arr_coc.core.values import JsonObject
from arr_coc.knowing.language.tables import read_table

app = typer.Typer(no_args_is_help=True)
# What follows the name of a training goes to it as it is, --help too.
HANDED_ON = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}


@app.callback()
def train() -> None:
    """Train on your own pictures (--data), or train the bundled weights again. A stopped run goes on.

    \b
    Examples:
      arr-coc train mini --help
      arr-coc train mini --seconds 520 --total 1040 --folder runs/mini --out runs/mini/export
      arr-coc train mini --steps 20 --scale 0.004 --width 64 --largest 256
      arr-coc train scorer --data invoices --start bundled --seconds 420 --out my-scorer
      arr-coc train calibration --weights src/arr_coc/weights
    """


def add_training(name: str, training: JsonObject) -> None:
    """A command whose options are those of `python -m arr_coc_lab.MODULE`. training: as in trainings.toml."""
    module = training["module"]

    def run(context: typer.Context) -> None:
        if "no_data" in training and any(one.split("=")[0] == "--data" for one in context.args):
            raise InputError(f"train {name} takes no --data: {training['no_data']}")
        main = import_module(f"arr_coc_lab.{module}").main
        before = sys.argv[0]
        sys.argv[0] = f"arr-coc train {name}"  # what its usage line begins with
        try:
            main(context.args)
        finally:
            sys.argv[0] = before

    head = f"{training['what']}\n\nTakes the options of `python -m arr_coc_lab.{module}`; --help lists them.\n\n\b\n"
    run.__doc__ = head + "\n".join(["Examples:", *(f"  arr-coc train {name} {one}" for one in training["examples"])])
    app.command(name, context_settings=HANDED_ON, add_help_option=False)(run)


for _name, _training in read_table(Path(__file__).with_name("trainings.toml")).items():
    add_training(_name, _training)


@app.command("calibration")
def calibration(
    weights: Annotated[Path | None, typer.Option(help="Folder with mini and scorer. [default: the package's]")] = None,
    n: Annotated[int, typer.Option("--n", help="Validation questions of each family and allocation.")] = 512,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be repeated.")] = None,
    seed: Annotated[int, typer.Option(help="Of the validation pictures.")] = 20,
    atlas: Annotated[Path | None, typer.Option("--print", help="An atlas of type: printed pages too.")] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    as_json: OnlyJson = False,
) -> None:
    """Fit the one temperature of mini's uncertainty, and write it into the folder of mini.

    \b
    Examples:
      arr-coc train calibration --n 64
      arr-coc train calibration --n 256 --print atlas.npz --device cuda
      arr-coc train calibration --weights runs/ship --device cuda --json | jq .temperature
    """
    from ..bench.suite import chosen_families

    wait_asleep()
    if n < 1:
        raise InputError(f"--n {n} measures nothing; give at least 1")
    from arr_coc.looking import check_device
    from arr_coc.realizing.bundled import Calibration

    check_device(device)
    from ..bench.needle import BATCH, Weights
    from ..train.evaluate import calibrate, print_answers
    from ..train.print_world import PrintWorld

    families, loaded = chosen_families(family), Weights.load(weights, device)
    size = BATCH.get(device.split(":")[0], BATCH["cpu"])
    world = None if atlas is None else PrintWorld(atlas, device, seed, split="val")
    printed = print_answers(loaded.mini, loaded.scorer, world, n * len(families), size) if world else ()
    with progress(families, "asking about", hidden=as_json) as advance:
        how: JsonObject = {"families": families, "number": n, "seed": seed, "batch_size": size, "advance": advance}
        found = calibrate(loaded.mini, loaded.scorer, more=printed, **how)
    rest = {name: value for name, value in found.items() if name not in ("temperature", "levels")}
    path = Calibration(found["temperature"], found["levels"]).write(part_folder(MINI, weights), **rest)
    if as_json:
        print_json({**found, "file": str(path)})
    else:
        before, after, asked = (found["overall"][name] for name in ("ece_before", "ece_after", "n"))
        say(f"temperature {found['temperature']:.3f}: {path}")
        say(f"ECE {100 * before:.1f} % before, {100 * after:.1f} % after, n = {asked}")
