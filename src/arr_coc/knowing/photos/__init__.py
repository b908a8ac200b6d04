"""The source "photos": where the things are that a question names, by a detector."""
