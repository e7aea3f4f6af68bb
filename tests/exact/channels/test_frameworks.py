"""Likelihoods and means written with torch or jax: the same priors, and neither library unless it is the user's."""

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln

from refprior.exact import Channel, Coin, reference_prior
from refprior.exact.channels import FunctionChannel

HEADS = np.arange(7.0)
LOG_CHOOSE = gammaln(7) - gammaln(HEADS + 1) - gammaln(7 - HEADS)


def torch_function() -> Callable[[Any], Any]:
    torch = pytest.importorskip("torch")
    heads, log_choose = torch.as_tensor(HEADS), torch.as_tensor(LOG_CHOOSE)

    def log_likelihood(w: Any) -> Any:
        p = w.unsqueeze(1)  # numpy arrays have no such method
        return log_choose + torch.xlogy(heads, p) + torch.xlogy(6 - heads, 1 - p)

    return log_likelihood


def jax_function() -> Callable[[Any], Any]:
    jax = pytest.importorskip("jax")
    jax.config.update("jax_enable_x64", True)

    def log_likelihood(w: Any) -> Any:
        p = w.at[:].get()[:, None]  # numpy arrays have no such attribute
        xlogy = jax.scipy.special.xlogy
        return LOG_CHOOSE + xlogy(HEADS, p) + xlogy(6 - HEADS, 1 - p)

    return log_likelihood


@pytest.mark.parametrize("make", [torch_function, pytest.param(jax_function, marks=pytest.mark.thorough)])
def test_a_likelihood_is_differentiated_by_its_library(make: Callable[[], Callable[[Any], Any]]) -> None:
    channel = Channel.from_function(make(), bounds=(0.0, 1.0), outcomes=HEADS)
    assert isinstance(channel, FunctionChannel)
    assert channel.slope_error == 0.0
    assert channel._automatic is not None
    w = np.linspace(0.05, 0.95, 5)[:, None]
    p = np.exp(channel.row_values(w))
    score = HEADS / w - (6 - HEADS) / (1 - w)
    bend = -HEADS / w**2 - (6 - HEADS) / (1 - w) ** 2
    first, second = channel._automatic(w)
    assert first[:, 0] == pytest.approx(p * score, abs=1e-12)
    assert second[:, 0, 0] == pytest.approx(p * (score**2 + bend), abs=1e-10)
    assert reference_prior(channel).information == pytest.approx(reference_prior(Coin(6)).information, abs=1e-12)


def test_a_mean_in_torch() -> None:
    torch = pytest.importorskip("torch")
    scale = torch.nn.Parameter(torch.tensor([1.0, 2.0], dtype=torch.float64))  # gradients do not matter here

    def mean(w: Any) -> Any:
        return torch.sin(w).unsqueeze(1) * scale

    def plain(w: np.ndarray) -> np.ndarray:
        return np.asarray(np.sin(w)[:, None] * np.array([1.0, 2.0]))

    ours, theirs = (
        reference_prior(Channel.from_mean(f, sigma=0.5, bounds=(-1.5, 1.5), curvature=2.0), tolerance=1e-10)
        for f in (mean, plain)
    )
    assert ours.evidence == theirs.evidence == "proved"
    assert ours.information == pytest.approx(theirs.information, abs=1e-13)


def test_two_parameters_in_torch() -> None:
    torch = pytest.importorskip("torch")

    def log_likelihood(w: Any) -> Any:
        return torch.log_softmax(torch.stack([w[:, 0], w[:, 1], 0 * w[:, 0]], dim=1), dim=1)

    def plain(w: np.ndarray) -> np.ndarray:
        logits = np.stack([w[:, 0], w[:, 1], 0 * w[:, 0]], axis=1)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    ours, theirs = (
        reference_prior(Channel.from_function(f, bounds=[(-2, 2)] * 2, outcomes=[0, 1, 2]), tolerance=1e-10)
        for f in (log_likelihood, plain)
    )
    assert ours.gap <= 1e-10
    assert ours.information == pytest.approx(theirs.information, abs=1e-10)


def test_single_precision_is_rejected_from_torch_too() -> None:
    torch = pytest.importorskip("torch")

    def single(w: Any) -> Any:
        p = torch.as_tensor(w).float()[:, None]
        return torch.log(torch.cat([0.1 + 0.8 * p, 0.9 - 0.8 * p], dim=1))

    with pytest.raises(ValueError, match=r"log_likelihood returns single precision.*torch.float64"):
        Channel.from_function(single, bounds=(0.0, 1.0), outcomes=[0, 1])
    with pytest.raises(ValueError, match="mean returns single precision"):
        Channel.from_mean(lambda w: np.float32(w), sigma=1.0, bounds=(0.0, 1.0))


def test_a_function_of_numpy_imports_neither() -> None:
    code = (
        "import sys, numpy as np, refprior.exact as e\n"
        "log = lambda w: np.log(np.stack([0.1 + 0.8 * w, 0.9 - 0.8 * w], axis=1))\n"
        "e.reference_prior(e.Channel.from_function(log, bounds=(0, 1), outcomes=[0, 1]))\n"
        "e.reference_prior(e.Channel.from_mean(lambda w: w, sigma=1.0, bounds=(0, 1)))\n"
        "sys.exit('torch' in sys.modules or 'jax' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def half_precision_in_torch(w: Any) -> Any:
    torch = pytest.importorskip("torch")
    return torch.sin(torch.as_tensor(w)).bfloat16()


@pytest.mark.parametrize(
    ("mean", "said"),
    [
        (lambda w: np.sin(w).astype(np.float16), "half precision, which is too coarse"),
        (lambda w: np.exp(1j * w), "must return real numbers, got complex128"),
        (half_precision_in_torch, "half precision, which is too coarse"),
    ],
)
def test_what_is_no_double_is_rejected(mean: Callable[[Any], Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Channel.from_mean(mean, sigma=0.5, bounds=(-1.5, 1.5))


def test_what_is_no_channel_is_rejected() -> None:
    with pytest.raises(ValueError, match="channel"):
        reference_prior(5)  # type: ignore[call-overload]
