"""Vision-language models: `attach`, one adapter for each family, the bundled weights."""
