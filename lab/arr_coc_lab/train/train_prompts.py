"""`arr-coc train lora` and `arr-coc train mini --data`: a model learns to answer from foveated prompts of one's own.

    arr-coc train lora --model Qwen/Qwen3-VL-2B-Instruct --data invoices --keeps 0.25 0.125 --out my-adapter
    arr-coc train mini --data invoices --seconds 600 --out my-mini

Every step shows records by allocations of their questions, as `ask` would, on one of the budgets, and asks for the
answer. `lora` trains adapters (peft, extra `[lora]`) beside the frozen weights of any model that `attach` takes, `mini`
all weights of the bundled reader, with drawn pictures in between, so that it does not forget how to read.
"""

from __future__ import annotations

import math
import os
import shutil
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.answering.eye import Eye
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder, whole_folder, write_json
from arr_coc.options import Options
from arr_coc.realizing.base import Inputs
from arr_coc.realizing.bundled import CALIBRATION

from ..options import option
from ..worlds.needle import FAMILIES, render
from .mini_model import save_model
from .own_data import OwnRecord, read_own, spelt, split_by_picture, write_records
from .run import Moment, Notes, RunOptions, Schedule, Training, command, door

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

# Linear layers of the language models of the families that `attach` knows.
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
DRAWN_SIDE = 256
LORA, ALL = "lora", "all"


@dataclass(frozen=True, kw_only=True)
class PromptOptions(RunOptions):
    """What this training is asked besides."""

    data: Path = option(help="one's own records: a folder with records.jsonl, a .jsonl or a .parquet file")
    model: str = option(MINI, "the model that learns: mini, a folder or a name on the hub")
    weights: str = option(LORA, "what is trained: adapters, or all weights (of mini)", choices=(LORA, ALL), hidden=True)
    keeps: tuple[float, ...] = option((0.25,), "budgets practised, shares of all visual tokens")
    relevance: str = option("auto", "where the tokens go: as for `arr-coc ask`, or the folder of a scorer")
    rank: int = option(8, "of the adapters")
    targets: tuple[str, ...] = option(TARGETS, "names of the linear layers that get one")
    learning_rate: float = option(2e-4, "of AdamW, at its highest")
    batch: int = option(4, "records a step")
    mix: float = option(0.0, "share of every batch that is drawn (Needle World)")
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(0.2, "share of the pictures that are judged on and never learned from")
    judged: int = option(16, "held-out questions that are asked at each judgement")
    judge_every: float = option(600.0, "seconds between judgements; there is one before and one after in any case")
    folder: Path = option(Path("runs/prompts"), "where the checkpoint and the curve are kept")

    def __post_init__(self) -> None:
        if not self.keeps or not all(0 < keep <= 1 for keep in self.keeps):
            raise InputError(f"--keeps {self.keeps} must be shares above 0 and at most 1")
        if not 0 <= self.mix < 1 or self.batch < 1 or self.rank < 1:
            raise InputError("--mix must be 0 or more and below 1, --batch and --rank at least 1")


