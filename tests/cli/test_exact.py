"""`refprior exact`: what is printed, as text and as JSON, and the files that are drawn."""

import json
import math
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from cyclopts import CycloptsError

from refprior.cli._exact import app
from refprior.exact import _priors as priors
from refprior.exact import figures, models
from refprior.exact.solve import _solver as solver
from tests.cli.running import start


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(arguments, exit_on_error=False, result_action="return_value")
    return capsys.readouterr().out


def test_coin_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "coin", "-n", "2")
    assert out.startswith("certified: information 0.753771802376 nats, gap below 1e-14\n")
    assert "\nsupport: 3 atoms, w in [0, 1]\n" in out
    assert "0.441176470588" in out
    assert out.endswith("number of atoms certified\n")


def test_coin_prints_json_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "coin.png"
    plain = json.loads(run(capsys, "coin", "-n", "1", "--json", "--plot", str(picture)))
    assert plain["atoms"] == [0.0, 1.0]
    assert plain["information"] == pytest.approx(math.log(2))
    assert picture.read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "capacity"),
    [
        (("two-stage", "-m", "1", "-n", "1"), math.log(5 / 4)),
        (("poisson", "--amplitude", "5"), 0.7106646144382143),
    ],
)
def test_other_proofs(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], capacity: float) -> None:
    pytest.importorskip("flint")
    plain = json.loads(run(capsys, *arguments, "--proof", "--json"))
    assert plain["evidence"] == "proved"
    assert plain["proof"]["lower"] <= capacity <= plain["proof"]["upper"]


def test_scans_find_the_forks_and_draw_them(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "scan.png"
    out = run(capsys, "scan", "gaussian", "--amplitude", "1:3", "--points", "3", "--plot", str(picture))
    assert out.startswith("proved: 3 priors, 2 forks")
    assert "1.665926: an atom appears at" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    plain = json.loads(run(capsys, "scan", "coin", "-n", "1:5", "--json"))
    assert [(fork["low"], fork["high"]) for fork in plain["forks"]] == [(1, 2), (4, 5)]
    assert next(iter(plain.items())) == ("evidence", "certified")
    assert "2 to 3" in run(capsys, "scan", "poisson", "--amplitude", "3:4", "--points", "2")
    assert "between 3 and 4" in run(capsys, "scan", "two-stage", "-m", "1", "-n", "3:4")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("scan", "gaussian", "--amplitude", "3"), "a range must be LOW:HIGH"),
        (("scan", "gaussian", "--amplitude", "3:1"), "LOW < HIGH"),
        (("scan", "coin", "-n", "1.5:4"), "must be whole"),
        (("curve", "-n", "0:4"), "at least 1"),
    ],
)
def test_ranges_are_checked(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str) -> None:
    with pytest.raises((ValueError, CycloptsError), match=message):
        run(capsys, *arguments)


