"""Turn relevance and a budget into an `Allocation`: overlay, quadtree, strategies, scale."""
