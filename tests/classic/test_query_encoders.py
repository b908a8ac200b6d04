"""One interface to every reader of questions, on tiny random models of the stock classes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from arr_coc.errors import InputError
from arr_coc.knowing.classic import RelevanceRealizer
from arr_coc.knowing.patch_trunk import TrunkConfig
from arr_coc.lab.classic.query_encoders import (
    BackboneQueryEncoder,
    ImageTextQueryEncoder,
    QueryEncoder,
    load_query_encoder,
    stack_queries,
)

WORDS = ("where", "is", "the", "red", "car", "blue")
QUESTION = "where is the red car"


def save_word_tokenizer(folder: Path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(("<pad>", "<s>", "</s>", "<unk>", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("<s>", 1), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)


def save_model(kind: str, folder: Path) -> Path:
    from transformers import CLIPConfig, CLIPModel, LlamaConfig, LlamaForCausalLM, SiglipConfig, SiglipModel

    torch.manual_seed(0)
    body = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
    ends = {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    text = body | ends | {"vocab_size": 16, "max_position_embeddings": 12}
    vision = body | {"patch_size": 8, "image_size": 16}
    if kind == "mini":
        from arr_coc.lab.train.mini_model import MiniConfig, build_mini, build_tokenizer

        shape = MiniConfig(width=32, vision_layers=2, language_layers=1, heads=1, position_side=4, deepstack=(0,))
        build_mini(shape).save_pretrained(folder)
        build_tokenizer().save_pretrained(folder)
        return folder
    if kind == "causal":
        LlamaForCausalLM(LlamaConfig(**text)).save_pretrained(folder)
    elif kind == "clip":
        CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)).save_pretrained(folder)
    else:
        text |= {"projection_size": 20}
        SiglipModel(SiglipConfig(text_config=text, vision_config=vision)).save_pretrained(folder)
    save_word_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, QueryEncoder]:
    kinds = ("mini", "causal", "clip", "siglip")
    return {kind: load_query_encoder(save_model(kind, tmp_path_factory.mktemp(kind))) for kind in kinds}


@pytest.mark.parametrize(
    ("kind", "made", "length", "width"),
    [
        ("mini", BackboneQueryEncoder, len(QUESTION), 32),
        ("causal", BackboneQueryEncoder, 5, 16),
        ("clip", ImageTextQueryEncoder, 5, 24),
        ("siglip", ImageTextQueryEncoder, 5, 20),
    ],
)
def test_every_encoder_gives_tokens_and_a_summary(
    encoders: dict[str, QueryEncoder], kind: str, made: type, length: int, width: int
):
    encoder = encoders[kind]
    assert isinstance(encoder, made)
    tokens, summary = encoder.encode_query(QUESTION)
    assert tokens.shape == (length, width)
    assert summary.shape == (width,)
    assert encoder.width == width
    assert tokens.dtype == summary.dtype == torch.float32
    assert not tokens.requires_grad
    other = encoder.encode_query("where is the blue car")
    assert (other.summary - summary).abs().max() > 1e-4
    with pytest.raises(InputError, match="empty"):
        encoder.encode_query("  ")


def test_a_backbones_tokens_are_its_input_embeddings_and_the_summary_their_mean(tmp_path: Path):
    from transformers import AutoTokenizer, LlamaForCausalLM

    save_model("causal", tmp_path)
    model, tokenizer = LlamaForCausalLM.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    tokens, summary = BackboneQueryEncoder(model, tokenizer).encode_query("the red car")
    rows = [4 + WORDS.index(word) for word in ("the", "red", "car")]
    assert torch.equal(tokens, model.get_input_embeddings().weight[rows])
    torch.testing.assert_close(summary, tokens.mean(0))
    loaded = BackboneQueryEncoder.from_pretrained(tmp_path).encode_query("the red car")
    assert torch.equal(loaded.tokens, tokens)


def test_an_image_text_encoders_tokens_are_read_in_context(encoders: dict[str, QueryEncoder]):
    for kind, in_context in (("clip", True), ("siglip", True), ("causal", False)):
        first = encoders[kind].encode_query("the red car").tokens[2]
        second = encoders[kind].encode_query("the blue car").tokens[2]
        assert torch.equal(first, second) != in_context


def test_stacked_questions_of_different_length_score_like_each_alone(encoders: dict[str, QueryEncoder]):
    encoder = encoders["causal"]
    queries = [encoder.encode_query(text) for text in ("the red car", QUESTION)]
    words, padding, summaries = stack_queries(queries)
    assert words.shape == (2, 5, 16)
    assert padding.tolist() == [[False] * 3 + [True] * 2, [False] * 5]
    assert torch.equal(summaries[0], queries[0].summary)
    torch.manual_seed(0)
    module = RelevanceRealizer(TrunkConfig(patch_width=3, query_width=16, width=8, layers=1, heads=2)).eval()
    patches = torch.randn(2, 4, 3)
    together = module(patches, words, padding)
    for place, query in enumerate(queries):
        alone = module(patches[place : place + 1], query.tokens[None])
        torch.testing.assert_close(together[place], alone[0], atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="no question"):
        stack_queries([])


def test_what_cannot_be_loaded_is_named(tmp_path: Path):
    for load in (load_query_encoder, BackboneQueryEncoder.from_pretrained, ImageTextQueryEncoder.from_pretrained):
        with pytest.raises(InputError, match=str(tmp_path)):
            load(tmp_path)
