"""The laboratory of ARR-COC: drawn worlds, trainings, benchmarks, and the classic parts."""
