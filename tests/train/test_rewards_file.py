"""The file of rewards: every term reaches the training, and the critic follows what it says."""

from __future__ import annotations

import pytest
import torch
from tiny_weights import ship_tiny

from arr_coc.attending.tree import build_tree
from arr_coc.core.errors import InputError
from arr_coc_lab.train import train_scorer
from arr_coc_lab.train.actor_critic import (
    ACTIONS,
    STATES,
    HierarchicalActorCritic,
    PassPlan,
    critic_step,
    depth_cost,
    episode_ends,
    pass_budgets,
)
from arr_coc_lab.train.devices import Devices
from arr_coc_lab.train.options import parse
from arr_coc_lab.train.pictures import join, render_family
from arr_coc_lab.train.policy_gradient import PolicySettings, draw_noise, leaves_of
from arr_coc_lab.train.rewards import Passes, RewardPlan, answer_worth, scale_rewards, total_reward
from arr_coc_lab.train.run import Moment
from arr_coc_lab.train.scorer_examples import FRAMES, Block, Piece, follows

TREE = build_tree(4, 4, 2)


@pytest.fixture(scope="module")
def training(tmp_path_factory) -> train_scorer.ScorerTraining:
    folder = ship_tiny(tmp_path_factory.mktemp("reader"))
    given = ["--reader", str(folder), "--credit", "policy", "--size", "128", "--width", "32", "--probe", "0", "--cpu"]
    return train_scorer.ScorerTraining(parse(train_scorer.ScorerOptions, given, None), Devices("cpu"))


def seen(**more) -> Passes:
    """Two passes of two allocations of one picture: the first is right at once, the second never."""
    outcome = torch.tensor([[[2, 2], [0, 1]]])
    log, sure = torch.tensor([[[-0.5, -0.1], [-4.0, -2.0]]]), torch.full((1, 2, 2), 0.9)
    return Passes(outcome, log, sure, torch.tensor([4, 8]), 16, **more)


LAST = torch.tensor([[[False, True], [False, True]]])


def test_an_answer_is_worth_what_the_two_forms_say():
    first = answer_worth(RewardPlan(), seen())
    assert first[0, 0].tolist() == pytest.approx([1.015, 1.010], abs=1e-3), "the second look costs its haste"
    assert first[0, 1].tolist() == pytest.approx([-1, 0.5], abs=1e-3)
    simple = answer_worth(RewardPlan(form="simple"), seen())
    assert float(simple[0, 1, 0] - simple[0, 0, 0]) == pytest.approx(-2.5), "wrong, and sure of it"


def test_the_scales_are_step_pass_episode_and_day():
    days = torch.tensor([0.5, 0.3])
    found = scale_rewards(RewardPlan(tokens=2.0), seen(days=days), LAST)[0]
    worth = answer_worth(RewardPlan(), seen())[0]
    assert found[0, :, 0].tolist() == pytest.approx([-0.5, -1.0]), "what each pass cost"
    assert found[1, :, 1].tolist() == pytest.approx([0, 2.0]), "what it added"
    assert found[0, :, 2].tolist() == pytest.approx([0, float(worth[0, 1]) - 0.1])
    assert found[1, :, 3].tolist() == pytest.approx([0, float(worth[1, 1]) - 0.4])
    plan = RewardPlan(scales=(0.1, 0.2, 0.3, 0.4), discounts=(0.5, 0.5, 0.5, 0.5))
    by_hand = (found * torch.tensor([1.0, 0.5])[:, None] * torch.tensor(plan.scales)).sum((1, 2))
    assert torch.allclose(total_reward(plan, found[None])[0], by_hand)
    early = scale_rewards(RewardPlan(tokens=2.0), seen(), torch.tensor([[[True, False], [True, False]]]))
    assert not early[:, :, 1].any(), "behind the end nothing is earned"


TERMS = {
    "right": {"right": 2.0},
    "likelihood": {"likelihood": 0.0},
    "form": {"form": "simple"},
    "tokens": {"tokens": 1.0},
    "depth": {"depth": 1.0},
    "regret": {"regret": 1.0},
    "stakes": {"stakes": 1.0, "preset": "invoice"},
    "coherence": {"coherence": 1.0},
    "passes": {"passes": 2, "scales": (1.0, 1.0, 1.0, 0.0)},
    "day": {"scales": (1.0, 0.0, 1.0, 1.0)},
}


def test_every_term_of_the_file_reaches_the_training(training, tmp_path):
    """The same pictures, map and chance; one term more, written to a file: the reward must be another."""
    batch = join([render_family(family, 1, (128, 128), 3, 0, "cpu") for family in ("cards", "scenes")])
    cell_logits = torch.randn(2, 4, 4, generator=torch.Generator().manual_seed(0))
    tree, earned = train_scorer.tree_of((128, 128)), {}
    noise = draw_noise(2, 3, tree, torch.Generator().manual_seed(1))
    for name, terms in {"plain": {}, **TERMS}.items():
        path = tmp_path / f"{name}.toml"
        path.write_text(
            "\n".join(f"{key} = {list(value) if isinstance(value, tuple) else value!r}" for key, value in terms.items())
        )
        training.plan, training.done["days"] = RewardPlan.named(str(path)), [0.7]
        after, ones = torch.tensor([False, True]), torch.ones(2)
        notes = training.outcome_loss(Moment(0, 0, 0.9), batch, cell_logits, tree, 10, noise, ones, after)[1]
        earned[name] = float(notes["reward"])
        assert len(training.done["days"]) == 2
    for name in TERMS:
        assert abs(earned[name] - earned["plain"]) > 1e-3, name
    assert earned["tokens"] == pytest.approx(earned["plain"] - 10 / 16)
    assert earned["regret"] <= earned["plain"]
    assert earned["coherence"] > earned["plain"] > earned["stakes"]


