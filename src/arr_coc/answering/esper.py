"""`Esper`: look, answer, and look again where it pays.

esper = Esper.from_pretrained("mini")
esper.set_image("zoo.png").ask("What are the ingredients in this snack?")     → Answer with up to four passes
esper.examine("…")                                                            → Story: also maps, fixations, seconds
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attending.distance import Distance, at_distance, check_scale, choose_distance, scaled_size
from ..attending.frame import Frame, to_cells
from ..attending.gains import node_sums
from ..attending.request import Budget, Request, Share, check_question, check_request
from ..attending.tree import check_budget, tree_for
from ..balancing.learned import ArousalEstimator
from ..balancing.tempering import TemperingPolicy
from ..core import arrays
from ..core.checks import share_of
from ..core.clock import summed
from ..core.errors import InputError
from ..core.folders import MINI, WEIGHTS
from ..core.kept import PictureStore, pixels_key
from ..core.values import Allocation, Answer, Pass, Relevance
from ..knowing.registry import relevance_for, resolve
from ..knowing.scene import CHANNELS, SENSE_SIDE, Scene
from ..pictures.document import Document, document_of
from ..pictures.load import Picture, load_picture, processed, resized
from ..pictures.pdf import PageList, load_page
from ..realizing.bundled import as_trained, marked
from ..realizing.qwen3_vl.adapter import Qwen3VL
from ..realizing.shared_budget import plain_map
from ..realizing.tokens.patches import PatchPyramid
from ..texture.type_height import letters_of
from .eye import Eye
from .pages import ask_page_by_page
from .pass_settings import DEFAULT_TOTAL, SETTINGS_NAME, EsperSettings, as_settings
from .passes import AskingReader, MemoryReader, PassJob, PassMaps, PassRecord, Prompts, pass_loop, picture_pyramid
from .story import PassNote, Story
from .tiles import TileBoard

if TYPE_CHECKING:
    from transformers import PreTrainedModel

ESPER_FOLDER = "esper"
GLANCES = ("relevant", "salient")


class Esper:
    """Look up to four times at one picture, with any model that an `Eye` can hold.

    A Qwen3-VL encodes only what is new in each pass and keeps the language model's cache of what it has seen; other
    families read their whole tree again, which counts in full.

    Args:
        eye: The model.
        settings: The numbers, or the name of a preset: "esper", "two_pass", "four_pass", "saccades".
        tempering: How much of a pass explores, by the rule or learned: a policy, or a folder of `train tempering`.
        arousal: How much is at stake.
        glance: What the first look follows: "relevant", the map of the question, or "salient", what stands out before
            the question is heard.

    Example:
        >>> Esper.from_pretrained("mini").set_image("zoo.png").ask("What are the ingredients?").tokens  # doctest: +SKIP
        49
    """

    def __init__(
        self,
        eye: Eye,
        settings: EsperSettings | str | None = None,
        *,
        tempering: TemperingPolicy | str | Path | None = None,
        arousal: ArousalEstimator | None = None,
        glance: str = "relevant",
    ) -> None:
        if glance not in GLANCES:
            raise InputError(f"glance {glance!r} is unknown; choose from {', '.join(GLANCES)}")
        self.eye = eye
        self.settings = as_settings(settings)
        if isinstance(tempering, str | Path):
            tempering = TemperingPolicy.from_pretrained(tempering)
        self.tempering = tempering or TemperingPolicy()
        self.arousal = arousal or ArousalEstimator()
        self.glance = glance
        self.pass_history: tuple[PassNote, ...] = ()
        self._picture: Picture | None = None
        self._pages: Document | None = None
        self._pictured: Pictured | None = None
        self._load_seconds = 0.0

    @classmethod
    def from_pretrained(
        cls, name: str = MINI, settings: EsperSettings | str | None = None, *, device: str = "cpu", **options: object
    ) -> Esper:
        """Load an `Eye`, with the settings and the tempering that were tuned for it where they lie beside it.

        Args:
            name: As for `Eye.from_pretrained`.
            settings: Instead of those beside it.
            device: "cpu", "cuda", "cuda:1", "mps".
            **options: `tempering`, `arousal` and `glance` of Esper; all others are those of `Eye`.

        Returns:
            An `Esper`.
        """
        own = {key: options.pop(key) for key in ("tempering", "arousal", "glance") if key in options}
        return cls.around(Eye.from_pretrained(name, device=device, **options), settings, name, **own)

    @classmethod
    def around(cls, eye: Eye, settings: EsperSettings | str | None, name: str, **own: Any) -> Esper:
        """Passes of an eye that is there, with what was tuned for its model.

        Args:
            eye: The eye.
            settings: Of the passes, or a preset's name; by default those tuned for the model.
            name: Of the model, or its folder.
            **own: Parts of one's own, as for `Esper`.

        Returns:
            An `Esper`.
        """
        folder = (WEIGHTS if name == MINI else Path(name).parent) / ESPER_FOLDER
        if settings is None and os.path.isfile(folder / SETTINGS_NAME):
            settings = EsperSettings.load(folder)
        if "tempering" not in own and as_settings(settings).learned and os.path.isfile(folder / "config.json"):
            own["tempering"] = TemperingPolicy.from_pretrained(folder)
        return cls(eye, settings, **own)

    def set_image(self, image: object, pages: PageList = None) -> Esper:
        """Set the picture that the next questions are about.

        Args:
            image: A path, PIL image, array or tensor; or a document: its best page is then looked at in passes, and the
                next where it is unsure.
            pages: Of a document, such as "2-5".

        Returns:
            This `Esper`.
        """
        started = perf_counter()
        document = document_of(image, pages)
        self._pages = document if document is not None and len(document) > 1 else None
        if self._pages is not None:
            self._picture = self._pictured = None
            return self
        image = image if document is None else load_page(document.pages[0].source)[0]
        self._picture = marked(load_picture(image), self.eye.scorer)
        self._pictured = Pictured.of(self.eye, self._picture) if isinstance(self.eye.backbone, Qwen3VL) else None
        self.pass_history = ()
        self._load_seconds = perf_counter() - started
        return self

    def ask(self, query: str, budget: Budget | None = None, keep: Share | None = None, **how: Any) -> Answer:
        """`examine`, for its answer alone; `pass_history` then holds the passes.

        Args:
            query: The question.
            budget: Visual tokens of all passes together, of a document over all pages that are looked at.
            keep: The budget as a share of the full count.
            **how: What `examine` takes by name.

        Returns:
            An `Answer`; of a document, `Answer.pages` tells the page of each pass.
        """
        if self._pages is None:
            return self.examine(query, budget, keep, **how).answer
        check_request([query], budget, keep)
        check_question(query)
        given = how.pop("relevance", None)

        def asker(picture: Picture, _words: object, tokens: int, known: Relevance | None) -> Answer:
            page = copy(self).set_image(picture)
            found = page.examine(query, tokens, relevance=None if known is None else known.map, **how)
            self.pass_history = found.passes
            return found.answer

        relevance = self.eye.relevance if given is None else given
        offers = self.eye.page_offers()
        return ask_page_by_page(self._pages, query, Request.of(budget, keep), relevance, offers, asker)

    def examine(
        self,
        query: str,
        budget: Budget | None = None,
        keep: Share | None = None,
        *,
        passes: int | None = None,
        relevance: object = None,
        failures: int | None = None,
        max_new_tokens: int = 64,
        stop_early: bool = True,
        scale: float | str | None = None,
    ) -> Story:
        """One question, with everything that led to its answer.

        Args:
            query: The question.
            budget: Visual tokens of all passes together, or "25%". The first look gets twice as many as each later one.
            keep: The budget as a share of the full count; 5/16 by default.
            passes: At most so many, instead of the settings'.
            relevance: Who says where to look first, as for `look`.
            failures: How often questions went wrong of late, which alarms; None counts them in what the eye records.
            max_new_tokens: The longest answer.
            stop_early: End when the answer is sure.
            scale: From how far all passes read: how many times as large, or "auto", by the grip of the model and the
                letters of the whole picture; as it is given unless told.

        Returns:
            A `Story`: the answer, and every pass that led to it.
        """
        if self._pages is not None:
            raise InputError(f"{self._pages.name} has {len(self._pages)} pages: ask looks at the best ones in passes, "
                             "and examine at one; give it as set_image(file, pages=3)")  # fmt: skip
        if self._picture is None:
            raise InputError("no picture yet: call esper.set_image(image) before esper.ask(query)")
        check_request([query], budget, keep)
        check_question(query)
        kept = self.eye.record
        settings = self.settings
        if passes is not None:
            settings = replace(settings, passes=passes, least=min(settings.least, passes))
        if failures is None:
            failures = 0 if kept is None else kept.failures()
        examination = Examination(
            query,
            Request.of(budget, keep),
            settings,
            relevance_source(self.eye, self.eye.relevance if relevance is None else relevance),
            failures,
            max_new_tokens,
            stop_early,
        )
        if self._pictured is not None:
            story = self._remembering(self._pictured.seen_from(self.eye, check_scale(scale), examination), examination)
        elif check_scale(scale) in (None, 1):
            story = self._asking_again(examination)
        else:
            raise InputError(f"scale={scale}: {self.eye.name} reads its whole tree again, at the size it is given")
        self.pass_history = story.passes
        if kept is not None:
            story = replace(story, answer=kept.noted(story.answer, query, self._picture, model=self.eye.name))
        return story

    def _remembering(self, pictured: Pictured, asked: Examination) -> Story:
        """The passes of a model that encodes only what is new."""
        frame, model, settings = pictured.frame, self.eye.model, asked.settings
        started = perf_counter()
        budgets = settings.shares(min(asked.tokens(pictured.full), frame.full))
        tree = tree_for(pictured.canvas, budgets[0], cell=pictured.cell, levels=self.eye.levels)
        job = PassJob(
            pyramid=pictured.pyramid(model, tree.levels),
            prompts=Prompts.of(self.eye.processor, [as_trained(asked.query, self.eye.scorer)], model.device),
            tree=tree,
            failures=asked.failures,
            order=self.eye.order,
            kept=self._kept(pictured.picture),
            **self._maps(pictured.picture, pictured.pixels, asked, frame),
        )
        seconds = {"load": self._load_seconds, "know": perf_counter() - started}
        reader = MemoryReader(model, job, settings, self.eye.temperature, asked.most)
        with torch.no_grad():
            records = pass_loop(reader, job, budgets, settings, self.tempering.to(model.device), asked.stop_early)
        seconds |= summed(record.seconds for record in records)
        notes = with_scanpaths([self._note(record, pictured) for record in records])
        return story_of(asked, pictured.picture, notes, seconds, pictured.full)

    def _asking_again(self, asked: Examination) -> Story:
        """The passes of a model that cannot keep what it has seen: every pass asks again with more leaves."""
        from PIL import Image

        picture, settings = self._picture, asked.settings
        assert picture is not None
        eye = copy(self.eye).set_image(picture.pixels)
        eye.record = None  # the passes are one answer
        content = [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": asked.query}]}]
        chat = eye.processor.apply_chat_template(content, add_generation_prompt=True, tokenize=False)
        inputs = dict(eye.processor(text=[chat], images=[Image.fromarray(picture.pixels)], return_tensors="pt"))
        board = TileBoard.of(eye.backbone.grids(eye.model, inputs), eye.backbone.whole_view, eye.levels)
        tiles = eye.backbone.pixels(eye.model, eye.processor, inputs)
        # All trees together must fit: a first of two units and each later one a unit larger.
        unit = 2 * asked.tokens(board.full) // (settings.passes * (settings.passes + 3))
        budgets = max(2 * unit, board.least), unit
        known = [self._maps(picture, one, asked, frame) for one, frame in zip(tiles, board.frames(), strict=True)]
        maps = PassMaps(tree=board.tree(budgets[0]), failures=asked.failures, **board.laid(known))
        reader = AskingReader(eye, board, asked.query, asked.most)
        records = pass_loop(reader, maps, budgets, settings, self.tempering, asked.stop_early)
        seconds = summed(record.seconds for record in records)
        notes = [asked_note(record, board, picture) for record in records]
        return story_of(asked, picture, notes, seconds, board.full)

    def _kept(self, picture: Picture) -> PictureStore | None:
        """Where what is made of a picture is kept, in the store of the eye."""
        memory = self.eye.memory
        return PictureStore(memory, pixels_key(picture.pixels), self.eye.scope) if memory.most else None

    def _maps(self, picture: Picture, pixels: Tensor, asked: Examination, frame: Frame) -> dict[str, Any]:
        """Relevance, first glance and stakes of one picture, as `PassMaps` takes them."""
        salient = self.glance == "salient"
        return {
            "relevance": relevance_cells(asked.source, pixels, asked.query, frame, self._kept(picture)),
            "glance": relevance_cells(salient_map(picture), pixels, asked.query, frame) if salient else None,
            "stakes": self.arousal.stakes(asked.query).detach().to(pixels.device),
        }

    def _note(self, record: PassRecord, pictured: Pictured) -> PassNote:
        """A record of one picture, in plain arrays and in pixels of the picture as given."""
        said, heat, frame = record.generated, self.eye.temperature, pictured.frame
        leaves = record.looks.leaves()
        text = self.eye.processor.tokenizer.decode(said.ids[0][said.within[0]], skip_special_tokens=True).strip()
        step = Pass(
            seen_allocation(record, leaves, pictured),
            int(record.tokens[0]),
            float(record.exploration[0]),
            text,
            min(max(float(record.uncertainty[0]), 0.0), 1.0),
            float(said.entropy(heat)[0]),
            float(said.margin(heat)[0]),
        )
        return PassNote(
            step,
            record.steered[0].float().cpu().numpy(),
            record.reading.traces.uncertainty[0].float().cpu().numpy(),
            frame.boxes(record.looks.blocks[-1][0].cpu().numpy()),
            middle_of(record, frame),
            float(record.arousal[0]),
            record.seconds,
        )


def ask_in_passes(preset: str, eye: Eye, picture: Picture, query: str, request: Request, most: int) -> Answer:
    """The presets of passes, for `Eye.ask`."""
    esper = Esper.around(eye, None if preset == "esper" else preset, eye.name).set_image(picture)
    budget = request.budget
    if budget is not None and not isinstance(budget, int):
        raise InputError(f"got {len(budget)} budgets for one picture; give one")
    return esper.ask(query, budget, request.keep, max_new_tokens=most, scale=request.scale)


def middle_of(record: PassRecord, frame: Frame) -> tuple[int, int] | None:
    """The point in pixels that a look was gathered around; None where it was not."""
    row, col = record.point[0].tolist()
    if row < 0:
        return None
    top, left, height, width = frame.boxes(np.array([[row, col, 0]]))[0]
    return int(top + height // 2), int(left + width // 2)


def asked_note(record: PassRecord, board: TileBoard, picture: Picture) -> PassNote:
    """A record of a picture that an `Eye` was asked about; of tiles, what the view of the whole picture shows."""
    shown = board.frames()[board.whole]
    frame = Frame(picture.size, shown.cell, shown.image_size)
    added = board.tile(record.looks.blocks[-1][0].numpy(), board.whole)
    point = record.point[:, :1] - board.tops[board.whole]
    on_it = bool((record.point[0, 0] >= 0) & (point[0, 0] >= 0) & (point[0, 0] < shown.grid[0]))
    rested = replace(record, point=torch.cat([point, record.point[:, 1:]], 1)) if on_it else None
    answer = record.reading.answer
    assert answer is not None
    exploration, (found, *_) = float(record.exploration[0]), answer.passes
    words = (answer.text, answer.uncertainty, found.entropy, found.margin)
    return PassNote(
        Pass(answer.allocation, answer.tokens, exploration, *words),
        board.of_whole(record.steered[0].numpy()),
        None,
        frame.boxes(added),
        None if rested is None else middle_of(rested, frame),
        float(record.arousal[0]),
        record.seconds,
    )


def story_of(
    asked: Examination, picture: Picture, notes: Sequence[PassNote], seconds: dict[str, float], full: int
) -> Story:
    """What happened, with the last pass's words as the answer."""
    last = notes[-1].step
    steps = tuple(note.step for note in notes)
    answer = Answer(last.text, float(last.uncertainty or 0.0), steps, seconds, full, picture.notes)
    return Story(asked.query, picture, answer, tuple(notes), asked.settings.stop, asked.settings.passes)


