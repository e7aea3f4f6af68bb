"""Stacked against looped against ordinary modules: outputs, gradients, batch-norm buffers."""

import gc
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor, nn
from torch.profiler import profile
from torch.utils.flop_counter import FlopCounterMode

from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.particles import Execution, NotLogitsError, Particles, output_layer


def norm_network() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))


def norm_first() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Linear(64, 5))


class Own(nn.Module):
    """A user's module that is no sequence."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, 5, bias=False)
        self.register_buffer("offset", torch.ones(5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.add(self.linear(x.flatten(1)), self.get_buffer("offset"))


class Residual(nn.Sequential):
    """A sequence with a forward pass of its own."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return torch.add(flat[:, :5], nn.Sequential.forward(self, flat))  # type: ignore[no-untyped-call]


class Shared(nn.Module):
    """One module in two places, and one weight in two modules."""

    def __init__(self) -> None:
        super().__init__()
        self.first = self.again = nn.Linear(64, 64)
        self.head, self.twin = nn.Linear(64, 5), nn.Linear(64, 5)
        self.twin.weight = self.head.weight

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.again(self.first(x.flatten(1)))
        return torch.add(self.head(hidden), self.twin(hidden))


class Twice(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def parametrized() -> nn.Module:
    layer = nn.Linear(64, 5)
    nn.utils.parametrize.register_parametrization(layer, "weight", Twice())
    return nn.Sequential(nn.Flatten(), layer)


def repeated() -> nn.Module:
    layer = nn.Linear(64, 64)
    return nn.Sequential(nn.Flatten(), layer, nn.Tanh(), layer)


def head_again() -> nn.Module:
    """A layer that occurs among the first layers and again after a normalization."""
    layer = nn.Linear(64, 64)
    return nn.Sequential(nn.Flatten(), layer, nn.Tanh(), nn.LayerNorm(64), layer)


MAKERS: list[Callable[[], nn.Module]] = [
    lambda: Residual(nn.Linear(64, 5)),
    Shared,
    repeated,
    parametrized,
    lambda: nn.Sequential(nn.Linear(8, 5), nn.Flatten()),
    lambda: MLP((1, 8, 8), 5, hidden=7),
    lambda: SmallCNN((1, 8, 8), 5, width=4, hidden=8),
    lambda: WideResNet((1, 8, 8), 5, depth=10, width=1),
    lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 5)),
    lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Hardtanh(), nn.Hardtanh(), nn.Linear(6, 5)),
    lambda: nn.Sequential(
        nn.Flatten(), nn.Linear(64, 6), nn.Tanh(), nn.Linear(6, 7, bias=False), nn.GELU(), nn.Linear(7, 5)
    ),
    lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 6, bias=False), nn.ReLU(), nn.LayerNorm(6), nn.Linear(6, 5)),
    head_again,
    norm_network,
    norm_first,
    Own,
]


EXECUTIONS: tuple[Execution, Execution] = ("vectorized", "loop")


def inputs(count: int = 6) -> Tensor:
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.mark.parametrize("make", MAKERS)
def test_vectorized_equals_loop(make: Callable[[], nn.Module]) -> None:
    """Outputs, gradients and buffers after two training steps, and outputs in evaluation mode."""
    one, other = (Particles(make, 3, seed=5, execution=e).double() for e in EXECUTIONS)
    for particles in (one, other):
        for _ in range(2):
            particles(inputs()).square().sum().backward()
    torch.testing.assert_close(one(inputs()), other(inputs()))
    for p, q in zip(one.network.parameters(), other.network.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)
    torch.testing.assert_close(dict(one.named_buffers()), dict(other.named_buffers()))
    torch.testing.assert_close(one.eval()(inputs()), other.eval()(inputs()))


