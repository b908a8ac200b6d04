"""`python -m arr_coc_lab.bench.peers`: the comparison without typer or rich. `arr-coc bench peers` is the same."""

from __future__ import annotations

from ...train.run import door
from .bench import main

if __name__ == "__main__":
    door(main)
