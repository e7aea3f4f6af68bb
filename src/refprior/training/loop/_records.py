"""What a run writes down while it trains, typed: one schema for metrics.jsonl, tables, progress and pages."""

import math
from dataclasses import dataclass, field
from typing import Any

import msgspec

from refprior._files import Json
from refprior.posterior import Scores


@dataclass(frozen=True)
class PartScores:
    """Scores on one part of the data, of the moving average and of the raw weights.

    >>> import refprior as rp
    >>> evaluation = rp.train(rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 2})).result.evaluation
    >>> len(evaluation.test.ema.particle_accuracies)
    4
    """

    ema: Scores
    raw: Scores


@dataclass(frozen=True)
class ConsensusScores:
    """How well clusters, found without labels and matched to the classes, fit each part.

    >>> from refprior.training import ConsensusScores
    >>> ConsensusScores(test=0.96).stability is None
    True
    """

    test: float | None = None
    validation: float | None = None
    stability: float | None = None  # share of the pool on which two halves of the particles agree; needs no label


@dataclass(frozen=True)
class Evaluation:
    """All scores at one step; None of a part that the task does not have.

    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 2})
    >>> evaluation = rp.train(recipe).result.evaluation
    >>> 0 <= evaluation.accuracy <= 1
    True
    """

    test: PartScores | None = None
    validation: PartScores | None = None
    consensus: ConsensusScores | None = None
    # At the last step, of the test part or else the validation part: inputs of each class (rows) taken for each class.
    confusion: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        rows = self.confusion or ()
        if any(len(row) != len(rows) or min(row) < 0 for row in rows):
            raise ValueError("the confusion matrix must be square, of counts")

    @property
    def accuracy(self) -> float | None:
        """Accuracy on the test part: of the consensus if clusters are scored, else of the moving average's ensemble."""
        if self.consensus is not None:
            return self.consensus.test
        return None if self.test is None else self.test.ema.accuracy


@dataclass(frozen=True)
class Record:
    """One line of metrics.jsonl.

    Parameters
    ----------
    step : int
        The step.
    steps : int
        Steps of this stage.
    learning_rate : float
        Learning rate of the step.
    loss : float or None
        The loss; None if it is not finite.
    seconds : float
        Seconds of training so far.
    terms : dict of str to float or None
        Terms of the loss.
    skipped : int, default: 0
        Steps so far whose loss or gradient was not finite.
    evaluation : Evaluation, optional
        Scores at this step, if there was an evaluation.

    Examples
    --------
    >>> from refprior.training import Record
    >>> record = Record(step=10, steps=100, learning_rate=0.03, loss=1.5, seconds=2.0)
    >>> Record.from_dict(record.to_dict()) == record
    True
    """

    step: int
    steps: int
    learning_rate: float
    loss: float | None
    seconds: float
    terms: dict[str, float | None] = field(default_factory=dict)
    skipped: int = 0
    evaluation: Evaluation | None = None

    def to_dict(self) -> Json:
        """Return plain numbers, lists and dictionaries.

        Returns
        -------
        dict
            The record.
        """
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, record: object) -> "Record":
        """Read a record from `to_dict`.

        Parameters
        ----------
        record : dict
            The record.

        Returns
        -------
        Record
            The record.

        Raises
        ------
        ValueError
            If an entry is wrong; the message names the first one.
        """
        return msgspec.convert(_with_nan(record), cls)


def _with_nan(value: object, scores: bool = False) -> Any:
    """Restore NaN: JSON holds null in its place, and scores are always numbers."""
    if isinstance(value, dict):
        return {name: _with_nan(item, scores or name in ("ema", "raw")) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_nan(item, scores) for item in value]
    return math.nan if scores and value is None else value
