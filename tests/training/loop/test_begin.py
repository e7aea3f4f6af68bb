"""Before the first step: recipes that do not fit their task, stages that follow each other, and memory."""

import itertools
import resource
import subprocess
import sys
import time
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from refprior.data import Pair, task_from_arrays
from refprior.methods import (
    InformationOnly,
    LabeledSource,
    Loss,
    Method,
    Needs,
    ReferencePrior,
    Step,
    Supervised,
    Transfer,
    UnlabeledSource,
    UnsupervisedTransfer,
)
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Particles, output_layer
from refprior.report import find_runs
from refprior.training import Recipe, estimate_cost, load, train
from refprior.training.loop._begin import begin, check_needs, network_size, transplant
from refprior.training.recipe import Head
from tests.training.interruption import stop
from tests.training.recipes import CPU, DIGITS, Wants, digits, first_stage, pair, perceptron, second_stage, transferring

IMAGES, LABELS = np.zeros((4, 1, 8, 8), np.uint8), np.array([0, 1, 0, 1])
NO_POOL = task_from_arrays((IMAGES, LABELS), IMAGES[:0], (IMAGES, LABELS), name="small")


@pytest.mark.parametrize(
    ("needs", "missing"),
    [
        (Needs(views=("weak",)), "Wants needs unlabeled inputs, task 'small' has none"),
        (Needs(source=True), "Wants needs inputs of a source task, task 'small' has none: see refprior.data.Pair"),
        (Needs(enumerates=40), "order 40 of 2 classes has 1.1e12 labelings"),
        (Needs(classes=3), "class_prior has 3 numbers, task 'small' has 2 classes: give one for each"),
    ],
)
def test_each_missing_part_is_named(needs: Needs, missing: str) -> None:
    check_needs(perceptron(task=NO_POOL, method=Wants(Needs())), NO_POOL)
    with pytest.raises(ValueError, match=missing):
        check_needs(perceptron(task=NO_POOL, method=Wants(needs)), NO_POOL)


def test_missing_labels_are_named_only_where_they_are_needed() -> None:
    task = replace(DIGITS, labels=0)()
    check_needs(perceptron(method=Wants(Needs(labels=False, views=("weak",)))), task)
    with pytest.raises(ValueError, match="Wants needs labeled inputs, task 'digits' has none"):
        check_needs(perceptron(method=Wants(Needs())), task)


def test_a_kind_of_view_that_does_not_exist_is_named() -> None:
    with pytest.raises(ValueError, match="a view must be 'clean', 'weak' or 'strong', got 'medium'"):
        Needs(views=("weak", "medium"))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="tuple_size must be a whole number of at least 1, got 0"):
        Needs(tuple_size=0)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (lambda total: total, "Returns must return a Loss, got a Tensor: return rp.Loss.of"),
        (lambda total: None, "Returns must return a Loss, got a NoneType"),
        (lambda total: Loss(total.expand(3), {}), "Returns: total of the loss must be a single number"),
        (lambda total: Loss.of(total, parts=torch.zeros(4)), "Returns: parts of the loss must be a single number"),
    ],
)
def test_a_method_that_returns_something_else_is_told_so(returned: Any, message: str) -> None:
    class Returns:
        needs = Needs()

        def __call__(self, step: Step) -> Loss:
            return returned(Supervised()(step).total)  # type: ignore[no-any-return]

    with pytest.raises(ValueError, match=message):
        train(perceptron(method=Returns(), steps=1))


def test_a_view_that_was_not_declared_is_named() -> None:
    class Greedy:
        needs = Needs(views=("weak",))

        def __call__(self, step: Step) -> Loss:
            return Loss.of(step.predict(step.batch.views["strong"])[0].mean())

    with pytest.raises(ValueError, match="the method does not declare the view 'strong'; it has weak"):
        train(perceptron(method=Greedy(), steps=1))


def test_a_pool_smaller_than_a_batch_is_rejected() -> None:
    with pytest.raises(ValueError, match="a step takes 1000 unlabeled inputs, task 'digits' has 847"):
        train(perceptron(unlabeled_batch=1000))


