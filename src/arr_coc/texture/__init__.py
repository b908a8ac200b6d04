"""From a picture to a texture array: named channels, a pyramid, clusters, motion."""
