"""Drawn worlds with true answers and true boxes: Needle World, and printed pages."""
