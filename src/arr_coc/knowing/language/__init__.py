"""Words of a question that name colours, places or reading, in several languages."""
