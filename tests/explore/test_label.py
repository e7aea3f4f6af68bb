"""Answers are on disk before they are acknowledged, whoever gives them, in which order, and whatever dies."""

import csv
import json
import os
import random
import signal
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from refprior import labeling
from refprior._files import locked
from refprior.explore import _label
from refprior.explore._label import BusyError, ConflictError, Labels
from refprior.explore._watch import Runs
from refprior.explore.server import Served
from refprior.labeling import Questions
from refprior.recipes import definitions, named
from refprior.training import load, train
from tests import ambiguous
from tests.cli.running import start
from tests.explore.served import answer, request, serving


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("label")
    train(named("digits_ssl", {"steps": 3, "unlabeled_batch": 8}, seed=0).recipe, found / "run")
    return found


@pytest.fixture
def run(folder: Path) -> Path:
    Questions((7, 3, 9, 11)).save(folder / "run")
    (folder / "run" / "answers.csv").unlink(missing_ok=True)
    return folder / "run"


def labels_of(run: Path) -> tuple[Labels, str]:
    runs = Runs(run.parent)
    return Labels(runs), runs.listed()["runs"][0]["id"]


def test_questions_are_answered_in_any_order_and_taken_back(run: Path) -> None:
    labels, identity = labels_of(run)
    labels.answer(identity, 9, 4)
    labels.answer(identity, 7, 1)
    assert Questions.load(run) == Questions((9, 7, 3, 11), (4, 1))
    labels.undo(identity, 9)
    assert Questions.load(run) == Questions((7, 9, 3, 11), (1,))
    labels.undo(identity, 9)  # twice is once
    assert Questions.load(run).answers == (1,)


def test_questions_about_rules_end_with_one_rule(tmp_path: Path) -> None:
    train(ambiguous.recipe(task=ambiguous.saved(tmp_path / "cues.npz")), tmp_path / "runs" / "run")
    labels, identity = labels_of(tmp_path / "runs" / "run")
    labels.suggest(identity, 8)
    pool = load(tmp_path / "runs" / "run").task.unlabeled
    asked = Questions.load(tmp_path / "runs" / "run").open
    for index, name in zip(asked, ambiguous.truth(pool[list(asked)], cue=1), strict=True):
        labels.answer(identity, index, ambiguous.CLASSES.index(name))
    labels.estimate(identity)
    estimates = labels.state(identity)["estimates"]
    assert estimates["accuracy"] > 0.93
    assert estimates["agreed"] <= 6  # before the answers
    assert labels.state(identity)["rules"]["settled"] is not None
    worst = [rule["worst"] for rule in labels.state(identity)["rules"]["rules"]]
    assert any(name == "1" and right < 0.2 for name, right in worst)  # a rule of the first cue
    labels.suggest(identity, 2)  # about inputs: no question about rules is left
    assert labels.state(identity)["counts"] == {"open": 2, "answers": 8}


def test_checked_labels_leave_the_list_and_come_back(tmp_path: Path) -> None:
    train(named("digits_ssl", {"steps": 3, "unlabeled_batch": 8, "folds": "auto"}, seed=0).recipe, tmp_path / "run")
    Questions((7,), (1,)).save(tmp_path / "run")
    labels, identity = labels_of(tmp_path / "run")
    assert labels.state(identity)["checks"] is None
    labels.estimate(identity)
    before = labels.state(identity)
    first, second = before["checks"]["open"][:2]
    quality = load(tmp_path / "run").label_quality()
    assert [first["index"], second["index"]] == quality.order[:2].tolist()
    assert first["right"] == quality.right.min()
    assert not quality.informative  # after three steps
    assert before["checks"]["doubtful"] == 0
    assert "rate" not in before["checks"]
    assert (str(first["given"]), str(first["suggested"])) == (
        str(quality.given[first["index"]]),
        str(quality.suggested[first["index"]]),
    )
    labels.check(identity, first["index"], first["suggested"])
    labels.check(identity, second["index"], second["given"])
    after = labels.state(identity)
    assert after["version"] != before["version"]
    assert after["corrected"] == (first["suggested"] != first["given"])
    assert [one["index"] for one in after["checks"]["checked"]] == [second["index"], first["index"]]
    assert {first["index"], second["index"]}.isdisjoint(one["index"] for one in after["checks"]["open"])
    labels.answer(identity, 7, 1)  # answers and questions keep the checks
    labels.undo(identity, 7)
    labels.suggest(identity, 2)
    assert len(Questions.load(tmp_path / "run").checked) == 2
    labels.check(identity, first["index"], -1)
    assert labels.state(identity)["checks"]["open"][0]["index"] == first["index"]
    with pytest.raises(ValueError, match="index must be 0 to 49, got 50"):
        labels.check(identity, 50, 0)
    with pytest.raises(ValueError, match="label must be -1 to 9, got 10"):
        labels.check(identity, 0, 10)


