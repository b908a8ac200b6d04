"""Pictures as users have them: files, PDF pages, their words, OCR, and what kind of picture it is."""
