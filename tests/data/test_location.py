"""The data folder."""

from pathlib import Path

import pytest

from refprior.data._location import data_folder


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFPRIOR_DATA", str(tmp_path / "mine"))
    assert data_folder() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        ("linux", "XDG_DATA_HOME", "chosen/refprior"),
        ("linux", None, "home/.local/share/refprior"),
        ("darwin", None, "home/Library/Application Support/refprior"),
        ("win32", "LOCALAPPDATA", "chosen/refprior"),
        ("win32", None, "home/AppData/Local/refprior"),
    ],
)
def test_else_the_platforms_convention(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, variable: str | None, expected: str
) -> None:
    for name in ("REFPRIOR_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", platform)
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "chosen"))
    assert data_folder() == tmp_path / expected
