"""A stock Qwen3-VL inside vLLM, foveated before its encoder; found by vLLM itself through an entry point.

    vllm serve Qwen/Qwen3-VL-2B-Instruct --hf-overrides '{"architectures": ["ArrCocQwen3VL"]}' \
        --mm-processor-kwargs '{"arr_coc": {"budget": 256, "max_budget": 1024}}'

`wishes` reads what a request asks of its pictures and decides their leaves, `places` says where leaves stand; neither
needs vLLM. `processor` and `model` are subclasses of vLLM's own, nothing in it is patched. docs/how-to/vllm.md.
"""

from __future__ import annotations

from importlib import import_module

ARCHITECTURE = "ArrCocQwen3VL"


def register() -> None:
    """Register the plugin: entry point `vllm.general_plugins`, called in every process, perhaps more than once."""
    registry = import_module("vllm").ModelRegistry
    if ARCHITECTURE not in registry.get_supported_archs():
        registry.register_model(ARCHITECTURE, f"{__name__}.model:{ARCHITECTURE}")
