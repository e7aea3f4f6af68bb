"""NT-Xent and agreement against plain loops."""

import math

import pytest
import torch
from torch import Tensor

from refprior.losses import contrastive
from refprior.methods import Contrastive
from refprior.methods._contrastive import nt_xent
from tests.methods.tables import nothing

K, N, P = 2, 5, 4


def views(scale: float, seed: int = 0) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    both = scale * torch.randn(2, K, N, P, generator=generator, dtype=torch.float64)
    return both[0].requires_grad_(), both[1].requires_grad_()


def plain(first: Tensor, second: Tensor, temperature: float) -> Tensor:
    """Mean over all 2N views of -log exp(s(i, partner)/T) / Σ_{j ≠ i} exp(s(i, j)/T), s the cosine."""
    total = nothing()
    for k in range(len(first)):
        z = [*first[k], *second[k]]
        for i, one in enumerate(z):
            cosine = [(one * other).sum() / one.norm() / other.norm() / temperature for other in z]
            others = torch.stack([s for j, s in enumerate(cosine) if j != i])
            total = total - (cosine[(i + N) % (2 * N)] - others.logsumexp(0)) / (len(first) * 2 * N)
    return total


@pytest.mark.parametrize("scale", [1e-3, 1.0, 2000.0])
@pytest.mark.parametrize("temperature", [0.5, 0.01])
def test_the_loss_equals_a_loop(scale: float, temperature: float) -> None:
    first, second = views(scale)
    loss, expected = contrastive(first, second, settings=Contrastive(temperature)), plain(first, second, temperature)
    torch.testing.assert_close(loss.total, expected)
    found, wanted = (torch.autograd.grad(t, (first, second), retain_graph=True) for t in (loss.total, expected))
    torch.testing.assert_close(found, wanted)


def test_orthogonal_views_by_hand() -> None:
    """Partners agree, all others are orthogonal: -log e² / (e² + 4) with T = 1/2 and three inputs."""
    same = torch.eye(3).expand(2, 3, 3)
    expected = -math.log(math.exp(2) / (math.exp(2) + 4))
    torch.testing.assert_close(nt_xent(same, same, 0.5), torch.full((2, 6), expected))


def test_agreement_is_the_share_of_partners_that_are_nearest() -> None:
    first, noise = views(1.0)
    second, nearest = first + noise, 0
    for k in range(K):
        for i, one in enumerate(first[k]):
            cosine = [(one @ other / one.norm() / other.norm()).item() for other in second[k]]
            nearest += max(cosine) == cosine[i]
    assert 0 < nearest < K * N
    assert contrastive(first, second).terms["agreement"].item() == pytest.approx(nearest / (K * N))


def test_outputs_of_nothing_have_finite_gradients() -> None:
    first, second = views(0.0)
    loss = contrastive(first, second).total
    assert loss.item() == pytest.approx(math.log(2 * N - 1))
    assert all(g.isfinite().all() for g in torch.autograd.grad(loss, (first, second)))


def test_it_needs_no_labels_and_two_strong_views() -> None:
    needs = Contrastive(projection=16).needs
    assert (needs.labels, needs.views, needs.projection) == (False, ("strong", "strong"), 16)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"temperature": 0.0}, r"temperature must be above 0, got 0\.0"),
        ({"projection": 0}, "projection must be a whole number of at least [12], got 0"),
    ],
)
def test_bad_settings_are_rejected(fields: dict[str, float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Contrastive(**fields)  # type: ignore[arg-type]