@pytest.mark.parametrize(
    ("text", "said"),
    [("rigth = 1", "called rigth"), ("right = 'much'", "no number"), ("passes = 9", "1 to 4"), ("= 1", "cannot read"),
     ("form = 'other'", "outcome or simple"), ("preset = 'none'", "unknown stakes"), ("scales = [1]", "one weight")],
)  # fmt: skip
def test_a_file_that_says_nonsense_is_refused_in_one_line(tmp_path, text, said):
    path = tmp_path / "reward.toml"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        RewardPlan.named(str(path))


def test_json_says_the_same_and_a_missing_file_is_told(tmp_path):
    (tmp_path / "reward.json").write_text('{"tokens": 2, "scales": [0.1, 0.2, 0.3, 0.4]}')
    assert RewardPlan.named(str(tmp_path / "reward.json")) == RewardPlan(tokens=2.0, scales=(0.1, 0.2, 0.3, 0.4))
    with pytest.raises(InputError, match="give outcome, simple or a file"):
        RewardPlan.named("nowhere.json")


def test_frames_follow_one_another_within_a_clip_only():
    video = Block("video", "cards", 8, (128, 128), 0, 0, None, "train")
    static = video._replace(source="static")
    assert follows([Piece(static, 0, 2), Piece(video, 2, 6)]).tolist() == [False, False, False, True, False, True]
    assert FRAMES == 4


def test_deep_leaves_cost_more_than_shallow_ones():
    relevance = torch.zeros(1, 4, 4)
    relevance[0, 0, 0] = 1.0
    split, whole = (leaves_of(torch.tensor(order).view(1, 1, -1), TREE) for order in ([0, 1], [0]))
    assert depth_cost(relevance, split).item() == pytest.approx(1 + 0.1 * 6)
    assert depth_cost(relevance, whole).item() == pytest.approx(0.1 * 4)


def test_an_episode_ends_with_the_first_stop_and_budgets_double():
    actions = torch.tensor([[1, 0, 1], [1, 1, 1], [0, 0, 0]])
    assert episode_ends(actions).int().tolist() == [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    assert pass_budgets(build_tree(16, 16, 3), 64, 3) == [16, 32, 64]
    assert pass_budgets(build_tree(16, 16, 3), 8, 3) == [4, 4, 8]


@pytest.mark.parametrize(("price", "goes_on"), [(3.0, False), (0.0, True)])
def test_the_actor_stops_where_tokens_are_dear_and_goes_on_where_looking_pays(price, goes_on):
    """Later passes are right more often; whether that is worth their tokens is for the file to say."""
    torch.manual_seed(0)
    actor = HierarchicalActorCritic(STATES, ACTIONS, hidden=16, weights=(1.0, 0.0, 1.0, 0.0))
    optimizer = torch.optim.Adam(actor.parameters(), lr=2e-2)
    generator, plan = torch.Generator().manual_seed(0), RewardPlan(tokens=price, likelihood=0.0, passes=2)
    logits = torch.zeros(32, 4, 4, requires_grad=True)

    def look(order: torch.Tensor) -> Passes:
        outcome = torch.tensor([0, 2]).expand(32, 1, 2)
        return Passes(outcome, outcome - 2.0, torch.full((32, 1, 2), 0.5), torch.tensor([4, 16]), 16)

    for _ in range(40):
        noise = draw_noise(32, 1, TREE, generator)
        passes = PassPlan(TREE, [4, 16], plan)
        step = critic_step(logits, passes, noise, look, actor, PolicySettings(), generator, torch.ones(32))
        optimizer.zero_grad()
        step.loss.backward()
        optimizer.step()
    assert bool(step.tokens > 12) is goes_on, float(step.tokens)
    assert logits.grad is not None
    assert logits.grad.abs().sum() > 0, "the draws are taught too"


def test_the_critic_trains_from_a_flag_and_leaves_its_actor(training, tmp_path):
    numbers = {"batch": 4, "group": 1, "size": 128, "keeps": 7 / 16, "width": 32, "probe": 0, "evaluate": 0, "steps": 2}
    plan = [part for name, value in numbers.items() for part in (f"--{name}", str(value))]
    reader = str(training.options.reader)
    where = ["--folder", str(tmp_path), "--out", str(tmp_path / "out"), "--cpu"]
    train_scorer.main(["--reader", reader, "--credit", "critic", "--static-only", *plan, *where])
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    assert state["progress"]["step"] == 2
    assert {"value", "tokens", "worth"} <= set(state["progress"]["curve"][-1])
    assert (tmp_path / "out" / "actor.safetensors").is_file()
    assert len(state["progress"]["days"]) == 2
