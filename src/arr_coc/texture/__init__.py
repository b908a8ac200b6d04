"""Texture: what the pixels of a picture say, as named maps. Colours, saliency, print, letters, motion."""
