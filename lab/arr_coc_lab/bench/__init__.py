"""Benchmarks: questions × systems → rows → one report. `suite` lists the suites, `run` is the loop they share."""
