"""The data folder."""

from pathlib import Path

import pytest
from platformdirs.api import PlatformDirsABC
from platformdirs.macos import MacOS
from platformdirs.unix import Unix
from platformdirs.windows import Windows, get_win_folder_from_env_vars

from refprior.data.sources._catalog import data_folder, places


def test_the_environment_has_the_last_word(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("REFPRIOR_DATA", str(tmp_path / "mine"))
    assert data_folder() == tmp_path / "mine"


@pytest.mark.parametrize(
    ("platform", "variable", "expected"),
    [
        (Unix, "XDG_DATA_HOME", "chosen/refprior"),
        (Unix, None, "home/.local/share/refprior"),
        (MacOS, None, "home/Library/Application Support/refprior"),
        (Windows, "LOCALAPPDATA", "chosen/refprior"),
    ],
)
def test_else_the_platforms_convention(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    platform: type[PlatformDirsABC],
    variable: str | None,
    expected: str,
) -> None:
    for name in ("REFPRIOR_DATA", "XDG_DATA_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("platformdirs.PlatformDirs", platform)
    monkeypatch.setattr("platformdirs.windows.get_win_folder", get_win_folder_from_env_vars)  # not by asking Windows
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "chosen"))
    assert data_folder() == tmp_path / expected


def test_a_data_set_is_looked_for_under_its_name_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REFPRIOR_DATA", str(tmp_path))
    assert places("mnist", None) == [tmp_path / "mnist", tmp_path]
    assert places("mnist", "~/mine") == [Path("~/mine/mnist").expanduser(), Path("~/mine").expanduser()]
