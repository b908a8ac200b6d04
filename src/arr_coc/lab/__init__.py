"""The research half: worlds that are drawn, trainings, benchmarks. The library never imports it."""
