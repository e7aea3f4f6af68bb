"""What particles predict in evaluation mode, and the scores that a record holds."""

from dataclasses import replace
from functools import partial

import pytest
import torch
from torch import nn

from refprior.data import Standardize
from refprior.methods import Supervised
from refprior.networks import MLP
from refprior.particles import Particles
from refprior.posterior import score
from refprior.training import Evaluation, Recipe, Record, train
from refprior.training.loop._evaluate import evaluate_all, evenly_spaced, log_probabilities
from tests.training.recipes import DIGITS, digits, perceptron, transferring


def test_evaluation_is_in_evaluation_mode_and_leaves_the_mode_alone() -> None:
    def make() -> nn.Module:
        return nn.Sequential(nn.Flatten(), nn.BatchNorm1d(64), nn.Dropout(0.5), nn.Linear(64, 10))

    task, particles = DIGITS(), Particles(make, 2)
    normalizer, images = Standardize().fit(task.training_inputs), task.held_out.inputs[:9]
    particles(normalizer(images))  # moves the statistics
    alone = [particles.particle(k).eval()(normalizer(images)).log_softmax(-1) for k in range(2)]
    found = log_probabilities(particles, normalizer, images, 10, batch=4)
    torch.testing.assert_close(found, torch.stack(alone))
    assert particles.training


def test_predictions_are_of_the_targets_own_outputs() -> None:
    run = train(transferring(network=partial(MLP, (1, 8, 8), 6)))
    log_p = run.log_probabilities(run.task.held_out.inputs[:5], ema=False)
    assert log_p.shape == (3, 5, 3)
    torch.testing.assert_close(log_p.logsumexp(-1), torch.zeros(3, 5), atol=1e-5, rtol=0)
    assert run.predict_proba(run.task.held_out.inputs[:5]).shape == (5, 3)


def test_all_parts_are_scored_with_both_kinds_of_weights() -> None:
    run = train(perceptron())
    found = evaluate_all(run.recipe, run.task, run.normalizer, raw=run.particles, ema=run.ema, last=True)
    assert found == run.result.evaluation
    for name, part in {"test": run.task.test, "validation": run.task.validation}.items():
        for weights, particles in {"ema": run.ema, "raw": run.particles}.items():
            assert part is not None
            log_p = log_probabilities(particles, run.normalizer, part.inputs, 10)
            expected = score(log_p, part.labels, particles.log_prior.detach())
            assert getattr(getattr(found, name), weights) == expected
    assert found.test is not None
    assert found.accuracy == found.test.ema.accuracy
    assert found.consensus is None


def test_a_task_without_a_validation_part_has_no_such_scores() -> None:
    recipe = perceptron(task=replace(DIGITS, validation=0), steps=1, readout="consensus")
    evaluation = train(recipe).result.evaluation
    assert evaluation is not None
    assert evaluation.validation is None
    assert evaluation.consensus is not None
    assert evaluation.consensus.validation is None
    assert evaluation.consensus.stability is None  # two particles have no halves to compare


def test_consensus_of_the_run_is_scored_where_the_recipe_says_so() -> None:
    recipe = Recipe(
        task=digits(0, 1, 2, labels=30),
        network=partial(MLP, (1, 8, 8), 3),
        method=Supervised(),
        particles=4,
        steps=150,
        labeled_batch=30,
        ema=0.9,
        evaluate_every=150,
        readout="consensus",
    )
    evaluation = train(recipe).result.evaluation
    assert evaluation is not None
    found = evaluation.consensus
    assert found is not None
    assert found.validation is not None
    assert found.stability is not None
    assert found.test is not None
    assert 0.9 < found.test <= 1
    assert 0.9 < found.validation <= 1
    assert 0.9 < found.stability <= 1
    assert evaluation.accuracy == found.test


def test_images_are_taken_at_equal_intervals() -> None:
    assert evenly_spaced(torch.arange(11), 3).tolist() == [0, 5, 10]
    assert evenly_spaced(torch.arange(3), 10).tolist() == [0, 1, 2]


@pytest.mark.parametrize("readout", ["outputs", "consensus"])
def test_the_last_record_has_the_confusion_matrix_of_what_is_scored(readout: str) -> None:
    run = train(perceptron(readout=readout, particles=4))
    *earlier, last = [record.evaluation for record in run.history if record.evaluation is not None]
    assert all(evaluation.confusion is None for evaluation in earlier)
    assert last.confusion is not None
    counts = torch.tensor(last.confusion)
    assert counts.sum(1).tolist() == torch.bincount(run.task.held_out.labels).tolist()
    assert (counts.trace() / counts.sum()).item() == pytest.approx(last.accuracy)
    assert Record.from_dict(run.result.to_dict()).evaluation == last


@pytest.mark.parametrize("confusion", [((1, 2),), ((1, 2), (3,)), ((1, -1), (0, 1))])
def test_what_is_no_confusion_matrix_is_rejected(confusion: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(ValueError, match="the confusion matrix must be square, of counts"):
        Evaluation(confusion=confusion)
