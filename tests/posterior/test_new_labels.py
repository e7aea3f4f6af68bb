"""Evidence of new labels against Bayes' law by enumeration, and which hypothesis it prefers."""

import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from refprior.information import uniform
from refprior.posterior import Evidence


@pytest.fixture
def log_p() -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(3, 6, 4, generator=generator, dtype=torch.float64).log_softmax(-1)


Y = torch.tensor([0, 1, 2, 3, 0, 1])


def test_weights_equal_bayes_law_over_both_hypotheses(log_p: Tensor) -> None:
    prior, noise = torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64), 0.1
    select = average = 0.0
    joint = []
    for k in range(3):
        likelihood = math.prod(0.9 * log_p[k, i, Y[i]].exp().item() + 0.1 / 4 for i in range(6))
        joint.append(prior[k].item() * likelihood)
    select = sum(joint)
    mixed = (prior[:, None, None] * log_p.exp()).sum(0)
    average = math.prod(0.9 * mixed[i, Y[i]].item() + 0.1 / 4 for i in range(6))
    probability = select / (select + average)
    expected = [probability * joint[k] / select + (1 - probability) * prior[k].item() for k in range(3)]
    found = Evidence(prior.log(), noise).update(log_p, Y)
    assert found.selection == pytest.approx(probability)
    assert found.log_weights.exp().tolist() == pytest.approx(expected)
    assert found.log_chance == pytest.approx(-6 * math.log(4))


def test_the_order_of_updates_does_not_matter(log_p: Tensor) -> None:
    at_once = Evidence(uniform(3, log_p)).update(log_p, Y)
    one_by_one = Evidence(uniform(3, log_p))
    for i in (3, 0, 5, 1, 2, 4):
        one_by_one = one_by_one.update(log_p[:, [i]], Y[[i]])
    torch.testing.assert_close(one_by_one.log_weights, at_once.log_weights)
    assert one_by_one.count == at_once.count == 6


def test_without_labels_the_weights_are_the_prior(log_p: Tensor) -> None:
    torch.testing.assert_close(Evidence(uniform(3, log_p)).log_weights, uniform(3, log_p))


def test_one_right_rule_is_selected_and_independent_errors_are_averaged() -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(0, 2, (40,), generator=generator)
    sure = torch.tensor([[0.95, 0.05], [0.05, 0.95]]).log()
    rules = torch.stack([sure[y], sure[torch.randint(0, 2, (40,), generator=generator)]])  # one is right, one guesses
    assert Evidence(uniform(2, rules)).update(rules, y).selection > 0.99
    wrong = torch.rand(15, 40, generator=generator) < 0.3
    noisy = sure[torch.where(wrong, 1 - y, y)]  # fifteen particles that err independently
    assert Evidence(uniform(15, noisy)).update(noisy, y).selection < 0.01


def test_labels_that_no_particle_explains_are_found_out() -> None:
    sure = torch.tensor([[0.99, 0.01]]).log().expand(3, 8, 2)
    assert not Evidence(uniform(3, sure)).update(sure, torch.ones(8, dtype=torch.long)).explained
    assert Evidence(uniform(3, sure)).update(sure, torch.zeros(8, dtype=torch.long)).explained


def test_a_label_that_half_of_the_particles_expect_is_no_reason_for_doubt() -> None:
    torn = torch.tensor([[[0.98, 0.02]], [[0.04, 0.96]]]).log()
    for label in (0, 1):
        found = Evidence(uniform(2, torn)).update(torn, torch.tensor([label]))
        assert found.explained, found  # although one of them is a little below chance
    sure = torch.tensor([[0.99, 0.01]]).log().expand(3, 8, 2)
    found = Evidence(uniform(3, sure))
    chance, doubt = -8 * math.log(2), math.log(3)
    for one, mean, explained in (
        (chance - doubt + 0.01, -99.0, True),  # one particle is right
        (-99.0, chance + doubt + 0.01, True),  # the average is
        (chance - doubt - 0.01, chance + doubt - 0.01, False),
    ):
        likelihood = torch.full((3,), one, dtype=torch.float64)
        told = replace(found, log_likelihood=likelihood, log_average=mean, log_chance=chance, count=8)
        assert told.explained == explained
    assert str(told).startswith("the 8 new labels are less likely if one particle is right (-6.7 nats) than by chance")


def test_answers_at_random_are_not_explained_by_an_average_that_says_nothing() -> None:
    generator = torch.Generator().manual_seed(0)
    labels = torch.tensor([[0, 0, 1, 1], [0, 1, 0, 1], [1, 0, 1, 0], [1, 1, 0, 0]]).repeat(1, 3)  # four rules
    rules = torch.tensor([[0.99, 0.01], [0.01, 0.99]]).log()[labels]
    y = torch.randint(0, 2, (12,), generator=generator)
    found = Evidence(uniform(4, rules)).update(rules, y)
    assert found.log_average > found.log_chance - math.log(3)
    assert not found.explained
    assert Evidence(uniform(4, rules)).update(rules, labels[2]).explained


def test_impossible_labels_stay_finite_without_noise() -> None:
    never = torch.tensor([[[1.0, 0.0]], [[0.5, 0.5]]]).log()
    found = Evidence(uniform(2, never), noise=0.0).update(never, torch.tensor([1]))
    assert found.log_selected.exp().tolist() == pytest.approx([0, 1])
    with pytest.raises(ValueError, match=r"noise must be at least 0 and at most 1, got 1\.1"):
        Evidence(uniform(2, never), noise=1.1)


def test_weights_that_do_not_add_up_to_one_are_rejected() -> None:
    with pytest.raises(ValueError, match=r"the weights of log_prior must add up to 1, got 3: use log_prior\.log_soft"):
        Evidence(torch.zeros(3))
    for dtype in (torch.float16, torch.bfloat16):
        Evidence(uniform(64, torch.empty(0)).to(dtype))


def test_labels_that_do_not_fit_are_rejected(log_p: Tensor) -> None:
    evidence = Evidence(uniform(3, log_p))
    for given, y in ((log_p[:2], Y), (log_p, Y[:2]), (log_p[0], Y)):
        with pytest.raises(ValueError, match=r"log_p must be \(3, n, C\) and y \(n,\), got \("):
            evidence.update(given, y)
    for y in (Y + 1, Y - 1, Y.double()):
        with pytest.raises(ValueError, match="y must be integers from 0 to 3, got"):
            evidence.update(log_p, y)
    assert torch.equal(evidence.update(log_p, Y.byte()).log_weights, evidence.update(log_p, Y).log_weights)
