"""`arr-coc train lora`: train adapters that answer from foveated prompts, on your own records.

    arr-coc train lora --model Qwen/Qwen3-VL-2B-Instruct --data invoices --keeps 0.25 0.125 --out my-adapter

Every step allocates records by their questions as `ask` does, with one of the budgets, and learns the answer. Adapters
(peft, extra `[lora]`) are trained on top of the frozen weights of any model that `attach` supports.
"""

from __future__ import annotations

import math
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
from arr_coc.core.folders import MINI, whole_folder, write_json
from arr_coc.options import Options
from arr_coc.realizing.base import Inputs

from ..options import option
from .own_data import OwnRecord, read_own, spelt, split_by_picture, write_records
from .run import Moment, Notes, RunOptions, Schedule, Training, command

if TYPE_CHECKING:
    from accelerate import Accelerator
    from transformers import PreTrainedModel

# Linear layers in the language models of the families that `attach` supports.
TARGETS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


@dataclass(frozen=True, kw_only=True)
class PromptOptions(RunOptions):
    """Options of this training."""

    data: Path = option(help="Your records: a folder with records.jsonl, a .jsonl or a .parquet file.")
    model: str = option(MINI, "Model to train: mini, a folder or a name on the hub.")
    keeps: tuple[float, ...] = option((0.25,), "Budgets to train with, as shares of all visual tokens.")
    relevance: str = option("auto", "Source of relevance, as for `arr-coc ask`, or the folder of a scorer.")
    rank: int = option(8, "Rank of the adapters.")
    learning_rate: float = option(2e-4, "Highest learning rate of AdamW.")
    batch: int = option(4, "Records a step.")
    held_out: float = option(0.2, "Share of pictures held out for evaluation.")
    judged: int = option(16, "Held-out questions at each evaluation.")
    judge_every: float = option(600.0, "Seconds between evaluations; there is always one before and one after.")
    folder: Path = option(Path("runs/prompts"), "Folder for the checkpoint and the curve.")

    def __post_init__(self) -> None:
        if not self.keeps or not all(0 < keep <= 1 for keep in self.keeps):
            raise InputError(f"--keeps {self.keeps} must be shares above 0 and at most 1")
        if self.batch < 1 or self.rank < 1:
            raise InputError("--batch and --rank must be at least 1")


class Trained(nn.Module):
    """Only the trained weights, so that a checkpoint holds the adapters and not the model."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.values = nn.ParameterList([value for value in model.parameters() if value.requires_grad])


def with_adapters(model: PreTrainedModel, options: PromptOptions) -> Any:
    """Add adapters to the language model of a model, and freeze its own weights."""
    try:
        peft = import_module("peft")
    except ModuleNotFoundError as error:
        raise InputError("`train lora` needs peft; install the extra: pip install 'arr-coc[lora]'") from error
    # Not those of the vision tower, whose tokens the allocation chooses.
    named = [
        name
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.split(".")[-1] in TARGETS and "visual" not in name
    ]
    if not named:
        raise InputError(f"{options.model} has no linear layer named {', '.join(TARGETS)}; adapters need one")
    config = peft.LoraConfig(r=options.rank, lora_alpha=2 * options.rank, target_modules=named)
    return peft.get_peft_model(model, config)


def save_processor(processor: Any, folder: Path) -> None:
    """Save its parts one by one: a processor built without torchvision cannot save itself as a whole."""
    processor.image_processor.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    if getattr(processor, "chat_template", None):
        (folder / "chat_template.jinja").write_text(processor.chat_template, encoding="utf-8")


def answered_prompt(eye: Eye, prompt: Inputs, answer: str) -> dict[str, object]:
    """Return a prompt of the eye (`Looked.inputs`) with its answer, and labels for the answer only."""
    inputs = dict(prompt)
    tokenizer, ids = eye.processor.tokenizer, inputs["input_ids"]
    said = tokenizer(answer, add_special_tokens=False)["input_ids"]
    end = tokenizer.eos_token_id
    tail = torch.tensor([[*said, *([] if end is None else [end])]], device=ids.device)
    if not tail.numel():
        raise InputError(f"the tokenizer of {eye.engine.name} has no token for the answer {answer!r}")
    length = ids.shape[1]
    for name, value in inputs.items():
        if torch.is_tensor(value) and value.shape == ids.shape and name != "input_ids":
            fill = torch.ones_like(tail) if name == "attention_mask" else torch.zeros_like(tail)
            inputs[name] = torch.cat([value, fill.to(value.dtype)], 1)
    inputs["input_ids"] = torch.cat([ids, tail], 1)
    inputs["labels"] = F.pad(tail, (length, 0), value=-100)
    return inputs


class PromptTraining(Training[PromptOptions]):
    """Train a model in an `Eye` on your own records."""

    def __init__(self, options: PromptOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.data = read_own(options.data, "outcomes")
        self.learned, self.held = split_by_picture(self.data.records, options.held_out, options.seed)
        self.eye = Eye.from_pretrained(options.model, device=str(self.device), relevance=options.relevance)
        self.eye.model.requires_grad_(False)
        self.adapted = with_adapters(self.eye.model, options)
        self.modules["trained"] = Trained(self.eye.model)
        self.optimizers.append(torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.0))
        self.schedule = Schedule(warm_up=5, decay_from=0.5, floor=0.05)
        self.done |= {"records": len(self.data.records), "skipped": len(self.data.bad), "held_out": len(self.held)}

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options, chance = self.options, self.chance["chance"]
        several = [chance.choice(self.learned) for _ in range(options.batch)]
        losses = [self.answer_loss(one.pixels, one.query, one.answer, chance.choice(options.keeps)) for one in several]
        return torch.stack(losses).mean(), {}

    def answer_loss(self, pixels: np.ndarray, query: str, answer: str, keep: float) -> Tensor:
        """Return the cross entropy of the answer, with the picture allocated as in `ask`."""
        with torch.no_grad():
            looked = self.eye.set_image(pixels).prepare(query, Options(budget=keep))
        inputs, plan = answered_prompt(self.eye, looked.inputs, answer), looked.plan
        realized = self.eye.engine.backbone.realize(self.eye.model, inputs, plan.allocations, **plan.options)
        return self.eye.model(**realized.inputs).loss

    def judge(self, at: Moment) -> dict[str, object]:
        """Return the share of held-out questions answered right at the smallest budget, and the loss of the answers."""
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
        # A folder that peft and transformers read: the adapters, and the processor of the model.
        with whole_folder(target) as made:
            self.adapted.save_pretrained(made)
            save_processor(self.eye.processor, made)
        write_json(target / "record.json", self.record())
        write_records(target / "held_out.jsonl", self.held)

    def finish(self) -> None:
        print(f"arr-coc ask picture.png question --model {self.options.target}", flush=True)


main = command(PromptTraining, PromptOptions, __doc__)
