"""`python -m arr_coc_lab.bench NAME …`: every suite without typer and rich."""

from __future__ import annotations

import sys

from ..train.run import door
from .run import main

if __name__ == "__main__":
    door(lambda: main(sys.argv[1:]))
