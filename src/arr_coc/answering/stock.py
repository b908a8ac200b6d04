"""`StockEngine`: any stock vision-language model that transformers can load, with torch.

It shows a picture as the model's processor does, decides where its tokens go, shortens the prompt and lets the model
speak. `eye.Eye` holds one; the server's engine drives it by itself.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from functools import partial
from importlib import import_module
from itertools import zip_longest
from time import perf_counter
from typing import TYPE_CHECKING, Any, Self

from PIL import Image
from transformers import BatchFeature

from ..attending.distance import scaled_size
from ..attending.frame import Frame
from ..attending.grip import Grip
from ..core.errors import InputError, of_kind
from ..core.modules import using_gpu
from ..core.values import timed
from ..decide import View
from ..knowing.scene import Scene, begin_measuring
from ..knowing.scorer.source import ScorerRelevance
from ..options import Options
from ..pictures.document import load_page
from ..pictures.load import Picture
from ..pictures.load import resized as resized_picture
from ..realizing.attachment_plan import plan_prompt
from ..realizing.base import Inputs, PromptPlan, Settings, backbone_for, check_processor, wrappers
from ..realizing.bundled import PLACE, as_trained, without_markers
from ..realizing.query import load_processor
from ..realizing.qwen3_vl.graph import Graphs
from ..texture.type_height import letters_of
from .chat import USER, ChatLook, PictureView, Turn
from .decoding import DecodingStep, end_tokens, is_lean, steps

if TYPE_CHECKING:
    from pathlib import Path

    from ..realizing.base import Realized, VisualGrid

ADAPTERS = "adapter_config.json"
GRID = "image_grid_thw"  # patches of each picture, as a processor calls them
# A tokenizer of so few words has one for each character.
MOST_CHARACTERS = 256
UNREAD = "what was said before was not read: {name} was taught single questions"


class StockEngine:
    """A model and its processor. `eye.Eye` describes the arguments."""

    def __init__(self, model: object, processor: object, *, name: str = "") -> None:
        # Untyped: what a model can do depends on its class, and that is what the adapter knows.
        self.model: Any = wrappers(model)[-1]
        self.processor: Any = processor
        self.name = of_kind(name, str, "name") or type(model).__name__
        self.backbone = backbone_for(self.model)
        self.tiled = self.backbone.tiled
        check_processor(processor)
        # What was measured of this model; None where nothing was.
        self.grip = Grip.known(getattr(self.model.config, "_name_or_path", "") or "")
        # Single questions run as CUDA graphs where that is safe, recorded when a size comes again.
        self.graphs = Graphs(self.model) if is_lean(self.model) and Graphs.safe(self.model) else None

    @classmethod
    def from_folder(cls, folder: Path, name: str, device: str) -> Self:
        """Return a stock model's folder, or its name on the hub."""
        from transformers import AutoModelForImageTextToText
        from transformers.utils import logging

        logging.disable_progress_bar()
        try:
            processor = load_processor(str(folder))
            # Half precision is slow on processors, and its sums are coarse.
            dtype = "float32" if device == "cpu" else "auto"
            model = AutoModelForImageTextToText.from_pretrained(str(folder), dtype=dtype)
        except (OSError, ValueError) as error:
            place = "folder" if os.path.exists(folder) else "name on the hub"
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load {name!r} as a {place} of a vision-language model: {reason}") from error
        return cls(model.to(device).eval(), processor, name=name)

    @property
    def tokenizer(self) -> Any:
        return self.processor.tokenizer

    @property
    def ends(self) -> list[int]:
        """The tokens that end an answer."""
        return end_tokens(self.model)

    @property
    def device(self) -> str:
        """Where the model is."""
        return str(self.model.device)

    def view(self, image: object) -> PictureView:
        """Return a picture as the processor shows it: a path, PIL image, array, tensor or page."""
        started = perf_counter()
        picture, words = load_page(image)
        pixels = processed(self.processor.image_processor, picture)
        return PictureView(picture, words, self.held(pixels), perf_counter() - started)

    def held(self, pixels: Inputs) -> dict[str, Any]:
        """Return the tensors of pictures, those seen on the model's device; ids stay here, where reading is quick."""
        tensors, device = {name: value for name, value in pixels.items() if hasattr(value, "to")}, self.model.device
        with using_gpu(device):
            return {name: one.to(device) if one.is_floating_point() else one for name, one in tensors.items()}

    def look(self, turns: Sequence[Turn], settings: Settings) -> ChatLook:
        """Return the prompt of a conversation whose pictures are views, and where their tokens go."""
        views = tuple(view for turn in turns for view in turn.views)
        seconds = {"load": sum(view.seconds for view in views)}
        with using_gpu(self.model.device):
            with timed(seconds, "read"):
                known = [self._begun(view, settings.options) for view in views]
                inputs = self.prompt_of(turns, settings.scorer)
                grids, full = self.backbone.grids(self.model, inputs), self.visual_tokens(inputs)
                tiles = self._tiles(len(grids), len(views), settings.options)
            with timed(seconds, "look"):
                if tiles:  # words have their places in the whole picture, which is not what a tile shows
                    settings = replace(settings, options=replace(settings.options, words=None))
                shown = list(views)
                looks = [] if tiles else self._look_views(shown, settings.options.words, grids, known)
                plan = plan_prompt(self.backbone, self.model, self.processor, inputs, settings, looks)
                if settings.options.allocation is not None:
                    for look, allocation in zip(looks, plan.allocations, strict=False):
                        if look.resized is not None and allocation.scale != 1:
                            look.resized(allocation.scale)
                if any(one is not other for one, other in zip(shown, views, strict=True)):
                    views, parts = tuple(shown), iter(shown)
                    turns = [turn.showing(lambda _: next(parts)) for turn in turns]
                    inputs = self.prompt_of(turns, settings.scorer)
            inputs = {**BatchFeature(inputs).to(self.model.device, non_blocking=self.graphs is not None)}
        notes = list(plan.notes)
        if tiles:
            notes.append(f"shown as {tiles} tiles and views, each with a part of the budget and its own allocation")
        if len(turns) > 1 and self.taught_single_questions(settings.scorer):
            notes.append(UNREAD.format(name=self.name))
        return ChatLook(inputs, replace(plan, notes=tuple(notes)), seconds, views, turns[-1].text, full)

    def _begun(self, view: PictureView, options: Options) -> dict[str, object]:
        """Return what is known about a picture of which the model sees each pixel. Where this is sure, and a source
        will ask for letters, begin to measure them, beside what is done for the prompt."""
        scene, grid = Scene(view.picture.pixels, made={"pixels": view.picture.pixels}), view.tensors.get(GRID)
        if grid is not None and isinstance(options.relevance, str) and options.allocation is None:
            patch = getattr(self.processor.image_processor, "patch_size", 0)
            if (grid[0, 1:] * patch).tolist() == list(scene.pixels.shape[:2]):
                begin_measuring([scene])
        return scene.made

    def _look_views(
        self, shown: list[PictureView], words: object, grids: Sequence[VisualGrid], made: Sequence[dict[str, object]]
    ) -> list[View]:
        """Pictures as `decide` looks at them. shown: takes a picture's view once it is resized. made: see `_begun`."""
        several: Sequence[Any] = words if isinstance(words, list | tuple) else [words] * len(shown)

        def look_view(number: int) -> View:
            view, grid, picture = shown[number], grids[number], shown[number].picture
            known: Any = view.words if several[number] is None else several[number]

            def resized(times: float) -> Frame:
                larger = resized_picture(picture, scaled_size((grid.height, grid.width), times, grid.cell))
                tensors = processed(self.processor.image_processor, larger)
                shown[number] = replace(view, picture=larger, tensors=self.held(tensors))
                (own,) = self.backbone.grids(self.model, self.prompt_of([Turn(USER, (shown[number], "?"))], None))
                return own.frame

            # A page that is shown small, for its overview, stays as it is.
            again = resized if picture.pixels.shape[:2] == picture.size else None
            own = made[number] if picture.pixels.shape[:2] == (grid.height, grid.width) else {}
            letters = partial(letters_of, picture.pixels, known, picture.size)
            return View(picture.size, grid.frame, letters, again, self.grip, own)

        return [look_view(number) for number in range(len(shown))]

    def prompt_of(self, turns: Sequence[Turn], scorer: object) -> dict[str, object]:
        """Return the model's inputs for turns whose pictures are views, ids not on its device: questions as the model
        knows them; where it knows no other, all pictures and the last turn."""

        def known(turn: Turn) -> Turn:
            if turn.role != USER:
                return turn
            parts = (as_trained(part, scorer) if isinstance(part, str) else part for part in turn.parts)
            return replace(turn, parts=tuple(parts))

        if self.taught_single_questions(scorer):
            earlier = (view for turn in turns[:-1] for view in turn.views)
            turns = [Turn(USER, (*earlier, *known(turns[-1]).parts))]
        else:
            turns = [known(turn) for turn in turns]
        inputs = chat_inputs(self.processor, turns)
        return {**inputs, **self.held(inputs)}

    def full_of(self, view: PictureView) -> int:
        """Visual tokens of one picture, untouched."""
        known = placeholders(self.processor, view)
        return self.visual_tokens(self.prompt_of([Turn(USER, (view, "?"))], None)) if known is None else known

    def taught_single_questions(self, scorer: object) -> bool:
        """Return whether this is a reader of characters beside our scorer; larger models were taught conversations."""
        return isinstance(scorer, ScorerRelevance) and len(self.tokenizer) <= MOST_CHARACTERS

    def realize(self, looked: ChatLook, **tower: object) -> Realized:
        """Build the shortened prompt with its visual tokens."""
        import torch

        plan = looked.plan
        with using_gpu(self.model.device), torch.no_grad():
            return self.backbone.realize(self.model, looked.inputs, plan.allocations, **plan.options, **tower)

    def speak(self, looked: ChatLook, most: int) -> tuple[Generator[DecodingStep], int]:
        """Return the answer to a conversation, step by step, and the visual tokens it reads. A model that merges tokens
        behind its encoder says all at once."""
        graphs = self.graphs if len(looked.views) == 1 else None
        with timed(looked.seconds, "encode"):
            realized = self.realize(looked, **({} if graphs is None else {"tower": graphs.tower}))
        return steps(self.model, realized, most, graphs), self.visual_tokens(realized.inputs)

    def visual_tokens(self, prompt: Inputs) -> int:
        return int((prompt["input_ids"] == self.backbone.image_token_id(self.model)).sum())

    def _tiles(self, tiles: int, pictures: int, options: Options) -> int:
        """In how many tiles and views the one picture is shown; 0 where every picture is one grid."""
        if tiles == pictures:
            return 0
        if pictures > 1:
            raise InputError(
                f"{self.name} shows these {pictures} pictures as {tiles} tiles or views, and one answer cannot tell "
                "whose they are; ask about one picture, or use attach()"
            )
        if options.scale not in (None, 1, "auto"):
            raise InputError(f"scale={options.scale}: {self.name} cuts its tiles from the picture as given")
        return tiles


