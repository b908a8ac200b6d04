"""Qwen3-VL: foveated before the encoder, on stock weights; also as graphs, and without torch."""