def test_a_method_that_needs_unlabeled_images_gets_none_to_train_on() -> None:
    with pytest.raises(ValueError, match="ReferencePrior needs unlabeled inputs"):
        train(perceptron(task=NO_POOL, network=partial(MLP, (1, 8, 8), 2)))


def test_too_high_an_order_and_a_consensus_of_nothing_are_rejected_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"order 20 of 3 classes has 3\.5e9 labelings"):
        train(transferring(method=ReferencePrior(order=20), unlabeled_batch=40), tmp_path / "run")
    with pytest.raises(ValueError, match=r"a consensus needs unlabeled inputs, .* has 0"):
        train(first_stage(task=digits(0, 1, 2, labels=None), readout="consensus"))
    assert not (tmp_path / "run" / "recipe.json").exists()


@pytest.mark.parametrize(
    ("view", "made"),
    [
        (lambda images, _: images[:, :, :6], r"\(2, 1, 6, 8\)"),
        (lambda images, _: images[:1], r"\(1, 1, 8, 8\)"),
        (lambda images, _: None, "NoneType"),
    ],
)
@pytest.mark.parametrize("name", ["weak", "strong"])
def test_a_view_that_does_not_keep_the_images_is_rejected(name: str, view: object, made: str) -> None:
    with pytest.raises(ValueError, match=rf"the {name} view makes {made} of \(2, 1, 8, 8\)"):
        train(perceptron(**{name: view}))


def test_a_network_with_other_outputs_than_classes_is_rejected() -> None:
    with pytest.raises(ValueError, match="network gives 7 outputs, task 'digits' has 10 classes"):
        train(perceptron(network=partial(MLP, (1, 8, 8), 7)))


def test_a_network_that_does_not_take_the_images_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"the network does not take inputs of \(1, 8, 8\): "):
        train(perceptron(network=partial(MLP, (1, 9, 9), 10)))
    with pytest.raises(ValueError, match=r"the network gives \(2, 8, 10\) for 2 inputs, not \(inputs, classes\)"):
        train(perceptron(network=lambda: torch.nn.Sequential(torch.nn.Flatten(1, 2), torch.nn.Linear(8, 10))))


def test_copies_of_one_network_are_rejected_unless_there_is_one_particle() -> None:
    net, other = MLP((1, 8, 8), 10), MLP((1, 8, 8), 10)
    with pytest.raises(ValueError, match=r"2 of 2 particles begin with the same weights .*Pretrained .* particles=1"):
        train(perceptron(network=lambda: deepcopy(net), steps=1))
    nets = itertools.cycle([net, other])
    with pytest.raises(ValueError, match="2 of 3 particles begin with the same weights"):
        train(perceptron(network=lambda: deepcopy(next(nets)), steps=1, particles=3))
    train(perceptron(network=lambda: deepcopy(net), steps=1, particles=1))


def test_a_source_that_is_missing_or_does_not_fit_is_rejected() -> None:
    with pytest.raises(ValueError, match="Transfer needs inputs of a source task"):
        train(transferring(task=digits(3, 4, 5, labels=6)))
    with pytest.raises(ValueError, match=r"the network gives 4 outputs, .* 3 classes, its source 3: 6 outputs"):
        train(transferring(network=partial(MLP, (1, 8, 8), 4)))
    uneven = Pair(source=digits(0, 1, labels=40), target=digits(3, 4, 5, labels=6))
    with pytest.raises(ValueError, match=r"the network gives 3 outputs, .* its source 2: 5 outputs give each"):
        train(transferring(task=uneven))
    train(transferring(task=uneven, network=partial(MLP, (1, 8, 8), 5), steps=1))


def test_outputs_of_the_source_need_a_method_that_knows_them() -> None:
    with pytest.raises(ValueError, match=r"the network gives 6 outputs, .* has 3 classes"):
        train(transferring(method=ReferencePrior(), network=partial(MLP, (1, 8, 8), 6)))


