"""Benchmarks: what is measured, each beside the naive form of the same, taken in the same run.

`timing` takes medians, `process` runs whole commands and reads their peak memory, `table` is what every bench returns.
"""
