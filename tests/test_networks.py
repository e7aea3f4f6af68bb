"""Shapes, parameter counts and the options of the paper's networks."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.profiler import profile

from refprior.networks import MLP, Block, Linear, Pretrained, SmallCNN, WideResNet
from refprior.particles import Particles
from refprior.training import Recipe, load, train
from tests.training.interruption import assert_same_run, interrupted_at
from tests.training.recipes import convolutional


def count(network: nn.Module) -> int:
    return sum(p.numel() for p in network.parameters())


def test_wide_resnet_has_the_papers_size() -> None:
    network = WideResNet((3, 32, 32), 10)
    assert count(network) == 1_467_610
    assert network(torch.randn(2, 3, 32, 32)).shape == (2, 10)


def test_wide_resnet_initialization_and_momentum() -> None:
    network = WideResNet((3, 32, 32), 10)
    norms = [m for m in network.modules() if isinstance(m, nn.BatchNorm2d)]
    assert len(norms) == 25
    assert {(m.momentum, m.eps) for m in norms} == {(0.001, 1e-5)}
    assert network.head.bias.abs().max() == 0
    last = [m for m in network.modules() if isinstance(m, nn.Conv2d)][-1]
    assert last.weight.std().item() == pytest.approx((2 / (9 * 128)) ** 0.5, rel=0.02)  # Kaiming, fan-out


def test_the_head_begins_as_xavier_or_torch_says() -> None:
    """The authors leave it as torch draws it, uniform within ±1/√128; others draw it more than twice as wide."""
    torch.manual_seed(0)
    heads = {name: WideResNet((3, 32, 32), 10, depth=10, head_init=name).head for name in ("xavier", "torch")}
    assert heads["xavier"].weight.std().item() == pytest.approx((2 / (128 + 10)) ** 0.5, rel=0.08)  # 0.120
    assert heads["torch"].weight.std().item() == pytest.approx((1 / (3 * 128)) ** 0.5, rel=0.04)  # 0.051
    assert heads["torch"].weight.abs().max() <= 128**-0.5
    assert all(head.bias.abs().max() == 0 for head in heads.values())
    with pytest.raises(ValueError, match="head_init must be 'xavier' or 'torch', got 'kaiming'"):
        WideResNet((3, 32, 32), 10, head_init="kaiming")  # type: ignore[arg-type]


def test_spare_shortcuts_are_counted_and_never_used() -> None:
    network = WideResNet((3, 32, 32), 10, spare_shortcuts=True)
    assert count(network) == 1_532_122  # of the authors' network
    assert count(network) - 1_467_610 == 64_512
    network(torch.randn(2, 3, 32, 32)).square().sum().backward()
    unused = [p for name, p in network.named_parameters() if "spare" in name]
    assert sum(p.numel() for p in unused) == 64_512
    assert all(p.grad is None for p in unused)


def test_raw_transitions_ignore_their_first_norm() -> None:
    """The first blocks of stages 2 and 3 (blocks 4 and 8) see their raw input; that of stage 1 does not."""
    blocks = [m for m in WideResNet((3, 32, 32), 10).modules() if isinstance(m, Block)]
    assert [i for i, block in enumerate(blocks) if block.raw] == [4, 8]
    usual = [m for m in WideResNet((3, 32, 32), 10, raw_transitions=False).modules() if isinstance(m, Block)]
    assert not any(block.raw for block in usual)
    x = torch.randn(2, 32, 8, 8)
    for block, changes in ((blocks[4], False), (usual[4], True)):
        before = block.eval()(x)
        nn.init.constant_(block.norm1.weight, 3.0)
        assert before.equal(block(x)) is not changes


@pytest.mark.parametrize(("slope", "final"), [(0.1, 0.1), (0.0, 0.0), (0.0, 0.1)])
def test_activation_slopes(slope: float, final: float) -> None:
    """The three readings: leaky everywhere, ReLU everywhere, ReLU inside and leaky before the pooling."""
    torch.manual_seed(0)
    network = WideResNet((3, 32, 32), 10, slope=slope, final_slope=final).eval()
    seen = []
    network.head.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    network(torch.randn(2, 3, 32, 32))
    assert (seen[0].min() < 0) == (final > 0)
    assert {m.slope for m in network.modules() if isinstance(m, Block)} == {slope}


def test_wide_resnet_with_channels_last_and_in_place_equals_the_plain_composition() -> None:
    """Outputs, gradients and statistics are those of channels first with nothing in place, step by step."""
    torch.manual_seed(0)
    network = WideResNet((3, 32, 32), 10, depth=10).double()
    plain = deepcopy(network)
    x = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    layouts = []
    network.norm.register_forward_pre_hook(
        lambda _, arguments: layouts.append(arguments[0].is_contiguous(memory_format=torch.channels_last))
    )
    outputs, expected = network(x), plain_wide_resnet(plain, x)
    assert layouts == [True]
    torch.testing.assert_close(outputs, expected)
    outputs.square().sum().backward()
    expected.square().sum().backward()
    for (name, p), q in zip(network.named_parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad, msg=name)
    torch.testing.assert_close(dict(network.named_buffers()), dict(plain.named_buffers()))


def plain_wide_resnet(network: WideResNet, x: Tensor) -> Tensor:
    """The network's parts, composed anew: channels first, every result in memory of its own."""
    x = network.stem(x)
    for block in (m for m in network.stages if isinstance(m, Block)):
        inside = x if block.raw else F.leaky_relu(block.norm1(x), block.slope)
        around = x if block.shortcut is None else block.shortcut(inside)
        inside = block.conv2(F.leaky_relu(block.norm2(block.conv1(inside)), block.slope))
        x = torch.add(inside, around)
    pooled = F.leaky_relu(network.norm(x), network.final_slope).mean((2, 3))
    return F.linear(pooled, network.head.weight, network.head.bias)


