"""`attach(model, processor, budget=256)`: one stock model instance foveates, in `generate()` and in `forward()`.

What is put on the instance: a forward pre-hook, an own `generate`, and the attribute `arr_coc`. `detach` takes all
three away. No class, no module and no other instance is touched, and the model holds no state between calls.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attending.distance import AUTO, check_scale, choose_distance, scaled_size
from ..attending.frame import Frame
from ..attending.grip import Grip
from ..attending.request import Request
from ..attending.strategies import DEFAULT_STRATEGY, meant
from ..balancing.choosing import check_relevance
from ..core.checks import of_kind, shown
from ..core.errors import InputError
from ..core.values import Allocation
from .attachment_plan import plan_prompt
from .base import (
    ATTACH_TRANSFORMERS,
    OVERRIDES,
    Backbone,
    Inputs,
    PromptPlan,
    Realized,
    Settings,
    backbone_for,
    check_processor,
    require_pictures,
    require_transformers,
    unwrapped,
    wrappers,
)

if TYPE_CHECKING:
    from PIL import Image
    from transformers import GenerationConfig, PreTrainedModel, ProcessorMixin
    from typing_extensions import TypedDict, Unpack

    from ..attending.request import Budget, Share
    from .merging import PatchCompressor

    class AdapterOptions(TypedDict, total=False, closed=True):
        """What families that merge tokens behind their encoder take."""

        merge: str | PatchCompressor  # average, compressor, compressor:FOLDER, or a compressor


@dataclass(frozen=True)
class CachedPrompt:
    """The short prompt that a key-value cache holds, in the place of the user's long one.

    long: (B, L) the prompt as the user gave it. mask: (B, L') of the short one. positions: (..., B, L'), as the model
    takes them. next_position: (B,) of the first token after the prompt.
    """

    long: Tensor
    mask: Tensor
    positions: Tensor
    next_position: Tensor

    @property
    def length(self) -> int:
        return self.mask.shape[1]

    def positions_after(self, mask: Tensor, skipped: int) -> Tensor:
        """Positions of tokens that follow the prompt. mask: (B, n), 0 for padding. skipped: tokens in between."""
        counted = ((mask.cumsum(1) - 1).clamp_min(0) + skipped).to(self.positions.dtype)
        rope = self.next_position[:, None].to(counted)
        if len(self.positions) == 4 and self.positions.ndim == 3:
            # Row 0 of four counts tokens; the others are where those tokens are.
            text = self.mask.sum(1, keepdim=True).to(counted)
            return counted + torch.stack([text, rope, rope, rope])
        return (counted + rope).expand(*self.positions.shape[:-1], -1)


def show_long_prompt(kwargs: dict[str, Any], prompt: CachedPrompt) -> None:
    """The caller's own stopping criteria, logits processors and prefix function get the ids that the caller knows."""
    for name in ("stopping_criteria", "logits_processor"):
        given = kwargs.get(name)
        if given:
            kwargs[name] = type(given)(_LongPrompt(one, prompt) for one in given)
    allowed = kwargs.get("prefix_allowed_tokens_fn")
    if allowed is not None:

        def with_long(row: int, ids: Tensor) -> object:
            return allowed(row, torch.cat([prompt.long[row].to(ids.device), ids[prompt.length :]]))

        kwargs["prefix_allowed_tokens_fn"] = with_long