@pytest.mark.parametrize("make", [*MAKERS, lambda: nn.Sequential(nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 5))])
def test_recomputed_equals_loop_to_the_last_bit(make: Callable[[], nn.Module]) -> None:
    """Outputs, gradients and buffers, which the second pass of a network must not write to again."""
    found = []
    executions: tuple[Execution, Execution] = ("recomputed", "loop")
    for execution in executions:
        particles = Particles(make, 3, seed=5, execution=execution).double()
        torch.manual_seed(7)  # of dropout
        outputs = [particles(inputs()) for _ in range(2)]
        torch.stack(outputs).square().sum().backward()
        gradients = {name: p.grad for name, p in particles.network.named_parameters()}
        found.append((outputs, gradients, dict(particles.named_buffers()), torch.rand(2)))
    torch.testing.assert_close(*found, rtol=0, atol=0)


def kept_bytes(make: Callable[[], nn.Module], execution: Execution, count: int) -> int:
    """Bytes that the graph holds after the forward pass, without the weights."""
    particles = Particles(make, count, execution=execution)
    with profile(profile_memory=True) as profiler:
        outputs = particles(inputs(256).float())
    assert outputs.requires_grad
    return sum(event.self_cpu_memory_usage for event in profiler.key_averages())


def test_recomputed_keeps_what_one_network_computed() -> None:
    make = partial(SmallCNN, (1, 8, 8), 5)
    assert kept_bytes(make, "loop", 6) > 5 * kept_bytes(make, "loop", 1)
    assert kept_bytes(make, "recomputed", 6) < 1.1 * kept_bytes(make, "loop", 1)


def test_a_recomputed_wide_resnet_keeps_its_late_stages() -> None:
    """About half of the memory, and two thirds of the time."""
    make = partial(WideResNet, (1, 8, 8), 5, depth=16, width=1)
    one, late = kept_bytes(make, "loop", 1), kept_bytes(make, "recomputed", 2) - kept_bytes(make, "loop", 1)
    assert 0.3 * one < late < 0.6 * one


@pytest.mark.thorough
def test_what_a_recomputed_pass_keeps_is_gone_with_its_graph() -> None:
    """Also without a backward pass, as after an error."""
    particles = Particles(partial(WideResNet, (1, 8, 8), 5, depth=10, width=1), 2, execution="recomputed")

    def tensors() -> int:
        gc.collect()
        return sum(issubclass(type(thing), Tensor) for thing in gc.get_objects())

    particles(inputs(8).float())
    before = tensors()
    for _ in range(3):
        particles(inputs(8).float())
    assert tensors() == before


def test_a_recomputed_wide_resnet_takes_its_first_stage_again_and_no_other() -> None:
    """And not the last convolution of that stage, whose output is kept: by the number of multiplications."""
    found: dict[Execution, int] = {"loop": 0, "recomputed": 0}
    for execution in found:
        particles = Particles(partial(WideResNet, (1, 8, 8), 5, depth=16, width=2), 3, execution=execution)
        with FlopCounterMode(display=False) as counter:
            particles(inputs(32).float()).sum().backward()
        found[execution] = counter.get_total_flops()
    sizes = [(1, 16, 3), (16, 32, 3), (16, 32, 1), (32, 32, 3), (32, 32, 3)]  # channels in and out, side of the kernel
    again = sum(2 * 32 * 64 * inside * out * side**2 for inside, out, side in sizes)
    assert found["recomputed"] - found["loop"] == 2 * again


