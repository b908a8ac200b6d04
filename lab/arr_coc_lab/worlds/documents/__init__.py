"""Drawn documents of several pages: reports, contracts, statements, manuals and catalogues, with questions."""
