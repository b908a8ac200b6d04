"""`Eye(depth=…)`: leaves of little relevance leave the encoder early, and families without depths say so."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tiny_models import picture, tiny_model, tiny_processor

from arr_coc import Eye, InputError


def test_an_eye_routes_by_depth_and_answers_from_as_many_tokens() -> None:
    model, processor = tiny_model(), tiny_processor()
    middle = np.zeros((5, 5), dtype=np.float32)
    middle[2, 2] = 1
    seen: list[int] = []
    hook = model.model.visual.blocks[-1].register_forward_pre_hook(lambda _, args: seen.append(len(args[0])))
    how = {"relevance": lambda image, query: middle}
    try:
        with torch.no_grad():
            plain = Eye(model, processor, **how).set_image(picture(160, 160)).ask("what", budget=16, max_new_tokens=2)
            early = Eye(model, processor, depth="early", **how).set_image(picture(160, 160))
            routed = early.ask("what", budget=16, max_new_tokens=2)
    finally:
        hook.remove()
    assert seen[1] < seen[0], "the last block of the encoder sees fewer patches"
    assert routed.tokens == plain.tokens == 16
    with pytest.raises(InputError, match="stock, spread, early"):
        Eye(model, processor, depth="late")