def with_scanpaths(notes: Sequence[PassNote]) -> tuple[PassNote, ...]:
    """Every pass with the fixations until then in its allocation, so that its JSON and its picture have them."""
    points = [note.point for note in notes]
    made = []
    for number, note in enumerate(notes, start=1):
        path = tuple(point for point in points[:number] if point is not None)
        seen = replace(note.step.allocation, scanpath=path)
        made.append(replace(note, step=replace(note.step, allocation=seen)))
    return tuple(made)


def seen_allocation(record: PassRecord, leaves: torch.Tensor, pictured: Pictured) -> Allocation:
    """All leaves of one picture's looks, each with the mean of the map that the last look followed."""
    tree = record.looks.tree
    sums = node_sums(record.steered, tree)[0]
    table = arrays.like(tree.nodes_table, sums)
    place = (table[None] == leaves[0][:, None]).all(-1).int().argmax(1)
    scores = sums[place] / arrays.like(tree.areas, sums)[place]
    budget = int(record.looks.counts.sum())
    made = pictured.frame.allocation(leaves[0].cpu().numpy(), scores.float().cpu().numpy(), budget, "esper")
    return at_distance(made, pictured.distance, pictured.full)


@dataclass(frozen=True)
class Examination:
    """One question to Esper. source: a function of (picture, question). most: the longest answer, in tokens."""

    query: str
    request: Request
    settings: EsperSettings
    source: object
    failures: int
    most: int
    stop_early: bool

    def tokens(self, full: int) -> int:
        """Visual tokens that all passes together may spend on a picture that costs `full`."""
        if self.request.budget is not None:
            return check_budget(self.request.budget, full)
        return share_of(full, self.request.keep or DEFAULT_TOTAL)


