"""What the plain words of a question mean: colours, places, reading, in several languages."""
