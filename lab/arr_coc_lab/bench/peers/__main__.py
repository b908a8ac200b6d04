"""`python -m arr_coc_lab.bench.peers`: the comparison without typer or rich. `arr-coc bench peers` is the same."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from arr_coc.core.errors import InputError


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.peers", description=__doc__)
    made.add_argument("--n", type=int, default=None, help="pictures of each family [2048]")
    made.add_argument("--quick", action="store_true", help="8 pictures of each family, a few ways, two budgets")
    made.add_argument("--peers", nargs="+", metavar="NAME", help="only ways whose name contains one of these")
    made.add_argument("--family", nargs="+", help="only these families")
    made.add_argument("--keeps", nargs="+", type=float, help="shares of the tokens [1/4 1/8 1/16 1/32]")
    made.add_argument("--weights", type=Path, help="folder with mini and scorer [those of the package]")
    made.add_argument("--seed", type=int, default=None, help="of the test pictures")
    made.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    made.add_argument("--batch", type=int, default=None, help="pictures at once [256 on a GPU, 4 on a CPU]")
    made.add_argument("--seconds", type=float, default=None, help="begin no further round that would end later")
    made.add_argument("--from", dest="saved", type=Path, help="measure nothing: show a saved peers.json")
    made.add_argument("--page", type=Path, help="fill the part `peers` of this Markdown page")
    made.add_argument("--plot", type=Path, help="accuracy over GFLOP, as a picture")
    made.add_argument("--out", type=Path, help="folder for peers.json; a later run goes on from there")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        from .command import finish, plain_text

        document = finish(vars(given), tell=lambda line: print(line, file=sys.stderr, flush=True))
        print(plain_text(document))
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
