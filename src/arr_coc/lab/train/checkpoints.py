"""Saving a training so that a stopped run loses at most two minutes, and shipping what it made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import InputError
from ...files import replacing, write_json
from .mini_model import build_image_processor, build_tokenizer

SHARD = 15 * 2**20


def save_state(folder: Path, modules: dict[str, nn.Module], optimizers: list[Any], progress: dict[str, Any]) -> None:
    """Everything that is needed to go on: weights, optimizers, where the run was."""
    state = {
        "modules": {name: module.state_dict() for name, module in modules.items()},
        "optimizers": [optimizer.state_dict() for optimizer in optimizers],
        "progress": progress,
    }
    with replacing(folder / "state.pt") as temporary:
        torch.save(state, temporary)


def load_state(folder: Path, modules: dict[str, nn.Module], optimizers: list[Any]) -> dict[str, Any]:
    """The inverse; returns the progress."""
    state = torch.load(folder / "state.pt", map_location="cpu", weights_only=True)
    for name, module in modules.items():
        module.load_state_dict(state["modules"][name])
    for optimizer, saved in zip(optimizers, state["optimizers"], strict=True):
        optimizer.load_state_dict(saved)
    return state["progress"]


def export(folder: Path, modules: dict[str, nn.Module], record: dict[str, Any]) -> None:
    """All weights as fp16 in a few shards below 16 MiB, and the record of the run: small enough to be carried about."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, torch.Tensor]] = [{}]
    size = 0
    for name, module in modules.items():
        # A tied weight is one tensor under two names; state_dict lists both, safetensors wants one.
        seen: set[int] = set()
        for key, value in module.state_dict().items():
            if value.data_ptr() in seen:
                continue
            seen.add(value.data_ptr())
            half = value.detach().to("cpu", torch.float16 if value.is_floating_point() else value.dtype).contiguous()
            if size + half.nbytes > SHARD:
                shards.append({})
                size = 0
            shards[-1][f"{name}/{key}"] = half
            size += half.nbytes
    for old in folder.glob("weights-*.safetensors"):
        old.unlink()
    for index, shard in enumerate(shards):
        with replacing(folder / f"weights-{index}.safetensors") as temporary:
            save_file(shard, temporary)
    write_json(folder / "record.json", record)


def load_export(folder: Path, modules: dict[str, nn.Module]) -> None:
    """Weights of an export into existing modules (a carried checkpoint: optimizers start afresh)."""
    from safetensors.torch import load_file

    tensors: dict[str, torch.Tensor] = {}
    for shard in sorted(folder.glob("weights-*.safetensors")):
        tensors |= load_file(shard)
    if not tensors:
        raise InputError(f"no weights-*.safetensors in {folder}; give the folder that `train mini --out` wrote")
    for name, module in modules.items():
        own = {key.removeprefix(f"{name}/"): value for key, value in tensors.items() if key.startswith(f"{name}/")}
        missing, unexpected = module.load_state_dict(own, strict=False)
        # A tied weight is stored once, and heads that only the training uses may begin afresh; anything else that is
        # missing is a mistake.
        needed = [] if name.endswith("heads") else [key for key in missing if not key.startswith("lm_head")]
        if unexpected or needed:
            raise InputError(f"{folder} holds another {name}: missing {needed[:3]}, unexpected {unexpected[:3]}")


def ship(modules: dict[str, Any], folder: Path) -> None:
    """What goes into the package: `mini/` as a stock checkpoint with its tokenizer and processor, and `scorer/`."""
    model = modules["mini"].half()
    model.save_pretrained(folder / "mini", max_shard_size="15MB")
    build_tokenizer().save_pretrained(folder / "mini")
    build_image_processor().save_pretrained(folder / "mini")
    modules["scorer"].half().save_pretrained(folder / "scorer")
