"""Page World: pages as people make them, drawn by a browser, with the boxes of every word and many questions."""
