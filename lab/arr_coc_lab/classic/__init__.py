"""The systems of the source material, one file each: sources of relevance, strategies, the 64-400 scale."""
