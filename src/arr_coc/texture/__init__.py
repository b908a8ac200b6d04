"""Texture: what the pixels of a picture say, as named maps. Colours, edges, saliency, print, letters, motion."""
