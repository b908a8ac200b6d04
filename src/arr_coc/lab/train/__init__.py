"""LEARN: the trainings that made the bundled weights, from Needle World alone."""