def chat_inputs(processor: Any, turns: Sequence[Turn]) -> dict[str, Any]:
    """Return the prompt of a conversation whose pictures are views: patches are cut once, text is set each time."""
    import torch

    views = [view for turn in turns for view in turn.views]
    counts = [placeholders(processor, view) for view in views]
    markers, chat = processor.tokenizer.get_added_vocab(), chat_text(processor, turns)
    texts = [without_markers(part, markers) for turn in turns for part in turn.parts if isinstance(part, str)]
    own = None not in counts
    if own and chat.count(processor.image_token) != len(counts):
        raise InputError("the chat template of this model does not show every picture; show fewer")
    chat = "".join(piece + text for piece, text in zip_longest(chat.split(PLACE), texts, fillvalue=""))
    if not own:
        pictures = [Image.fromarray(view.picture.pixels) for view in views]
        return dict(processor(text=[chat], images=pictures, return_tensors="pt"))
    # Each picture is one placeholder in the text: to tokenize thousands of them takes milliseconds.
    ids = torch.tensor(processor.tokenizer(chat).input_ids)
    times = torch.ones_like(ids)
    times[ids == processor.tokenizer.convert_tokens_to_ids(processor.image_token)] = torch.tensor(
        counts, dtype=ids.dtype
    )
    ids = ids.repeat_interleave(times)[None]
    parts = {name: [view.tensors[name] for view in views] for name in views[0].tensors}
    tensors = {name: torch.cat(several) if len(views) > 1 else several[0] for name, several in parts.items()}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **tensors}


