"""Records: one schema, to plain dictionaries and back."""

import math
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from refprior.posterior import Scores
from refprior.posterior._ensemble import Bins
from refprior.training import ConsensusScores, Evaluation, PartScores, Record, train
from tests.training.recipes import convolutional

SCORES = Scores(
    accuracy=0.1 + 0.2,
    particle_accuracies=(1 / 3, 2 / 3),
    negative_log_likelihood=5e-324,
    brier=1e300,
    calibration_error=0.0,
    information=-1e-17,
    reliability=Bins((1.0, 2.0), (0.5, 0.7), (0.0, 1.0)),
)
RECORD = Record(
    step=10,
    steps=100,
    learning_rate=0.03,
    loss=None,
    seconds=1.25,
    terms={"fit": 1 / 7, "broken": None},
    skipped=2,
    evaluation=Evaluation(
        PartScores(SCORES, replace(SCORES, accuracy=0.25)), PartScores(SCORES, SCORES), ConsensusScores(0.5, None, 0.75)
    ),
)


@pytest.mark.parametrize(
    "record", [RECORD, replace(RECORD, evaluation=None), replace(RECORD, loss=0.1 + 0.7, terms={}, skipped=0)]
)
def test_a_record_reads_back_exactly(record: Record) -> None:
    assert Record.from_dict(record.to_dict()) == record
    assert Record.from_dict(msgspec.json.decode(msgspec.json.encode(record))) == record


def test_scores_that_are_no_numbers_read_back_as_such() -> None:
    """A run that diverged has them; JSON holds null in their place."""
    broken = replace(SCORES, brier=math.nan, reliability=Bins((1.0, 2.0), (0.5, math.nan), (0.0, 1.0)))
    record = replace(RECORD, evaluation=Evaluation(PartScores(SCORES, broken)))
    again = Record.from_dict(msgspec.json.decode(msgspec.json.encode(record)))
    assert again.evaluation is not None
    assert again.evaluation.test is not None
    assert again.evaluation.test.ema == SCORES
    assert math.isnan(again.evaluation.test.raw.brier)
    assert math.isnan(again.evaluation.test.raw.reliability.confidence[1])
    assert again.evaluation.validation is None
    assert (again.loss, again.terms) == (None, {"fit": 1 / 7, "broken": None})


def test_a_dictionary_holds_plain_values_only() -> None:
    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(name, str) and plain(item) for name, item in value.items())
        if isinstance(value, list | tuple):
            return all(plain(item) for item in value)
        return value is None or type(value) in (int, float, str, bool)

    found = RECORD.to_dict()
    assert plain(found)
    assert found["evaluation"]["test"]["raw"]["accuracy"] == 0.25


def test_records_of_a_run_read_back_exactly() -> None:
    history = train(convolutional(steps=2, readout="consensus")).history
    assert tuple(Record.from_dict(r.to_dict()) for r in history) == history


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"step": "ten"}, r"\$\.step"),
        ({"loss": "low"}, r"\$\.loss"),
        ({"terms": {"fit": []}}, r"\$\.terms"),
        ({"evaluation": {"test": 3}}, r"\$\.evaluation\.test"),
    ],
)
def test_the_place_that_is_wrong_is_named(change: dict[str, Any], place: str) -> None:
    with pytest.raises(ValueError, match=place):
        Record.from_dict({**RECORD.to_dict(), **change})


def test_what_is_no_record_is_rejected() -> None:
    wrongs: list[Any] = [None, 3, [], {}, {"step": 1}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"Expected|missing"):
            Record.from_dict(wrong)


def test_the_accuracy_is_of_what_is_read_out() -> None:
    evaluation = RECORD.evaluation
    assert evaluation is not None
    assert evaluation.accuracy == 0.5
    assert replace(evaluation, consensus=None).accuracy == SCORES.accuracy
