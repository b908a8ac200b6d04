"""From a picture and a question to an `Answer`: look, foveate, and let a vision-language model speak.

eye = Eye.from_pretrained("Qwen/Qwen3-VL-2B-Instruct")   a name on the hub or a folder
eye.set_image("street.png")                              once: decoded, resized and cut into patches
eye.ask("What does the red sign say?", budget=256)       many times: every question gets an allocation of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Any

from .attending import Frame
from .backbones.attachment_plan import Settings, plan_prompt
from .backbones.base import backbone_for
from .errors import InputError
from .looking import DEFAULT_KEEP, check_request
from .pictures import Picture, load_picture
from .values import Allocation, Answer, Pass, Relevance

if TYPE_CHECKING:
    import numpy as np
    import torch
    from transformers import PreTrainedModel, ProcessorMixin

# (picture (3, height, width) in [0, 1], question) → where the question needs detail
RelevanceSource = Callable[["torch.Tensor", str], "Relevance | np.ndarray | torch.Tensor"]


class Eye:
    """A model that looks before it answers.

    relevance: where detail should go, as for `attach`: "auto", "glance", "detail", "look" or a function of (picture,
    question). temperature: divides the logits before the uncertainty is read off them; 1 unless calibrated.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        processor: ProcessorMixin,
        *,
        relevance: str | RelevanceSource = "auto",
        temperature: float = 1.0,
        name: str = "",
    ) -> None:
        if not temperature > 0:
            raise InputError(f"temperature must be above 0, got {temperature}")
        # Any: what a model can do depends on its class, and that is what the adapter knows.
        self.model: Any = model
        self.processor: Any = processor
        self.relevance = relevance
        self.temperature = temperature
        self.name = name or type(model).__name__
        self.backbone = backbone_for(model)
        self.backbone.check(model, processor)
        self._picture: Picture | None = None
        self._pictured: dict[str, Any] = {}
        self._load_seconds = 0.0

    @classmethod
    def from_pretrained(cls, name: str, *, device: str = "cpu", **options: Any) -> Eye:
        """A stock model by its name on the hub or its folder; options are those of the constructor."""
        from pathlib import Path

        from transformers import AutoModelForImageTextToText
        from transformers.utils import logging

        from .backbones import load_processor

        logging.disable_progress_bar()
        try:
            processor = load_processor(name)
            model = AutoModelForImageTextToText.from_pretrained(name, dtype="auto")
        except (OSError, ValueError) as error:
            place = "folder" if Path(name).exists() else "name on the hub"
            reason = str(error).strip().splitlines()[0]
            raise InputError(f"cannot load {name!r} as a {place} of a vision-language model: {reason}") from error
        if device == "cpu":
            model = model.float()  # half precision is slow on processors, and its sums are coarse
        return cls(model.to(device).eval(), processor, name=str(name), **options)

    def set_image(self, image: Any) -> Eye:
        """The picture that the next questions are about: path, PIL image, array or tensor."""
        from PIL import Image

        started = perf_counter()
        picture = load_picture(image)
        pixels = self.processor.image_processor(images=[Image.fromarray(picture.pixels)], return_tensors="pt")
        self._pictured = {name: value for name, value in pixels.items() if hasattr(value, "to")}
        self._picture = picture
        self._load_seconds = perf_counter() - started
        return self

    def ask(
        self,
        query: str,
        budget: int | None = None,
        keep: float | None = None,
        *,
        strategy: str = "quadtree",
        relevance: Any = None,
        allocation: Allocation | None = None,
        seed: int = 0,
        max_new_tokens: int = 64,
        **options: Any,
    ) -> Answer:
        """Answer one question about the picture, at most `budget` visual tokens (or `keep` of the full count; ¼).

        allocation: decided by the caller. options: for the strategy, such as `boxes` (oracle).
        """
        if self._picture is None:
            raise InputError("no picture yet: call eye.set_image(image) before eye.ask(query)")
        check_request([query], budget, keep)
        seconds = {"load": self._load_seconds}
        with timed(seconds, "read"):
            inputs = self._prompt(query)
            settings = Settings(
                budget=budget,
                keep=DEFAULT_KEEP if budget is None and keep is None else keep,
                query=query,
                allocation=allocation,
                relevance=self.relevance if relevance is None else relevance,
                strategy=strategy,
                seed=seed,
                options=options,
            )
            self._check(budget, inputs)
        with timed(seconds, "look"):
            plan = plan_prompt(self.backbone, self.model, self.processor, inputs, settings)
        with timed(seconds, "encode"):
            realized = self.backbone.realize(
                self.model, inputs, plan.allocations, relevance=plan.relevance, **plan.options
            )
        with timed(seconds, "answer"):
            text, uncertainty = self._speak(realized.inputs, max_new_tokens)
        # What counts is what the prompts hold, not what was planned.
        spent, full = (self._visual_tokens(prompt) for prompt in (realized.inputs, inputs))
        seen = self._in_picture(plan.allocations[0])
        return Answer(text, uncertainty, (Pass(seen, spent, text=text, uncertainty=uncertainty),), seconds, full)

    def _visual_tokens(self, prompt: Mapping[str, Any]) -> int:
        return int((prompt["input_ids"] == self.backbone.image_token_id(self.model)).sum())

    def _prompt(self, query: str) -> dict[str, Any]:
        """The chat with one picture: patches are cut once, the text is set for every question."""
        import torch

        content = [{"type": "image"}, {"type": "text", "text": query}]
        text = self.processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )
        merge = getattr(self.processor.image_processor, "merge_size", None)
        grid = self._pictured.get("image_grid_thw")
        if merge is None or grid is None:
            from PIL import Image

            assert self._picture is not None
            picture = Image.fromarray(self._picture.pixels)
            inputs = dict(self.processor(text=[text], images=[picture], return_tensors="pt"))
        else:
            tokens = int(torch.as_tensor(grid)[0].prod()) // merge**2
            token = self.processor.image_token
            found = self.processor.tokenizer([text.replace(token, token * tokens, 1)], return_tensors="pt")
            inputs = {**found, **self._pictured}
        device = self.model.device
        return {name: value.to(device) if hasattr(value, "to") else value for name, value in inputs.items()}

    def _check(self, budget: int | None, inputs: Mapping[str, Any]) -> None:
        grids = self.backbone.grids(self.model, inputs)
        if len(grids) != 1:
            raise InputError(
                f"{self.name} shows this picture as {len(grids)} tiles or views, and one answer cannot tell where they "
                "lie; use attach(), which gives an allocation for each"
            )
        if budget is not None and budget > grids[0].tokens:
            raise InputError(f"budget {budget} is above the {grids[0].tokens} tokens that this picture costs in full")

    def _speak(self, inputs: dict[str, Any], max_new_tokens: int) -> tuple[str, float]:
        """The greedy answer and how unsure the model is of it: 1 − the probability it gives to this very text."""
        import torch

        length = inputs["input_ids"].shape[1]
        with torch.inference_mode():
            output = self.model.generate(
                **inputs,
                max_new_tokens=max_new_tokens,
                do_sample=False,
                return_dict_in_generate=True,
                output_logits=True,
            )
        said = output.sequences[:, length:]
        logits = torch.stack(output.logits, dim=1).float() / self.temperature
        chosen = logits.log_softmax(-1).gather(-1, said[..., None])[0, :, 0]
        uncertainty = 1.0 - float(chosen.sum().exp())
        text = self.processor.tokenizer.decode(said[0], skip_special_tokens=True).strip()
        return text, min(max(uncertainty, 0.0), 1.0)

    def _in_picture(self, allocation: Allocation) -> Allocation:
        """The same regions in pixels of the picture as given: the model counts in those of its own canvas."""
        assert self._picture is not None
        canvas = allocation.canvas or (allocation.height, allocation.width)
        frame = Frame(self._picture.size, allocation.cell, canvas)
        return frame.allocation(
            allocation.leaf_cells(),
            allocation.scores,
            allocation.budget,
            allocation.strategy,
            counts=allocation.counts,
            sparse=allocation.sparse,
        )


def ask(image: Any, query: str, budget: int | None = None, *, model: str | Eye, **how: Any) -> Answer:
    """One question about one picture; `model` is an `Eye`, a name on the hub or a folder. For several: `Eye`."""
    check_request([query], budget, how.get("keep"))
    eye = model if isinstance(model, Eye) else Eye.from_pretrained(model)
    return eye.set_image(image).ask(query, budget, **how)


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Any:
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started