def placeholders(processor: Any, view: PictureView) -> int | None:
    """Tokens of one picture in a prompt; None where only the processor itself can say."""
    merge, grid = getattr(processor.image_processor, "merge_size", None), view.tensors.get(GRID)
    return None if merge is None or grid is None else math.prod(grid[0].tolist()) // merge**2


def chat_text(processor: Any, turns: Sequence[Turn]) -> str:
    """Return the conversation in the model's template, with PLACE for each text, so that none is read as markers."""
    from jinja2 import TemplateError

    texts = sum(isinstance(part, str) for turn in turns for part in turn.parts)
    text, picture = {"type": "text", "text": PLACE}, {"type": "image"}
    shown = [[text if isinstance(part, str) else picture for part in turn.parts] for turn in turns]
    messages = [{"role": turn.role, "content": parts} for turn, parts in zip(turns, shown, strict=True)]
    try:
        chat = processor.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    except TemplateError as error:
        raise InputError(f"the chat template of this model refuses these turns: {error}") from error
    if chat.count(PLACE) != texts:
        raise InputError("the chat template of this model leaves some of these turns out; ask without them")
    return chat


def joined(looked: Sequence[ChatLook]) -> ChatLook:
    """Prompts of one row each as one prompt of several, padded on the left."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    if len(looked) == 1:
        return looked[0]
    inputs = [one.inputs for one in looked]
    together = {
        name: pad_sequence([one[name][0] for one in inputs], batch_first=True, padding_side="left")
        if name in ("input_ids", "attention_mask")
        else torch.cat([one[name] for one in inputs])
        for name in inputs[0]
    }
    allocations = [allocation for one in looked for allocation in one.plan.allocations]
    plan = PromptPlan(allocations, None, looked[0].plan.options)
    return ChatLook(together, plan, {}, tuple(view for one in looked for view in one.views))


def adapted_model(folder: Path) -> str:
    """Return the model that a folder of adapters says it was trained for."""
    try:
        name = json.loads((folder / ADAPTERS).read_text(encoding="utf-8"))["base_model_name_or_path"]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder / ADAPTERS} does not name the model of its adapters; train them again") from error
    if os.path.isabs(str(name)) and not os.path.isdir(name):
        raise InputError(f"the model of the adapters in {folder} is gone: {name}; put it back, or write its new place "
                         f"as base_model_name_or_path into {ADAPTERS}")  # fmt: skip
    return name


def with_adapters(model: object, folder: Path) -> object:
    """Return the model with the adapters of a folder merged into its weights."""
    try:
        return import_module("peft").PeftModel.from_pretrained(model, str(folder)).merge_and_unload().eval()
    except ImportError as error:
        raise InputError(f"{folder} holds adapters, which need peft: pip install peft") from error
    except (OSError, ValueError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(f"the adapters of {folder} do not fit their model: {reason}") from error


def processed(image_processor: Callable[..., BatchFeature], picture: Picture) -> BatchFeature:
    """Return what a model's own image processor makes of a picture; what it refuses, such as a strip 200 times as long
    as wide, raises `InputError` in one line."""
    try:
        return image_processor(images=[Image.fromarray(picture.pixels)], return_tensors="pt")
    except ValueError as error:
        size = f"{picture.width}×{picture.height}"
        raise InputError(f"{picture.name} is {size}, which this model does not take ({error}); crop it") from error