def test_a_run_without_folds_has_no_labels_to_check(run: Path) -> None:
    labels, identity = labels_of(run)
    labels.estimate(identity)
    assert labels.state(identity)["checks"] == {"open": [], "checked": [], "doubtful": 0}


def test_the_same_label_twice_is_one_and_another_is_a_conflict(run: Path) -> None:
    labels, identity = labels_of(run)
    labels.answer(identity, 3, 5)
    before = (run / "questions.json").stat().st_mtime_ns
    labels.answer(identity, 3, 5)  # sent again, since the acknowledgement was lost
    assert (run / "questions.json").stat().st_mtime_ns == before
    with pytest.raises(ConflictError, match="was already labeled 5 elsewhere"):
        labels.answer(identity, 3, 6)
    with pytest.raises(ConflictError, match="no longer an open question"):
        labels.answer(identity, 1000, 6)
    with pytest.raises(ValueError, match="label must be 0 to 9, got 10"):
        labels.answer(identity, 7, 10)
    assert Questions.load(run).answers == (5,)


def test_labels_wait_for_who_works_in_the_folder_and_say_so(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_label, "PATIENCE", 0.3)
    labels, identity = labels_of(run)
    with locked(run, lambda holder: None), pytest.raises(BusyError, match=f"in use by process {os.getpid()}"):
        labels.answer(identity, 7, 1)
    assert Questions.load(run).answers == ()
    monkeypatch.setattr(_label, "PATIENCE", 5)
    with locked(run, lambda holder: None):
        thread = threading.Thread(target=labels.answer, args=(identity, 7, 1))
        thread.start()
        time.sleep(0.2)
        assert Questions.load(run).answers == ()
    thread.join(10)
    assert Questions.load(run).answers == (1,)


def test_what_the_answers_say_is_that_of_refprior_answer(run: Path) -> None:
    labels, identity = labels_of(run)
    assert labels.state(identity)["estimates"] is None
    labels.answer(identity, 7, 1)
    labels.estimate(identity)
    shown = labels.state(identity)
    loaded = load(run)
    named_ = labeling.classifier(loaded, Questions.load(run))
    assert loaded.task.test is not None
    right = labeling.classify(loaded, named_, loaded.task.test.inputs) == loaded.task.test.labels
    assert shown["estimates"]["accuracy"] == right.double().mean().item()
    said = labeling.classify(loaded, named_, loaded.task.unlabeled[[7]]).item()
    assert shown["estimates"]["agreed"] == int(said == 1)
    with (run / "answers.csv").open(newline="") as file:
        assert list(csv.reader(file))[1 + 7] == ["7", "1"]
    assert (shown["counts"], shown["labels"]) == ({"open": 3, "answers": 1}, 50)
    assert labels.state(identity, shown["version"]) == {"version": shown["version"]}
    labels.answer(identity, 9, 0)
    assert labels.state(identity, shown["version"])["estimates"] is None  # no longer those of all answers


