"""Memory of dead textures is used again, and never while anything made from it lives."""

from __future__ import annotations

import gc
from threading import Thread
from typing import Any

import numpy as np
import torch

from arr_coc.texture.backend_opencv import RecycledMemory
from arr_coc.texture.batch import sense


def test_a_block_comes_back_only_after_its_last_holder_is_gone():
    memory = RecycledMemory()
    array = memory.take((4, 100))
    address = array.ctypes.data
    tensor = torch.from_numpy(array)
    part = tensor[1:3].numpy()
    del array, tensor
    gc.collect()
    assert memory.take((4, 100)).ctypes.data != address
    del part
    gc.collect()
    assert address in {memory.take((4, 100)).ctypes.data for _ in range(1)} | {memory.take((4, 90)).ctypes.data}


def test_a_view_of_a_view_in_numpy_holds_the_block_as_well():
    memory = RecycledMemory()
    array = memory.take((4, 100))
    address = array.ctypes.data
    part = array[1][:50]
    del array
    gc.collect()
    assert memory.take((4, 100)).ctypes.data != address
    memory.forget()
    del part
    gc.collect()
    assert memory.take((4, 100)).ctypes.data == address


def test_too_large_a_block_is_not_kept_and_a_much_smaller_wish_gets_its_own():
    memory = RecycledMemory(most_kept=1000)
    memory.take((1000,))
    gc.collect()
    assert not memory._free
    roomy = RecycledMemory()
    roomy.take((1000,))
    gc.collect()
    tiny = roomy.take((10,))
    assert tiny.base.size == 10
    assert len(roomy._free) == 1
    roomy.forget()
    assert not roomy._free


def test_garbage_collected_while_a_block_is_taken_does_not_wait_for_itself():
    """A texture in a cycle comes back whenever the collector runs, also inside `take`."""
    memory = RecycledMemory()

    class Collecting(list):
        def __iter__(self):
            gc.collect()
            return super().__iter__()

    memory._free = Collecting()
    cycle: list[Any] = [memory.take((100,))]
    address = cycle[0].ctypes.data
    cycle.append(cycle)
    del cycle
    taking = Thread(target=memory.take, args=((100,),), daemon=True)
    taking.start()
    taking.join(10)
    assert not taking.is_alive()
    gc.collect()
    assert memory.take((100,)).ctypes.data == address or memory.take((100,)).ctypes.data == address, (
        "and it is used again"
    )


def test_channels_of_a_living_texture_survive_many_others():
    generator = np.random.default_rng(0)
    first = generator.integers(0, 256, (64, 64, 3), dtype=np.uint8)
    saliency = sense(first, "full40")["saliency"]
    kept = saliency.clone()
    for _ in range(5):
        sense(generator.integers(0, 256, (64, 64, 3), dtype=np.uint8), "full40")
    assert torch.equal(saliency, kept)
    # And what was in the block before does not shine through channels that are zero now.
    assert not sense(first, "full40").stack("motion", "gaze", "previous_relevance", "semantic_3").any()
