"""`mini`: a stock Qwen3-VL, small enough to ship, with a tokenizer of single characters and Qwen's special tokens.

It has no parameter outside the stock class, so `Qwen3VLForConditionalGeneration.from_pretrained` loads it without this
library. The first token identifiers are Needle World's alphabet, so its tensors are token identifiers.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import CHARACTERS, IDS, NUMBER_OF_IDS, lower_case
from arr_coc.core.errors import InputError
from arr_coc.core.folders import replacing, verify, whole_folder

from ..worlds.constants import constant
from ..worlds.needle.content import string_table

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerFast,
        Qwen2VLImageProcessorPil,
        Qwen3VLForConditionalGeneration,
    )

PADDING_TOKEN = "<|endoftext|>"
# The words of the chat template are one token each; spelled out they would be a tenth of every prompt.
TEMPLATE_TOKENS = ("\n", "user\n", "assistant\n")
SPECIAL_TOKENS = (
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
VOCABULARY = {
    PADDING_TOKEN: 0,
    **{character: index + 1 for index, character in enumerate(CHARACTERS)},
    **{token: NUMBER_OF_IDS + index for index, token in enumerate((*TEMPLATE_TOKENS, *SPECIAL_TOKENS))},
}
NEWLINE, USER, ASSISTANT = (VOCABULARY[token] for token in TEMPLATE_TOKENS)
TURN_START, TURN_END, VISION_START, VISION_END, IMAGE, VIDEO = (VOCABULARY[token] for token in SPECIAL_TOKENS)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% elif part['type'] == 'text' %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


NAMED_TOKENS = {
    "image_token": "<|image_pad|>",
    "video_token": "<|video_pad|>",
    "vision_start_token": "<|vision_start|>",
    "vision_end_token": "<|vision_end|>",
}


@dataclass(frozen=True)
class MiniConfig:
    """The shape of `mini`: about 19 M parameters at the defaults."""

    width: int = 320
    vision_layers: int = 6
    language_layers: int = 5
    heads: int = 5
    widening: int = 3
    position_side: int = 32
    deepstack: tuple[int, ...] = (1, 3)

    @property
    def head_size(self) -> int:
        return self.width // self.heads


def build_mini(config: MiniConfig | None = None) -> Qwen3VLForConditionalGeneration:
    """Initialise a new `mini`; seed torch before the call."""
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    config = config or MiniConfig()
    half = config.head_size // 2
    height = half * 5 // 16
    return Qwen3VLForConditionalGeneration(
        Qwen3VLConfig(
            text_config={
                "vocab_size": len(VOCABULARY),
                "hidden_size": config.width,
                "intermediate_size": config.width * config.widening,
                "num_hidden_layers": config.language_layers,
                "num_attention_heads": config.heads,
                "num_key_value_heads": config.heads,
                "head_dim": config.head_size,
                "max_position_embeddings": 8192,
                "pad_token_id": 0,
                "bos_token_id": None,
                "eos_token_id": TURN_END,
                "tie_word_embeddings": True,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "mrope_section": [half - 2 * height, height, height],
                    "mrope_interleaved": True,
                },
            },
            vision_config={
                "depth": config.vision_layers,
                "hidden_size": config.width,
                "intermediate_size": config.width * config.widening,
                "num_heads": config.heads,
                "patch_size": 16,
                "spatial_merge_size": 2,
                "temporal_patch_size": 1,
                "out_hidden_size": config.width,
                "num_position_embeddings": config.position_side**2,
                "deepstack_visual_indexes": list(config.deepstack),
            },
            image_token_id=IMAGE,
            video_token_id=VIDEO,
            vision_start_token_id=VISION_START,
            vision_end_token_id=VISION_END,
            tie_word_embeddings=True,
        )
    )


def build_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer with one token for each character; characters outside the alphabet become question marks."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordLevel(vocab=VOCABULARY, unk_token="?"))
    tokenizer.add_special_tokens([AddedToken(token, special=True) for token in (PADDING_TOKEN, *SPECIAL_TOKENS)])
    tokenizer.add_tokens([AddedToken(token, normalized=False) for token in TEMPLATE_TOKENS])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token=PADDING_TOKEN,
        unk_token="?",
        padding_side="left",
        clean_up_tokenization_spaces=False,
        chat_template=CHAT_TEMPLATE,
        extra_special_tokens=NAMED_TOKENS,
    )


def build_image_processor() -> Qwen2VLImageProcessorPil:
    """Return Qwen's own image processor with `mini`'s patches; the Pillow form, which needs no torchvision."""
    from transformers import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=16,
        temporal_patch_size=1,
        merge_size=2,
        size={"shortest_edge": 32 * 32 * 4, "longest_edge": 32 * 32 * 4096},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


# ---- questions and answers as token tensors, batched, with one placeholder for every visual token --------------------

# Text before the picture's tokens.
HEAD = (TURN_START, USER, VISION_START)
# Text between question and answer.
TURN = (TURN_END, NEWLINE, TURN_START, ASSISTANT)
TURN_LENGTH = len(TURN)


# Variants of questions: as written, in lower case or capitals, and with an instruction on how to answer.
SMALL, CAPITALS, ADDED = 0.12, 0.08, 0.12
ADDITIONS = (" Answer in one word.", " Answer briefly.", " Reply with the text only.", " Please.")


def reworded(question_ids: Tensor, answer_ids: Tensor, space: int, chance: Tensor, which: Tensor) -> Tensor:
    """Vary questions (B, Q), 0 = padding → (B, Q + 26): some in lower case or capitals, some with an instruction after
    them if `space` tokens of question and answer allow it. chance: (B, 3) in [0, 1), for lower case, capitals and
    instructions; which: (B,) the instruction."""
    device = question_ids.device
    small = lower_case(question_ids)
    capital = small - (IDS["a"] - IDS["A"]) * ((small >= IDS["a"]) & (small <= IDS["z"]))
    asked = torch.where(chance[:, :1] < SMALL, small, question_ids)
    asked = torch.where(chance[:, 1:2] < CAPITALS, capital, asked)
    table = string_table(ADDITIONS, device)
    length = (question_ids > 0).sum(1, keepdim=True) + (answer_ids > 0).sum(1, keepdim=True)
    fits = length + TURN_LENGTH + 1 + table.shape[1] <= space
    return torch.cat([asked, table[which] * (fits & (chance[:, 2:] < ADDED))], 1)


# Text by OCR in the prompt, for half of the printed questions if it fits; right, misread, or of another place.
HINT, HINTED, MISREAD, MISTAKEN = " Read: ", 0.5, 0.2, 0.25


def hinted(question_ids: Tensor, answer_ids: Tensor, other_ids: Tensor, space: int, chance: Tensor) -> Tensor:
    """Add hints to questions: (B, Q), (B, A) and (B, A) characters, 0 = padding → (B, Q + 7 + A). Some get the answer
    or another text of the picture after them, sometimes misread. chance: (B, 4) in [0, 1), for hints, mistakes and
    misreadings, and which letter is misread as which."""
    text = torch.where(chance[:, 1:2] < MISTAKEN, other_ids, answer_ids)
    number = (text > 0).sum(1, keepdim=True)
    place = chance[:, 3:] * number
    wrong = 1 + ((place % 1) * (NUMBER_OF_IDS - 1)).long()
    at = torch.arange(text.shape[1], device=text.device) == place.long()
    text = torch.where(at & (chance[:, 2:3] < MISREAD) & (text > 0), wrong, text)
    text = torch.cat([string_table((HINT,), text.device).expand(len(text), -1), text], 1)
    length = sum((one > 0).sum(1, keepdim=True) for one in (question_ids, answer_ids, text))
    fits = length + TURN_LENGTH + 1 <= space
    return torch.cat([question_ids, text * (fits & (chance[:, :1] < HINTED))], 1)


class Prompt(NamedTuple):
    """input_ids (B, L), padded with 0 on the right; answers (B, L) bool: the tokens that the model must generate."""

    input_ids: Tensor
    answers: Tensor


def chat_tail(question_ids: Tensor, answer_ids: Tensor, length: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the tokens after the picture, (B, T), of questions (B, Q) and answers (B, A), and a mask of the answers.

    Padding is on the right, so causal attention needs no mask for it. With a fixed `length` the tokens are uint8, and
    the longest row need not be read from the device.
    """
    batch, device = len(question_ids), question_ids.device
    middle, end = (constant(tokens, device).expand(batch, -1) for tokens in (TURN, (TURN_END,)))
    tail = torch.cat([question_ids, middle, answer_ids, end], dim=1)
    said = torch.zeros_like(tail, dtype=torch.bool)
    said[:, question_ids.shape[1] + middle.shape[1] :] = True
    there = tail > 0
    order = (~there).to(torch.uint8).argsort(dim=1, stable=True)
    longest = int(there.sum(1).max()) if length is None else length
    tail, said = tail.gather(1, order)[:, :longest], (said & there).gather(1, order)[:, :longest]
    return (tail, said) if length is None else (tail.to(torch.uint8), said)


