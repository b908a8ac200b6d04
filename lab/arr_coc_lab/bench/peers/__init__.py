"""Published ways of spending fewer visual tokens, rebuilt on one frozen `mini`, beside ours, controls and oracles.

`ways` has them all; `model` is the forward pass they share, `maths` what several of them need, `cost` counts
operations, `bench` runs them on the same pictures.
"""