@dataclass
class Pictured:
    """A picture as a Qwen3-VL sees it.

    pixels: (3, H, W) float32 in [0, 1], the canvas. normalised: (1, C, H, W). pyramids: by number of levels. distance:
    from which it is seen. given: the same as it is given, where it is seen from elsewhere.
    """

    picture: Picture
    pixels: Tensor
    normalised: Tensor
    cell: int
    pyramids: dict[int, PatchPyramid] = field(default_factory=dict)
    distance: Distance = field(default_factory=Distance)
    given: Pictured | None = None

    @classmethod
    def of(cls, eye: Eye, picture: Picture) -> Pictured:
        found = processed(eye.processor.image_processor, picture)
        inputs = {name: value.to(eye.model.device) for name, value in found.items() if hasattr(value, "to")}
        backbone = eye.backbone
        ((_, normalised),) = backbone.normalised_pixels(eye.model, inputs).values()
        (pixels,) = backbone.pixels(eye.model, eye.processor, inputs)
        vision = eye.model.config.vision_config
        return cls(picture, pixels, normalised, vision.spatial_merge_size * vision.patch_size)

    def seen_from(self, eye: Eye, scale: float | str | None, asked: Examination) -> Pictured:
        """The same picture from the distance of a scale; `auto` asks the letters of all of it."""
        letters, full = self.picture, self.frame.full
        distance = choose_distance(
            1.0 if scale is None else scale,
            eye.grip,
            lambda: letters_of(letters.pixels, size=letters.size),
            np.ones((1, 1), np.float32),
            size=letters.size,
            canvas=self.canvas,
            full=full,
            tokens=min(asked.tokens(full), full),
        )
        if distance.times == 1:
            return self
        seen = Pictured.of(eye, resized(self.picture, scaled_size(self.canvas, distance.times, self.cell)))
        return replace(seen, distance=distance, given=self)

    @property
    def full(self) -> int:
        """Tokens of the untouched picture."""
        return (self.given or self).frame.full

    @property
    def canvas(self) -> tuple[int, int]:
        return self.pixels.shape[1], self.pixels.shape[2]

    @property
    def frame(self) -> Frame:
        return Frame(self.picture.size, self.cell, self.canvas)

    def pyramid(self, model: PreTrainedModel, levels: int) -> PatchPyramid:
        if levels not in self.pyramids:
            self.pyramids[levels] = picture_pyramid(model, self.normalised, levels)
        return self.pyramids[levels]