def build_prompt(question_ids: Tensor, answer_ids: Tensor, visual_tokens: int) -> Prompt:
    """Return whole chats of (B, Q) and (B, A) characters, 0 = padding, in the layout of the chat template."""
    batch, device = len(question_ids), question_ids.device
    head = torch.tensor([*HEAD, *[IMAGE] * visual_tokens, VISION_END], device=device).expand(batch, -1)
    tail, said = chat_tail(question_ids, answer_ids)
    return Prompt(torch.cat([head, tail], dim=1), torch.cat([torch.zeros_like(head, dtype=torch.bool), said], dim=1))


# ---- exports and checkpoints -----------------------------------------------------------------------------------------

# The contents of a checkpoint by name: plain values and tensors.
TrainingState = dict[str, Any]


def ship(modules: Mapping[str, Any], folder: Path) -> None:
    """Write each module in fp16, in the layout of the package: FOLDER/NAME for modules with `save_pretrained` (for
    `mini` with tokenizer and processor), FOLDER/NAME.safetensors for heads that only a training uses."""
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
    """Write a Hugging Face model with `mini`'s tokenizer and processor, in shards below 16 MiB, all at once."""
    from .onnx_graphs import write_reader_graphs  # onnx is needed for exports only

    with whole_folder(folder) as made:
        model.save_pretrained(made, max_shard_size="15MB")
        build_tokenizer().save_pretrained(made)
        build_image_processor().save_pretrained(made)
        write_reader_graphs(made)


def load_shipped(folder: Path, modules: Mapping[str, Any]) -> None:
    """Load weights that `ship` wrote into existing modules; missing heads keep their initial weights."""
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
        except RuntimeError as error:  # a different width
            raise InputError(f"{folder} holds another {name}: {str(error).splitlines()[-1].strip()}") from error
        # A tied weight is stored once; any other missing weight is an error.
        needed = [key for key in missing if not key.startswith("lm_head")]
        if unexpected or needed:
            raise InputError(f"{folder} holds another {name}: missing {needed[:3]}, unexpected {unexpected[:3]}")
