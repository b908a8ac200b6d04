"""LEARN: the trainings that made the bundled weights, from drawn worlds alone."""
