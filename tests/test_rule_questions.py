"""Questions about the rule: the information of a batch by enumeration, and where they end."""

import math
import re
import time
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
import torch
from torch import Tensor

from refprior import labeling
from refprior.information import uniform
from refprior.labeling import Questions, classifier, classify, most_decisive, suggest
from refprior.posterior import Evidence
from refprior.training import Run, train
from tests.ambiguous import POOL, TEST, recipe


@pytest.fixture(scope="module")
def run() -> Run:
    return train(recipe())


def accuracy(run: Run, questions: Questions, cue: int) -> float:
    predicted = classify(run, classifier(run, questions), TEST.rows)
    return (predicted == TEST.cues[:, cue]).double().mean().item()


def batch_information(p: Tensor, batch: tuple[int, ...], weights: list[float], noise: float) -> float:
    """I(particle; labels of the batch), by a sum over all labelings in plain floats."""
    classes = p.shape[-1]
    joint: dict[tuple[int, tuple[int, ...]], float] = {}
    for k, weight in enumerate(weights):
        for labels in product(range(classes), repeat=len(batch)):
            joint[k, labels] = weight * math.prod(
                (1 - noise) * p[k, x, y].item() + noise / classes for x, y in zip(batch, labels, strict=True)
            )
    of_labels: dict[tuple[int, ...], float] = {}
    for (_, labels), q in joint.items():
        of_labels[labels] = of_labels.get(labels, 0.0) + q
    return sum(q * math.log(q / weights[k] / of_labels[labels]) for (k, labels), q in joint.items())


def test_a_batch_maximizes_the_information_about_the_particle_step_by_step() -> None:
    generator = torch.Generator().manual_seed(3)
    log_p = torch.randn(6, 9, 3, generator=generator, dtype=torch.float64).mul(2).log_softmax(-1)
    soft = (log_p / 3).softmax(-1)
    weights = [0.3, 0.1, 0.25, 0.05, 0.2, 0.1]
    chosen: tuple[int, ...] = ()
    for _ in range(3):
        free = [x for x in range(9) if x not in chosen]
        gains = {x: batch_information(soft, (*chosen, x), weights, 0.1) for x in free}
        chosen = (*chosen, max(gains, key=gains.__getitem__))
    assert tuple(most_decisive(log_p, 3, torch.tensor(weights).log(), noise=0.1)) == chosen


def test_a_batch_beyond_the_exact_sum_still_separates_each_pair_of_rules() -> None:
    """Sixteen rules differ in four bits: sixteen inputs show one each, and fourteen questions spread over them."""
    bits = torch.tensor([[(rule >> bit) & 1 for bit in range(4)] for rule in range(16)])
    labels = torch.cat([bits.repeat(1, 4), torch.zeros(16, 4, dtype=torch.long)], 1)
    log_p = torch.where(torch.nn.functional.one_hot(labels, 2).bool(), 0.98, 0.02).log()
    chosen = most_decisive(log_p, 14, uniform(16, log_p))
    assert len(set(chosen)) == 14
    assert all(place < 16 for place in chosen)
    assert {place % 4 for place in chosen[:4]} == {0, 1, 2, 3}
    assert sorted(Counter(place % 4 for place in chosen).values()) == [3, 3, 4, 4]  # the last three by samples


def test_many_inputs_and_classes_take_seconds() -> None:
    generator = torch.Generator().manual_seed(0)
    log_p = torch.randn(8, 4000, 10, generator=generator).mul(3).log_softmax(-1)
    started = time.process_time()
    assert len(set(most_decisive(log_p, 4, uniform(8, log_p)))) == 4
    assert time.process_time() - started < 10


@pytest.mark.parametrize("cue", [0, 1])
def test_four_answers_about_the_rule_find_it(run: Run, cue: int) -> None:
    assert run.rules().ambiguous
    assert accuracy(run, Questions(), 1) < 0.7
    asked = suggest(run, 4)
    places = list(asked.open)
    assert (POOL.cues[places, 0] != POOL.cues[places, 1]).sum() >= 3  # where the two cues disagree
    assert asked.message.startswith(f"{len(run.rules())} rules fit the labels, the likeliest with probability 0.")
    answered = asked.answer(POOL.cues[places, cue].tolist())
    assert accuracy(run, answered, cue) > 0.93


