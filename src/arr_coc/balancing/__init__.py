"""Balancing: one relevance map from several ways of knowing."""