def test_suggestions_keep_the_answers(run: Path) -> None:
    labels, identity = labels_of(run)
    labels.answer(identity, 11, 2)
    labels.suggest(identity, 6)
    asked = Questions.load(run)
    assert (asked.answered, asked.answers, len(asked.open)) == ((11,), (2,), 6)
    assert (run / "questions.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="can ask for"):
        labels.suggest(identity, 10**6)


def test_two_tabs_at_once_lose_nothing(run: Path) -> None:
    Questions(tuple(range(40))).save(run)
    with serving(run.parent) as served:
        identity = answer(served, "api/runs")["runs"][0]["id"]
        codes: list[int] = []

        def tab(indices: list[int]) -> None:
            for index in indices:
                body = {"id": identity, "index": index, "label": index % 10}
                codes.append(request(served, "api/answer", method="POST", body=body)[0])

        tabs = [threading.Thread(target=tab, args=(part,)) for part in (list(range(24)), list(range(39, 15, -1)))]
        for thread in tabs:
            thread.start()
        for thread in tabs:
            thread.join()
    found = Questions.load(run)
    assert codes == [200] * 48  # those that both gave are the same label
    assert dict(zip(found.answered, found.answers, strict=True)) == {index: index % 10 for index in range(40)}


@pytest.mark.thorough
def test_what_was_acknowledged_survives_the_death_of_the_server(run: Path) -> None:
    rng = random.Random(0)
    Questions(tuple(range(60))).save(run)
    acknowledged: dict[int, int] = {}
    with start("explore", str(run.parent), "--no-browser", session=True) as process:
        address = process.first_line(process.out).rpartition(" ")[2]
        served = _address(address)
        identity = _patient(address)
        killer = threading.Timer(0.2 + 0.3 * rng.random(), os.kill, (process.pid, signal.SIGKILL))
        killer.start()
        try:
            for index in range(60):
                body = {"id": identity, "index": index, "label": index % 7}
                if request(served, "api/answer", method="POST", body=body)[0] == 200:
                    acknowledged[index] = index % 7
        except OSError:
            pass  # it is dead
        process.wait(timeout=20)
    found = Questions.load(run)
    kept = dict(zip(found.answered, found.answers, strict=True))
    assert acknowledged
    assert acknowledged.items() <= kept.items()
    assert len(kept) <= len(acknowledged) + 1  # one may have been written and not acknowledged
    labels, name = labels_of(run)
    labels.answer(name, 59, 3)  # the dead one's lock is nobody's
    assert 59 in Questions.load(run).answered


def _address(address: str) -> Served:
    """Enough of a server to send requests to."""
    host, token = address.removeprefix("http://").rstrip("/").split("/")
    served = object.__new__(Served)
    served.host, served.token = host, token
    return served


def _patient(address: str) -> str:
    """The run's name, once the server answers."""
    deadline = time.monotonic() + 60
    while True:
        try:
            return str(json.load(urllib.request.urlopen(f"{address}api/runs", timeout=60))["runs"][0]["id"])
        except OSError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_a_custom_network_is_found_in_the_named_file(tmp_path: Path) -> None:
    source = tmp_path / "mine.py"
    source.write_text(
        "from functools import partial\nfrom dataclasses import replace\nimport refprior as rp\n\n\n"
        "class Network(rp.networks.MLP):\n    pass\n\n\n"
        "def recipe(seed=0):\n"
        "    small = rp.recipes.override(rp.recipes.digits_ssl(seed=seed), {'steps': 2, 'unlabeled_batch': 8})\n"
        "    return replace(small, network=partial(Network, shape=(1, 8, 8), classes=10))\n"
    )
    train(named(f"{source}:recipe", {}).recipe, tmp_path / "runs" / "run")
    Questions((3, 5)).save(tmp_path / "runs" / "run")
    plain, custom = (Runs(tmp_path / "runs", found) for found in (None, definitions(source)))
    identity = plain.listed()["runs"][0]["id"]
    with pytest.raises(ValueError, match=r"or --custom FILE\.py"):
        Labels(plain).state(identity)
    custom.listed()
    assert [one["index"] for one in Labels(custom).state(identity)["open"]] == [3, 5]


def test_rules_are_shown_with_their_probabilities_given_the_answers(
    ambiguous_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels, identity = labels_of(ambiguous_run)
    first = labels.state(identity)
    assert first["rules"] is None  # until it is computed in the background
    labels.estimate(identity)
    shown, found = labels.state(identity, first["version"])["rules"], load(ambiguous_run).rules()
    assert (shown["count"], shown["settled"], shown["explained"]) == (len(found), None, True)
    assert [rule["weight"] for rule in shown["rules"]] == pytest.approx(found.weights)
    assert [rule["particles"] for rule in shown["rules"]] == [len(members) for members in found.members]
    places = [given["index"] for given in shown["inputs"]]
    assert len(set(places)) == len(places) == _label.APART
    for i, rule in enumerate(shown["rules"]):
        assert rule["labels"] == [found.answers(place)[i] for place in places]
    assert all(len(set(column)) > 1 for column in zip(*(rule["labels"] for rule in shown["rules"]), strict=True))
    labels.suggest(identity, 8)
    for index in Questions.load(ambiguous_run).open:
        labels.answer(identity, index, ["no", "yes"].index(found.answers(index)[1]))
    settled = labels.state(identity)["rules"]
    assert settled["settled"] == 1
    assert settled["rules"][1]["weight"] == max(rule["weight"] for rule in settled["rules"]) >= labeling.SETTLED
    monkeypatch.setattr(_label, "RULES", 1)
    only = labels.state(identity)["rules"]
    assert [rule["rule"] for rule in only["rules"]] == [only["settled"]]
    assert only["count"] == len(found)


def test_labels_that_determine_the_task_show_no_rules(run: Path) -> None:
    labels, identity = labels_of(run)
    labels.estimate(identity)
    assert labels.state(identity)["rules"] == {"count": 0}
