"""Where the package's own files lie: its weights and its example pictures."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).parents[1]
EXAMPLES = PACKAGE / "examples"
WEIGHTS = PACKAGE / "weights"
# The parts of the source material: selectors, learned mips, tensions by the words of a question.
CLASSIC_WEIGHTS = WEIGHTS / "classic"