def test_a_target_without_labels_is_rejected_by_a_method_that_needs_them() -> None:
    with pytest.raises(ValueError, match=r"Transfer needs labeled inputs, task 'digits-0-1-2-to-.*' has none"):
        train(transferring(task=pair(labels=0)))


def test_a_step_whose_images_do_not_fit_is_rejected_with_the_numbers() -> None:
    message = r"a step of 1,000,000,\d+ inputs needs about 256 GB of memory, and .* lower labeled_batch"
    with pytest.raises(ValueError, match=message):
        train(perceptron(labeled_batch=10**9))


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


def test_networks_that_differ_in_more_than_the_head_are_rejected() -> None:
    small, large = (Particles(partial(SmallCNN, (1, 8, 8), 3, width=w), 1) for w in (4, 8))
    with pytest.raises(ValueError, match=r"different networks: network\.0\.weight"):
        transplant(small, large)
    with pytest.raises(ValueError, match="no output layer to replace"):
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


def test_a_head_that_cannot_be_found_is_rejected() -> None:
    first = first_stage(network=partial(HeadFirst, 3))
    with pytest.raises(ValueError, match="outputs are not those of the network's last linear layer, body"):
        train(second_stage(network=partial(HeadFirst, 3), task=first.task, start=first))
    with pytest.raises(ValueError, match="no output layer to replace"):
        output_layer(nn.Linear(2, 2))


def test_stages_that_do_not_fit_are_rejected_before_the_first_is_trained(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("make", [partial(MLP, (1, 8, 8), 10), partial(SmallCNN, (1, 8, 8), 10)])
def test_the_size_of_a_network_is_that_of_its_tensors(make: partial[nn.Module]) -> None:
    tensors = list(Particles(make, 1).network.state_dict().values())
    assert network_size(make) == (sum(t.numel() for t in tensors), sum(t.numel() * t.element_size() for t in tensors))


def test_a_network_that_only_real_memory_can_make_is_measured_too() -> None:
    def make() -> nn.Module:
        layer = nn.Linear(3, 2)
        layer.weight.sum().item()  # there is no value without memory
        return layer

    state = torch.get_rng_state()
    assert network_size(make) == (8, 32)
    assert torch.get_rng_state().equal(state)


def test_sizes_are_found_in_a_moment() -> None:
    started = time.monotonic()
    network_size(partial(WideResNet, (3, 32, 32), 10))
    assert time.monotonic() - started < 2


TOO_LARGE = {
    "particles": perceptron(particles=10**9),
    "network": perceptron(network=partial(MLP, (1, 8, 8), 10, hidden=10**9)),
    "first stage": perceptron(start=perceptron(network=partial(MLP, (1, 8, 8), 10, hidden=10**9)), head="new"),
}


@pytest.mark.parametrize("case", TOO_LARGE)
def test_what_cannot_fit_is_rejected_with_the_numbers(case: str) -> None:
    recipe: Recipe = TOO_LARGE[case]
    message = r"\Aparticles=[\d,]+, each a network of [\d,]+ numbers, needs about [\d.e+]+ TB of memory, and [\d.]+ .B "
    for work in (lambda: train(recipe), lambda: estimate_cost(recipe, CPU)):
        with pytest.raises(ValueError, match=message):
            work()


def test_the_limit_is_that_of_the_process() -> None:
    """Four copies of two networks of 600 MB each do not fit in 4 GB."""
    script = (
        "from functools import partial; from refprior.networks import MLP; from refprior.training import train\n"
        "from tests.training.recipes import perceptron\n"
        "try: train(perceptron(particles=2, network=partial(MLP, (1, 8, 8), 10, hidden=2_000_000)))\n"
        "except ValueError as error: print(error)"
    )

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))

    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, preexec_fn=limit)
    assert "lower particles, or make the network smaller" in done.stdout, done.stderr


def test_the_size_of_a_network_with_normal_weights_needs_no_compiler() -> None:
    code = (
        "import sys; from functools import partial; from refprior.networks import Linear; "
        "from refprior.training.loop._begin import network_size; "
        "print(network_size(partial(Linear, (5,), 3))[0], 'torch._dynamo' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["18", "False"]
