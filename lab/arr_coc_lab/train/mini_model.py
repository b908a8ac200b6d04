"""`mini`: a stock Qwen3-VL, small enough to ship, with a tokenizer of single characters and Qwen's special tokens.

No parameter lies outside the stock class, so `Qwen3VLForConditionalGeneration.from_pretrained` loads it without this
library. The first identifiers are Needle World's alphabet, so that its tensors are token identifiers as they are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from arr_coc.core.alphabet import CHARACTERS, NUMBER_OF_IDS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen2VLImageProcessorPil, Qwen3VLForConditionalGeneration

PADDING_TOKEN = "<|endoftext|>"
# The words of the chat template are one token each: spelt out they would be a tenth of every prompt.
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
    """A freshly initialised `mini`; seed torch before the call."""
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
    """One token for each character; what is not in the alphabet becomes a question mark."""
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
    """Qwen's own image processor with `mini`'s patches; its Pillow form, which needs no torchvision."""
    from transformers import Qwen2VLImageProcessorPil

    return Qwen2VLImageProcessorPil(
        patch_size=16,
        temporal_patch_size=1,
        merge_size=2,
        size={"shortest_edge": 32 * 32 * 4, "longest_edge": 32 * 32 * 4096},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )
