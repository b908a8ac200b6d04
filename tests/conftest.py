"""One rule for every property: the same examples at every run, and no clock.

A run that draws new examples finds more, but a stranger's `make test` must not fail by chance:
`HYPOTHESIS_PROFILE=search` draws anew, with more examples; `make fuzz` uses it.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None, database=None)
settings.register_profile("search", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "same"))
