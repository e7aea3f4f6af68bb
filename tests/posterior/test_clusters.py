"""Consensus of particles that each know the classes by names of their own."""

import numpy as np
import pytest
import torch
from scipy.linalg import qr
from sklearn.cluster import KMeans
from torch import Tensor

from refprior.information import uniform
from refprior.posterior import cluster, match, output_code, stability
from refprior.posterior._clusters import _affinity, _spectral

CLASSES = 5


def truth(n: int) -> Tensor:
    return torch.arange(n) % CLASSES


def merged_predictions(particles: int, n: int, seed: int = 0, noise: float = 0.5) -> Tensor:
    """Particles that give each true class an output of their own choice, several classes often the same: (K, n, C)."""
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 3, (particles, CLASSES), generator=generator)
    logits = 4.0 * torch.nn.functional.one_hot(codes[:, truth(n)], 3)
    return (logits + noise * torch.randn(logits.shape, generator=generator)).log_softmax(-1)


def test_the_distance_of_codes_is_the_hellinger_distance() -> None:
    log_p = torch.randn(4, 6, 3, dtype=torch.float64).log_softmax(-1)
    prior = torch.tensor([0.1, 0.2, 0.3, 0.4], dtype=torch.float64)
    code = output_code(log_p, prior.log())
    torch.testing.assert_close(code.square().sum(-1), torch.ones(6, dtype=torch.float64))
    root = log_p.exp().sqrt()
    hellinger = (root[:, 0] - root[:, 1]).square().sum(-1) / 2  # squared, of each particle
    torch.testing.assert_close((code[0] - code[1]).square().sum(), 2 * (prior * hellinger).sum())


def test_particles_that_merge_classes_tell_all_of_them_together() -> None:
    log_p, y = merged_predictions(20, 500), truth(500)
    each = [len(log_p[k].argmax(-1).unique()) for k in range(20)]
    assert max(each) <= 3  # no particle alone can tell five classes
    found = cluster(log_p, CLASSES)
    clusters = found.clusters(log_p)
    assert (match(clusters, y, CLASSES)[clusters] == y).float().mean() > 0.99


def test_clusters_of_some_images_hold_for_others() -> None:
    log_p = merged_predictions(20, 1000)
    found = cluster(log_p[:, :500], CLASSES)
    clusters = found.clusters(log_p[:, 500:])
    assert (match(clusters, truth(500), CLASSES)[clusters] == truth(500)).float().mean() > 0.99


def test_one_label_per_cluster_is_enough_where_the_typical_images_get_it() -> None:
    log_p, y = merged_predictions(20, 500), truth(500)
    found = cluster(log_p, CLASSES)
    asked = found.distances(log_p).argmin(0)  # the image nearest to each center
    assert len(asked.unique()) == CLASSES
    named = found.named(log_p[:, asked], y[asked], CLASSES)
    assert (named.predict(log_p) == y).float().mean() > 0.99


def test_more_clusters_than_classes_take_the_class_of_their_labels() -> None:
    log_p, y = merged_predictions(20, 500, noise=1.5), truth(500)
    found = cluster(log_p, 12)
    asked = found.distances(log_p).argmin(0)  # the image nearest to each center
    assert (found.named(log_p[:, asked], y[asked], CLASSES).predict(log_p) == y).float().mean() > 0.9


def test_few_labels_name_as_many_clusters_as_classes_one_to_one() -> None:
    log_p, y = merged_predictions(20, 500), truth(500)
    named = cluster(log_p, CLASSES).named(log_p[:, :4], y[:4], CLASSES)  # class 4 has no label: what is left over
    assert sorted(named.classes.tolist()) == list(range(CLASSES))  # type: ignore[union-attr]
    assert (named.predict(log_p) == y).float().mean() > 0.99


def test_matching_is_for_any_names() -> None:
    y = truth(100)
    permuted = torch.tensor([3, 0, 4, 1, 2])[y]
    assert match(permuted, y, CLASSES)[permuted].equal(y)


def test_stability_tells_agreement_from_chance() -> None:
    assert stability(merged_predictions(40, 500), CLASSES) > 0.99
    noise = torch.randn(40, 500, 3, generator=torch.Generator().manual_seed(1)).log_softmax(-1)
    assert stability(noise, CLASSES) < 0.4


def test_a_particle_without_weight_has_no_say() -> None:
    log_p = merged_predictions(4, 50)
    weights = torch.tensor([0.0, 1.0, 1.0, 1.0]).log().log_softmax(0)
    torch.testing.assert_close(output_code(log_p, weights)[:, 3:], output_code(log_p[1:], uniform(3, log_p)))


