"""What `attach` needs to know about a family of vision-language models, and where each family's adapter lives.

An adapter is a small class with no state: every method takes the model and the processor's output and returns new
values. `attach` finds the pictures (`grids`, `pixels`), lets the allocator decide, and calls `realize`, which returns
the shortened prompt together with the visual tokens. Nothing in the model is changed.

A new family is one subclass of `Backbone` and one line in `ADAPTERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from ..attending.frame import Frame
from ..attending.leaves import check_grid
from ..core.arrays import Array
from ..core.errors import InputError
from ..core.values import Allocation, Relevance
from ..decide import View, attend, plain_map
from ..knowing.registry import Maps
from ..options import Options

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, ProcessorMixin

    from ..knowing.scene import RelevanceSource

# config.model_type -> "module:Class" of the adapter, inside this package. Imported on first use only.
ADAPTERS: Mapping[str, str] = {
    "qwen3_vl": "qwen3_vl.adapter:Qwen3VL",
    "qwen3_vl_moe": "qwen3_vl.adapter:Qwen3VL",
    "qwen2_5_vl": "families:Qwen25VL",
    "llava_onevision": "families:LlavaOnevision",
    "internvl": "families:InternVL",
    "gemma3": "families:Gemma3",
    "ovis2": "families:Ovis2",
    "deepseek_ocr2": "families:DeepseekOcr2",
}

# What one call may say otherwise.
OVERRIDES = ("budget", "strategy", "total", "ocr", "allocation", "relevance", "words", "query")

# A prompt as a processor gives it: tensors, mostly, by name.
Inputs = Mapping[str, Any]
# Ready-made visual tokens are handed to a model by `mm_encoder_outputs`, which came with this release.
TRANSFORMERS = "5.18.0"


@dataclass(frozen=True)
class Settings:
    """What `attach` was given, and what a single call may override.

    options: how much may be spent, where and how. query: the question; found in the chat where it is None. scorer: the
    one that was trained with the model. groups: for each picture, which share one budget; without it, all of a prompt
    where the options say `total`.
    """

    options: Options
    query: str | Sequence[str] | None = None
    scorer: RelevanceSource | None = None
    groups: Sequence[int] | None = None

    def override(self, **changes: Any) -> Settings:
        query = changes.pop("query", None)
        return replace(self, options=self.options.override(**changes), query=self.query if query is None else query)


@dataclass(frozen=True)
class PromptPlan:
    """allocations and relevance, one per picture; options: what the adapter needs beside them. notes: where the
    relevance comes from, and what a reader should know about the budget."""

    allocations: list[Allocation]
    relevance: list[object] | None
    options: dict[str, Any]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, views: Sequence[View], known: Maps, tokens: Sequence[int], options: Options) -> PromptPlan:
        """Decide where the tokens of pictures go whose relevance is known. tokens: what each may cost."""
        decisions = attend(views, known.relevance, tokens, options)
        notes = [note for one in known.relevance if isinstance(one, Relevance) for note in one.notes]
        notes += [note for view in views for note in options.notes(view.frame.full)]
        notes += [note for one in decisions for note in one.allocation.notes]
        # What a glance encoded was seen at scale 1.
        realize = {} if any(one.distance.scale != 1 for one in decisions) else dict(known.realize)
        maps: list[object] = [plain_map(one) for one in known.relevance]
        return cls([one.allocation for one in decisions], maps, realize, tuple(dict.fromkeys(notes)))


@dataclass(frozen=True, eq=False)
class VisualTokens:
    """What a vision tower made of M leaves. embeds: (M, D). planes: the DeepStack planes, each (M, D)."""

    embeds: Array
    planes: tuple[Array, ...]


class LeafPrompt(NamedTuple):
    """Prompts with one placeholder per visual token.

    input_ids, attention_mask: (B, L), padded on the left; without a mask nothing is padded. tokens: of all rows.
    position_ids: (4, B, L) and next_position: (B,), from `leaf_positions`.
    """

    input_ids: Array
    tokens: VisualTokens
    position_ids: Array
    next_position: Array
    attention_mask: Array | None = None


class DecodingStep(NamedTuple):
    """One token of every row. ids: (B,) int64. logits: (B, vocabulary) float32, of which each is the greatest."""

    ids: Array
    logits: Array


@dataclass(frozen=True)
class VisualGrid:
    """The rows × cols level-0 tokens of one picture: what the backbone spends with nothing attached. height, width: of
    the picture after the processor resized it. row: the row of the batch whose prompt shows it."""

    rows: int
    cols: int
    height: int
    width: int
    row: int = 0

    @property
    def cell(self) -> int:
        """Return pixels on the side of one level-0 token."""
        return self.height // self.rows

    @property
    def tokens(self) -> int:
        return self.rows * self.cols

    @property
    def frame(self) -> Frame:
        """Return how the picture lies on the grid."""
        return Frame((self.height, self.width), self.cell, (self.rows * self.cell, self.cols * self.cell))


@dataclass(frozen=True)
class Realized:
    """A prompt whose pictures have been given the tokens of their allocations.

    inputs: keyword arguments for `model(...)` and `model.generate(...)`: the shortened `input_ids` and
        `attention_mask`, `mm_encoder_outputs`, `position_ids` where the family needs them, `labels` if given.
    index: (B, L') int64: which position of the long prompt each position of the short one came from; -1 = padding.
    next_position: (B,) the position of the first token after the prompt.
    notes: what else is known; `known`: what was encoded, for a later `realize(known=…)` of the same pictures.
    """

    inputs: dict[str, Any]
    index: torch.Tensor
    next_position: torch.Tensor
    notes: Mapping[str, Any] = field(default_factory=dict)


class Backbone(ABC):
    """The adapter of one family. Stateless; all tensors stay on the device they came on."""

    model_types: ClassVar[tuple[str, ...]]
    # True: fewer patches enter the vision tower. False: the tower runs in full and its tokens are merged.
    before_encoder: ClassVar[bool] = False
    # True: where the model looks can be read off its attention over a coarse first view (`relevance="glance"`).
    can_glance: ClassVar[bool] = True
    # True: the grids are tiles, and a budget is shared by all tiles of one row of the batch.
    tiled: ClassVar[bool] = False
    # Of the grids of a picture that is shown as several, the one that shows all of it.
    whole_view: ClassVar[int] = -1
    # Keys of the processor's output that describe pictures; a prompt without any of them is text only.
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values",)
    # Text that opens the user's turn, and texts that close it, in the family's chat template.
    turn_start: ClassVar[str] = "<|im_start|>user"
    turn_ends: ClassVar[tuple[str, ...]] = ("<|im_end|>",)

    @abstractmethod
    def grids(self, model: PreTrainedModel, inputs: Inputs) -> list[VisualGrid]:
        """Return the level-0 grid of every picture, in the order in which the prompts show them."""

    @abstractmethod
    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[torch.Tensor]:
        """Return every picture as the model sees it: (3, height, width) float32 in [0, 1], rebuilt from the inputs."""

    @abstractmethod
    def realize(self, model: PreTrainedModel, inputs: Inputs, allocations: Sequence[Allocation]) -> Realized:
        """Encode the pictures as allocated and shorten the prompt accordingly.

        inputs: the processor's output, possibly with `labels` and other arguments of the model, which are handed on.
        allocations: one per picture, in order. A family that merges behind its encoder also takes `known=`, the
        encoder's output from a glance.
        """

    def image_token_id(self, model: PreTrainedModel) -> int:
        return int(model.config.image_token_id)


def wrappers(model: Any) -> list[Any]:
    """Yield the wrappers of a stock model, from outside to inside: of `torch.compile`, a PeftModel."""
    found = []
    while True:
        if "_orig_mod" in getattr(model, "_modules", {}):
            found.append(model)
            model = model._orig_mod
        elif hasattr(model, "peft_config") and hasattr(model, "get_base_model"):
            found.append(model)
            model = model.get_base_model()
        else:
            return [*found, model]


def check_processor(processor: object) -> None:
    """Raise `InputError` unless this is a model's whole processor."""
    if hasattr(processor, "image_processor") and hasattr(processor, "tokenizer"):
        return
    hint = "which has no image_processor" if hasattr(processor, "encode") else "which is none"
    kind = type(processor).__name__
    raise InputError(f"the model's processor is needed, got {kind}, {hint}; give AutoProcessor.from_pretrained(…)")


def backbone_for(model: PreTrainedModel) -> Backbone:
    """Return the adapter of this model's family; the model is the whole stock model, with its language head."""
    import transformers
    from packaging.version import Version

    if isinstance(model, str | PathLike):
        raise InputError(f"{str(model)!r} is a name, not a model; load it first: …from_pretrained({str(model)!r})")
    if hasattr(model, "image_processor") and hasattr(model, "tokenizer"):
        raise InputError("the model and the processor are swapped; write attach(model, processor)")
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in ADAPTERS:
        raise InputError(
            f"model family {model_type!r} ({type(model).__name__}) is not supported; supported: "
            f"{', '.join(sorted(ADAPTERS))}"
        )
    if not hasattr(model, "generate"):
        raise InputError(
            f"{type(model).__name__} has no language head; load the …ForConditionalGeneration class of {model_type}"
        )
    if Version(transformers.__version__) < Version(TRANSFORMERS):
        raise InputError(
            f"{model_type} needs transformers >= {TRANSFORMERS}, found {transformers.__version__}: upgrade it, "
            f"pip install -U 'transformers>={TRANSFORMERS}'"
        )
    return adapter(model_type)


@cache  # adapters have no state, one instance each serves every model
def adapter(model_type: str) -> Backbone:
    module, name = ADAPTERS[model_type].split(":")
    return getattr(import_module(f".{module}", __package__), name)()


def check_allocations(allocations: Sequence[Allocation], grids: Sequence[tuple[int, int]]) -> None:
    """Refuse allocations that are not for the pictures of a prompt, whose level-0 tokens are (rows, cols) each."""
    if len(allocations) != len(grids):
        raise InputError(f"this prompt shows {len(grids)} pictures, but {len(allocations)} allocations were given")
    for allocation, grid in zip(allocations, grids, strict=True):
        check_grid(allocation, *grid)


def require_pictures(backbone: Backbone, inputs: Inputs) -> None:
    if all(inputs.get(key) is None for key in backbone.picture_keys):
        raise InputError(
            f"this prompt holds no picture (none of {', '.join(backbone.picture_keys)} was given), so there is nothing "
            f"to allocate; call the model without {', '.join(OVERRIDES)}"
        )