@pytest.mark.parametrize("bias", [True, False])
def test_a_single_linear_layer_is_one_matrix_product(bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = (Particles(partial(nn.Linear, 64, 5, bias=bias), 3, seed=5, execution=e) for e in EXECUTIONS)
    x = inputs().float().flatten(1)
    expected = other(x)
    monkeypatch.setattr(torch, "vmap", None)  # vmap would multiply K times
    found = one(x)
    torch.testing.assert_close(found, expected)
    pairs = (found, one), (expected, other)
    torch.testing.assert_close(*(torch.autograd.grad(y.square().sum(), [*p.network.parameters()]) for y, p in pairs))


@pytest.mark.parametrize("make", MAKERS)
def test_a_particle_is_an_ordinary_module(make: Callable[[], nn.Module]) -> None:
    particles = Particles(make, 3).double()
    particles(inputs())  # moves batch-norm statistics
    particles.eval()
    alone = [particles.particle(k).eval()(inputs()).log_softmax(-1) for k in range(3)]
    torch.testing.assert_close(particles(inputs()), torch.stack(alone))
    assert {n for n, _ in particles.particle(0).named_parameters()} == {n for n, _ in make().named_parameters()}


def test_a_particle_has_its_own_weights() -> None:
    particles = Particles(lambda: nn.Linear(2, 2), 2)
    with torch.no_grad():
        for parameter in particles.particle(0).parameters():
            parameter.zero_()
    assert all(p.abs().sum() > 0 for p in particles.network.parameters())


def test_initializations_differ_and_repeat_by_seed() -> None:
    def make() -> nn.Module:
        return nn.Linear(3, 2)

    state = torch.get_rng_state()
    first, again, other = (Particles(make, 2, seed=s).network.get_parameter("weight") for s in (1, 1, 2))
    assert not first[0].equal(first[1])
    assert first.equal(again)
    assert not first.equal(other)
    assert torch.get_rng_state().equal(state)


def test_batch_norm_statistics_are_those_of_each_particle() -> None:
    particles = Particles(norm_network, 2)
    x = inputs().float()
    alone = [particles.particle(k) for k in range(2)]
    particles(x)
    for k, module in enumerate(alone):
        module(x)
        torch.testing.assert_close(
            particles.network.get_buffer("1.running_mean")[k], module.get_buffer("1.running_mean")
        )
        torch.testing.assert_close(particles.network.get_buffer("1.running_var")[k], module.get_buffer("1.running_var"))


def test_outputs_are_log_probabilities_and_the_prior_is_uniform() -> None:
    particles = Particles(lambda: MLP((1, 8, 8), 5), 4)
    log_p = particles(inputs().float())
    assert log_p.shape == (4, 6, 5)
    torch.testing.assert_close(log_p.exp().sum(-1), torch.ones(4, 6))
    torch.testing.assert_close(particles.log_prior.exp(), torch.full((4,), 0.25))


class Inside(nn.Module):
    """The output layer inside another module, and a layer that only the first layers use."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(64, 6)
        self.last = nn.ModuleDict({"norm": nn.LayerNorm(6), "head": nn.Linear(6, 5)})

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.last["norm"](self.body(x.flatten(1)).tanh())
        return torch.as_tensor(self.last["head"](hidden))


FEATURES: list[tuple[Callable[[], nn.Module], str, int]] = [
    (lambda: MLP((1, 8, 8), 5, hidden=7), "3", 7),
    (lambda: SmallCNN((1, 8, 8), 5, width=4, hidden=8), "9", 8),
    (lambda: WideResNet((1, 8, 8), 5, depth=10, width=1), "head", 64),
    (lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 5)), "1", 64),
    (Inside, "last.head", 6),
    (norm_network, "4", 144),
    (norm_first, "2", 64),
]


@pytest.mark.parametrize("execution", ["vectorized", "loop"])
@pytest.mark.parametrize(("make", "name", "size"), FEATURES)
def test_features_times_the_output_layer_are_the_logits(
    make: Callable[[], nn.Module], name: str, size: int, execution: Execution
) -> None:
    """In evaluation mode, after batch norm has seen images."""
    particles = Particles(make, 3, execution=execution).double()
    particles(inputs())
    particles.eval()
    features = particles.features(inputs())
    assert output_layer(particles.network) == name
    assert features.shape == (3, 6, size)
    weight, bias = (particles.network.get_parameter(f"{name}.{kind}") for kind in ("weight", "bias"))
    logits = torch.einsum("kbf,kcf->kbc", features, weight) + bias[:, None]
    torch.testing.assert_close(logits.log_softmax(-1), particles(inputs()))


def test_features_have_gradients_and_leave_the_module_as_it_was() -> None:
    for make, name, _ in FEATURES:
        particles = Particles(make, 2).double()
        before = {name: id(p) for name, p in particles.named_parameters()}
        output = particles.network.get_submodule(name)
        particles.features(inputs().requires_grad_()).square().sum().backward()
        assert {name: id(p) for name, p in particles.named_parameters()} == before
        assert particles.network.get_submodule(name) is output
        assert all(p.grad is None for p in output.parameters())
        whole = Particles(make, 2).double()
        whole(inputs()).square().sum().backward()
        learning = {n for n, p in whole.network.named_parameters() if p.grad is not None and not n.startswith(name)}
        assert {n for n, p in particles.network.named_parameters() if p.grad is not None} == learning


def test_a_network_without_a_linear_layer_has_no_features() -> None:
    with pytest.raises(ValueError, match="no output layer to replace"):
        Particles(lambda: nn.Sequential(nn.Conv2d(1, 5, 8), nn.Flatten()), 2).features(inputs().float())


def test_half_precision_networks_give_float32_log_probabilities() -> None:
    particles = Particles(lambda: MLP((1, 8, 8), 5), 2).to(torch.bfloat16)
    assert particles(inputs().to(torch.bfloat16)).dtype == torch.float32


def test_the_kind_of_network_chooses_the_execution() -> None:
    assert Particles(lambda: MLP((1, 8, 8), 5), 2).execution == "vectorized"
    assert Particles(norm_network, 2).execution == "loop"


def test_dropout_differs_between_particles() -> None:
    def make() -> nn.Module:
        network = nn.Sequential(nn.Dropout(0.5), nn.Flatten(), nn.Linear(64, 5))
        nn.init.eye_(network.get_parameter("2.weight"))
        nn.init.zeros_(network.get_parameter("2.bias"))
        return network

    for execution in ("vectorized", "loop"):
        first, second = Particles(make, 2, execution=execution)(torch.ones(3, 1, 8, 8))
        assert not first.equal(second)


def test_a_forward_pass_leaves_the_module_as_it_was() -> None:
    for make in MAKERS:
        particles = Particles(make, 2).double()
        before = {name: id(p) for name, p in particles.named_parameters(remove_duplicate=False)}
        particles(inputs())
        assert {name: id(p) for name, p in particles.named_parameters(remove_duplicate=False)} == before


def test_tied_weights_stay_tied() -> None:
    particles = Particles(Shared, 3)
    network = particles.network
    assert network.get_parameter("head.weight") is network.get_parameter("twin.weight")
    assert sum(p.numel() for p in network.parameters()) == 3 * sum(p.numel() for p in Shared().parameters())
    alone = particles.particle(1)
    assert alone.get_parameter("head.weight") is alone.get_parameter("twin.weight")


def test_hooks_are_called() -> None:
    """A layer with a hook is not taken apart: the hook doubles the hidden units of both."""

    def make() -> nn.Module:
        network = nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Tanh(), nn.Linear(5, 5))
        network[1].register_forward_hook(lambda _, __, output: 2 * output)
        return network

    vectorized, loop = (Particles(make, 2, execution=e) for e in ("vectorized", "loop"))
    torch.testing.assert_close(vectorized(inputs().float()), loop(inputs().float()))


def test_frozen_parts_stay_frozen() -> None:
    particles = Particles(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 5), nn.Dropout(0.5)), 2)
    particles.network.get_submodule("2").eval()
    particles(inputs().float())
    assert not particles.network.get_submodule("2").training


def test_cumulative_batch_norm_runs_in_a_loop() -> None:
    particles = Particles(lambda: nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64, momentum=None)), 2)
    assert particles.execution == "loop"
    particles(inputs().float())


class Recurrent(nn.Module):
    """An LSTM, for which vmap has no rule."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.LSTM(8, 6, batch_first=True)
        self.head = nn.Linear(6, 5)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.body(x.flatten(1, 2))[0][:, -1])
        return outputs


