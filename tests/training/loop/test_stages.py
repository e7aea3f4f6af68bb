"""Two stages: what goes on, what is drawn anew, what stays frozen; and two-stage methods through the loop."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from torch import nn

from refprior.methods import (
    InformationOnly,
    LabeledSource,
    Method,
    ReferencePrior,
    Supervised,
    Transfer,
    UnlabeledSource,
    UnsupervisedTransfer,
)
from refprior.networks import SmallCNN
from refprior.particles import Particles, output_layer
from refprior.report import find_runs
from refprior.training import Head, load, train
from refprior.training.loop._loop import begin
from refprior.training.loop._stages import transplant
from tests.training.interruption import stop
from tests.training.recipes import CPU, digits, first_stage, pair, perceptron, second_stage, transferring


def test_a_stage_begins_with_the_weights_of_the_one_before() -> None:
    first = perceptron(method=Supervised())
    still = replace(first.optimizer, learning_rate=1e-12, decay=0.0)
    second = train(perceptron(steps=1, optimizer=still, start=first))
    expected = train(first).particles.state_dict()
    for name, tensor in second.particles.state_dict().items():
        torch.testing.assert_close(tensor, expected[name])


def test_a_new_head_is_drawn_and_the_rest_goes_on() -> None:
    first, second = train(first_stage()), second_stage()
    state = begin(second, second.read_task(), CPU, first.particles)
    old, new = first.particles.state_dict(), state.particles.state_dict()
    head = f"network.{output_layer(state.particles.network)}."
    assert head == "network.9."
    assert all(new[name].equal(old[name]) for name in old if not name.startswith(head))
    assert new[f"{head}weight"].shape == (2, 4, 64)
    fresh = Particles(second.network, 2, seed=second.seed).state_dict()
    assert new[f"{head}weight"].equal(fresh[f"{head}weight"])


@pytest.mark.parametrize("head", ["same", "new"])
def test_all_layers_learn_in_the_second_stage(head: Head) -> None:
    first = first_stage()
    second = second_stage(head=head, task=digits(3, 4, 5, labels=15), network=first.network)
    before, after = train(first).particles, train(second).particles
    assert not before.network.get_parameter("0.weight").equal(after.network.get_parameter("0.weight"))


def test_a_probe_trains_its_head_alone(tmp_path: Path) -> None:
    probe = second_stage(head="probe")
    run = train(probe, tmp_path / "run")
    first = load(tmp_path / "run" / "start")
    for name, tensor in run.particles.network.state_dict().items():
        if not name.startswith("9."):
            assert tensor.equal(first.particles.network.state_dict()[name])
    start = begin(probe, probe.read_task(), CPU, first.particles).particles
    assert not run.particles.network.get_parameter("9.weight").equal(start.network.get_parameter("9.weight"))


def test_batch_norm_under_a_probe_keeps_its_statistics() -> None:
    def make(classes: int) -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, classes))

    first = first_stage(network=partial(make, 3))
    probe = second_stage(network=partial(make, 4), start=first, head="probe")
    before, after = train(first).particles, train(probe).particles
    assert before.network.get_buffer("1.running_mean").equal(after.network.get_buffer("1.running_mean"))


def test_a_second_stage_that_is_interrupted_goes_on_exactly(tmp_path: Path) -> None:
    heads: list[Head] = ["new", "probe"]
    for head in heads:
        recipe = second_stage(head=head)
        whole = train(recipe, tmp_path / f"{head}-whole")
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


@pytest.mark.parametrize(
    "method", [Transfer(), UnsupervisedTransfer(), UnlabeledSource(), LabeledSource()], ids=lambda m: type(m).__name__
)
def test_two_stage_methods_train_and_resume_exactly(method: Method, tmp_path: Path) -> None:
    recipe = transferring(method=method)
    whole = train(recipe)
    train(recipe, tmp_path / "run")
    assert train(recipe, tmp_path / "run").particles.prior_logits.equal(whole.particles.prior_logits)
    loaded = load(tmp_path / "run")
    for name, tensor in whole.particles.state_dict().items():
        assert tensor.equal(loaded.particles.state_dict()[name])


def test_methods_without_labels_take_a_task_without_them() -> None:
    none = pair(labels=0)
    assert len(none().labeled) == 0
    run = train(transferring(task=none, method=UnsupervisedTransfer(), steps=60, particles=8))
    first, last = run.history[0].terms["source"], run.result.terms["source"]
    assert first is not None
    assert last is not None
    assert first > last  # it learns the source
    train(transferring(task=none, method=InformationOnly(), steps=1))


def test_beta_one_learns_what_the_semi_supervised_method_learns() -> None:
    """The source is drawn last, so that the labeled and unlabeled batches are the same."""
    first = train(transferring(method=Transfer(beta=1), steps=1))
    second = train(transferring(method=ReferencePrior(), steps=1))
    for name, tensor in first.particles.state_dict().items():
        torch.testing.assert_close(tensor, second.particles.state_dict()[name])


def test_everything_learns_again_after_a_probe() -> None:
    """Probe, then fine-tune: a later stage does not inherit what was frozen, nor touch the weights of the earlier."""
    probe = second_stage(head="probe")
    frozen = train(probe).particles
    before = {name: tensor.clone() for name, tensor in frozen.state_dict().items()}
    state = begin(replace(probe, start=probe, head="same"), probe.read_task(), CPU, frozen)
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
    first = first_stage(network=partial(HeadFirst, 3))
    with pytest.raises(ValueError, match="outputs are not those of the network's last linear layer, body"):
        train(second_stage(network=partial(HeadFirst, 3), task=first.task, start=first))
    with pytest.raises(ValueError, match="no linear layer above others"):
        output_layer(nn.Linear(2, 2))


def test_stages_that_do_not_fit_are_refused_before_the_first_is_trained(tmp_path: Path) -> None:
    wide = second_stage(network=partial(SmallCNN, (1, 8, 8), 4, width=8))
    for recipe in (wide, second_stage(head="same")):
        with pytest.raises(ValueError, match="two stages have different networks"):
            train(recipe, tmp_path / "run")
        assert not (tmp_path / "run" / "start").exists()


def test_a_run_stopped_in_its_first_stage_is_one_unfinished_run(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        train(second_stage(), tmp_path / "run", watch=stop)
    assert (tmp_path / "run" / "start" / "recipe.json").exists()
    assert find_runs([tmp_path]) == [tmp_path / "run"]
