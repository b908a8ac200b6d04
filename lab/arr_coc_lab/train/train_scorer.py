"""`arr-coc train scorer`: a network learns where to look.

On your own pictures: `arr-coc train scorer --data FOLDER --start bundled --out my-scorer`. That training has other
options; `arr-coc train scorer --data . --help` lists them.

Without `--data` a small scorer learns on drawn pictures, from answers alone (`--from outcomes`): the model that reads
stays as it is, and the scorer never sees a box. `--credit` says what it follows:

- `derivative`: where the answer depended on detail (`outcomes.proven_credit`). One reading with its derivative weighs
  every cell of a picture;
- `policy`: which of several random allocations of a picture gave better answers (`policy_gradient`);
- `critic`: which gave better answers than four critics expected, over several passes (`actor_critic`);
- `both`: the derivative first, then the policy gradient.

`--from boxes` is the same training with the boxes as labels: by cross entropy, or by what a mistake costs
(`asymmetric`).

`--reward` says what an answer is worth to `policy` and `critic`: a file of weights (`rewards.RewardPlan`), or
`outcome`: right +1, partly +0.5, wrong −1, and the mean log-likelihood of the right answer's characters.
"""

from __future__ import annotations

import random
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import SCORER, part_folder
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention

from ..classic.scorer import Scorer, ScorerConfig
from . import rewards
from .acceleration import make_optimizers
from .actor_critic import ACTIONS, DAYS, STATES, HierarchicalActorCritic, PassPlan, critic_step, look_through
from .allocations import box_cover, target_cells, tree_of
from .checkpoints import TrainingState, load_shipped
from .devices import Devices
from .evaluate import FAMILIES, format_table, table
from .monitors import Monitors, Probe, run_scorer
from .options import RunOptions, option
from .outcomes import credit_marks, judge, load_reader, marked_loss, proven_credit
from .pictures import TrainingBatch, cut
from .policy_gradient import PolicySettings, Sampled, balance_penalty, draw_noise, map_entropy, outcome_step
from .reader_examples import SHARES
from .run import Moment, Notes, Schedule, Training, command, door
from .scorer_examples import STATIC_ONLY, CreditReplay, Curriculum, Judged, Sources, follows
from .train_reading import CONTEXT, DECAY, EDGES, READING