class Undecided(nn.Module):
    """An `if` that depends on the data, in training after dropout only if `late`."""

    def __init__(self, late: bool = False) -> None:
        super().__init__()
        self.late = late
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(64, 5)

    def forward(self, x: Tensor) -> Tensor:
        outputs: Tensor = self.head(self.dropout(x.flatten(1)))
        if (self.training or not self.late) and outputs.mean() > 0:
            outputs = 2 * outputs
        return outputs


@pytest.mark.parametrize("make", [Recurrent, Undecided])
def test_what_vmap_cannot_run_runs_in_a_loop_and_is_said_once(
    make: Callable[[], nn.Module], caplog: pytest.LogCaptureFixture
) -> None:
    auto, loop, forced = (Particles(make, 3, execution=e).double().eval() for e in ("auto", "loop", "vectorized"))
    expected = loop(inputs())
    assert not caplog.records
    assert torch.equal(auto(inputs()), expected)
    assert torch.equal(auto(inputs()), expected)
    assert torch.equal(auto.train().eval()(inputs()), expected)
    assert auto.execution == "loop"
    (record,) = caplog.records
    assert "torch.vmap cannot run their network" in record.getMessage()
    assert "\n" not in record.getMessage()
    with pytest.raises(RuntimeError):
        forced(inputs())


