"""`refprior exact`: what is printed, as text and as JSON, and the files that are drawn."""

import json
import math
from pathlib import Path

import pytest
from cyclopts import CycloptsError

from refprior.cli._exact import app
from refprior.exact import _figures as figures


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    app(arguments, exit_on_error=False, result_action="return_value")
    return capsys.readouterr().out


def test_coin_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    out = run(capsys, "coin", "-n", "2")
    assert out.startswith("3 atoms (certified), information 0.753771802376 nats")
    assert "0.441176470588" in out


def test_coin_prints_json_and_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    picture = tmp_path / "coin.png"
    plain = json.loads(run(capsys, "coin", "-n", "1", "--json", "--plot", str(picture)))
    assert plain["atoms"] == [0.0, 1.0]
    assert plain["information"] == pytest.approx(math.log(2))
    assert picture.read_bytes().startswith(b"\x89PNG")


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
    assert [int(line.split()[0]) for line in lines[1:]] == [1, 10, 100]
    plain = json.loads(run(capsys, "blahut-arimoto", "-n", "2", "--points", "11", "--iterations", "5", "--json"))
    assert len(plain["gap"]) == 5


def test_figures_are_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = run(capsys, "figures", "--out", str(tmp_path / "new"))
    written = sorted((tmp_path / "new").glob("*.png"))
    assert [str(path) for path in written] == sorted(out.split())
    assert len(written) == 3
    assert all(path.stat().st_size < 100_000 for path in written)


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


def test_a_missed_tolerance_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    app(["coin", "-n", "450", "--tolerance", "1e-18"], exit_on_error=False, result_action="return_value")
    error = capsys.readouterr().err
    assert error.startswith("warning: the gap is")
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [("coin", "-n", "2.5"), ("two-stage", "-m", "0.4", "-n", "1"), ("two-stage", "-m", "1", "-n", "1.5")],
)
def test_fractions_of_tosses_are_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]) -> None:
    with pytest.raises(CycloptsError, match=r"whole number, got \d\.\d"):
        run(capsys, *arguments)
