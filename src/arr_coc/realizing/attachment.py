"""`attach(model, processor, budget=256)`: make one stock model instance foveate, in `generate()` and in `forward()`.

The instance gets a forward pre-hook, its own `generate`, and the attribute `arr_coc`. `detach` removes all three. No
class, no module and no other instance is changed, and the model keeps no state between calls.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..attending.strategies import DEFAULT_STRATEGY
from ..core.errors import InputError, of_kind, shown
from ..core.values import Allocation
from ..knowing.registry import check_relevance
from ..options import Options, as_options
from .attachment_plan import plan_prompt
from .base import (
    OVERRIDES,
    Backbone,
    Inputs,
    PromptPlan,
    Realized,
    Settings,
    backbone_for,
    check_processor,
    require_pictures,
    wrappers,
)

if TYPE_CHECKING:
    from transformers import GenerationConfig, PreTrainedModel, ProcessorMixin

    from ..options import Budget


class LongPrompt(NamedTuple):
    """The prompt as the user gave it, (B, L), and the length of the short one that replaces it."""

    ids: Tensor
    length: int

    def before(self, answer: Tensor) -> Tensor:
        """Replace the short prompt at the beginning of (rows, L' + n) by this one; rows of one prompt are adjacent."""
        long = self.ids.to(answer.device).repeat_interleave(len(answer) // len(self.ids), dim=0)
        return torch.cat([long, answer[:, self.length :]], dim=1)


def show_long_prompt(kwargs: dict[str, Any], prompt: LongPrompt) -> None:
    """Wrap the caller's stopping criteria and logits processors, so that they get ids with the long prompt."""

    def shown(wrapped: Any) -> Any:
        # transformers reads the signature and requires all arguments beyond the first two.
        return lambda *args, **how: wrapped(prompt.before(args[0]), *args[1:], **how)

    for name in ("stopping_criteria", "logits_processor"):
        if given := kwargs.get(name):
            kwargs[name] = type(given)(map(shown, given))


NAME = "arr_coc"
# Marks a cache that holds a short prompt.
SHORT = "arr_coc_short"
DEFAULT_BUDGET = 256


@dataclass(eq=False)
class Attachment:
    """The foveation of one model instance, available as `model.arr_coc`; a context manager that detaches at its end.

    last: the allocations of the latest call, one per picture. notes: where their relevance came from, and what else the
    user should know. Several threads may call the model at once, because nothing is stored in the model. `last` is then
    the latest of any thread; a thread that needs its own calls `plan` first and passes the result as `allocation=`.
    """

    model: PreTrainedModel
    processor: ProcessorMixin
    backbone: Backbone
    settings: Settings
    last: Sequence[Allocation] = ()
    notes: tuple[str, ...] = ()
    _hooks: Sequence[Any] = ()
    _earlier_generate: Any = None

    # ---------------------------------------------------------------- what a user may call
    def plan(self, inputs: Inputs, **overrides: object) -> PromptPlan:
        """Decide where the tokens of a prompt go, without running the language model, except for a glance."""
        return plan_prompt(self.backbone, self.model, self.processor, inputs, self.settings.override(**overrides))

    def prepare(self, inputs: Inputs, **overrides: object) -> Realized:
        """Build the shortened prompt with its visual tokens, for the stock `forward` or `generate`."""
        plan = self.plan(inputs, **overrides)
        realized = self.backbone.realize(self.model, inputs, plan.allocations, **plan.options)
        self.last, self.notes = plan.allocations, plan.notes
        return realized

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        if getattr(self.model, NAME, None) is self:
            detach(self.model)

    # ---------------------------------------------------------------- what the model calls
    def generate(self, inputs: Tensor | None = None, **kwargs: object) -> object:
        """Run the stock `generate`, foveated. Also accepts the names in `base.OVERRIDES`, such as budget= and query=.

        The returned sequences begin with the prompt as given, so trimming by its length works as usual.
        """
        stock = self._earlier_generate or functools.partial(getattr(type(self.model), "generate"), self.model)  # noqa: B009
        if inputs is not None:
            kwargs["input_ids"] = inputs
        with torch.no_grad():
            prompt = self._shorten(kwargs)
        if prompt is None:
            return stock(**kwargs)
        _shift_lengths(kwargs, self.model.generation_config, prompt.ids.shape[1] - prompt.length)
        show_long_prompt(kwargs, prompt)
        output = stock(**kwargs)
        if isinstance(output, Tensor):
            return prompt.before(output)
        output.sequences = prompt.before(output.sequences)
        _mark(getattr(output, "past_key_values", None))
        return output

    @torch.compiler.disable  # the decision is made outside of compiled graphs
    def _before_forward(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """Shorten the inputs of a forward pass, as a pre-hook. Decoding steps pass through unchanged."""
        if kwargs.get("position_ids") is not None and kwargs.keys().isdisjoint(
            (*self.backbone.picture_keys, *OVERRIDES)
        ):
            return args, kwargs  # a step of `generate`: nothing to do, and reading the cache would make a GPU wait
        kwargs = {**dict(zip(_parameters(type(module).forward), args, strict=False)), **kwargs}
        prompt, cache = self._shorten(kwargs), kwargs.get("past_key_values")
        if prompt is not None and cache is None and not self.model.training and kwargs.get("use_cache") is not False:
            # The same cache that the model would make, made here to mark it.
            from transformers import DynamicCache

            cache = kwargs["past_key_values"] = DynamicCache(config=self.model.config.get_text_config())
            _mark(cache)
        return (), kwargs

    # ---------------------------------------------------------------- inside
    def _shorten(self, kwargs: dict[str, Any]) -> LongPrompt | None:
        """Replace the prompt inside kwargs by its foveated form; return None if there is nothing to foveate."""
        overrides = {name: kwargs.pop(name) for name in OVERRIDES if name in kwargs}
        pictures = any(kwargs.get(key) is not None for key in self.backbone.picture_keys)
        cache = kwargs.get("past_key_values")
        if cache is not None and cache.get_seq_length() > 0:
            if hasattr(cache, SHORT) and (pictures or kwargs.get("position_ids") is None):
                raise InputError("past_key_values has a foveated prompt, whose positions differ from the long one's; "
                                 "pass the whole chat without it, or position_ids")  # fmt: skip
            return None
        if not pictures or kwargs.get("mm_encoder_outputs") is not None:
            if any(value is not None for value in overrides.values()):
                require_pictures(self.backbone, kwargs)
            return None
        realized = self.prepare(dict(kwargs), **overrides)  # raises for a prompt without input_ids
        prompt = LongPrompt(kwargs["input_ids"], realized.inputs["input_ids"].shape[1])
        kwargs.clear()
        kwargs.update(realized.inputs)
        _mark(cache)
        return prompt


def attach(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    budget: Budget | Sequence[int] | None = None,
    *,
    relevance: object = None,
    strategy: str | None = None,
    words: object = None,
    videos: bool = False,
    options: Options | None = None,
) -> Attachment:
    """Make one model instance spend at most `budget` visual tokens on a picture, where the question needs them.

    Args:
        model: A stock model of a supported family (`arr_coc.realizing.base.ADAPTERS`).
        processor: Its processor.
        budget: Maximum number of tokens for a picture, 256 by default; a share such as "25%"; or a list, one for each.
        relevance: The source that says where to look: "glance" (the model's own attention on a coarse first look),
            "detail" (what a coarse look would lose), "look", "scorer", any other name of `registry.source_names()`, the
            folder of a scorer, a function (picture (3, H, W) in [0, 1], question) -> map, or maps. "auto" by default.
        strategy: How relevance becomes regions.
        words: The words of each picture, for sources that read them.
        videos: Whether the prompts have videos (Qwen3-VL); a picture then means a group of frames.
        options: All other options, and defaults for the arguments above.

    Returns:
        An `Attachment`: a context manager that detaches at its end; `last` has the allocations of the last call.

    Raises:
        InputError: For input that cannot be used; one line says what to change.

    Example:
        >>> with attach(model, processor, budget=256):  # doctest: +SKIP
        ...     out = model.generate(**inputs, max_new_tokens=64)
    """
    around = wrappers(model)
    model = around.pop()
    backbone = backbone_for(model)
    check_processor(processor)
    if of_kind(videos, bool, "videos"):
        from .qwen3_vl.video import video_backbone

        backbone = video_backbone(model)
    if hasattr(model, NAME):
        raise InputError("this model is attached already; call detach(model) first, or pass budget= to a single call")
    given = {"budget": budget, "relevance": relevance, "strategy": strategy, "words": words}
    options = as_options(options).override(**given)
    options = options.default(budget=DEFAULT_BUDGET, relevance="auto", strategy=DEFAULT_STRATEGY)
    options = replace(options, ocr=options.ocr and not videos)
    if isinstance(options.relevance, str):
        check_relevance(options.relevance, model=True)
    attachment = Attachment(model, processor, backbone, Settings(options))
    # A wrapper may call `forward` of the wrapped model without its hooks, so the wrapper gets the hook, too.
    attachment._hooks = [
        one.register_forward_pre_hook(attachment._before_forward, with_kwargs=True, prepend=True)
        for one in (*(one for one in around if hasattr(one, "peft_config")), model)
    ]
    attachment._earlier_generate = model.__dict__.get("generate")
    object.__setattr__(model, "generate", attachment.generate)
    object.__setattr__(model, NAME, attachment)
    return attachment


def detach(model: PreTrainedModel) -> None:
    """Undo `attach`: the model is then exactly as before.

    Args:
        model: The model that was attached; others stay unchanged.

    Example:
        >>> detach(model)  # doctest: +SKIP
    """
    model = wrappers(model)[-1]
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"detach() takes the attached model, got {shown(model)}")
    attachment = model.__dict__.get(NAME)
    if attachment is None:
        return
    for hook in attachment._hooks:
        hook.remove()
    if attachment._earlier_generate is None:
        object.__delattr__(model, "generate")
    else:
        object.__setattr__(model, "generate", attachment._earlier_generate)
    object.__delattr__(model, NAME)


def _mark(cache: object) -> None:
    """Mark a cache that has a short prompt."""
    if cache is not None:
        setattr(cache, SHORT, True)


@functools.cache
def _parameters(function: Any) -> tuple[str, ...]:
    """Return the names of a method's parameters after self, for positional arguments."""
    return tuple(inspect.signature(function).parameters)[1:]


def _shift_lengths(kwargs: dict[str, Any], default: GenerationConfig, surplus: int) -> None:
    """Reduce lengths that include the prompt, which are meant for the long one, by the tokens that it has lost."""
    config = kwargs.get("generation_config") or default
    counted = ["min_length"] if kwargs.get("max_new_tokens") or config.max_new_tokens else ["max_length", "min_length"]
    for name in counted:
        if length := kwargs.get(name) or getattr(config, name, None):
            kwargs[name] = max(length - surplus, 1)
