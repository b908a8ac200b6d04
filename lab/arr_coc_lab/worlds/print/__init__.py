"""Printed pages drawn by torch from a glyph atlas, with every letter's place, questions and wear."""
