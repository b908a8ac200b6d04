"""Prompts as tokens: the processor that writes them, where the last user turn is, how to put another question there,
and how to shorten a prompt to the tokens that its pictures keep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from transformers import AutoImageProcessor, AutoProcessor, AutoTokenizer, Qwen3VLProcessor

from .base import Backbone, Inputs

if TYPE_CHECKING:
    from os import PathLike

    from transformers import PreTrainedModel, ProcessorMixin


class PictureProcessor(Qwen3VLProcessor):
    """The stock processor without one for videos, which needs torchvision."""

    def check_argument_for_proper_class(self, argument_name: str, argument: object) -> object:
        # The stock check looks the video processor's class up in a table that torchvision would have filled.
        if argument_name == "video_processor":
            return type(argument)
        return super().check_argument_for_proper_class(argument_name, argument)


def load_processor(name: str | PathLike[str]) -> Any:
    """Return the processor of a model on the hub or in a folder; where torchvision is missing, a `PictureProcessor`."""
    try:
        return AutoProcessor.from_pretrained(name)
    except (ImportError, AttributeError) as error:
        if "orchvision" not in str(error) and "video" not in str(error).lower():
            raise
    tokenizer: Any = AutoTokenizer.from_pretrained(name)
    images = AutoImageProcessor.from_pretrained(name)
    return PictureProcessor(images, tokenizer, None, chat_template=tokenizer.chat_template)


def question_places(backbone: Backbone, tokenizer: Any, ids: Sequence[int]) -> list[int]:
    """Find the words of the last user turn in a prompt without padding, not its pictures or markers; a prompt
    without turns is one question."""

    def places(text: str) -> list[tuple[int, int]]:
        wanted = tokenizer.encode(text, add_special_tokens=False)
        spans = ((place, place + len(wanted)) for place in np.flatnonzero(row == wanted[0] if wanted else []).tolist())
        return [(start, end) for start, end in spans if list(ids[start:end]) == wanted]

    row = np.array(ids)
    # With its line break, too: a tokenizer may have one token for both, and then the role alone is nowhere to be found.
    first = max((end for ending in ("", "\n") for _, end in places(backbone.turn_start + ending)), default=0)
    last = min((place for end in backbone.turn_ends for place, _ in places(end) if place >= first), default=len(ids))
    # The token for what the alphabet lacks is listed as special, but it stands where the user wrote something.
    special = {*tokenizer.all_special_ids} - {tokenizer.unk_token_id}
    return [place for place in range(first, last) if ids[place] not in special]


def mask_of(inputs: Inputs) -> Tensor:
    """Return the attention mask of a prompt, (B, L); without one nothing is padded."""
    mask = inputs.get("attention_mask")
    return torch.ones_like(inputs["input_ids"]) if mask is None else mask


def columns_of(inputs: Inputs) -> list[Tensor]:
    """Return the columns of each row that are not padding."""
    return [torch.nonzero(row).flatten() for row in mask_of(inputs)]


def find_questions(backbone: Backbone, processor: ProcessorMixin, inputs: Inputs) -> list[str]:
    """Return the question of every row, as text."""
    tokenizer, found = processor.tokenizer, {}
    # Copied as a whole: from a GPU each row would be waited for.
    ids, kept = (one.cpu().numpy() for one in (inputs["input_ids"], mask_of(inputs) != 0))
    rows = [tuple(row[one].tolist()) for row, one in zip(ids, kept, strict=True)]
    for ids in dict.fromkeys(rows):  # equal rows of a batch are read once
        words = [ids[place] for place in question_places(backbone, tokenizer, ids)]
        found[ids] = tokenizer.decode(words, skip_special_tokens=False).strip()
    return [found[ids] for ids in rows]


def with_questions(
    backbone: Backbone, processor: ProcessorMixin, inputs: Inputs, queries: Sequence[str], image: int
) -> Mapping[str, object]:
    """Replace the words of the last user turns of prompts by these questions, unless they ask them already.

    For a glance: `query=` may name what to look for while the chat asks something else. image: the token of visual
    ones. Of a turn with pictures the words behind the last are meant, or those before the first where none stand there.
    """
    asked = find_questions(backbone, processor, inputs)
    if all(_same(one, other) for one, other in zip(asked, queries, strict=True)):
        return inputs
    ids, outside = inputs["input_ids"], inputs["input_ids"].shape[1]
    rows: list[Tensor] = []  # where each token of a new row comes from: a column of the old one, or -1 - token
    for row, columns, known, query in zip(ids, columns_of(inputs), asked, queries, strict=True):
        shown = torch.nonzero(row[columns] == image).flatten().tolist() or [outside]
        words = question_places(backbone, processor.tokenizer, row[columns].tolist())
        words = [place for place in words if place > shown[-1]] or [place for place in words if place < shown[0]]
        spelled = processor.tokenizer.encode(query, add_special_tokens=False)
        if words and spelled and not _same(known, query):
            stays = torch.ones_like(columns, dtype=torch.bool)
            stays[words] = False
            before, behind = columns[: words[-1]][stays[: words[-1]]], columns[words[-1] + 1 :]
            columns = torch.cat([before, -1 - torch.tensor(spelled, device=ids.device), behind])
        rows.append(columns)
    valid = mask_of(inputs)
    source = pad_sequence(rows, batch_first=True, padding_value=outside, padding_side=padding_side(valid))
    known = (source >= 0) & (source < outside)
    along = {
        name: value.gather(1, source.clamp(0, outside - 1)).masked_fill(~known, 0)
        for name, value in inputs.items()
        if isinstance(value, Tensor) and value.shape == ids.shape and name != "labels"
    }
    padded = ids[valid == 0]
    along["input_ids"] = torch.where(source < 0, -1 - source, along["input_ids"])
    along["input_ids"][source == outside] = int(padded[0]) if len(padded) else 0
    along["attention_mask"] = (source != outside).to(valid.dtype)
    return {**inputs, **along, "labels": None, "position_ids": None}


def _same(first: str, second: str) -> bool:
    """Tell whether two texts ask the same but for capitals, signs, and a word about how to answer."""
    one, other = ("".join(letter for letter in text.casefold() if letter.isalnum()) for text in (first, second))
    return one == other or (bool(one) and bool(other) and (one in other or other in one))


# ---- shorten a prompt: pure tensor functions over whole batches ------------------------------------------------------


def padding_side(attention_mask: Tensor) -> Literal["left", "right"]:
    """Return where a batch is padded; left if nowhere, which is what generation wants. attention_mask: (B, L)."""
    return "right" if bool((attention_mask[:, -1] == 0).any()) else "left"


def pack(keep: Tensor, side: str = "left") -> Tensor:
    """Pack the positions to keep, (B, L) bool, to one side: (B, L') int64, -1 for padding."""
    longest = int(keep.sum(1).max())
    # A stable sort by "stays" keeps the order of the prompt and moves everything else to the padded side.
    order = torch.sort(keep.to(torch.uint8), dim=1, stable=True, descending=side == "right").indices
    order = order[:, -longest:] if side == "left" else order[:, :longest]
    return torch.where(keep.gather(1, order), order, -1)


def take(values: Tensor, index: Tensor, fill: float = 0) -> Tensor:
    """Return the values of the long prompt at the positions of the short one.

    values: (..., B, L). index: (B, L') from `pack`. fill: what padding holds. Returns (..., B, L').
    """
    place = index.clamp_min(0).expand(*values.shape[:-2], *index.shape)
    return values.gather(-1, place).masked_fill(index < 0, fill)


def shortened(model: PreTrainedModel, inputs: Inputs, index: Tensor, consumed: Collection[str]) -> dict[str, Any]:
    """Return a model's inputs at the positions to keep, without consumed ones. What does not run along the
    prompt is handed on as it is. index: from `pack`."""
    padding = getattr(model.config.get_text_config(), "pad_token_id", None)
    fills, shape = {"input_ids": 0 if padding is None else padding, "labels": -100}, inputs["input_ids"].shape
    return {
        name: take(value, index, fills.get(name, 0)) if isinstance(value, Tensor) and value.shape == shape else value
        for name, value in inputs.items()
        if name not in consumed
    }
