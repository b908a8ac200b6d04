"""Foundations of every stage: values, checks, errors, files, arrays. Imports no other package of the library."""