def relevance_source(eye: Eye, relevance: object) -> object:
    """What `relevance=` stands for in passes: a function of (picture, question)."""
    # The model's own attention joins from the second pass on.
    offered = Scene(lambda: None, scorer=eye.scorer, fallback="detail")
    resolve(relevance, offered)
    return lambda pixels, query, kept=None: relevance_for(relevance, replace(offered, picture=pixels, kept=kept), query)


def relevance_cells(
    source: object, pixels: Tensor, query: str, frame: Frame, kept: PictureStore | None = None
) -> Tensor:
    """(1, rows, cols) float32 in [0, 1] on the grid of the canvas. kept: of the picture, for sources that use it."""
    found = plain_map(source(pixels, query, kept) if callable(source) else source)
    maps = torch.tensor(found, dtype=torch.float32)[None]
    return to_cells(maps.clamp(0, 1), Frame(frame.seen, frame.cell)).to(pixels.device)


def salient_map(picture: Picture) -> np.ndarray:
    """(h, w) float32 in [0, 1]: what stands out to somebody who has not heard the question."""
    from ..balancing.tension import sharpen
    from ..knowing.look.three_ways import perspectival
    from ..texture.one_picture import sense_one
    from ..texture.texture import Layout

    side = min(SENSE_SIDE, max(picture.pixels.shape[:2]))
    texture = sense_one(picture.pixels, Layout.of("look", CHANNELS), size=side)
    return np.asarray(sharpen(np.asarray(perspectival(texture))))