def test_clusters_follow_neighbors_where_k_means_cuts_a_long_class() -> None:
    """One particle of two outputs per coordinate: a long class beside two that are short and near each other."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(900) % 3
    first = torch.where(y == 0, 0.1 + 0.8 * torch.rand(900, generator=generator), 0.42 + 0.16 * (y - 1))
    second = torch.where(y == 0, 0.2, 0.5) + 0.02 * torch.rand(900, generator=generator)
    p = torch.stack([first, second])
    log_p = torch.stack([p, 1 - p], -1).log()
    members = cluster(log_p, 3).members
    assert (match(members, y, 3)[members] == y).all()
    other = torch.from_numpy(KMeans(3, n_init=10, random_state=0).fit_predict(output_code(log_p, uniform(2, log_p))))
    assert (match(other.long(), y, 3)[other.long()] == y).double().mean() < 0.9


@pytest.mark.parametrize("n", [10, 300, 500, 1000])
def test_predictions_that_are_all_alike_make_clusters_all_the_same(n: int) -> None:
    """Many equal eigenvalues: nothing to find, and nothing that fails."""
    alike = torch.randn(1, 1, 5, generator=torch.Generator().manual_seed(0)).log_softmax(-1).expand(8, n, 5)
    found = cluster(alike.contiguous(), 5)
    assert found.clusters(alike).shape == (n,)
    assert 0 <= stability(alike.contiguous(), 5) <= 1
    two = (100.0 * torch.nn.functional.one_hot(torch.arange(n) % 2, 5)).log_softmax(-1).expand(8, n, 5).contiguous()
    clusters = cluster(two, 2).members
    assert clusters.equal(clusters[torch.arange(n) % 2])
    assert cluster(two, 5).clusters(two).shape == (n,)


def test_few_references_keep_their_clusters() -> None:
    log_p, y = merged_predictions(20, 10), truth(10)  # two images per class
    found = cluster(log_p, CLASSES)
    assert found.clusters(log_p).equal(found.members)
    assert (match(found.members, y, CLASSES)[found.members] == y).float().mean() > 0.9


def test_half_precision_is_enough() -> None:
    log_p = merged_predictions(20, 100)
    found = cluster(log_p, CLASSES)
    assert found.clusters(log_p.half()).equal(found.clusters(log_p))
    assert found.distances(log_p.half()).shape == (100, CLASSES)


@pytest.mark.parametrize("clusters", [2, 5, 9])
def test_clusters_are_those_of_a_pivoted_qr_decomposition(clusters: int) -> None:
    """Damle, Minden and Ying (2019), written out: the rotation nearest to the rows of the pivots."""
    code = output_code(merged_predictions(20, 300, noise=2.0), torch.zeros(20).log_softmax(0)).double().numpy()
    affinity = _affinity(code)
    root = 1 / np.sqrt(affinity.sum(1))
    vectors = np.linalg.eigh(root[:, None] * affinity * root)[1][:, -clusters:] * root[:, None]
    pivots = qr(vectors.T, pivoting=True, mode="r")[1][:clusters]
    left, _, right = np.linalg.svd(vectors[pivots].T)
    expected = np.abs(vectors @ (left @ right)).argmax(-1)
    found = torch.from_numpy(_spectral(affinity, clusters)).long()
    assert len(found.unique()) == clusters
    assert match(found, torch.from_numpy(expected), clusters)[found].equal(torch.from_numpy(expected))


def test_what_cannot_be_is_refused_with_numbers() -> None:
    log_p = merged_predictions(4, 10)
    with pytest.raises(ValueError, match="clusters must be from 1 to the number of inputs, 10, got 11"):
        cluster(log_p, 11)
    with pytest.raises(ValueError, match="got 0"):
        cluster(log_p, 0)
    with pytest.raises(ValueError, match="no classes yet"):
        cluster(log_p, 2).predict(log_p)
    with pytest.raises(ValueError, match="at least one labeled input"):
        cluster(log_p, 2).named(log_p[:, :0], truth(0), CLASSES)
    with pytest.raises(ValueError, match="needs at least 4, got 3"):
        stability(log_p[:3], 2)


def test_classes_without_a_label_get_no_clusters() -> None:
    log_p, y = merged_predictions(20, 500), truth(500)
    named = cluster(log_p, CLASSES).named(log_p[:, :2], y[:2], CLASSES)  # only the classes 0 and 1 have labels
    assert set(named.predict(log_p).tolist()) == {0, 1}
