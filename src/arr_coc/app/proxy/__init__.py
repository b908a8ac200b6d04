"""`arr-coc proxy`: a proxy for any API that packs the pictures of requests, guided by their questions.

`protocols` finds the pictures of a request, `packer` packs them, `pointing` translates clicks, `api` has the HTTP
side. Needs `pip install 'arr-coc[serve]'`, and no torch.
"""
