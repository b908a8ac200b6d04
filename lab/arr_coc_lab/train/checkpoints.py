"""Write what a training made so that the library loads it, and load it again."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing
from arr_coc.core.manifest import verify, whole_folder

from .mini_model import build_image_processor, build_tokenizer
from .onnx_graphs import write_reader_graphs

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# What a checkpoint keeps, by name: plain values and tensors.
TrainingState = dict[str, Any]


def ship(modules: Mapping[str, Any], folder: Path) -> None:
    """Write each module in fp16, as the package has them: FOLDER/NAME for what has `save_pretrained` (with `mini` its
    tokenizer and processor), FOLDER/NAME.safetensors for heads that only a training uses."""
    from safetensors.torch import save_file

    for name, module in modules.items():
        half = copy.deepcopy(module).to("cpu").half()
        if not hasattr(half, "save_pretrained"):
            with replacing(folder / f"{name}.safetensors") as temporary:
                save_file({key: value.contiguous() for key, value in half.state_dict().items()}, temporary)
        elif hasattr(half, "get_input_embeddings"):
            save_model(half, folder / name)
        else:
            half.save_pretrained(folder / name)


def save_model(model: PreTrainedModel, folder: Path) -> None:
    """Write a Hugging Face model with `mini`'s tokenizer and processor, in shards below 16 MiB; the folder is whole."""
    with whole_folder(folder) as made:
        model.save_pretrained(made, max_shard_size="15MB")
        build_tokenizer().save_pretrained(made)
        build_image_processor().save_pretrained(made)
        write_reader_graphs(made)


def load_shipped(folder: Path, modules: Mapping[str, Any]) -> None:
    """Load weights that `ship` wrote into existing modules; heads that are not there begin afresh."""
    from safetensors.torch import load_file

    for name, module in modules.items():
        verify(folder / name)
        files = sorted((folder / name).glob("*.safetensors")) or sorted(folder.glob(f"{name}.safetensors"))
        own = {key: value for path in files for key, value in load_file(path).items()}
        if not own and name.endswith("heads"):
            continue
        if not own:
            raise InputError(f"no weights of {name} in {folder}; give the folder that a training's --out names")
        try:
            missing, unexpected = module.load_state_dict(own, strict=False)
        except RuntimeError as error:  # another width
            raise InputError(f"{folder} holds another {name}: {str(error).splitlines()[-1].strip()}") from error
        # A tied weight is stored once; anything else that is missing is a mistake.
        needed = [key for key in missing if not key.startswith("lm_head")]
        if unexpected or needed:
            raise InputError(f"{folder} holds another {name}: missing {needed[:3]}, unexpected {unexpected[:3]}")