CREDITS, NETS = ("derivative", "policy", "critic"), ("small", "reading")
# The critic looks at least so often; how fast actor and critics learn.
CRITIC_PASSES, ACTOR_RATE = 3, 3e-3
# How often small canvases return once the large ones are practised.
SMALL_LATER = 0.2
# The learning rate falls to this share.
SLOWEST = 0.05


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(RunOptions):
    """keeps: the first of them alone up to `all_keeps_from`, because on a small budget a blind policy shows almost
    nothing at level 0 (0.1 % of the ground at 1/16), so that there is nothing to learn from. policy_weight: the policy
    gradient's norm is several times the credit's, so that its noise must not drown it. policy_from: before it the
    credit, much cheaper, leads alone, and every judged batch is followed by `replays` steps on earlier ones.
    small, small_until: as many pixels a step as on the large canvas; one in five steps later on.
    """

    source: str = option("outcomes", "what is learned from", flag="--from", choices=("outcomes", "boxes"))
    credit: str = option("both", "with outcomes: what is followed", choices=(*CREDITS, "both"))
    reader: Path = option(help="the frozen reader: an export of `train mini`, or a checkpoint folder")
    stakes: str = option("cross_entropy", "with boxes: cross_entropy or " + ", ".join(rewards.PRESETS))
    folder: Path = option(Path("runs/scorer"), "where the checkpoint and the curve are kept")
    start_from: Path | None = option(None, "an export with a scorer to go on from")
    batch: int = option(64, "pictures a step, all processes together")
    group: int = option(8, "allocations sampled for each picture")
    size: tuple[int, int] = option((512, 512), "canvas in pixels: height and width, or one number for both")
    keeps: tuple[float, ...] = option((1 / 4, 1 / 8, 1 / 16), "budgets practised, shares of all tokens, largest first")
    all_keeps_from: float = option(0.3, "share of the training from which on all budgets are practised")
    learning_rate: float = option(1e-3, "of AdamW")
    warm_up: int = option(50, "steps")
    decay_from: float = option(0.6, "share of the training from which on the learning rate falls")
    reward: str = option("outcome", "what an answer is worth: outcome, simple, or a file of weights (JSON, TOML)")
    credit_weight: float = option(1.0, "of the derivative's credit")
    policy_weight: float = option(0.2, "of the policy gradient")
    policy_from: float = option(0.7, "share of the training from which on allocations are sampled and judged")
    replays: int = option(2, "steps on earlier batches, after each")
    small: tuple[int, int] = option((256, 256), "the canvas of the first steps")
    small_until: float = option(0.45, "share of the training on the small canvas")
    settings: PolicySettings = field(default_factory=PolicySettings)
    curriculum: bool = option(True, "no curriculum: static pictures throughout", flag="--static-only")
    readings_at_once: int = option(2048, "for memory")
    probe: int = option(448, "validation pictures on which the allocation in use is judged; 0: none")
    say_every: float = option(15.0, "seconds between points of the curve; with --steps every step is one")
    evaluate: int = option(2048, "test questions for each cell of the table; 0: no table")
    net: str = option("small", "small, or reading: the bundled one's, all but what reads letters new", choices=NETS)
    width: int = option(ScorerConfig.width, "features of the small scorer")

    def __post_init__(self) -> None:
        if self.source not in ("outcomes", "boxes"):
            raise InputError(f"a scorer can learn from outcomes or from boxes, not from {self.source!r}")
        if self.stakes != "cross_entropy" and self.stakes not in rewards.PRESETS:
            known = ", ".join(rewards.PRESETS)
            raise InputError(f"unknown stakes {self.stakes!r}; choose cross_entropy or one of {known}")

    def canvas(self, progress: float, chance: random.Random) -> tuple[tuple[int, int], int]:
        """Size and number of pictures of a step."""
        times = max(1, (self.size[0] * self.size[1]) // (self.small[0] * self.small[1]))
        replay = chance.random() < SMALL_LATER
        is_small = times > 1 and (progress < self.small_until or (self.small_until > 0 and replay))
        return (self.small, self.batch * times) if is_small else (self.size, self.batch)

    def samples(self, progress: float) -> bool:
        """Whether allocations are sampled at this point of the training."""
        late = self.credit == "both" and progress >= self.policy_from
        return self.source == "outcomes" and (self.credit in ("policy", "critic") or late)

    @property
    def schedule(self) -> Schedule:
        return Schedule(self.warm_up, self.decay_from, SLOWEST)


def new_scorer(net: str, config: ScorerConfig) -> Scorer | ReadingScorer:
    """A scorer that was never taught where to look: all new, or with the bundled one's layers that read letters (which
    know no question) left as they are and all above them new."""
    if net == "small":
        return Scorer(config)
    taught = ReadingScorer.from_pretrained(part_folder(SCORER)).float()
    scorer = ReadingScorer(taught.config)
    for name in READING:
        getattr(scorer, name).load_state_dict(getattr(taught, name).state_dict())
        getattr(scorer, name).requires_grad_(False)
    return scorer


def box_marks(batch: TrainingBatch, rows: int, cols: int) -> Tensor:
    """(B, rows, cols): 1 for the cells of the answer, less for those that identify it."""
    answer = (box_cover(batch.boxes, batch.box_mask, rows, cols) > 0.02).float()
    return torch.maximum(answer, CONTEXT * target_cells(batch, rows, cols))


def box_loss(cell_logits: Tensor, batch: TrainingBatch, stakes: str, weights: Tensor) -> Tensor:
    """The labelled alternative: what matters is what the boxes cover."""
    truth = target_cells(batch, *cell_logits.shape[1:])
    if stakes == "cross_entropy":
        each = F.binary_cross_entropy_with_logits(
            cell_logits.float(), truth, pos_weight=truth.new_tensor(3.0), reduction="none"
        )
        return (each.mean((1, 2)) * weights).mean()
    tokens = rewards.expected_tokens(cell_logits.float())
    return rewards.asymmetric_loss(tokens, truth, rewards.PRESETS[stakes], importance=weights[:, None, None]).loss


def credited_loss(cell_logits: Tensor, judged: Judged) -> Tensor:
    return marked_loss(cell_logits, credit_marks(judged.shares), judged.weights)


class ScorerTraining(Training[ScorerOptions]):
    """One scorer, a frozen reader, and the sources of its examples."""

    apart = True  # what the critics have to learn must not drown the scorer's share

    def __init__(self, options: ScorerOptions, devices: Devices, config: ScorerConfig | None = None) -> None:
        super().__init__(options, devices)
        self.config = config or ScorerConfig(width=options.width)
        self.scorer: Any = new_scorer(options.net, self.config).to(self.device)
        rate = options.learning_rate
        optimizers = (
            [torch.optim.AdamW(self.scorer.parameters(), lr=rate, weight_decay=0.01, betas=(0.9, 0.98))]
            if options.net == "small"
            else make_optimizers(self.scorer, EDGES, (), rate, DECAY)
        )
        if options.start_from is not None:
            load_shipped(options.start_from, {"scorer": self.scorer})
        self.running_scorer, *self.optimizers = devices.prepare(self.scorer, *optimizers)
        self.modules["scorer"], self.schedule = self.scorer, options.schedule
        self.plan = rewards.RewardPlan.named(options.reward)
        self.actor: HierarchicalActorCritic | None = None
        if options.source == "outcomes" and options.credit == "critic":
            self.take_on_actor(devices)
        self.done |= {"pictures": 0, "rendered": {}, "monitors": None, "days": []}
        self.monitors = Monitors(entropy_band=options.settings.band)
        self.reader = load_reader(options.reader, self.device)
        self.curriculum = Curriculum() if options.curriculum else STATIC_ONLY
        self.sources = Sources(self.curriculum, FAMILIES, SHARES, options.seed, self.device)
        self.replay = CreditReplay()
        self.noise = self.generator("noise", options.seed)
        self.probe: Probe | None = None
        if options.probe and devices.is_main:
            self.probe = Probe.render(options.probe, options.size, options.keeps[0], self.device)

    def take_on_actor(self, devices: Devices) -> None:
        if devices.processes > 1:
            raise InputError("--credit critic trains in one process; start it without torchrun")
        # One pass leaves nothing to decide.
        self.plan = replace(self.plan, passes=max(CRITIC_PASSES, self.plan.passes))
        self.actor = HierarchicalActorCritic(STATES, ACTIONS, discounts=self.plan.discounts, weights=self.plan.scales)
        self.modules["actor"] = self.actor.to(self.device)
        self.optimizers.append(torch.optim.AdamW(self.actor.parameters(), lr=ACTOR_RATE))
        self.actions = self.generator("actions", self.options.seed)

    def running(self) -> AbstractContextManager[object]:
        return dense_vision_attention(self.reader)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options, chance = self.options, self.chance["chance"]
        self.stage = self.curriculum.at(at.progress).name
        size, number = options.canvas(at.progress, chance)
        # Small canvases practise the first budget only: a step of the tree is a large part of the others there.
        several = at.progress >= options.all_keeps_from and size == options.size
        keep = chance.choice(options.keeps if several else options.keeps[:1])
        tree = tree_of(size)
        budget = max(tree.floor, round(keep * tree.full))
        # Processes must agree on every picture: where there are several, nobody searches.
        search = partial(self.ease, budget=budget) if self.devices.processes == 1 else None
        pieces = self.sources.choose(number, size, at.progress, chance, search)
        batch, weights = self.sources.render(pieces)
        self.done |= {"pictures": self.done["pictures"] + number, "rendered": dict(self.sources.rendered)}
        # Chance is drawn for the whole batch everywhere, so that the slices fit together however many there are.
        noise = draw_noise(len(batch), options.group, tree, self.noise)
        own = self.devices.slice_of(len(batch))
        batch, weights, noise = cut(batch, own.start, own.stop), weights[own], noise[own]
        cell_logits = run_scorer(self.running_scorer, batch)
        if options.source == "boxes":
            loss = self.labelled_loss(cell_logits, batch, weights)
            seen = {"budget share": loss.new_tensor(tree.reach(budget) / budget)}
        else:
            after = follows(pieces)[own].to(self.device)
            loss, seen = self.outcome_loss(at, batch, cell_logits, tree, budget, noise, weights, after)
            if "right" in seen:
                seen[f"right {keep:.3g}"] = seen["right"]
            if options.credit in ("derivative", "both"):
                credit = proven_credit(self.reader, batch, most=options.readings_at_once)
                self.replay.add(Judged(batch, credit.shares, weights * credit.weights, tuple(pieces)))
                seen["credit"] = credited_loss(cell_logits, self.replay.kept[-1])
                seen["right full"], seen["proven"] = credit.right.float().mean(), credit.weights.mean()
                # Without the sampled allocations, the balance term still holds the map open.
                outside = balance_penalty(map_entropy(cell_logits), options.settings.band)
                held = 0.0 if options.samples(at.progress) else options.settings.balance_weight
                loss = loss + options.credit_weight * seen["credit"] + held * outside
        seen["map entropy"] = map_entropy(cell_logits.detach()).mean()
        return loss, seen

    @torch.no_grad()
    def ease(self, batch: TrainingBatch, budget: int) -> Tensor:
        """(B,): how likely the right answers are, through the leaves that the scorer would lay just now."""
        leaves = overlay(run_scorer(self.scorer, batch).sigmoid(), [budget] * len(batch)).cells
        return judge(self.reader, batch, leaves[:, None], self.options.readings_at_once).log_likelihood[:, 0]

    def labelled_loss(self, cell_logits: Tensor, batch: TrainingBatch, weights: Tensor) -> Tensor:
        if self.options.stakes != "cross_entropy":
            return box_loss(cell_logits, batch, self.options.stakes, weights)
        return marked_loss(cell_logits, box_marks(batch, *cell_logits.shape[1:]), weights)

    def outcome_loss(
        self,
        at: Moment,
        batch: TrainingBatch,
        cell_logits: Tensor,
        tree: Tree,
        budget: int,
        noise: Tensor,
        weights: Tensor,
        after: Tensor,
    ) -> tuple[Tensor, Notes]:
        """Sample, read, reward, where it is time for that. Of the batch the scorer learns what the plan rewards."""
        options, plan = self.options, self.plan
        if not options.samples(at.progress):
            loss = cell_logits.new_zeros(())
            return loss, {"budget share": loss.new_tensor(tree.reach(budget) / budget)}
        passes, relevance = PassPlan.of(tree, budget, plan), cell_logits.detach().sigmoid()
        notes: Notes = {"budget share": cell_logits.new_tensor(tree.reach(budget) / budget)}

        def look(order: Tensor) -> rewards.Passes:
            return look_through(
                self.reader,
                batch,
                order,
                passes,
                relevance=relevance,
                follows=after,
                days=self.done["days"],
                most=options.readings_at_once,
            )

        def reward(sampled: Sampled) -> Tensor:
            seen = look(sampled.order)
            ends = torch.zeros_like(seen.outcome, dtype=torch.bool)
            ends[..., -1] = True
            worth = rewards.answer_worth(plan, seen)[..., -1]
            notes.update({"right": (seen.outcome[..., -1] == 2).float().mean(), "worth": worth.mean()})
            return rewards.total_reward(plan, rewards.scale_rewards(plan, seen, ends))

        if self.actor is not None:
            given = noise, look, self.actor, options.settings, self.actions, weights
            made = critic_step(cell_logits, passes, *given)
            notes |= {"right": made.right, "worth": made.worth.mean(), "tokens": made.tokens, "value": made.value}
            loss = made.loss
        else:
            result = outcome_step(cell_logits, tree, budget, noise, reward, options.settings, weights)
            loss = (options.policy_weight if options.credit == "both" else 1.0) * result.loss
            notes |= {"reward": result.rewards.mean(), "draw entropy": result.draw_entropy, "silent": result.silent}
        earned = float(self.devices.mean(notes["worth"].detach()))
        self.done["days"] = [*self.done["days"], earned][-DAYS:]
        return loss, notes

    def step(self, at: Moment) -> Notes:
        notes = super().step(at)
        again = 0 if self.options.samples(at.progress) else self.options.replays
        for older in self.replay.draw(again, self.chance["chance"]):
            logits = run_scorer(self.running_scorer, older.batch)
            self.update(self.options.credit_weight * credited_loss(logits, older))
        return notes

    def point(self, at: Moment, means: dict[str, float]) -> dict[str, object]:
        names = {
            name.replace(" ", "_"): means[name]
            for name in ("budget share", "map entropy", "draw entropy")
            if name in means
        }
        self.monitors.observe(self.done["step"], [self.scorer], **names)
        self.done["monitors"] = self.monitors.to_json()
        return {"stage": self.stage, **means}

    def judge(self, at: Moment) -> dict[str, object] | None:
        """The learning curve's own point: how often the reader is right with the tree that would be used."""
        if self.probe is None:
            return None
        most = self.options.readings_at_once
        values: dict[str, object] = {"probe keep": self.probe.keep, "probe number": len(self.probe.batch)}
        if at.step == 0:
            values["probe random"] = self.probe.accuracy(self.reader, None, most)
        return {**values, "probe right": self.probe.accuracy(self.reader, self.scorer, most)}

    def data_state(self) -> dict[str, object]:
        # Every process keeps the slices of its own; the file has room for one, and the others begin anew.
        alone = self.devices.processes == 1
        return {"sources": self.sources.state(), "replay": self.replay.state() if alone else []}

    def load_data_state(self, state: TrainingState) -> None:
        self.sources.load_state(state["sources"])
        self.replay.load_state(state["replay"], self.sources)
        if self.done["monitors"]:
            self.monitors = Monitors.from_json(self.done["monitors"])

    def record(self) -> dict[str, object]:
        return {**super().record(), "scorer": asdict(self.config), "reward": asdict(self.plan), "rows": []}

    def finish(self) -> None:
        options = self.options
        for line in self.monitors.alarms():
            print(f"alarm: {line}", flush=True)
        if options.evaluate:
            cells = tuple((strategy, keep) for keep in options.keeps for strategy in ("random", "scorer"))
            rows = table(
                *(self.reader, self.scorer),
                cells=cells,
                number=options.evaluate,
                split="validation",
                size=options.size,
            )
            write_json(options.target / "record.json", {**self.record(), "rows": rows})
            print(format_table(rows), flush=True)


main = command(ScorerTraining, ScorerOptions, __doc__, own="arr_coc_lab.train.train_own:main")

if __name__ == "__main__":
    door(main)
