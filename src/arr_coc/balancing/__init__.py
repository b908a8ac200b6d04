"""Balance several ways of knowing into one relevance map."""
