"""The source "words": find the words of a page that answer the question."""