def test_a_network_that_vmap_runs_in_evaluation_only_draws_the_same_numbers_in_a_loop() -> None:
    auto, loop = (Particles(lambda: Undecided(late=True), 3, execution=e).double() for e in ("auto", "loop"))
    auto.eval()(inputs())
    before = auto.execution
    torch.manual_seed(1)
    first = auto.train()(inputs())
    torch.manual_seed(1)
    assert torch.equal(first, loop(inputs()))
    assert (before, auto.execution) == ("vectorized", "loop")


def test_a_mistake_of_the_network_is_not_taken_for_one_of_vmap(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        Particles(Undecided, 2)(torch.zeros(2, 1, 7, 7))
    assert not caplog.records


class Pair(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x), x  # type: ignore[return-value]


@pytest.mark.parametrize("execution", ["auto", "loop", "vectorized"])
def test_a_network_that_returns_a_tuple_is_told_to_return_logits(execution: Execution) -> None:
    with pytest.raises(NotLogitsError, match=r"must return logits, a tensor \(n, classes\), it returned a tuple\Z"):
        Particles(lambda: Pair(4, 2), 2, execution=execution)(torch.zeros(3, 4))


def test_bad_makers_are_refused_in_words() -> None:
    layer = nn.Linear(2, 2)
    sizes = iter([2, 3])
    with pytest.raises(ValueError, match="at least 1 particle, got 0"):
        Particles(lambda: nn.Linear(2, 2), 0)
    with pytest.raises(ValueError, match="a function that returns a new network"):
        Particles(layer, 2)
    with pytest.raises(ValueError, match="returned the same one again"):
        Particles(lambda: layer, 2)
    with pytest.raises(ValueError, match="networks of equal shapes"):
        Particles(lambda: nn.Linear(2, next(sizes)), 2)
    with pytest.raises(ValueError, match=r"execution must be .* got 'vectorised'"):
        Particles(lambda: nn.Linear(2, 2), 2, execution="vectorised")  # type: ignore[arg-type]


def moved_statistics(make: Callable[[], nn.Module], execution: Execution = "auto") -> Particles:
    """Particles in training whose batch norm has seen something else."""
    particles = Particles(make, 3, seed=5, execution=execution).double()
    particles(3 * inputs(4) + 1)
    return particles


def copied(particles: Particles) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in particles.state_dict().items()}


