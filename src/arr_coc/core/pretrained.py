"""`Pretrained`: a trained part that is saved to a folder and read back, with its settings beside its weights."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn

from .errors import InputError
from .files import write_json
from .folders import verify, whole_folder

WEIGHTS_NAME = "model.safetensors"
CONFIG_NAME = "config.json"


class Pretrained(nn.Module):
    """A module built from one dataclass of plain values, `config`; a subclass names that dataclass."""

    config_class: ClassVar[type]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors, and their hashes."""
        with whole_folder(folder) as made:
            save_file({name: value.contiguous() for name, value in self.state_dict().items()}, made / WEIGHTS_NAME)
            write_json(made / CONFIG_NAME, {"kind": type(self).__name__, **asdict(self.config)})

    @classmethod
    def from_config(cls, config: Any) -> Self:
        """A new module with these settings; for subclasses whose constructor takes something else than `config`."""
        return cls(config)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Read what `save_pretrained` wrote, ready for use (call `.train()` to go on learning)."""
        folder, kind = Path(folder), cls.__name__
        verify(folder)
        try:
            settings = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
            found = settings.pop("kind", None)
            if found != kind:
                raise InputError(f"{folder} holds a {found or 'module of unknown kind'}, not a {kind}")
            module = cls.from_config(cls.config_class(**settings))
            module.load_state_dict(load_file(folder / WEIGHTS_NAME))
        except InputError:
            raise
        except (OSError, ValueError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            raise InputError(
                f"no {kind} could be read from {folder}: it needs {CONFIG_NAME} and {WEIGHTS_NAME} as save_pretrained "
                f"writes them ({error})"
            ) from error
        return module.eval()
