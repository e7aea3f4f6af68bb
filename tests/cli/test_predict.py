"""`refprior predict` and `refprior export`: a row for every input, and a bad file is named."""

import csv
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from PIL import Image

from refprior.cli import main
from refprior.cli._predict import Row, _csv
from refprior.networks import MLP
from refprior.training import Predictor, load_predictor, train
from tests.cli.running import refprior
from tests.training.recipes import colors, perceptron
from tests.training.test_predictor import named, rows, vectors


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on pictures of 8×8 in color."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    train(perceptron(task=colors(), network=partial(MLP, (3, 8, 8), 2), steps=3), folder)
    return folder


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def photos(folder: Path, *names: str) -> np.ndarray:
    """Random pictures of these names: (n, 3, 8, 8)."""
    pixels = np.random.default_rng(len(names)).integers(0, 256, (len(names), 8, 8, 3), np.uint8)
    for name, picture in zip(names, pixels, strict=True):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture).save(folder / name)
    return pixels.transpose(0, 3, 1, 2)


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line on stderr of a command that ends with exit code 2."""
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return said


def succeed(*arguments: str) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 0


def read(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def assert_rows(found: list[dict[str, Any]], predictor: Predictor, inputs: Any, names: list[str]) -> None:
    assert [row["name"] for row in found] == names
    assert [row["class"] for row in found] == [str(label) for label in predictor.predict(inputs)]
    split, best = predictor.uncertainty(inputs), predictor.predict_proba(inputs).max(1)
    columns = {"probability": best, "uncertainty_total": split.total, "uncertainty_between": split.between}
    for name, expected in columns.items():
        np.testing.assert_allclose([float(row[name]) for row in found], expected, rtol=1e-4, atol=1e-5)


def test_files_and_folders_of_pictures(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = photos(here, "one.png", "photos/a.jpg.png", "photos/b/2.png", "photos/b/1.png")
    (here / "photos" / "notes.txt").write_text("not a picture")
    succeed("predict", str(model), "one.png", "photos", "--out", "out/found.csv")
    assert "4 predictions: out/found.csv" in capsys.readouterr().out
    names = ["one.png", "photos/a.jpg.png", "photos/b/1.png", "photos/b/2.png"]
    assert_rows(read(here / "out" / "found.csv"), load_predictor(model), images[[0, 1, 3, 2]], names)
    succeed("predict", str(model), "one.png", "photos", "--out", "found.json")
    assert_rows(json.loads((here / "found.json").read_text()), load_predictor(model), images[[0, 1, 3, 2]], names)


def test_many_pictures_in_a_row(model: Path, here: Path) -> None:
    names = [f"p/{number:03}.png" for number in range(300)]
    images = photos(here, *names)
    succeed("predict", str(model), "p", "--out", "found.csv")
    assert_rows(read(here / "found.csv"), load_predictor(model), images, names)


@pytest.mark.parametrize("layout", ["first", "last"])
@pytest.mark.parametrize("name", ["images", "inputs", "x"])
def test_arrays(model: Path, here: Path, name: str, layout: str) -> None:
    images = photos(here, "a.png", "b.png")
    stored = images if layout == "first" else images.transpose(0, 2, 3, 1)
    arrays: dict[str, Any] = {name: stored, **({"labels": np.arange(2)} if name != "x" else {})}
    np.savez("a.npz", **arrays)
    succeed("predict", str(model), "a.npz", "--out", "found.csv")
    assert_rows(read(here / "found.csv"), load_predictor(model), images, ["0", "1"])


def test_an_array_that_is_not_named_is_asked_for(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.savez("a.npz", x=np.zeros(3), y=np.zeros(3))
    assert "a.npz: the file has the arrays x, y: call one of them images or inputs" in refused(
        capsys, "predict", str(model), "a.npz"
    )


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_tables_by_name_and_by_place(kind: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    inputs = rows(30)
    frame = pandas.DataFrame(inputs, columns=list("uvwxyz")).astype(float)
    mixed = frame[list("zyxwvu")].assign(name="somebody")
    for name, table in {"plain": frame, "mixed": mixed, "short": frame[list("uvwxy")]}.items():
        table.to_csv(f"{name}.csv", index=False) if kind == "csv" else table.to_parquet(f"{name}.parquet")
    named().save("named")
    vectors().save("unnamed")
    succeed("predict", "named", f"mixed.{kind}", "--out", "one.csv")
    succeed("predict", "unnamed", f"plain.{kind}", f"plain.{kind}", "--out", "two.csv")
    assert_rows(read(here / "one.csv"), vectors(), inputs, [str(row) for row in range(30)])
    names = [f"plain.{kind}:{row}" for row in (*range(30), *range(30))]
    assert_rows(read(here / "two.csv"), vectors(), np.concatenate([inputs, inputs]), names)
    said = refused(capsys, "predict", "named", f"short.{kind}")
    assert f"short.{kind}: no column 'z'; there are u, v, w, x, y" in said
    said = refused(capsys, "predict", "unnamed", f"short.{kind}")
    assert f"short.{kind}: given inputs have 5 features, those of the training 6" in said
    said = refused(capsys, "predict", "unnamed", f"mixed.{kind}")
    assert f"mixed.{kind}: column 'name', row 0: 'somebody' is not a number" in said


def test_an_empty_cell_is_named(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vectors().save("model")
    (here / "t.csv").write_text("u,v,w,x,y,z\n1,2,3,4,5,6\n1,2,3,,5,6\n")
    said = refused(capsys, "predict", "model", "t.csv", "--out", "found.csv")
    assert "t.csv: column 'x' is empty or not finite in row 1" in said
    assert not (here / "found.csv").exists()


def test_a_bad_file_is_named_or_skipped(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    images = photos(here, "p/a.png", "p/c.png")
    (here / "p" / "b.png").write_bytes(b"torn")
    arguments = ["predict", str(model), "p", "nowhere.png", "--out", "found.csv"]
    assert "nowhere.png: no such file" in refused(capsys, *arguments)
    said = refused(capsys, *arguments[:3])
    assert "p/b.png: not a readable image" in said
    assert "; --keep-going skips unreadable files" in said
    (here / "t.csv").write_text("city,age\nOslo,3\n")
    assert "t.csv: the model takes pictures, not a table" in refused(capsys, "predict", str(model), "t.csv")
    assert not (here / "found.csv").exists()
    succeed(*arguments, "--keep-going")
    said = capsys.readouterr().out
    assert "2 predictions: found.csv" in said
    assert "Skipped 2 files: nowhere.png: no such file or folder; p/b.png: not a readable image" in said
    assert_rows(read(here / "found.csv"), load_predictor(model), images, ["p/a.png", "p/c.png"])


def test_a_folder_as_it_comes_from_a_phone(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos(here, "p/a.JPG", "p/b.png")
    (here / "p" / "a.JPG").rename(here / "p" / "a.jfif")
    (here / "p" / "._a.jfif").write_bytes(b"what a Mac leaves behind")
    (here / "p" / "c.heic").write_bytes(b"\0\0\0\x18ftypheic")
    succeed("predict", str(model), "p", "--out", "found.csv")
    assert "p: skipped 1 hidden, 1 not an image that is read (.heic)" in capsys.readouterr().err
    assert [row["name"] for row in read(here / "found.csv")] == ["p/a.jfif", "p/b.png"]


def test_the_first_rows_are_shown(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names = [f"p/{number:02}.png" for number in range(25)]
    photos(here, *names)
    succeed("predict", str(model), "p")
    said = capsys.readouterr().out
    assert [name for name in names if name in said] == names[:20]
    assert "Showing the first 20 of 25 inputs; --out predictions.csv writes all." in said
    succeed("predict", str(model), "p/24.png")
    said = capsys.readouterr().out
    assert "p/24.png" in said
    assert "The first" not in said


def test_mistakes_are_one_line(model: Path, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos(here, "a.png")
    (here / "empty").mkdir()
    vectors().save("vectors")
    assert "found.txt" in refused(capsys, "predict", str(model), "a.png", "--out", "found.txt")
    assert "no images in this folder, which is empty" in refused(capsys, "predict", str(model), "empty")
    for arguments in (("predict", "empty", "a.png"), ("export", "empty", "--out", "model.onnx")):
        assert "empty is neither a predictor nor a run folder" in refused(capsys, *arguments)
    assert "a.png: the model takes inputs of (6,), not pictures: give a .csv" in refused(
        capsys, "predict", "vectors", "a.png"
    )
    np.savez("a.npz", images=np.zeros((2, 9, 9, 3), np.uint8))
    assert "a.npz: given inputs are (3, 9, 9), those of the training (3, 8, 8)" in refused(
        capsys, "predict", str(model), "a.npz"
    )


def test_export_as_a_process(model: Path, tmp_path: Path) -> None:
    done = refprior("export", str(model), "--format", "torch", "--out", "deep/model.pt2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "inputs uint8 (n, 3, 8, 8) → probabilities of 2 classes" in done.stdout
    images = colors().held_out.inputs[:5]
    graph = torch.export.load(tmp_path / "deep" / "model.pt2").module()
    np.testing.assert_allclose(graph(images).numpy(), load_predictor(model).predict_proba(images), rtol=1e-5)


def test_predict_as_a_process(model: Path, tmp_path: Path) -> None:
    images = photos(tmp_path, "a.png", "b.png")
    done = refprior("predict", str(model), "a.png", "b.png", "--out", "found.csv", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert_rows(read(tmp_path / "found.csv"), load_predictor(model), images, ["a.png", "b.png"])


def test_names_that_a_spreadsheet_would_execute_get_an_apostrophe() -> None:
    rows = [Row(name, name, 0.5, 0.1, 0.1) for name in ("=1+1", "@sum", "-1", "photo.jpg")]
    cells = [line.split(",")[0] for line in _csv(rows).splitlines()[1:]]
    assert cells == ["'=1+1", "'@sum", "-1", "photo.jpg"]