def test_a_backward_pass_of_a_wide_resnet_keeps_one_activation_per_convolution() -> None:
    """The plain composition keeps three: what each of norm, activation and convolution gives."""
    network, x = WideResNet((3, 32, 32), 10, depth=16, width=2), torch.randn(4, 3, 32, 32)

    def kept(call: Callable[[], Tensor]) -> int:
        with profile(profile_memory=True) as profiler:
            outputs = call()
        assert outputs.requires_grad
        return sum(event.self_cpu_memory_usage for event in profiler.key_averages())

    assert kept(lambda: network(x)) < 0.42 * kept(lambda: plain_wide_resnet(network, x))


def test_wide_resnet_leaves_its_input_alone() -> None:
    x = torch.randn(2, 3, 32, 32).contiguous(memory_format=torch.channels_last)
    before = x.clone()
    WideResNet((3, 32, 32), 10, depth=10)(x)
    assert x.equal(before)


def test_wide_resnet_rejects_other_depths() -> None:
    with pytest.raises(ValueError, match="depth must be"):
        WideResNet((3, 32, 32), 10, depth=27)


@pytest.mark.parametrize("shape", [(1, 8, 8), (1, 28, 28), (3, 32, 32), (3, 30, 17)])
def test_small_cnn_takes_any_image(shape: tuple[int, int, int]) -> None:
    assert SmallCNN(shape, 7)(torch.randn(2, *shape)).shape == (2, 7)


def test_linear_is_one_layer_that_begins_almost_undecided() -> None:
    torch.manual_seed(0)
    network = Linear((1, 8, 8), classes=100, scale=0.1)
    inputs = torch.randn(500, 1, 8, 8)
    layer = network[1]
    assert isinstance(layer, nn.Linear)
    assert torch.equal(network(inputs), inputs.flatten(1) @ layer.weight.T)
    assert network(inputs).std().item() == pytest.approx(0.1, rel=0.05)


