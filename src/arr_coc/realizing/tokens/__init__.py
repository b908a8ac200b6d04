"""From leaves to tokens, without a model: patches, positions, prompts, merging, depth."""
