"""Published token reductions rebuilt on one frozen `mini`, beside ours, controls and oracles.

`ways` lists them all; `model` is their shared forward pass, `maths` has shared helpers, `bench` runs them on the same
pictures and counts operations.
"""
