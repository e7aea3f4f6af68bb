"""Steps on a CUDA device: the numbers of the CPU, without waiting for the device and without a blocking copy."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch

import refprior as rp
from refprior import views
from refprior.data import (
    FewLabels,
    Joined,
    NeighborMeans,
    PatchComponents,
    QuantileBins,
    Task,
    TreeLeaves,
    task_from_arrays,
)
from refprior.methods import FixMatch, Method, ReferencePrior
from refprior.networks import MLP, SmallCNN, WideResNet
from refprior.recipes.sweeps._sweep import few_label_methods
from refprior.training import Optimizer, Recipe, load, train
from refprior.training.loop import begin
from refprior.training.loop._draw import prepare_data
from refprior.training.loop._loop import _block
from tests.device.pretend import CUDA, Counts, pretend_cuda
from tests.training.recipes import convolutional, perceptron, transferring

QUICK = (
    "ReferencePrior",
    "VAT on SmallCNN",
    "Transfer",
    "CTAugment",
    "WideResNet",
    "folds",
    "bins, leaves and neighbors",
)
ALONE = "bool(torch.stack(finite).all())"  # the only line that waits, once per block


def photos() -> Task:
    images = torch.randint(0, 256, (80, 3, 16, 16), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    y = torch.arange(80) % 4
    return task_from_arrays((images[:16], y[:16]), unlabeled=images[16:60], test=(images[60:], y[60:]))


def on_photos(**changes: Any) -> Recipe:
    recipe = Recipe(
        task=photos,
        network=partial(SmallCNN, (3, 16, 16), 4, width=4),
        method=FixMatch(),
        particles=2,
        steps=4,
        labeled_batch=6,
        unlabeled_batch=8,
        weak=views.FlipCrop(2),
        strong=views.RandAugment(views.FlipCrop(2), cutout=4),
    )
    return replace(recipe, **changes)


class ChannelsLast(SmallCNN):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = super().forward(x.contiguous(memory_format=torch.channels_last))  # type: ignore[no-untyped-call]
        return logits


def rows() -> Task:
    x = torch.randn(60, 5, generator=torch.Generator().manual_seed(0))
    return task_from_arrays((x[:12], torch.arange(12) % 3), unlabeled=x[12:40], test=(x[40:], torch.arange(20) % 3))


def on_rows(**changes: Any) -> Recipe:
    return replace(
        perceptron(task=rows, network=partial(MLP, (5,), 3), steps=4, weak=views.Noise(0.1), strong=views.Noise(0.3)),
        **changes,
    )


def method_of(name: str) -> Method:
    return rp.methods.Dash(warmup=0.2, decay_every=0.2) if name == "Dash" else getattr(rp.methods, name)()


def waits(recipe: Recipe) -> Counts:
    """Make a block of steps after one that warms up; return what the host waited for."""
    with pretend_cuda() as counts:
        task = recipe.read_task().to(CUDA)
        state = begin(recipe, task, CUDA)
        data = prepare_data(recipe, task, state.normalizer)
        _block(recipe, task, state, data, 2)
        counts.clear()
        _block(recipe, task, state, data, 4)
    return counts


def check(recipe: Recipe) -> None:
    """Compare the weights of CPU and device, and count."""
    plain = train(recipe)
    with pretend_cuda():
        moved = train(recipe, device="cuda")
        for found, expected in ((moved.particles, plain.particles), (moved.ema, plain.ema)):
            for name, tensor in found.state_dict().items():
                assert tensor.device == CUDA
                assert torch.equal(tensor.cpu(), expected.state_dict()[name]), name
    assert moved.result == replace(plain.result, seconds=moved.result.seconds)
    counts = waits(recipe)
    assert [line for line in counts.syncs if ALONE not in line] == []
    assert counts.syncs.total() == 1
    assert not counts.copies, str(counts)


def cases(names: Iterable[str]) -> list[Any]:
    """All but a few are thorough: each takes a second or two."""
    return [name if name in QUICK else pytest.param(name, marks=pytest.mark.thorough) for name in names]


@pytest.mark.parametrize("name", cases([*few_label_methods(), "Contrastive", "VAT on SmallCNN"]))
def test_every_method(name: str) -> None:
    if name == "VAT on SmallCNN":
        check(convolutional(method=rp.methods.VAT(), steps=4, particles=2, evaluate_every=9))
    else:
        check(perceptron(method=method_of(name), steps=4, evaluate_every=9))


@pytest.mark.parametrize("name", cases(["LabeledSource", "Transfer", "UnlabeledSource", "UnsupervisedTransfer"]))
def test_transfer(name: str) -> None:
    method = getattr(rp.methods, name)()
    outputs = 6 if name != "Transfer" else 3
    check(transferring(method=method, network=partial(MLP, (1, 8, 8), outputs), steps=4, evaluate_every=9))


VIEWS: dict[str, Callable[[], Recipe]] = {
    "CTAugment": lambda: on_photos(strong=views.CTAugment(views.FlipCrop(2), cutout=4, depth=3)),
    "CTAugment by shares": lambda: on_photos(strong=views.CTAugment(views.FlipCrop(2), cutout=4, translation="shares")),
    "RandAugment": lambda: on_photos(strong=views.RandAugment(views.FlipCrop(2), cutout=4, hole="rectangle")),
    "Distort": lambda: on_photos(weak=views.Shift(2), strong=views.Distort()),
    "Corrupt": lambda: on_rows(weak=views.Noise(), strong=views.Corrupt()),
    "MixFeatures": lambda: on_rows(weak=views.Dropout(), strong=views.MixFeatures()),
    "SwapNoise": lambda: on_rows(weak=views.Unchanged(), strong=views.SwapNoise()),
}


@pytest.mark.parametrize("name", cases(VIEWS))
def test_every_view(name: str) -> None:
    check(VIEWS[name]())


VARIANTS: dict[str, Callable[[], Recipe]] = {
    "WideResNet": lambda: on_photos(network=partial(WideResNet, (3, 16, 16), 4, depth=10, width=1), steps=3),
    "recomputed": lambda: on_photos(execution="recomputed"),
    "vectorized": lambda: on_photos(execution="vectorized"),
    "loop": lambda: on_rows(execution="loop"),
    "Adam": lambda: on_rows(optimizer=Optimizer(kind="adam", learning_rate=0.01)),
    "AdamW": lambda: on_rows(optimizer=Optimizer(kind="adamw", learning_rate=0.01)),
    "custom optimizer": lambda: on_rows(optimizer=lambda p: torch.optim.RMSprop(p, lr=0.01)),
    "folds": lambda: on_rows(method=ReferencePrior(), folds="auto", doubt_labels=True),
    "class prior": lambda: on_rows(method=ReferencePrior(class_prior=(0.2, 0.3, 0.5), trainable_prior=True)),
    "paper": lambda: on_rows(method=ReferencePrior.paper()),
    "authors' code": lambda: on_rows(method=ReferencePrior.authors_code()),
    "order 3": lambda: on_rows(method=ReferencePrior(order=3, jensen=False, stop_gradient=False, trainable_prior=True)),
    "bins, leaves and neighbors": lambda: on_rows(
        inputs=Joined((QuantileBins(4), TreeLeaves(4, trees=4), NeighborMeans(2)), widths=(2, 2, 1)),
        network=partial(MLP, (10,), 3),
        weak=views.Noise(),
        strong=views.Corrupt(),
    ),
    "channels last": lambda: on_photos(network=partial(ChannelsLast, (3, 16, 16), 4, width=4)),
    "patches": lambda: perceptron(
        task=FewLabels("digits", labels=50),
        inputs=PatchComponents(count=8, filters=16, size=3, cells=2, images=200),
        network=partial(MLP, (8,), 10),
        weak=views.Noise(),
        strong=views.Corrupt(),
        steps=4,
    ),
}


@pytest.mark.parametrize("name", cases(VARIANTS))
def test_every_variant(name: str) -> None:
    check(VARIANTS[name]())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning")  # of the compiler
def test_a_compiled_network_trains_and_its_weights_are_those_of_the_plain_one(tmp_path: Path) -> None:
    class Compiled(SmallCNN):
        @torch.compile(backend="aot_eager")  # all of the compiler but the generated code
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = super().forward(x)  # type: ignore[no-untyped-call]
            return logits

    plain = train(on_photos())
    compiled = train(on_photos(network=partial(Compiled, (3, 16, 16), 4, width=4)), tmp_path / "run")
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    loaded = load(tmp_path / "run", network=on_photos().network, task=photos)
    for name, tensor in loaded.ema.state_dict().items():
        torch.testing.assert_close(tensor, compiled.ema.state_dict()[name], rtol=0, atol=0)
        torch.testing.assert_close(tensor, plain.ema.state_dict()[name], rtol=1e-4, atol=1e-6)
