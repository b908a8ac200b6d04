"""The laboratory of ARR-COC: drawn worlds, trainings, benchmarks, and the classic parts."""

from pathlib import Path

# Weights that only the laboratory uses: the selectors of the first phases, and the rivals of the hypotheses.
LAB_WEIGHTS = Path(__file__).parent / "weights"
