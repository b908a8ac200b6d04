"""Measurements of `arr-coc calibrate`: the attention heads that point at the answer, and the letter heights read."""
