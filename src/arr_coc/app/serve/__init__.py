"""`arr-coc serve`: an OpenAI-compatible server whose requests carry a budget of visual tokens.

`chat` reads requests, `engine` answers them in batches, `api` has the HTTP routes.
"""
