"""Texture: compute named maps from the pixels of a picture: colours, saliency, print, letters, motion."""
