"""Two stages: what goes on, what is drawn anew, what stays frozen; and two-stage methods through the loop."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from refprior.data import Task, digits, transfer_task
from refprior.methods import (
    InformationOnly,
    LabelledSource,
    ReferencePrior,
    Supervised,
    Transfer,
    UnlabelledSource,
    UnsupervisedTransfer,
)
from refprior.networks import MLP, SmallCNN
from refprior.particles import Particles
from refprior.report import find_runs
from refprior.training import Head, Recipe, load, train
from refprior.training._loop import begin, log_probabilities
from refprior.training._stages import output_layer, transplant
from refprior.views import Distort, Shift

CPU = torch.device("cpu")
FIRST = Recipe(
    task=partial(digits, labels=5, classes=(0, 1, 2)),
    network=partial(SmallCNN, (1, 8, 8), 3, width=4),
    method=Supervised(),
    particles=2,
    steps=6,
    labelled=9,
    evaluate_every=6,
)
SECOND = replace(
    FIRST,
    task=partial(digits, labels=5, classes=(3, 4, 5, 6)),
    network=partial(SmallCNN, (1, 8, 8), 4, width=4),
    start=FIRST,
    head="new",
)


def both(labels: int = 2) -> Task:
    source, target = digits(labels=20, classes=(0, 1, 2)), digits(labels=labels, classes=(3, 4, 5))
    return transfer_task(source, target)


TRANSFER = Recipe(
    task=both,
    network=partial(MLP, (1, 8, 8), 3),
    method=Transfer(),
    particles=3,
    steps=6,
    labelled=6,
    unlabelled=8,
    source=8,
    weak=Shift(),
    strong=Distort(),
    evaluate_every=6,
)


def test_a_new_head_is_drawn_and_the_rest_goes_on() -> None:
    first = train(FIRST)
    state = begin(SECOND, SECOND.task(), CPU, first.particles)
    old, new = first.particles.state_dict(), state.particles.state_dict()
    head = f"network.{output_layer(state.particles.network)}."
    assert head == "network.9."
    assert all(new[name].equal(old[name]) for name in old if not name.startswith(head))
    assert new[f"{head}weight"].shape == (2, 4, 64)
    fresh = Particles(SECOND.network, 2, seed=SECOND.seed).state_dict()
    assert new[f"{head}weight"].equal(fresh[f"{head}weight"])


@pytest.mark.parametrize("head", ["same", "new"])
def test_all_layers_learn_in_the_second_stage(head: Head) -> None:
    second = replace(SECOND, head=head, task=partial(digits, labels=5, classes=(3, 4, 5)), network=FIRST.network)
    before, after = train(FIRST).particles, train(second).particles
    assert not before.network.get_parameter("0.weight").equal(after.network.get_parameter("0.weight"))


def test_a_probe_trains_its_head_alone(tmp_path: Path) -> None:
    probe = replace(SECOND, head="probe")
    run = train(probe, tmp_path / "run")
    first = load(tmp_path / "run" / "start", FIRST)
    for name, tensor in run.particles.network.state_dict().items():
        if not name.startswith("9."):
            assert tensor.equal(first.particles.network.state_dict()[name])
    start = begin(probe, probe.task(), CPU, first.particles).particles
    assert not run.particles.network.get_parameter("9.weight").equal(start.network.get_parameter("9.weight"))


def test_batch_norm_under_a_probe_keeps_its_statistics() -> None:
    def make(classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, classes))

    first = replace(FIRST, network=partial(make, 3))
    probe = replace(SECOND, network=partial(make, 4), start=first, head="probe")
    before, after = train(first).particles, train(probe).particles
    assert before.network.get_buffer("1.running_mean").equal(after.network.get_buffer("1.running_mean"))


def test_a_second_stage_that_is_interrupted_goes_on_exactly(tmp_path: Path) -> None:
    heads: list[Head] = ["new", "probe"]
    for head in heads:
        recipe = replace(SECOND, head=head)
        whole = train(recipe, tmp_path / f"{head}-whole")

        def stop(record: dict[str, object]) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            train(replace(recipe, evaluate_every=3), tmp_path / head, watch=stop, save_every=0)
        again = train(replace(recipe, evaluate_every=3), tmp_path / head, save_every=0)
        for name, tensor in whole.particles.state_dict().items():
            assert tensor.equal(again.particles.state_dict()[name])


def test_networks_that_differ_in_more_than_the_head_are_refused() -> None:
    small, large = (Particles(partial(SmallCNN, (1, 8, 8), 3, width=w), 1) for w in (4, 8))
    with pytest.raises(ValueError, match=r"different networks: network\.0\.weight"):
        transplant(small, large)
    with pytest.raises(ValueError, match="no linear layer"):
        output_layer(nn.Conv2d(1, 1, 1))


def test_a_head_without_a_first_stage_is_refused() -> None:
    with pytest.raises(ValueError, match="head='new' is for a second stage"):
        replace(FIRST, head="new")


@pytest.mark.parametrize(
    "method", [Transfer(), UnsupervisedTransfer(), UnlabelledSource(), LabelledSource()], ids=lambda m: type(m).__name__
)
def test_two_stage_methods_train_and_resume_exactly(method: Transfer, tmp_path: Path) -> None:
    recipe = replace(TRANSFER, method=method)
    whole = train(recipe)
    train(recipe, tmp_path / "run")
    assert train(recipe, tmp_path / "run").particles.prior_logits.equal(whole.particles.prior_logits)
    loaded = load(tmp_path / "run", recipe)
    for name, tensor in whole.particles.state_dict().items():
        assert tensor.equal(loaded.particles.state_dict()[name])


def test_methods_without_labels_take_a_task_without_them() -> None:
    task = both(labels=0)
    assert len(task.labelled) == 0
    run = train(replace(TRANSFER, task=partial(both, 0), method=UnsupervisedTransfer(), steps=60, particles=8))
    assert run.history[0]["source"] > run.result["source"]  # it learns the source
    train(replace(TRANSFER, task=partial(both, 0), method=InformationOnly(), steps=1))
    with pytest.raises(ValueError, match=r"Transfer needs labelled images, task 'digits-0-1-2-to-.*' has none"):
        train(replace(TRANSFER, task=partial(both, 0)))


def test_a_source_that_is_missing_or_does_not_fit_is_refused() -> None:
    alone = partial(digits, labels=2, classes=(3, 4, 5))
    with pytest.raises(ValueError, match="Transfer needs images of a source task"):
        train(replace(TRANSFER, task=alone))
    with pytest.raises(ValueError, match=r"the network gives 4 outputs, .* 3 classes, its source 3: 6 outputs"):
        train(replace(TRANSFER, network=partial(MLP, (1, 8, 8), 4)))

    def uneven() -> Task:
        return transfer_task(digits(labels=20, classes=(0, 1)), digits(labels=2, classes=(3, 4, 5)))

    with pytest.raises(ValueError, match=r"the network gives 3 outputs, .* its source 2: 5 outputs give each"):
        train(replace(TRANSFER, task=uneven))
    train(replace(TRANSFER, task=uneven, network=partial(MLP, (1, 8, 8), 5), steps=1))


def test_predictions_are_of_the_targets_own_outputs() -> None:
    run = train(replace(TRANSFER, network=partial(MLP, (1, 8, 8), 6)))
    log_p = log_probabilities(run.particles, run.task, run.task.test.images[:5])
    assert log_p.shape == (3, 5, 3)
    torch.testing.assert_close(log_p.logsumexp(-1), torch.zeros(3, 5), atol=1e-5, rtol=0)
    assert run.predict(run.task.test.images[:5]).shape == (5, 3)


def test_beta_one_learns_what_the_semi_supervised_method_learns() -> None:
    """The source is drawn last, so that the labelled and unlabelled batches are the same."""
    first = train(replace(TRANSFER, method=Transfer(beta=1), steps=1))
    second = train(replace(TRANSFER, method=ReferencePrior(), steps=1))
    for name, tensor in first.particles.state_dict().items():
        torch.testing.assert_close(tensor, second.particles.state_dict()[name])


def test_everything_learns_again_after_a_probe() -> None:
    """Probe, then fine-tune: a later stage does not inherit what was frozen, nor touch the weights of the earlier."""
    probe = replace(SECOND, head="probe")
    frozen = train(probe).particles
    before = {name: tensor.clone() for name, tensor in frozen.state_dict().items()}
    state = begin(replace(probe, start=probe, head="same"), probe.task(), CPU, frozen)
    assert all(parameter.requires_grad for parameter in state.particles.parameters())
    with torch.no_grad():
        state.particles.network.get_parameter("0.weight").zero_()
    assert all(tensor.equal(before[name]) for name, tensor in frozen.state_dict().items())


class HeadFirst(nn.Module):
    """A network that names its head before its body."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.head = nn.Linear(8, classes)
        self.body = nn.Linear(64, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        outputs: torch.Tensor = self.head(self.body(x.flatten(1)).relu())
        return outputs


def test_a_head_that_cannot_be_found_is_refused() -> None:
    first = replace(FIRST, network=partial(HeadFirst, 3))
    with pytest.raises(ValueError, match="outputs are not those of the network's last linear layer, body"):
        train(replace(SECOND, network=partial(HeadFirst, 3), task=FIRST.task, start=first))
    with pytest.raises(ValueError, match="no linear layer above others"):
        output_layer(nn.Linear(2, 2))


def test_stages_that_do_not_fit_are_refused_before_the_first_is_trained(tmp_path: Path) -> None:
    wide = replace(SECOND, network=partial(SmallCNN, (1, 8, 8), 4, width=8))
    for recipe in (wide, replace(SECOND, head="same")):
        with pytest.raises(ValueError, match="two stages have different networks"):
            train(recipe, tmp_path / "run")
        assert not (tmp_path / "run" / "start").exists()


def test_outputs_of_the_source_need_a_method_that_knows_them() -> None:
    with pytest.raises(ValueError, match=r"the network gives 6 outputs, .* has 3 classes"):
        train(replace(TRANSFER, method=ReferencePrior(), network=partial(MLP, (1, 8, 8), 6)))


def test_too_high_an_order_and_a_consensus_of_nothing_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"order 20 of 3 classes has 1e9\.5 labelings"):
        train(replace(TRANSFER, method=ReferencePrior(order=20), unlabelled=40), tmp_path / "run")
    with pytest.raises(ValueError, match=r"a consensus needs unlabelled images, .* has 0"):
        train(replace(FIRST, task=partial(digits, labels=None, classes=(0, 1, 2)), readout="consensus"))
    assert not (tmp_path / "run" / "recipe.json").exists()


def test_a_run_stopped_in_its_first_stage_is_one_unfinished_run(tmp_path: Path) -> None:
    def stop(record: dict[str, object]) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SECOND, tmp_path / "run", watch=stop)
    assert (tmp_path / "run" / "start" / "recipe.json").exists()
    assert find_runs([tmp_path]) == [tmp_path / "run"]
