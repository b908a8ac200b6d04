"""`arr-coc proxy`: in front of any API, with pictures packed by the question that stands beside them.

`protocols` finds the pictures of a request, `packer` packs them, `pointing` translates clicks, `api` is what clients
see. Needs `pip install 'arr-coc[serve]'`, and no torch.
"""
