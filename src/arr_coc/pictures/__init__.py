"""Load pictures and documents: files, PDF pages, their words, OCR, and the kind of a picture."""