class Trained(nn.Module):
    """Only what is trained, so that a checkpoint holds the adapters and not the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.values = nn.ParameterList([value for value in model.parameters() if value.requires_grad])


def with_adapters(model: PreTrainedModel, options: PromptOptions) -> Any:
    """The model with adapters in its language model; its own weights are frozen."""
    try:
        peft = import_module("peft")
    except ModuleNotFoundError as error:
        raise InputError("`train lora` needs peft; install the extra: pip install 'arr-coc[lora]'") from error
    # Not those of the vision tower: its tokens are what the allocation is made of.
    named = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.split(".")[-1] in options.targets and "visual" not in name
    ]
    if not named:
        raise InputError(f"{options.model} has no linear layer named {', '.join(options.targets)}; give --targets")
    config = peft.LoraConfig(r=options.rank, lora_alpha=2 * options.rank, target_modules=named)
    return peft.get_peft_model(model, config)


def save_processor(processor: Any, folder: Path) -> None:
    """Its parts one by one: a processor that was put together without torchvision cannot save itself as a whole."""
    processor.image_processor.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    if getattr(processor, "chat_template", None):
        (folder / "chat_template.jinja").write_text(processor.chat_template, encoding="utf-8")


def answered_prompt(eye: Eye, prompt: Inputs, answer: str) -> dict[str, object]:
    """A prompt that the eye prepared (`Looked.inputs`) with its answer, and labels that ask for the answer only."""
    inputs = dict(prompt)
    tokenizer, ids = eye.processor.tokenizer, inputs["input_ids"]
    said = tokenizer(answer, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    tail = torch.tensor([[*said, *([] if end is None else [end])]], device=ids.device)
    if not tail.numel():
        raise InputError(f"the tokenizer of {eye.name} has no token for the answer {answer!r}")
    length = ids.shape[1]
    for name, value in inputs.items():
        if torch.is_tensor(value) and value.shape == ids.shape and name != "input_ids":
            fill = torch.ones_like(tail) if name == "attention_mask" else torch.zeros_like(tail)
            inputs[name] = torch.cat([value, fill.to(value.dtype)], 1)
    inputs["input_ids"] = torch.cat([ids, tail], 1)
    inputs["labels"] = F.pad(tail, (length, 0), value=-100)
    return inputs


class PromptTraining(Training[PromptOptions]):
    """A model in an `Eye`, one's own records, and drawn ones in between."""

    def __init__(self, options: PromptOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.data = read_own(options.data, "outcomes", strict=options.strict)
        self.learned, self.held = split_by_picture(self.data.records, options.held_out, options.seed)
        self.eye = Eye.from_pretrained(options.model, device=str(self.device), relevance=options.relevance)
        self.adapted = None
        if options.weights == LORA:
            self.eye.model.requires_grad_(False)
            self.adapted = with_adapters(self.eye.model, options)
        self.modules["trained"] = Trained(self.eye.model)
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.0))
        self.schedule = Schedule(warm_up=5, decay_from=0.5, floor=0.05)
        self.drawn = self._drawn() if options.mix else []
        self.done |= {"records": len(self.data.records), "skipped": len(self.data.bad), "held_out": len(self.held)}

    def _drawn(self) -> list[tuple[np.ndarray, str, str]]:
        """Needle pictures with a question each, of every family."""
        made = []
        for family in FAMILIES:
            batch = render(family, 24, (DRAWN_SIDE, DRAWN_SIDE), self.options.seed)
            pictures = batch.pictures.permute(0, 2, 3, 1).cpu().numpy()
            made += list(zip(pictures, batch.questions, batch.answers, strict=True))
        return made

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options, chance = self.options, self.chance["chance"]
        of_drawn = min(options.batch - 1, round(options.batch * options.mix)) if self.drawn else 0
        several = [chance.choice(self.drawn) for _ in range(of_drawn)]
        for _ in range(options.batch - of_drawn):
            record = chance.choice(self.learned)
            several.append((record.pixels, record.query, record.answer))
        losses = [self.answer_loss(*one, keep=chance.choice(options.keeps)) for one in several]
        own = torch.stack(losses[of_drawn:]).detach().mean()
        return torch.stack(losses).mean(), {"own": own}

    def answer_loss(self, pixels: np.ndarray, query: str, answer: str, keep: float) -> Tensor:
        """Cross entropy of the answer, with the picture seen as `ask` would."""
        with torch.no_grad():
            looked = self.eye.set_image(pixels).prepare(query, Options(budget=keep))
        inputs, plan = answered_prompt(self.eye, looked.inputs, answer), looked.plan
        realized = self.eye.backbone.realize(self.eye.model, inputs, plan.allocations, **plan.options)
        return self.eye.model(**realized.inputs).loss

    def judge(self, at: Moment) -> dict[str, object]:
        """How many held-out questions are answered right, at the smallest budget, and the loss of their answers."""
        number, keep = min(self.options.judged, len(self.held)), min(self.options.keeps)
        chosen = [self.held[index] for index in np.linspace(0, len(self.held) - 1, number).round().astype(int)]
        self.eye.model.eval()
        right = [self.right(record, keep) for record in chosen]
        with torch.no_grad():
            losses = [float(self.answer_loss(one.pixels, one.query, one.answer, keep)) for one in chosen]
        found = {"held out right": sum(right) / number, "held out loss": math.fsum(losses) / number}
        self.done.setdefault("before", found)
        self.done["after"] = found
        return found

    def right(self, record: OwnRecord, keep: float) -> bool:
        said = self.eye.set_image(record.pixels).ask(record.query, budget=keep).text
        return spelt(said) == spelt(record.answer)

    def export(self) -> None:
        target = self.options.target
        target.mkdir(parents=True, exist_ok=True)
        if self.adapted is not None:
            # A folder that peft and transformers read: the adapters, and the processor of the model.
            with whole_folder(target) as made:
                self.adapted.save_pretrained(made)
                save_processor(self.eye.processor, made)
        else:
            save_model(self.eye.model, target / MINI)
            source = part_folder(MINI) if self.options.model == MINI else Path(self.options.model)
            if os.path.isfile(source / CALIBRATION):
                shutil.copyfile(source / CALIBRATION, target / MINI / CALIBRATION)
            if os.path.isdir(source.parent / SCORER):
                shutil.copytree(source.parent / SCORER, target / SCORER, dirs_exist_ok=True)
        write_json(target / "record.json", self.record())
        write_records(target / "held_out.jsonl", self.held)

    def finish(self) -> None:
        place = self.options.target if self.adapted is not None else self.options.target / MINI
        print(f"arr-coc ask picture.png question --model {place}", flush=True)


main = command(PromptTraining, PromptOptions, __doc__)


@dataclass(frozen=True, kw_only=True)
class MiniPromptOptions(PromptOptions):
    """The same for all weights of mini, on several budgets, with drawn pictures in between."""

    weights: str = option(ALL, hidden=True)
    keeps: tuple[float, ...] = option((1.0, 0.25, 0.125), "budgets practised, shares of all visual tokens")
    learning_rate: float = option(1e-4, "of AdamW, at its highest")
    mix: float = option(0.5, "share of every batch that is drawn (Needle World)")
    folder: Path = option(Path("runs/own-mini"), "where the checkpoint and the curve are kept")


mini_main = command(PromptTraining, MiniPromptOptions, __doc__)

if __name__ == "__main__":
    door(main)
