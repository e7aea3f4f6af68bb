"""Groups of particles by agreement, and the inputs that separate them."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from refprior.information import uniform
from refprior.posterior import find_rules


def sure_of(labels: Tensor, p: float = 0.95) -> Tensor:
    """Return log-probabilities of two classes that give these labels with confidence p: (...) -> (..., 2)."""
    return torch.where(torch.nn.functional.one_hot(labels, 2).bool(), p, 1 - p).log()


@pytest.fixture
def cues() -> Tensor:
    return torch.randint(0, 2, (2, 1000), generator=torch.Generator().manual_seed(0))


def test_particles_with_the_same_labels_form_a_rule(cues: Tensor) -> None:
    first, second = cues
    wrong = torch.zeros(1000, dtype=torch.long)
    wrong[:50] = 1  # 5 % of the inputs
    labels = torch.stack([second, first, first ^ wrong, first & second, second])
    log_p = sure_of(labels)
    weights = torch.tensor([0.1, 0.2, 0.3, 0.05, 0.35]).log()
    found = find_rules(log_p, weights, classes=("no", "yes"), labeled=log_p[:, :0])
    assert found.members == ((1, 2), (0, 4), (3,))
    assert found.weights == pytest.approx((0.5, 0.45, 0.05))
    apart = (first != second).double().mean().item()
    plain = sum(
        a * b * (x != y).double().mean().item()
        for a, x in zip(found.weights, found.labels, strict=True)
        for b, y in zip(found.weights, found.labels, strict=True)
    )
    assert found.disagreement == pytest.approx(plain)
    assert found.disagreement > 0.45 * apart
    assert repr(found).splitlines()[0].startswith("3 rules fit the labels; they disagree on ")
    assert len(repr(found).splitlines()) == 5 + 3
    assert found.differences[0, 1].item() == pytest.approx(apart, abs=0.001)
    assert torch.equal(found.shares[1], torch.bincount(second).double() / 1000)


def test_separating_inputs_are_those_on_which_both_are_sure(cues: Tensor) -> None:
    log_p = sure_of(cues)
    differ = (cues[0] != cues[1]).nonzero()[:, 0]
    log_p[0, differ[7]] = torch.tensor([0.999, 0.001] if cues[0, differ[7]] == 0 else [0.001, 0.999]).log()
    log_p[1, differ[7]] = torch.tensor([0.999, 0.001] if cues[1, differ[7]] == 0 else [0.001, 0.999]).log()
    found = find_rules(log_p, uniform(2, log_p))
    first, other = (found.answers(place) for place in found.separating(0, 1, count=2))
    assert found.separating(0, 1)[0] == int(differ[7])
    assert first == other[::-1]  # pairs of classes take turns
    assert set(found.separating(0, 1, count=2000)) == set(differ.tolist())
    assert find_rules(log_p[:1], torch.zeros(1)).separating(0, 0) == []


def test_agreement_is_that_of_the_labeled_inputs(cues: Tensor) -> None:
    log_p = sure_of(cues)
    found = find_rules(log_p, uniform(2, log_p), labeled=log_p[:, cues[0] == cues[1]])
    assert found.agreement == pytest.approx(1)
    with pytest.raises(ValueError, match="the pool is empty"):
        find_rules(log_p[:, :0], uniform(2, log_p))
    with pytest.raises(ValueError, match="same must be above 0 and at most 1, got 0"):
        find_rules(log_p, uniform(2, log_p), same=0)


def test_labels_are_ambiguous_if_rules_agree_on_them_and_not_on_the_pool(cues: Tensor) -> None:
    log_p, agree = sure_of(cues).repeat_interleave(2, 0), cues[0] == cues[1]  # each rule has two particles
    prior = uniform(4, log_p)
    assert find_rules(log_p, prior, labeled=log_p[:, agree]).ambiguous
    assert not find_rules(log_p, prior, labeled=log_p).ambiguous  # half of the labels separate the rules
    assert not find_rules(log_p, prior).ambiguous  # no label admits anything
    assert not find_rules(log_p[:, agree], prior, labeled=log_p[:, agree]).ambiguous  # one rule
    rare = torch.tensor([0.49, 0.49, 0.01, 0.01]).log()
    assert not find_rules(log_p, rare, labeled=log_p[:, agree]).ambiguous  # 2 % of the weight differs
    assert not find_rules(log_p[1:3], prior[1:3], labeled=log_p[1:3, agree]).ambiguous  # each particle is its own rule


def test_unsure_particles_do_not_make_labels_ambiguous(cues: Tensor) -> None:
    agree = cues[0] == cues[1]
    pairs = cues.repeat(2, 1)
    unsure, sure = sure_of(pairs, 0.65), sure_of(pairs, 0.75)
    found = [find_rules(p, uniform(4, p), labeled=p[:, agree]) for p in (unsure, sure)]
    assert [rules.ambiguous for rules in found] == [False, True]
    assert found[0].disagreement == found[1].disagreement


def test_places_and_names_are_those_of_the_whole_pool(cues: Tensor) -> None:
    log_p = sure_of(cues)
    plain = find_rules(log_p, uniform(2, log_p))
    apart = 100 * plain.differences[0, 1].item()
    assert repr(plain).splitlines()[-1].startswith(f"rules 1 and 2 differ on {apart:.0f} %: input ")
    found = replace(plain, places=tuple(range(7, 3007, 3)), names=tuple(f"{i}.png" for i in range(1000)))
    assert found.separating(0, 1) == [7 + 3 * i for i in plain.separating(0, 1)]
    assert found.answers(7 + 3 * 5) == plain.answers(5)
    assert f"{plain.separating(0, 1)[0]}.png ({' or '.join(plain.answers(plain.separating(0, 1)[0]))})" in repr(found)


def test_particles_that_do_not_fit_the_labels_are_not_called_rules(cues: Tensor) -> None:
    found = find_rules(sure_of(cues), torch.zeros(2), labeled=sure_of(cues))
    assert repr(found).startswith("2 groups of particles agree on only ")


def test_a_rule_without_weight_keeps_its_labels(cues: Tensor) -> None:
    log_p = sure_of(cues)
    for excluded in (-1e5, -torch.inf):  # as after thousands of new labels
        found = find_rules(log_p, torch.tensor([0.0, excluded]))
        assert torch.equal(found.labels, cues)
        assert found.weights == (1.0, 0.0)


def test_rules_of_tensors_that_do_not_fit_are_rejected(cues: Tensor) -> None:
    log_p, prior = sure_of(cues), torch.zeros(2)
    with pytest.raises(ValueError, match=r"log_p must be \(K, n, C\) and log_weights \(K,\), got .* and \(1,\)"):
        find_rules(log_p, prior[:1])
    with pytest.raises(ValueError, match="must not contain NaN"):
        find_rules(log_p * torch.nan, prior)
    with pytest.raises(ValueError, match=r"labeled must be \(2, b, C\), got \(1, 1000, 2\)"):
        find_rules(log_p, prior, labeled=log_p[:1])
    with pytest.raises(ValueError, match="expected 2 names of classes, got 1"):
        find_rules(log_p, prior, classes=("cat",))


def test_inputs_and_rules_that_do_not_exist_are_rejected(cues: Tensor) -> None:
    found = find_rules(sure_of(cues), torch.zeros(2))
    for rules in (found, replace(found, places=tuple(range(7, 3007, 3)))):
        for place in (-1, 3007):
            with pytest.raises(ValueError, match=f"place {place} is none of the 1000 inputs"):
                rules.answers(place)
    with pytest.raises(ValueError, match=r"second must be .* got 2"):
        found.separating(0, 2)
    with pytest.raises(ValueError, match="count must be a whole number of at least 0, got -1"):
        found.separating(0, 1, -1)


def test_groups_have_the_accuracy_of_each_rule(cues: Tensor) -> None:
    first, second = cues
    log_p = sure_of(torch.stack([first, first, second]))
    unknown = torch.arange(1000) < 100
    y, groups = torch.where(unknown, -1, second), ["agree" if a == b else "contradict" for a, b in cues.T.tolist()]
    found = find_rules(log_p, uniform(3, log_p), test=(log_p, y, groups))
    assert found.groups == ("agree", "contradict")
    assert found.accuracies is not None
    assert found.accuracies.tolist() == [[1, 0], [1, 1]]
    assert list(found.worst_groups) == [("contradict", 0), ("agree", 1)]
    assert "worst group %" in repr(found).splitlines()[1]
    assert repr(found).splitlines()[2].endswith("   0.0 (contradict)")
    plain = find_rules(log_p, uniform(3, log_p))
    assert not plain.worst_groups
    assert "worst" not in repr(plain)
    with pytest.raises(ValueError, match="test needs a label and a group of each input, got 1000 and 999 for 1000"):
        find_rules(log_p, uniform(3, log_p), test=(log_p, y, groups[1:]))
    with pytest.raises(ValueError, match="test needs inputs with a label"):
        find_rules(log_p, uniform(3, log_p), test=(log_p, y.clamp_max(-1), groups))