def gradients(outputs: Tensor, particles: Particles) -> tuple[Tensor | None, ...]:
    learning = [p for p in particles.network.parameters() if p.requires_grad]
    return torch.autograd.grad(outputs.square().sum(), learning, allow_unused=True)


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", MAKERS)
def test_aside_equals_the_usual_pass_and_leaves_no_trace(
    make: Callable[[], nn.Module], training: bool, execution: Execution
) -> None:
    particles = moved_statistics(make, execution).train(training)
    before, modules = copied(particles), list(particles.modules())
    found = particles.aside(inputs())
    assert all(tensor.equal(before[name]) for name, tensor in particles.state_dict().items())
    assert list(particles.modules()) == modules
    expected = particles(inputs())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, particles), gradients(expected, particles))


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("make", [norm_network, norm_first])
def test_aside_as_in_other_particles(make: Callable[[], nn.Module], execution: Execution) -> None:
    """The teacher, which is in evaluation, with batch norm as in training; it stays in evaluation."""
    teacher, student = moved_statistics(make, execution).eval(), Particles(make, 3, execution=execution).double()
    before = copied(teacher)
    found = teacher.aside(inputs(), as_in=student)
    assert not any(module.training for module in teacher.modules())
    assert all(tensor.equal(before[name]) for name, tensor in teacher.state_dict().items())
    assert not torch.allclose(found, teacher(inputs()))
    torch.testing.assert_close(teacher.aside(inputs(), as_in=student.eval()), teacher(inputs()))
    torch.testing.assert_close(found, teacher.train()(inputs()))


def test_aside_as_in_particles_whose_layers_differ() -> None:
    """One frozen layer is frozen in the other's pass too."""
    student, teacher = (Particles(norm_network, 2).double() for _ in range(2))
    student.network.get_submodule("1").eval()
    teacher.eval()
    torch.testing.assert_close(teacher.aside(inputs(), as_in=student), teacher(inputs()))


@pytest.mark.parametrize("execution", EXECUTIONS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("make", MAKERS)
def test_each_equals_every_particle_on_its_own_inputs(
    make: Callable[[], nn.Module], training: bool, execution: Execution
) -> None:
    particles = moved_statistics(make, execution).train(training)
    own = torch.stack([inputs(), 2 * inputs() - 1, inputs().flip(0)])
    before = copied(particles)
    found = particles.each(own)
    assert all(tensor.equal(before[name]) for name, tensor in particles.state_dict().items())
    alone = [particles.particle(k).train(training)(own[k]).log_softmax(-1) for k in range(3)]
    torch.testing.assert_close(found, torch.stack(alone))
    (own_gradient,) = torch.autograd.grad(particles.each(own.requires_grad_()).square().sum(), own)
    assert own_gradient.abs().amax((1, 2, 3, 4)).min() > 0


@pytest.mark.parametrize("make", MAKERS)
def test_each_of_the_same_inputs_is_the_usual_pass(make: Callable[[], nn.Module]) -> None:
    particles = moved_statistics(make)
    found, expected = particles.each(inputs().expand(3, -1, -1, -1, -1)), particles(inputs())
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found, particles), gradients(expected, particles))


def test_each_falls_back_to_the_loop_as_the_usual_pass_does(caplog: pytest.LogCaptureFixture) -> None:
    particles = Particles(Recurrent, 2).double()
    own = torch.stack([inputs(), inputs().flip(0)])
    found = particles.each(own)
    assert particles.execution == "loop"
    assert caplog.messages[0].startswith("particles run one after another, because torch.vmap cannot run")
    torch.testing.assert_close(found[1], particles.particle(1)(own[1]).log_softmax(-1))


def test_a_pass_as_in_training_falls_back_though_evaluation_was_vectorized() -> None:
    """The teacher was tried in evaluation only; its pass as in training meets the `if`."""
    teacher, student = (Particles(partial(Undecided, late=True), 2, seed=1).double() for _ in range(2))
    teacher.eval()(inputs())
    before = teacher.execution
    assert teacher.aside(inputs(), as_in=student).shape == (2, 6, 5)
    assert (before, teacher.execution) == ("vectorized", "loop")


def test_a_network_that_cannot_fit_is_rejected_without_the_words_of_an_allocator() -> None:
    with pytest.raises(ValueError, match=r"^the network does not fit into memory: make it smaller$"):
        Particles(lambda: nn.Linear(2**40, 2**20), 1)
