"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens.

`chat` reads a request, `engine` answers many in one batch, `api` is what clients see.
"""
