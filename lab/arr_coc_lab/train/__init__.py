"""Trainings: those that made the bundled weights, from drawn worlds alone, and those on one's own pictures."""
