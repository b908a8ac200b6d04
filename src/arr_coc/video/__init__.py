"""Clips: relevance carried from frame to frame, and one budget over time as well as space."""
