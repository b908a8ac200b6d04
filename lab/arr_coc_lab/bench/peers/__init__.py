"""Published ways of spending fewer visual tokens, rebuilt on one frozen `mini`, beside ours, controls and oracles.

One file for each peer: its paper, its rule, what differs from the original. `model` is the forward pass they all share,
`maths` what several of them need, `cost` counts operations, `bench` runs them on the same pictures.
"""
