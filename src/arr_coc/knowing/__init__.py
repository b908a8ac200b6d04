"""From a picture and a question to a relevance map. `registry` is the one table of all sources."""