def test_mlp_is_one_hidden_layer_of_hardtanh() -> None:
    network = MLP((1, 28, 28), 5)
    assert count(network) == 784 * 32 + 32 + 32 * 5 + 5
    assert [type(m) for m in network] == [nn.Flatten, nn.Linear, nn.Hardtanh, nn.Linear]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP((1, 8, 8), 5, hidden=0), "hidden must be a whole number of at least 1, got 0"),
        (lambda: MLP((1, 8, 8), 0), "classes must be a whole number of at least 1, got 0"),
        (lambda: SmallCNN((6,), 5), r"SmallCNN takes images .*, got \(6,\): MLP takes vectors"),
        (lambda: SmallCNN((1, 8, 8), 5, width=0), "width must be a whole number of at least 1, got 0"),
        (lambda: WideResNet((0, 32, 32), 10), "channels must be a whole number of at least 1, got 0"),
    ],
)
def test_sizes_below_one_are_rejected_by_name(make: Callable[[], nn.Module], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()


def body() -> nn.Module:
    """A network with statistics and draws of its own, as if it had been trained."""
    torch.manual_seed(3)
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.ReLU(), nn.Flatten(), nn.Linear(144, 6))
    return nn.Sequential(*layers)


def test_heads_differ_between_particles_and_bodies_do_not() -> None:
    known = body()
    particles = Particles(lambda: Pretrained(known, 6, 10), 3)
    for name, weight in known.state_dict().items():
        assert all(torch.equal(copy, weight) for copy in particles.network.state_dict()[f"body.{name}"])
    head = particles.network.get_parameter("head.weight")
    assert not any(torch.equal(head[i], head[j]) for i, j in ((0, 1), (0, 2), (1, 2)))
    assert {name for name, p in particles.network.named_parameters() if p.requires_grad} == {"head.weight", "head.bias"}
    x = torch.randn(5, 1, 8, 8)
    assert torch.equal(particles.train()(x), particles.eval()(x))
    assert torch.allclose(particles.features(x)[1], known.eval()(x), atol=1e-6)


def test_a_body_that_is_not_frozen_learns_in_training_mode() -> None:
    network = Pretrained(body(), 6, 10, freeze=False)
    assert all(p.requires_grad for p in network.parameters())
    assert all(module.training for module in network.modules())


def test_perturbed_bodies_differ_by_that_share_of_their_spread() -> None:
    known = nn.Linear(300, 200)
    before = known.weight.clone()
    one, other = (Pretrained(known, 200, 2, perturb=0.1).get_parameter("body.weight") for _ in range(2))
    assert torch.equal(known.weight, before)
    assert not torch.equal(one, other)
    assert ((one - before).std() / before.std()).item() == pytest.approx(0.1, rel=0.02)


def test_what_is_no_body_is_rejected() -> None:
    with pytest.raises(ValueError, match=r"body must be an nn\.Module, got a function"):
        Pretrained(body, 6, 10)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="perturb must be at least 0, got -1"):
        Pretrained(body(), 6, 10, perturb=-1)


def test_only_heads_move_in_a_run_that_resumes_and_is_read_back(tmp_path: Path) -> None:
    known = body()

    def network() -> nn.Module:
        return Pretrained(known, 6, 10)

    def recipe() -> Recipe:
        return convolutional(network=network)

    whole = train(recipe(), tmp_path / "whole")
    interrupted_at(recipe(), tmp_path / "run", [4])
    assert_same_run(tmp_path / "whole", tmp_path / "run")
    for name, weight in known.state_dict().items():
        assert all(torch.equal(copy, weight) for copy in whole.ema.network.state_dict()[f"body.{name}"])
    images = whole.task.unlabeled[:5]
    assert (load(tmp_path / "run", network=network).predict_proba(images) == whole.predict_proba(images)).all()


def test_a_wide_resnet_is_compiled_whole() -> None:
    network = WideResNet((1, 8, 8), 3, depth=10, width=1).eval()
    x = torch.randn(2, 1, 8, 8)
    exported = torch.export.export(network, (x,), strict=True)  # by the compiler's own reading of the code
    torch.testing.assert_close(exported.module()(x), network(x))
