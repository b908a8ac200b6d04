"""The foveated picture as ordinary pictures, for models that cannot be touched."""
