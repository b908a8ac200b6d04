"""`ARRCOCVIS`: the whole pipeline as one `torch.nn.Module` whose children are its stages.

model = ARRCOCVIS()                                             with the bundled mini; or ARRCOCVIS(model, processor)
answer, homunculus = model(picture, "Where is the red car?")    the answer of `ask`, and a drawing of what the model saw
model.relevance(picture, "Where is the red car?").map           with gradients, for training the balance
model.save_pretrained("mine"); look(…, options=Options(balancing="mine"))

There is no second pipeline: answers and allocations equal those of `ask` and `look` exactly. The trainable part is the
law by which balancing weighs sources and sets tensions; a model passed in is a child module, too.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from .answering.eye import Eye
from .asking import ask
from .attending.allocate import allocate
from .attending.frame import Frame
from .balancing.arousal import first_arousal
from .balancing.balance import BalancedWays, Known, balance_ways
from .balancing.choosing import knowns, relevance_for
from .balancing.law import LAW_NAME, NUMBERS, Law, read_law
from .core.errors import InputError, of_kind
from .core.folders import MINI, verify, whole_folder, write_json, write_text
from .core.modules import CONFIG_NAME
from .core.values import Allocation, Relevance
from .draw.homunculus import homunculus
from .knowing.scene import SENSE_SIDE, VIEW_SIDE, Scene
from .knowing.ways import perspectival, propositional
from .looking import Look, examine
from .options import Budget, Options, as_options
from .pictures.document import load_page
from .pictures.load import load_picture
from .texture.channels import Texture, sense

if TYPE_CHECKING:
    from PIL.Image import Image

    from .core.answer import Answer

REALIZING = "realizing"


class ChannelSensor(nn.Module):
    """The stage texture: turn a picture into channels."""

    def forward(self, image: object) -> Texture:
        pixels = load_picture(image, longest_side=VIEW_SIDE).pixels
        return sense(pixels, side=min(SENSE_SIDE, max(pixels.shape[:2])))


class InformationScorer(nn.Module):
    """Propositional knowing: map how much there is to read."""

    def forward(self, texture: Texture) -> np.ndarray:
        return np.asarray(propositional(texture))


class PerspectivalScorer(nn.Module):
    """Perspectival knowing: map what stands out."""

    def forward(self, texture: Texture) -> np.ndarray:
        return np.asarray(perspectival(texture))


class ParticipatoryScorer(nn.Module):
    """Participatory knowing: map what matters for the question, with the learned scorer."""

    def forward(self, scene: Scene, query: str) -> Relevance:
        return relevance_for("scorer", scene, query)


class WaysOfKnowing(nn.Module):
    """The stage knowing: three ways as child modules; calling it returns the input of balancing."""

    def __init__(self) -> None:
        super().__init__()
        self.information = InformationScorer()
        self.perspective = PerspectivalScorer()
        self.participation = ParticipatoryScorer()

    def forward(self, scene: Scene, query: str) -> Known:
        return knowns(scene, query, learning=True)[0]


class TensionBalancer(nn.Module):
    """The stage balancing: its parameters are the numbers of a `Law`, in double precision."""

    def __init__(self, law: Law) -> None:
        super().__init__()
        for name in NUMBERS:
            setattr(self, name, nn.Parameter(torch.tensor(getattr(law, name), dtype=torch.float64)))

    @property
    def law(self) -> Law:
        """The current law, without gradients."""
        return Law(**{name: getattr(self, name).detach().double().cpu().numpy() for name in NUMBERS})

    def forward(self, known: Known) -> BalancedWays:
        """Balance the maps of the sources into one, with gradients to all parameters."""
        return balance_ways(known, Law(**{name: getattr(self, name) for name in NUMBERS}))

    def arousal(self, query: str, ways: list[np.ndarray]) -> float:
        """Estimate how much is at stake, by the words of the question and the contradiction between the ways."""
        return first_arousal(query, ways)[0]


class TokenAllocator(nn.Module):
    """The stage attending: turn a map and a budget into leaves; their positions have no gradient."""

    def forward(self, relevance: Relevance | np.ndarray | Tensor, budget: int, size: tuple[int, int]) -> Allocation:
        seen = relevance.detach() if isinstance(relevance, Tensor) else relevance
        return allocate(seen, budget, image_size=size)


class Realizer(nn.Module):
    """The stage realizing: answer with a model from the tokens allocated. eye: the model, or its name."""

    def __init__(self, model: Any, processor: Any) -> None:
        super().__init__()
        self.model = model if isinstance(model, nn.Module) else None
        self.eye: Any = model if processor is None else Eye(model, processor)
        self.processor = processor

    def forward(self, image: object, query: str, options: Options) -> Answer:
        return ask(image, query, model=self.eye, options=options)


class ARRCOCVIS(nn.Module):
    """Texture, knowing, balancing, attending and realizing, as one module.

    Args:
        model: A stock vision-language model with its processor; else "mini", a folder, a name on the hub or an `Eye`.
        processor: The processor of the model.
        budget: Maximum number of visual tokens, or a share such as "25%", as for `ask`.
        options: All other options, as for `ask`; `balancing` names the initial law.

    Example:
        >>> model = ARRCOCVIS(budget=96)  # doctest: +SKIP
        >>> answer, homunculus = model("street.png", "What does the pink sign say?")  # doctest: +SKIP
    """

    def __init__(
        self,
        model: object = MINI,
        processor: object = None,
        budget: Budget | None = None,
        options: Options | None = None,
    ) -> None:
        super().__init__()
        if isinstance(model, nn.Module) and processor is None:
            raise InputError("ARRCOCVIS needs the model's processor too: ARRCOCVIS(model, processor)")
        self.options = as_options(options).override(budget=budget)
        self.texture = ChannelSensor()
        self.knowing = WaysOfKnowing()
        self.balancing = TensionBalancer(read_law(self.options.balancing))
        self.attending = TokenAllocator()
        self.realizing = Realizer(model, processor)

    def forward(self, image: object, query: str, budget: Budget | None = None) -> tuple[Answer, Image]:
        """Answer a question about one picture, and draw what the model saw."""
        answer = self.realizing(image, query, self._options(budget))
        picture = load_page(image)[0]
        return answer, homunculus(picture, answer.allocation, query=query, answer=answer)

    def look(self, image: object, query: str, budget: Budget | None = None) -> Look:
        """Decide where the tokens go, without an answer: `examine` with this law."""
        return examine(image, query, self._options(budget))

    def relevance(self, image: object, query: str, budget: Budget | None = None) -> BalancedWays:
        """Balance the maps of the sources for one picture, with gradients to the parameters of `balancing`."""
        picture, words = load_page(image, longest_side=VIEW_SIDE)
        options, full = self._options(budget), Frame(picture.size, self.options.cell).full
        scene = Scene(picture.pixels, words=words, photos=options.photos, share=options.tokens(full) / full)
        return self.balancing(self.knowing(replace(scene, law=options.balancing), query))

    def _options(self, budget: Budget | None) -> Options:
        return self.options.override(budget=budget, balancing=self.balancing.law)

    def save_pretrained(self, folder: str | Path) -> None:
        """Write the law, the settings, and a model that was passed in, with its processor."""
        model, processor = self.realizing.model, self.realizing.processor
        settings = replace(self.options, balancing=None).to_json()
        name = self.realizing.eye if isinstance(self.realizing.eye, str) else MINI
        with whole_folder(folder) as made:
            write_json(made / LAW_NAME, self.balancing.law.to_json())
            write_json(made / CONFIG_NAME, {"kind": type(self).__name__, "model": name, "options": settings})
        if model is not None:
            for part in (model, processor.image_processor, processor.tokenizer):
                part.save_pretrained(Path(folder) / REALIZING)
            write_text(Path(folder) / REALIZING / "chat_template.jinja", str(processor.chat_template))

    @classmethod
    def from_pretrained(cls, folder: str | Path, model: object = None, processor: object = None) -> Self:
        """Load what `save_pretrained` wrote. model, processor: used instead of those that were saved."""
        folder = Path(folder)
        verify(folder)
        try:
            found = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
            options = Options.of({**found["options"], "balancing": folder})
            name = of_kind(found["model"], str, "model")
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise InputError(f"{folder} has no ARRCOCVIS ({error!r}); give what save_pretrained wrote") from error
        if model is None:
            model = str(folder / REALIZING) if (folder / REALIZING).is_dir() else name
        return cls(model, processor, options=options).eval()