def test_priors_are_compared_and_capacity_follows_its_law(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(capsys, "compare-priors", "-n", "10").startswith("certified: capacity 1.232457 nats")
    picture = tmp_path / "priors.png"
    plain = json.loads(run(capsys, "compare-priors", "-n", "3", "--json", "--plot", str(picture)))
    assert [prior["name"] for prior in plain["priors"]] == ["reference", "jeffreys", "uniform"]
    assert picture.exists()
    curve = json.loads(run(capsys, "curve", "-n", "1:100", "--points", "3", "--json"))
    assert [row["n"] for row in curve["curve"]] == [1, 10, 100]
    assert "0.1228" in run(capsys, "curve", "-n", "1:100", "--points", "3")


def test_coin_with_a_proof(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("flint")
    proof = json.loads(run(capsys, "coin", "-n", "10", "--proof", "--json"))["proof"]
    assert proof["lower"] <= 1.23245661220409 <= proof["upper"]


@pytest.mark.parametrize(
    ("arguments", "information"),
    [
        (("two-stage", "-m", "1", "-n", "1"), math.log(5 / 4)),
        (("two-stage", "-m", "0", "-n", "1"), math.log(2)),
        (("two-coins", "-n", "1"), 2 * math.log(2)),
        (("gaussian", "--amplitude", "2"), 0.652868811780),
        (("poisson", "--amplitude", "5"), 0.710664614438),
        (("decay", "--sigma", "0.2", "--times", "1", "2"), 1.018860689067),
    ],
)
def test_models(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], information: float) -> None:
    plain = json.loads(run(capsys, *arguments, "--json"))
    assert plain["information"] == pytest.approx(information, abs=1e-11)
    assert plain["gap"] <= 1e-11


def test_jeffreys_is_below_the_reference_prior(capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(run(capsys, "jeffreys", "-n", "10", "--json"))
    assert plain["jeffreys"] < plain["reference"]
    assert "reference prior  1.232456612204 nats" in run(capsys, "jeffreys", "-n", "10")


def test_blahut_arimoto_shows_its_slowness(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run(capsys, "blahut-arimoto", "-n", "10", "--points", "101", "--iterations", "100").splitlines()
    assert lines[0].startswith("searched: the gap is over the grid")
    assert [int(line.split()[0]) for line in lines[2:]] == [1, 10, 100]
    assert all(len(line.split()[1]) <= 6 for line in lines[2:])  # a gap of 0.005 supports two decimals
    plain = json.loads(run(capsys, "blahut-arimoto", "-n", "2", "--points", "11", "--iterations", "5", "--json"))
    assert len(plain["gap"]) == 5
    assert next(iter(plain.items())) == ("evidence", "searched")
    with pytest.raises(SystemExit, match="3"):
        run(capsys, "blahut-arimoto", "-n", "10", "--points", "101", "--iterations", "100", "--tolerance", "1e-6")


@pytest.mark.thorough
def test_figures_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = [f"exact_{name}.png" for name in ("coin", "two_stage", "convergence", "manifold", "priors")]
    monkeypatch.setattr(figures, "FIGURES", {name: figures.FIGURES[name] for name in names})  # the others are slow
    exponentials = models.exponentials
    monkeypatch.setattr(
        models, "exponentials", lambda times, terms, sigma: exponentials(times, terms=terms, sigma=1.0)
    )  # with more noise, a prior of few atoms
    out = run(capsys, "figures", "--out", str(tmp_path / "new"))
    written = sorted((tmp_path / "new").glob("*.png"))
    assert [str(path) for path in written] == sorted(out.split())
    assert len(written) == 5
    assert all(path.stat().st_size < 150_000 for path in written)


def test_figures_name_their_files_as_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "exact_coin.png"
    monkeypatch.setattr(figures, "FIGURES", {name: figures.FIGURES[name]})  # one of them is enough
    plain = json.loads(run(capsys, "figures", "--out", str(tmp_path), "--json"))
    assert plain == {"figures": [str(tmp_path / name)]}
    assert (tmp_path / name).exists()


def test_bad_input_is_a_value_error(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (("coin", "-n", "0"), ("two-stage", "-m", "1", "-n", "1", "--beta", "2")):
        with pytest.raises(ValueError, match=r"at least 1|concave"):
            run(capsys, *arguments)


UNFINISHED = [
    ("coin", "-n", "3", "--tolerance", "1e-18"),
    ("two-stage", "-m", "3", "-n", "4", "--tolerance", "1e-18"),
    ("poisson", "--amplitude", "9", "--tolerance", "1e-18"),
    ("decay", "--sigma", "0.3", "--tolerance", "1e-18"),
]


@pytest.mark.parametrize("arguments", UNFINISHED)
def test_what_is_unfinished_is_said_first_and_in_the_exit_code(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments)
    assert ended.value.code == 3
    first = capsys.readouterr().out.splitlines()[0]
    assert re.match(r"unfinished: the gap is \S+ nats, above the tolerance 1e-18: ", first)


@pytest.mark.parametrize("arguments", UNFINISHED)
def test_json_says_what_is_unfinished_and_why(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run(capsys, *arguments, "--json")
    shown = capsys.readouterr()
    plain = json.loads(shown.out)
    assert ended.value.code == 3
    assert next(iter(plain.items())) == ("evidence", "unfinished")
    assert plain["reason"] in shown.err
    assert not re.search(r"\d\.\d{13}", shown.out)  # never more digits than the gap supports


def test_an_infinite_gap_is_valid_json_without_digits(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer without the atom at one end excludes what a coin there shows."""
    solve = solver.solve

    def without_the_last(*arguments: Any) -> Any:
        u, weights = solve(*arguments)
        return u[:1], weights[:1] / weights[:1].sum()

    monkeypatch.setattr(priors, "solve", without_the_last)
    with pytest.raises(SystemExit, match="3"):
        run(capsys, "coin", "-n", "3", "--json")
    plain = json.loads(capsys.readouterr().out)
    assert (plain["evidence"], plain["gap"], plain["atoms"]) == ("unfinished", None, None)
    assert "infinite" in plain["reason"]
    with pytest.raises(SystemExit, match="3"):
        run(capsys, "coin", "-n", "3")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("unfinished: the gap is infinite")
    assert len(lines) == 5  # no table of digits that mean nothing


def test_a_long_two_stage_coin_is_certified_and_symmetric(capsys: pytest.CaptureFixture[str]) -> None:
    plain = json.loads(run(capsys, "two-stage", "-m", "300", "-n", "300", "--json"))
    assert plain["evidence"] == "certified"
    assert plain["information"] == pytest.approx(0.344620917159, abs=1e-11)
    assert plain["weights"] == plain["weights"][::-1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("coin", "-n", "10000000000"), "a coin of 10000000000 tosses needs about 1.2 TB of memory"),
        (("two-coins", "-n", "1000000"), "a pair of coins of 1000000 tosses needs about 64 TB"),
        (("jeffreys", "-n", "10000000000"), "take fewer tosses n"),
        (("two-stage", "-m", "1", "-n", "10000000000"), "take fewer tosses n"),
        (("two-stage", "-m", "-1", "-n", "3"), "m of the first stage must be a whole number of at least 0, got -1"),
        (("blahut-arimoto", "-n", "10", "--points", "1000000000000"), "take a coarser grid or fewer samples"),
    ],
)
def test_what_cannot_be_done_is_rejected_before_any_work(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        run(capsys, *arguments)


def command(*arguments: str, limit: str = "unlimited") -> subprocess.Popen[str]:
    words = " ".join(["exec", shlex.quote(sys.executable), "-m", "refprior", "exact", *arguments])
    pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(["bash", "-c", f"ulimit -v {limit}; {words}"], env=environment, **pipes)


@pytest.mark.parametrize(
    "arguments",
    [("decay", "--sigma", "0.01"), ("coin", "-n", "20000000"), ("two-stage", "-m", "200000", "-n", "200000")],
)
def test_an_address_space_limit_is_respected(arguments: tuple[str, ...]) -> None:
    out, error = (process := command(*arguments, limit="1500000")).communicate(timeout=60)
    assert process.returncode == 2
    assert out == ""
    last = error.splitlines()[-1]  # a busy machine announces the search first
    assert re.fullmatch(r"refprior: .* needs about [\d.]+ GB of memory, and .* are available: take fewer .*", last)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("arguments", [("coin", "-n", "3000000"), ("decay", "--sigma", "0.025")])
def test_signals_are_heard_within_a_second(arguments: tuple[str, ...], number: signal.Signals) -> None:
    with start("exact", *arguments) as process:
        first = process.first_line(process.err)  # after two seconds there is progress, or a time of minutes is said
        time.sleep(0.3)
        process.send_signal(number)
        sent = time.monotonic()
        out, error = process.communicate(timeout=30)
        assert time.monotonic() - sent < 2  # one, and slack for a busy machine
        assert process.returncode == 128 + number
    assert first.startswith(("coin of 3000000 tosses", "exponential decay, sigma 0.025"))  # a busy machine logs later
    assert out == "" or out.startswith("unfinished: interrupted; this is the best prior so far")
    assert error.splitlines()[-1] == "refprior: stopped"


def test_ctrl_c_shows_the_best_prior_so_far(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(solver, "_symmetric", stop)  # the last step of a search
    with pytest.raises((KeyboardInterrupt, SystemExit)):  # cyclopts turns it into exit code 130
        run(capsys, "coin", "-n", "12")
    assert ": information 1.2" in capsys.readouterr().out
    with pytest.raises((KeyboardInterrupt, SystemExit)):
        run(capsys, "coin", "-n", "12", "--json")
    plain = json.loads(capsys.readouterr().out)
    assert plain["gap"] < 1e-6


@pytest.mark.parametrize(
    "arguments",
    [("coin", "-n", "2.5"), ("two-stage", "-m", "0.4", "-n", "1"), ("two-stage", "-m", "1", "-n", "1.5")],
)
def test_fractions_of_tosses_are_rejected(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(CycloptsError, match=r"whole number, got \d\.\d"):
        run(capsys, *arguments)


def test_a_custom_channel_is_read_from_a_file(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text("from refprior.exact import Coin\nchannel, number = Coin(10), 3\ndef make():\n    return Coin(2)\n")
    assert json.loads(run(capsys, f"{file}:channel", "--json")) == json.loads(run(capsys, "coin", "-n", "10", "--json"))
    assert run(capsys, f"{file}:make").startswith("certified: information 0.753771802376 nats")
    mistakes = {
        f"{file}:number": "must be a Channel or return one, got int",
        f"{file}:nothing": "does not define 'nothing'",
        f"{tmp_path}/other.py:channel": "no file",
        "con": "unknown model 'con': pass FILE.py:NAME or one of blahut-arimoto, coin",
    }
    for model, message in mistakes.items():
        with pytest.raises(ValueError, match=message):
            run(capsys, model)
