"""The confusion matrix and what follows from it, against scikit-learn."""

import numpy as np
import pytest
import torch
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from refprior.posterior import confusion, per_class


@pytest.mark.parametrize("classes", [2, 10, 100])
def test_counts_and_scores_are_those_of_scikit_learn(classes: int) -> None:
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(classes, (500,), generator=generator)
    log_p = torch.randn(500, classes, generator=generator).log_softmax(-1)
    log_p[torch.arange(0, 500, 2), y[::2]] += 5
    counts = confusion(log_p, y)
    assert counts.dtype == torch.int64
    predicted, names = log_p.argmax(-1), np.arange(classes)
    assert (counts.numpy() == confusion_matrix(y, predicted, labels=names)).all()
    found = per_class(counts)
    mine = (found.precision, found.recall, found.f1, found.count)
    theirs = precision_recall_fscore_support(y, predicted, labels=names, zero_division=np.nan)
    for ours, expected in zip(mine, theirs, strict=True):
        np.testing.assert_allclose(ours, expected, atol=1e-6)


def test_a_class_that_is_never_predicted_has_no_precision_and_one_without_inputs_no_recall() -> None:
    found = per_class(torch.tensor([[2, 0, 0], [3, 0, 0], [0, 0, 0]]))
    assert found.precision.isnan().tolist() == [False, True, True]
    assert found.recall.isnan().tolist() == [False, False, True]
    assert found.f1[:2].tolist() == pytest.approx([4 / 7, 0])
    assert found.f1.isnan().tolist() == [False, False, True]
