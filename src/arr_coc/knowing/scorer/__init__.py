"""The source "scorer": a network that maps picture and question to relevance, with torch and without."""
