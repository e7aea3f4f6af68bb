"""Runs as the page shows them: numbers of their records, states of their locks, and no path from outside."""

import json
import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from refprior._files import locked
from refprior.explore import _watch
from refprior.explore._watch import MOST_POINTS, Runs, details, embedding, examples, thinned
from refprior.recipes import named
from refprior.training import Record, train
from tests.explore.served import answer, request, serving
from tests.report.folders import evaluation, write_header, write_records, write_run


def record(step: int, steps: int = 20) -> Record:
    terms: dict[str, float | None] = {"marginal_entropy": 1.0 + step, "conditional_entropy": None}
    return Record(step=step, steps=steps, learning_rate=0.1, loss=1.0 / step, seconds=step / 10, terms=terms)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("watch")
    recipe, origin = named(
        "digits_ssl", {"steps": 6, "unlabeled_batch": 8, "snapshots": 2, "evaluate_every": 3}, seed=0
    )
    train(recipe, folder / "run", origin=origin)
    return folder


def test_runs_are_listed_with_the_numbers_of_their_records(tmp_path: Path) -> None:
    write_run(tmp_path / "sweep" / "a", "digits_ssl", 0, 0.9, {"labels": "50"})
    write_run(tmp_path / "sweep" / "b", "digits_ssl", 1, 0.8, {"labels": "100"})
    listed = Runs(tmp_path).listed()["runs"]
    assert [run["name"] for run in listed] == ["sweep/a", "sweep/b"]
    assert [(run["accuracy"], run["part"], run["state"], run["step"]) for run in listed] == [
        (0.9, "test", "finished", 20),
        (0.8, "test", "finished", 20),
    ]
    assert listed[1]["settings"]["labels"] == "100"
    assert (listed[1]["settings"]["seed"], listed[1]["settings"]["method"]) == ("1", "Y")


def test_nothing_is_sent_again_until_something_changes(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "digits_ssl", 0, 0.9)
    runs = Runs(tmp_path)
    first = runs.listed()
    assert runs.listed(first["version"]) == {"version": first["version"]}
    write_records(tmp_path / "a", [replace(record(5), evaluation=evaluation(0.5))])
    again = runs.listed(first["version"])
    assert (again["runs"][0]["step"], again["runs"][0]["accuracy"]) == (5, 0.5)


def test_a_run_is_training_while_somebody_holds_its_lock(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "digits_ssl", 0, 0.9)
    write_records(tmp_path / "a", [record(5)])
    runs = Runs(tmp_path)
    assert runs.listed()["runs"][0]["state"] == "stopped"
    with locked(tmp_path / "a", lambda holder: None):
        assert runs.listed()["runs"][0]["state"] == "training"
    gone = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    (tmp_path / "a" / ".lock").write_text(f"process {gone.stdout.strip()} on {os.uname().nodename}")
    assert runs.listed()["runs"][0]["state"] == "stopped"


def test_a_damaged_run_is_told_and_the_others_are_shown(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "digits_ssl", 0, 0.9)
    write_run(tmp_path / "b", "digits_ssl", 1, 0.9)
    (tmp_path / "b" / "metrics.jsonl").write_text("{}\n")
    one, other = Runs(tmp_path).listed()["runs"]
    assert one["problem"] is None
    assert "line 1 is not a record" in other["problem"]


def test_curves_have_every_number_and_json_can_hold_them(tmp_path: Path) -> None:
    write_header(tmp_path, {"seed": 0, "steps": 20, "method": {"type": "x.Y"}})
    write_records(tmp_path, [record(10), replace(record(20), evaluation=evaluation(0.75))])
    found = json.loads(json.dumps(details(tmp_path), allow_nan=False))
    assert (found["step"], found["loss"]) == ([10, 20], [0.1, 0.05])
    assert found["terms"] == {"marginal_entropy": [11, 21], "conditional_entropy": [None, None]}
    assert found["evaluations"]["best"] == [0.75]
    assert found["evaluations"]["particles"] == [[0.65], [0.75]]
    assert found["calibration"]["counts"] == [0, 4]
    assert ["method", "x.Y"] in found["settings"]


def test_long_curves_are_thinned_and_keep_their_end() -> None:
    records = [record(step, 5000) for step in range(1, 5001)]
    drawn = thinned(records)
    assert len(drawn) == MOST_POINTS
    assert (drawn[0].step, drawn[-1].step) == (1, 5000)


def test_particles_and_examples_of_a_real_run(trained: Path) -> None:
    cloud = json.loads(json.dumps(embedding(trained / "run"), allow_nan=False))
    assert cloud["steps"] == [0, 2, 6]
    assert [len(shot) for shot in cloud["points"]] == [4, 4, 4]
    assert len(cloud["points"][0][0]) == 3
    found = json.loads(json.dumps(examples(trained / "run"), allow_nan=False))
    assert len(found["uncertain"]) == 12
    assert all(one["picture"].startswith("data:image/png;base64,") for one in found["uncertain"])
    assert [sum(count for _, count in one["votes"]) for one in found["uncertain"]] == [4] * 12
    nats = [one["nats"] for one in found["uncertain"]]
    assert nats == sorted(nats, reverse=True)
    assert sum(map(sum, found["confusion"])) == 600


def test_the_server_knows_runs_by_its_own_names_only(trained: Path) -> None:
    with serving(trained) as served:
        identity = answer(served, "api/runs")["runs"][0]["id"]
        assert answer(served, f"api/run?id={identity}")["classes"][:2] == ["0", "1"]
        for wrong in ("run", "../run", str(trained / "run"), "", "%2e%2e"):
            code, _, content = request(served, f"api/run?id={wrong}")
            assert code == 400
            assert b"no longer exists" in content


def test_links_are_not_followed(trained: Path, tmp_path: Path) -> None:
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "elsewhere").symlink_to(trained / "run")
    assert Runs(tmp_path / "runs").listed()["runs"] == []
    (tmp_path / "runs" / "here").mkdir()
    for name in ("recipe.json", "metrics.jsonl"):
        (tmp_path / "runs" / "here" / name).symlink_to(trained / "run" / name)
    (only,) = Runs(tmp_path / "runs").listed()["runs"]
    assert "is a link" in only["problem"]
    with pytest.raises(ValueError, match="is a link"):
        _watch.details(tmp_path / "runs" / "here")


def test_the_list_does_not_wait_for_what_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_run(tmp_path / "run", "digits_ssl", 0, 0.9, {})
    asked, finish = threading.Event(), threading.Event()

    def slow(path: Path) -> dict[str, str]:
        asked.set()
        finish.wait(60)
        return {"slow": path.name}

    monkeypatch.setattr(_watch, "examples", slow)
    with serving(tmp_path) as served:
        (run,) = answer(served, "api/runs")["runs"]
        found: list[object] = []
        waiting = threading.Thread(target=lambda: found.append(answer(served, f"api/examples?id={run['id']}")))
        waiting.start()
        try:
            assert asked.wait(30)
            assert answer(served, "api/runs")["runs"]
            assert answer(served, f"api/run?id={run['id']}")["classes"]
            assert not found
        finally:
            finish.set()
            waiting.join(30)
    assert found == [{"slow": "run"}]
