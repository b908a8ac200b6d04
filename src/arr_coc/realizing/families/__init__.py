"""One small adapter for each family of models whose tokens are merged after the encoder."""
