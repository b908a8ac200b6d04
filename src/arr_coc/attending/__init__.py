"""From relevance and a budget to an `Allocation`: trees, overlays, strategies, controls."""