@pytest.mark.parametrize("cue", [0, 1])
def test_questions_end_when_one_rule_remains(run: Run, cue: int) -> None:
    questions = Questions()
    for _ in range(10):
        questions = suggest(run, 1, questions)
        if not questions.open:
            break
        questions = questions.answer([int(POOL.cues[questions.open[0], cue])])
    assert 1 <= len(questions.answers) <= 6
    assert not questions.open
    assert questions.message.startswith("one rule remains, with probability ")
    assert questions.message.endswith("no question about rules is left")
    more = suggest(run, 3, questions, about="inputs")
    assert len(more.open) == 3
    assert not more.message
    assert accuracy(run, questions, cue) > 0.9


def test_an_ordinary_run_asks_about_inputs_as_before(run: Run) -> None:
    """Half of all inputs show the cues apart: the labels now name one rule."""
    plain = train(recipe(particles=2, steps=60, evaluate_every=60, method=recipe().method))
    assert not plain.rules().ambiguous
    assert suggest(plain, 6) == suggest(plain, 6, about="inputs")
    log_p = plain.log_probabilities(plain.task.unlabeled)
    drawn = labeling.most_informative(log_p, 6, plain.ema.log_prior.detach())
    assert suggest(plain, 6).open == tuple(drawn.tolist())


def test_answers_weight_the_particles_that_choose_inputs(run: Run) -> None:
    places = [int(i) for i in (POOL.cues[:, 0] != POOL.cues[:, 1]).nonzero()[:4, 0]]
    answered = Questions(tuple(places), tuple(POOL.cues[places, 1].tolist()))
    log_p = run.log_probabilities(run.task.unlabeled)
    found = Evidence(run.ema.log_prior.detach()).update(log_p[:, places], POOL.cues[places, 1])
    torch.testing.assert_close(labeling.evidence(run, answered).log_weights, found.log_weights)
    drawn = labeling.most_informative(log_p, 5, found.log_weights.float(), places)
    assert suggest(run, 5, answered, about="inputs").open == tuple(drawn.tolist())


def test_the_same_input_counts_once_and_labels_of_the_training_do_not_count(run: Run) -> None:
    task = run.task
    pool = torch.cat([task.unlabeled[:2], task.unlabeled[:1], task.labeled.inputs[:3]])
    changed = replace(run, find_task=lambda: replace(task, unlabeled=pool))
    found = labeling.evidence(changed, Questions(tuple(range(6)), (0, 1, 1, 0, 0, 0)))
    assert found.count == 2
    expected = labeling.evidence(run, Questions((0, 1), (1, 1)))  # the last answer to the input counts
    torch.testing.assert_close(found.log_weights, expected.log_weights)
    assert sorted(suggest(changed, 2, about="rule").open) == [0, 1]
    assert suggest(changed, 1, Questions((2,), (1,)), about="rule").open == (1,)
    assert sorted(suggest(changed, 2, about="inputs").open) == [0, 1]
    assert suggest(changed, 1, Questions((2,), (1,)), about="inputs").open == (1,)
    with pytest.raises(ValueError, match="1 to 2 labels, got 3: 6 inputs in the pool, 3 labeled already, 1 equal"):
        suggest(changed, 3)


def test_particles_that_do_not_fit_the_labels_are_not_said_to_do_so() -> None:
    untrained = train(recipe(steps=1, evaluate_every=1))
    assert not untrained.rules().fits
    message = suggest(untrained, 2, about="rule").message
    assert re.match(r"\d+ groups of particles agree on only \d+ % of the labels, the likeliest with prob", message)


def test_questions_that_cannot_be_asked_are_rejected(run: Run) -> None:
    with pytest.raises(ValueError, match="about must be 'auto', 'rule' or 'inputs', got 'rules'"):
        suggest(run, 2, about="rules")  # type: ignore[arg-type]
    nameless = replace(run, recipe=replace(run.recipe, readout="consensus"))
    with pytest.raises(ValueError, match="about='rule' needs a run whose outputs are classes"):
        suggest(nameless, 2, about="rule")