class _LongPrompt:
    """Calls what it wraps with the prompt as the user gave it, and the answer so far."""

    def __init__(self, wrapped: Any, prompt: CachedPrompt) -> None:
        self.wrapped, self.prompt = wrapped, prompt

    def __call__(self, *args: Any, **how: Any) -> Any:
        # transformers reads the names of arguments off the signature and wants all beyond two of them.
        input_ids, *rest = args
        long = self.prompt.long.to(input_ids.device)
        # Beams and several answers to one prompt stand side by side.
        long = long.repeat_interleave(len(input_ids) // len(long), dim=0)
        return self.wrapped(torch.cat([long, input_ids[:, self.prompt.length :]], dim=1), *rest, **how)


NAME = "arr_coc"
DEFAULT_BUDGET = 256


class Attachment:
    """The foveation of one model instance; reached as `model.arr_coc`, and a context manager that detaches at its end.

    last: the allocations of the latest call, one per picture. notes: where their relevance came from, and more that a
    reader should know. Several threads may call the model at once: positions travel with each call, nothing is kept in
    the model. `last` is then the latest of any thread; a thread that needs its own calls `plan` first and passes
    `allocation=` on.
    """

    def __init__(
        self, model: PreTrainedModel, processor: ProcessorMixin, backbone: Backbone, settings: Settings
    ) -> None:
        self.model = model
        self.processor = processor
        self.backbone = backbone
        self.settings = settings
        self.last: list[Allocation] = []
        self.notes: tuple[str, ...] = ()
        self._prompts: weakref.WeakKeyDictionary[object, CachedPrompt] = weakref.WeakKeyDictionary()
        self.around: tuple[str, ...] = ()
        self._hooks: list[object] = []
        self._earlier_generate: Any = None

    # ---------------------------------------------------------------- what a user may call
    def plan(self, inputs: Inputs, **overrides: object) -> PromptPlan:
        """Where the tokens of a prompt would go; the model's language side is not run, unless by a glance."""
        return plan_prompt(self.backbone, self.model, self.processor, inputs, self.settings.override(**overrides))

    def prepare(self, inputs: Inputs, **overrides: object) -> Realized:
        """The shortened prompt with its visual tokens, ready for the stock `forward` or `generate`."""
        plan = self.plan(inputs, **overrides)
        realized = self.backbone.realize(self.model, inputs, plan.allocations, **plan.options)
        self.last, self.notes = plan.allocations, (*self.around, *plan.notes)
        return realized

    def nearer(self, image: object, scale: float | str = AUTO) -> Image.Image:
        """The picture at the size from which this model reads its letters best, to be given to the processor.

        What a prompt shows is resized by the processor that you call, before anything here sees it; so a picture that
        is too large or too small for the model's grip is resized before that, by this.

        Args:
            image: Anything `load_picture` takes.
            scale: "auto", by the grip that `arr-coc calibrate` measured, or how many times as large.

        Returns:
            A PIL picture; the one given where it is right as it is.
        """
        from PIL import Image

        from ..pictures.load import load_picture, resized
        from ..texture.type_height import letters_of

        picture, request = load_picture(image), self.settings.request
        full = Frame(picture.size).full
        found = choose_distance(
            check_scale(scale),
            Grip.known(getattr(self.model.config, "_name_or_path", "") or ""),
            lambda: letters_of(picture.pixels, size=picture.size),
            np.ones((1, 1), np.float32),  # nobody knows yet what the question needs
            size=picture.size,
            canvas=picture.size,
            full=full,
            tokens=request.tokens(full),
        )
        if found.times != 1:
            picture = resized(picture, scaled_size(picture.size, found.times))
        return Image.fromarray(picture.pixels)

    def detach(self) -> None:
        detach(self.model)

    def __enter__(self) -> Attachment:
        return self

    def __exit__(self, *_: object) -> None:
        if getattr(self.model, NAME, None) is self:
            detach(self.model)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_prompts": {}}  # caches are not copied with a model

    def __setstate__(self, state: Mapping[str, object]) -> None:
        self.__dict__.update(state, _prompts=weakref.WeakKeyDictionary())

    # ---------------------------------------------------------------- what the model calls
    def generate(self, *args: object, **kwargs: object) -> object:
        """The stock `generate`, foveated. Also takes budget=, keep=, query=, allocation=, relevance=, strategy=.

        The returned sequences begin with the prompt as it was given, so trimming by its length works as ever.
        """
        stock = self._earlier_generate or functools.partial(_class_generate(self.model), self.model)
        kwargs = {**dict(zip(_parameters(_class_generate(self.model)), args, strict=False)), **kwargs}
        refuse_scale(kwargs)
        if kwargs.get("input_ids") is None and kwargs.get("inputs") is not None:
            kwargs["input_ids"] = kwargs.pop("inputs")
        if self._filled(kwargs.get("past_key_values")) and kwargs["past_key_values"] in self._prompts:
            raise InputError("generate() does not go on from the cache of a foveated prompt; pass the whole chat alone")
        with torch.no_grad():
            prompt = self._shorten(kwargs)
        if prompt is None:
            return stock(**kwargs)
        surplus = prompt.long.shape[1] - prompt.length
        _shift_lengths(kwargs, self.model.generation_config, surplus)
        if kwargs.get("streamer") is not None:
            kwargs["streamer"] = _PromptStreamer(kwargs["streamer"], prompt.long)
        show_long_prompt(kwargs, prompt)
        output = stock(**kwargs)
        sequences = output if isinstance(output, Tensor) else output.sequences
        prefix = prompt.long.to(sequences.device).repeat_interleave(len(sequences) // len(prompt.long), dim=0)
        restored = torch.cat([prefix, sequences[:, prompt.length :]], dim=1)
        if isinstance(output, Tensor):
            return restored
        output.sequences = restored
        self._remember(getattr(output, "past_key_values", None), prompt)
        return output

    @torch.compiler.disable  # where tokens go is decided outside of any graph; what runs is the model's own
    def _before_forward(
        self, module: torch.nn.Module, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        """A forward pre-hook: ordinary inputs in, shortened inputs out. Decoding steps pass through untouched."""
        if kwargs.get("position_ids") is not None and kwargs.keys().isdisjoint(
            (*self.backbone.picture_keys, *OVERRIDES)
        ):
            return args, kwargs  # a step of `generate`: nothing to do, and asking the cache would make a GPU wait
        kwargs = {**dict(zip(_parameters(type(module).forward), args, strict=False)), **kwargs}
        cache = kwargs.get("past_key_values")
        if self._filled(cache):
            self._continue_forward(kwargs)
            return (), kwargs
        prompt = self._shorten(kwargs)
        if prompt is not None and cache is None and self._wants_cache(kwargs):
            # The same cache that the model would make, made here so that a later turn can be told what it holds.
            from transformers import DynamicCache

            cache = kwargs["past_key_values"] = DynamicCache(config=self.model.config.get_text_config())
        if prompt is not None:
            self._remember(cache, prompt)
        return (), kwargs

    # ---------------------------------------------------------------- inside
    def _shorten(self, kwargs: dict[str, Any]) -> CachedPrompt | None:
        """Replace the prompt inside kwargs by its foveated form; None where there is nothing to foveate."""
        overrides = {name: kwargs.pop(name) for name in OVERRIDES if name in kwargs}
        pictures = any(kwargs.get(key) is not None for key in self.backbone.picture_keys)
        cache = kwargs.get("past_key_values")
        if self._filled(cache):
            return None
        if not pictures or kwargs.get("mm_encoder_outputs") is not None:
            if any(value is not None for value in overrides.values()):
                require_pictures(self.backbone, kwargs)
            return None
        realized = self.prepare(dict(kwargs), **overrides)  # which refuses a prompt without input_ids
        long: Tensor = kwargs["input_ids"]
        kwargs.clear()
        kwargs.update(realized.inputs)
        short = realized.inputs
        prompt = CachedPrompt(long, short["attention_mask"], short["position_ids"], realized.next_position)
        self._remember(cache, prompt)
        return prompt

    def _continue_forward(self, kwargs: dict[str, Any]) -> None:
        """New tokens on a cache, by plain forward(): the positions that a stock model would have to guess."""
        cache = kwargs["past_key_values"]
        known = self._prompts.get(cache)
        for name in OVERRIDES:
            kwargs.pop(name, None)
        if known is None or kwargs.get("position_ids") is not None or kwargs.get("input_ids") is None:
            return
        if any(kwargs.get(key) is not None for key in self.backbone.picture_keys):
            raise InputError("forward() takes no pictures on a filled cache; pass the whole chat, and no cache")
        ids, mask = kwargs["input_ids"], kwargs.get("attention_mask")
        between = cache.get_seq_length() - known.length
        if mask is None:
            fresh = torch.ones_like(ids)
            seen = torch.ones(len(ids), max(between, 0), dtype=known.mask.dtype, device=ids.device)
            kwargs["attention_mask"] = torch.cat([known.mask, seen, fresh.to(known.mask.dtype)], 1)
        elif mask.shape[1] == known.long.shape[1] + between + ids.shape[1]:
            # A mask over the long chat: what the cache holds of it is shorter.
            fresh = mask[:, -ids.shape[1] :]
            kwargs["attention_mask"] = torch.cat([known.mask, mask[:, known.long.shape[1] :].to(known.mask.dtype)], 1)
        else:
            fresh = mask[:, -ids.shape[1] :]
        kwargs["position_ids"] = known.positions_after(fresh, between)

    def _remember(self, cache: object, prompt: CachedPrompt) -> None:
        if cache is not None:
            self._prompts[cache] = prompt

    def _wants_cache(self, kwargs: Mapping[str, object]) -> bool:
        wanted = kwargs.get("use_cache")
        if wanted is None:
            wanted = getattr(self.model.config.get_text_config(), "use_cache", True)
        return bool(wanted) and not self.model.training

    @staticmethod
    def _filled(cache: Any) -> bool:
        return cache is not None and cache.get_seq_length() > 0


def refuse_scale(given: Mapping[str, object]) -> None:
    """One line for what a prompt that the user's processor made cannot be asked for."""
    if "scale" in given:
        raise InputError("scale= is not for attach: a prompt shows pictures in the size they have; give the processor "
                         "attachment.nearer(image, scale)")  # fmt: skip


def attach(
    model: PreTrainedModel,
    processor: ProcessorMixin,
    budget: Budget | Sequence[int] | None = None,
    *,
    keep: Share | None = None,
    relevance: object = "auto",
    strategy: str = DEFAULT_STRATEGY,
    levels: int | None = None,
    seed: int = 0,
    options: Mapping[str, object] | None = None,
    videos: bool = False,
    words: object = None,
    ocr: bool = True,
    total: bool = False,
    **realize: Unpack[AdapterOptions],
) -> Attachment:
    """Let this one model instance spend at most `budget` visual tokens on a picture, where the question needs them.

    Args:
        model: A stock model of a family that is known (`arr_coc.realizing.base.ADAPTERS`).
        processor: Its processor.
        budget: Tokens a picture may cost, 256 unless told; a share such as "25%"; or a list, one for each picture.
        keep: The budget as a share of the full count.
        relevance: "glance" (the model's own attention on a coarse first look), "detail" (what looking coarsely would
            lose), "look", "scorer", any other name of `registry.source_names()`, the folder of a scorer, a function
            (picture (3, H, W) in [0, 1], question) -> map, or maps. By default a glance where the family can, else
            "detail".
        strategy: How relevance becomes regions.
        levels: The coarsest level of detail.
        seed: For strategies that draw lots.
        options: For the strategy, by name.
        videos: The prompts show videos (Qwen3-VL): what is said of a picture then holds for each group of frames.
        words: Of each picture, for sources that read them.
        ocr: Whether "auto" may read the words of pages by OCR, where that is installed and pays; not of videos.
        total: The budget is that of all pictures of a prompt together, and relevance decides between them.
        **realize: For the family's adapter, such as merge="compressor".

    Returns:
        An `Attachment`: a context manager that detaches at its end; `last` holds the allocations of the last call.

    Raises:
        InputError: In one line, for whatever cannot be used.

    Example:
        >>> with attach(model, processor, budget=256):  # doctest: +SKIP
        ...     out = model.generate(**inputs, max_new_tokens=64)
    """
    around = wrappers(model)
    model = around.pop()
    backbone = backbone_for(model)
    check_processor(processor)
    if options is not None and not (isinstance(options, Mapping) and all(isinstance(name, str) for name in options)):
        raise InputError(f"options= are those of the strategy, by name, such as {{'level': 1}}, got {shown(options)}")
    if of_kind(videos, bool, "videos"):
        from .qwen3_vl.video import video_backbone

        backbone = video_backbone(model)
    require_transformers(f"attaching to {model.config.model_type}", ATTACH_TRANSFORMERS)
    backbone.check(model, processor)
    if hasattr(model, NAME):
        raise InputError("this model is attached already; call detach(model) first, or give budget= to a single call")
    refuse_scale(realize)
    takes = () if backbone.before_encoder else ("merge",)
    for name in realize.keys() - takes:
        family, own = "/".join(backbone.model_types), inspect.signature(attach).parameters
        known = ", ".join(takes) or "no others"
        raise InputError(f"{name}= is no option{meant(name, (*own, *takes))}: {family} takes {known}")
    if "merge" in realize:
        from .merging import find_compressor

        find_compressor(realize["merge"])
    if isinstance(relevance, str):
        check_relevance(relevance, ("pixels", "texture", "words", "model"))
    if budget is None and keep is None:
        budget = DEFAULT_BUDGET
    laid: dict[str, Any] = {"strategy": strategy, "levels": levels, "seed": seed, "options": options or {}}
    request = Request.of(budget, keep, **laid, total=total, ocr=of_kind(ocr, bool, "ocr") and not videos)
    settings = Settings(request=request, relevance=relevance, words=words, realize=realize)
    attachment = Attachment(model, processor, backbone, settings)
    attachment.around = tuple(f"attached to the model inside {type(one).__name__}" for one in around)
    attachment.notes = attachment.around
    # A wrapper may call `forward` of what it wraps, past its hooks: what comes through it is shortened there.
    attachment._hooks = [
        one.register_forward_pre_hook(attachment._before_forward, with_kwargs=True, prepend=True)
        for one in (*(one for one in around if hasattr(one, "peft_config")), model)
    ]
    attachment._earlier_generate = model.__dict__.get("generate")
    object.__setattr__(model, "generate", attachment.generate)
    object.__setattr__(model, NAME, attachment)
    return attachment


def detach(model: PreTrainedModel) -> None:
    """Undo `attach`: the model is then what it was, to the bit and to the attribute.

    Args:
        model: The one that was attached; one that is not stays as it is.

    Returns:
        Nothing.

    Example:
        >>> detach(model)  # doctest: +SKIP
    """
    model = unwrapped(model)
    if not isinstance(model, torch.nn.Module):
        raise InputError(f"this is not attached: detach() takes the model, got {shown(model)}")
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


def _class_generate(model: PreTrainedModel) -> Any:
    """`generate` as the model's class has it, whatever hangs on the instance."""
    return getattr(type(model), "generate")  # noqa: B009  # only generative classes have it


@functools.cache
def _parameters(function: Any) -> tuple[str, ...]:
    """Names of a method's parameters after self, for arguments given by place."""
    return tuple(inspect.signature(function).parameters)[1:]


def _shift_lengths(kwargs: dict[str, Any], default: GenerationConfig, surplus: int) -> None:
    """Lengths that count the prompt were meant for the long one; take off what the prompt has lost."""
    config = kwargs.get("generation_config") or default
    changed = {}
    for name in ("max_length", "min_length"):
        value = kwargs.get(name)
        if value is not None:
            kwargs[name] = max(value - surplus, 1 if name == "max_length" else 0)
        elif getattr(config, name, None):
            changed[name] = max(getattr(config, name) - surplus, 0)
    if changed and (kwargs.get("max_new_tokens") or config.max_new_tokens):
        changed.pop("max_length", None)
    if changed:
        kwargs["generation_config"] = copy(config)
        for name, value in changed.items():
            setattr(kwargs["generation_config"], name, value)


class _PromptStreamer:
    """Hands on what it gets, but the prompt as the user gave it."""

    def __init__(self, streamer: Any, prompt: Tensor) -> None:
        self.streamer = streamer
        self.prompt: Tensor | None = prompt

    def put(self, value: Tensor) -> None:
        if self.prompt is not None:
            value, self.prompt = self.prompt.cpu(), None
        self.streamer.put(value)

    def end(self) -> None:
        self.streamer.end()

    def __getattr__(self, name: str) -> object:
        return getattr(self.streamer, name)
