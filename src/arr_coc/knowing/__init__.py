"""Turn a picture and a question into a relevance map. `registry` has the table of all sources."""
