"""BENCH: what is measured, each with the naive form of the same beside it, taken in the same run.

`timing` takes medians, `process` runs whole commands and reads their peak memory, `table` is what every bench returns.
"""
