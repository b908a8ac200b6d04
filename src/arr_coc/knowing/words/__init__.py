"""The source "words": where the words of a page answer the question."""
