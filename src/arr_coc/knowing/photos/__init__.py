"""The source "photos": find the things that a question names, with an object detector."""
