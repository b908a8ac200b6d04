"""Run vision-language models on allocations: `attach`, one adapter for each family, the bundled weights."""
