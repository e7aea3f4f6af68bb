"""`refprior fit`: from a table, arrays or a folder to a model that `refprior predict` takes."""

import csv
import re
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import refprior as rp
from refprior.data import FewLabels
from refprior.estimators import classifier_recipes
from refprior.labeling import Questions
from refprior.report import pool_picture
from tests.cli.running import refprior
from tests.training.recipes import two_cues

COLORS = {"red": (200, 30, 30), "blue": (30, 30, 200)}
FEW = ("--set", "steps=60", "particles=4")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Three groups, of which 30 rows have names; the columns have different units."""
    random = np.random.RandomState(0)
    kinds = np.arange(300) % 3
    values = (random.randn(300, 3) + 4 * np.eye(3)[kinds]) * [1, 1000, 0.001]
    names = np.array(["cat", "dog", "owl"])[kinds]
    with (tmp_path / "animals.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["weight", "height", "age", "kind"])
        writer.writerows(
            [*row, name if i < 30 else ""] for i, (row, name) in enumerate(zip(values, names, strict=True))
        )
    with (tmp_path / "new.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["age", "height", "weight"])  # in another order
        writer.writerows([age, height, weight] for weight, height, age in values)
    (tmp_path / "truth.txt").write_text("\n".join(names))
    return tmp_path


def test_a_table_becomes_a_model_that_finds_columns_by_name(table: Path) -> None:
    done = refprior("fit", "animals.csv", "--target", "kind", "--test", "6", "--out", "run", *FEW, cwd=table)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[2:6] == [["cat", "8"], ["dog", "8"], ["owl", "8"], ["unlabeled", "270"]]
    assert "Model: run/model" in done.stdout
    for model in ("run/model", "run"):
        predicted = refprior("predict", model, "new.csv", "--out", "out.csv", cwd=table)
        assert predicted.returncode == 0, predicted.stderr
        with (table / "out.csv").open() as file:
            found = [row["class"] for row in csv.DictReader(file)]
        right = np.array(found) == np.array((table / "truth.txt").read_text().split())
        assert right.mean() > 0.9


def test_the_same_command_goes_on_and_ends_with_the_same_model(table: Path) -> None:
    command = ("fit", "animals.csv", "--target", "kind", "--out", "run", *FEW)
    assert refprior(*command, cwd=table).returncode == 0
    rows = np.ones((2, 3))
    before = rp.load_predictor(table / "run/model").predict_proba(rows)
    again = refprior(*command, cwd=table)
    assert again.returncode == 0, again.stderr
    assert "nats per held-out label" not in again.stdout  # the inputs are those of the run
    assert (rp.load_predictor(table / "run/model").predict_proba(rows) == before).all()


def test_labels_that_do_not_determine_the_task_are_reported(tmp_path: Path) -> None:
    task = two_cues()
    rows = [*task.labeled.inputs.tolist(), *task.unlabeled.tolist()]
    with (tmp_path / "cues.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["color", "shape", "label"])
        writer.writerows([*row, ["no", "yes"][i % 2] if i < 40 else ""] for i, row in enumerate(rows))
    method = ("method=ReferencePrior", "method.alpha=1", "method.gamma=1", "method.threshold=0.8", "method.balance=1")
    settings = ("--set", "steps=300", "particles=8", *method)
    done = refprior("fit", "cues.csv", "--out", "run", *settings, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if "rules" in line]
    assert re.fullmatch(
        r"[3-8] rules fit the 40 labels and disagree on \d+ % of the pool: the labels may not determine the task; "
        r"see run\.rules\(\), or ask: refprior suggest run --about rule",
        line,
    )


def test_a_folder_of_images(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    for name, color in {**COLORS, "Unlabeled": (100, 100, 100)}.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(6):
            pixels = np.clip(random.randn(12, 16, 3) * 20 + color, 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{number}.png")
    (tmp_path / "photos/Unlabeled/notes.txt").touch()
    few = ("--features", "none", "--size", "8", "--set", "steps=20", "particles=2")
    done = refprior("fit", "photos", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[2:8] == ["─" * 27, "blue", "6", "red", "6", "unlabeled"]
    assert "size of an image  3 × 8 × 8" in done.stdout
    assert "Unlabeled  6       1 not an image that is read (.txt)" in done.stderr  # what was skipped is said
    predicted = refprior("predict", "runs/photos-0/model", "photos/red", cwd=tmp_path)
    assert predicted.stdout.count(" red ") == 6, predicted.stdout + predicted.stderr


def test_photographs_become_small_unless_a_size_is_given(tmp_path: Path) -> None:
    for name, color in COLORS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for number in range(3):
            Image.new("RGB", (80, 60), color).save(tmp_path / "photos" / name / f"{number}.jpg")
    photos = FewLabels(str(tmp_path / "photos"), labels=None, test=0)
    assert classifier_recipes(photos)[1].shape == (3, 32, 32)
    assert classifier_recipes(replace(photos, size=(60, 80)))[1].shape == (3, 60, 80)
    Image.new("RGB", (20, 16), COLORS["blue"]).save(tmp_path / "photos/blue/0.jpg")
    assert classifier_recipes(photos)[1].shape == (3, 16, 20)  # as the first


def test_arrays(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    truth = np.arange(90) % 3
    labels = np.where(np.arange(90) < 12, truth, -1)
    np.savez(tmp_path / "mine.npz", inputs=random.randn(90, 5) + 3 * np.eye(3, 5)[truth], labels=labels)
    done = refprior("fit", "mine.npz", *FEW, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "unlabeled              78" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.csv"], "missing.csv: not a readable table, there is no such file"),
        (
            ["animals.csv"],
            "no column 'label' with labels: name yours as the target; there are weight, height, age",
        ),
        (["animals.csv", "--target", "kind", "--set", "stepz=3"], "stepz"),
        (["animals.csv", "--target", "kind", "--test", "7"], "test"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(table: Path, arguments: list[str], message: str) -> None:
    done = refprior("fit", *arguments, cwd=table)
    assert done.returncode == 2
    assert message in done.stderr.strip().splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_folds_score_without_a_test_part_and_find_a_wrong_label(table: Path) -> None:
    lines = (table / "animals.csv").read_text().splitlines()
    assert lines[1 + 16].endswith("dog")
    lines[1 + 16] = lines[1 + 16].removesuffix("dog") + "owl"
    (table / "animals.csv").write_text("\n".join(lines))
    done = refprior("fit", "animals.csv", "--target", "kind", "--out", "run", "--set", "particles=4", cwd=table)
    assert done.returncode == 0, done.stderr
    for line in (
        r"^Inputs: (\w+), nats per held-out label: \1 \d\.\d\d, ",
        r"^Out of fold with 95 % intervals, 30 labels: \d+ % \(\d+–\d+\), NLL ",
        r"^  random forest: \d+ % ",
        r"^Predicted shares of the classes, and those of the labels, %: cat \d+\.\d \(33\.3\), dog ",
    ):
        assert re.search(line, done.stdout, re.MULTILINE)
    assert "check first: row 16 (owl, not dog?)" in done.stdout
    evaluated = refprior("evaluate", "run", "--labels", "labels.csv", cwd=table)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "check first: row 16 (owl, not dog?)" in evaluated.stdout
    with (table / "labels.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    found = {"label": "16", "input": "row 16", "given": "owl", "suggested": "dog", "checked": ""}
    assert {**rows[0], "right": ""} == {**found, "right": ""}
    assert float(rows[0]["right"]) < 0.5 < float(rows[1]["right"])
    report = refprior("report", "run", "--out", "page.html", cwd=table)
    assert report.returncode == 0, report.stderr
    assert "Check these labels first" in (table / "page.html").read_text()
    Questions(checked=((16, 1), (2, 2))).save(table / "run")  # as refprior explore does
    assert refprior("evaluate", "run", "--labels", "labels.csv", cwd=table).returncode == 0
    with (table / "labels.csv").open() as file:
        assert [row["checked"] for row in csv.DictReader(file) if row["label"] in ("2", "16")] == ["dog", "owl"]
    again = refprior("answer", "run", "--train", "again", cwd=table)
    assert again.returncode == 0, again.stderr
    assert "Trained with 30 labels, 1 corrected" in again.stdout
    assert "check first" not in again.stdout


def test_labels_need_folds(table: Path) -> None:
    done = refprior(
        "fit", "animals.csv", "--target", "kind", "--out", "run", "--inputs", "bins", *FEW, "folds=off", cwd=table
    )
    assert done.returncode == 0, done.stderr
    assert "Inputs: bins, nats per held-out label: bins" in done.stdout
    evaluated = refprior("evaluate", "run", "--labels", "labels.csv", cwd=table)
    assert evaluated.returncode == 2
    assert "not divided into folds: train it with folds='auto'" in evaluated.stderr


def test_labels_of_a_folder_have_the_names_of_files(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    for name, color in COLORS.items():
        (tmp_path / "photos" / name).mkdir(parents=True)
        for i in range(6):
            pixels = np.clip(random.randint(-30, 30, (8, 8, 3)) + np.array(color), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "photos" / name / f"{i}.png")
    few = ("--features", "none", "--set", "steps=20", "folds=2")
    done = refprior("fit", "photos", "--out", "run", *few, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert refprior("evaluate", "run", "--labels", "labels.csv", cwd=tmp_path).returncode == 0
    with (tmp_path / "labels.csv").open() as file:
        rows = {int(row["label"]): row for row in csv.DictReader(file)}
    assert all(row["input"].startswith(f"{row['given']}/") for row in rows.values())
    assert len({row["input"] for row in rows.values()}) == 12


def test_a_table_with_a_city_a_date_and_empty_cells(tmp_path: Path) -> None:
    random = np.random.RandomState(0)
    truth = np.array(["cat", "dog", "owl"])[np.arange(120) % 3]
    city = {"cat": "Rome", "dog": "Oslo", "owl": "Lima"}
    with (tmp_path / "old.csv").open("w", newline="") as old, (tmp_path / "new.csv").open("w", newline="") as new:
        both = csv.writer(old), csv.writer(new)
        both[0].writerow(["id", "city", "born", "weight", "kind"])
        both[1].writerow(["weight", "born", "city"])  # in another order
        for i, name in enumerate(truth):
            born = f"2020-{random.randint(1, 12):02}-11"
            cells = [city[name] if random.rand() < 0.9 else "NA", born, "" if random.rand() < 0.2 else random.randn()]
            both[0].writerow([i, *cells, name if i < 15 else ["", "NA"][i % 2]])
            both[1].writerow(cells[::-1])
    done = refprior("fit", "old.csv", "--target", "kind", "--out", "run", *FEW, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "left out: id (a different number in each row)" in done.stderr
    assert "unlabeled                                    105" in done.stdout
    assert "numbers of 1 category, 1 date, 1 number" in done.stdout
    for model in ("run/model", "run"):
        predicted = refprior("predict", model, "new.csv", "--out", "-", cwd=tmp_path)
        assert predicted.returncode == 0, predicted.stderr
        found = [row["class"] for row in csv.DictReader(predicted.stdout.splitlines())]
        assert (np.array(found) == truth).mean() > 0.85
    missing = refprior("predict", "run/model", "truth.csv", cwd=tmp_path)
    assert missing.stderr.strip().splitlines()[-1] == "refprior: truth.csv: no such file or folder"


def test_a_column_of_texts(tmp_path: Path) -> None:
    words = {"food": ["soup", "bread", "salt", "oven"], "sport": ["ball", "goal", "team", "race"]}
    random = np.random.RandomState(0)
    names = [["food", "sport"][i % 2] for i in range(80)]
    with (tmp_path / "texts.csv").open("w", newline="") as file:
        texts = [[" ".join(random.choice(words[n], 3)), 5, n if i < 12 else ""] for i, n in enumerate(names)]
        csv.writer(file).writerows([["note", "number", "topic"], *texts])
    arguments = ("--text", "note", "--target", "topic", "--features", "tfidf", "--inputs", "components", "--out", "run")
    done = refprior("fit", "texts.csv", *arguments, "--set", "steps=200", "particles=4", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    predicted = refprior("predict", "run/model", "texts.csv", "--out", "out.csv", cwd=tmp_path)
    assert predicted.returncode == 0, predicted.stderr
    with (tmp_path / "out.csv").open() as file:
        assert [row["class"] for row in csv.DictReader(file)] == names
    found = rp.load_predictor(tmp_path / "run/model").predict(["bread soup", "a goal of the team"])
    assert found.tolist() == ["food", "sport"]
    asked = refprior("suggest", "run", "--budget", "2", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    run = rp.load(tmp_path / "run")
    for number, place in enumerate(rp.labeling.Questions.load(tmp_path / "run").open, 1):
        assert f"{number}. {run.task.names[place]}\n" in asked.stdout
        row, text = run.task.names[place].removeprefix("row ").split(": ")
        assert pool_picture(run, place) == text == texts[int(row)][0]
        assert names[int(row)] == run.predict(run.task.unlabeled[place : place + 1])[0]


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """Two classes of four photos, and six photos without a label, larger than what a network sees."""
    random = np.random.RandomState(0)
    for name, color in {**COLORS, "unlabeled": (100, 30, 100)}.items():
        (tmp_path / "scans" / name).mkdir(parents=True)
        for i in range(6 if name == "unlabeled" else 4):
            pixels = np.clip(random.randint(-30, 30, (120, 200, 3)) + np.array(color), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "scans" / name / f"{i}.png")
    return tmp_path


SCANS = ("fit", "scans", "--features", "none", "--size", "8", "--out", "run", "--set", "steps=10", "particles=2")


def test_questions_are_about_photos_without_a_label_and_show_the_photo(scans: Path) -> None:
    done = refprior(*SCANS, cwd=scans)
    assert done.returncode == 0, done.stderr
    asked = refprior("suggest", "run", "--budget", "6", "--about", "inputs", cwd=scans)
    assert asked.returncode == 0, asked.stderr
    assert sorted(re.findall(r"unlabeled/\d\.png", asked.stdout)) == [f"unlabeled/{i}.png" for i in range(6)]
    more = refprior("suggest", "run", "--budget", "7", cwd=scans)
    assert "can ask for 1 to 6 labels, got 7: 14 inputs in the pool, 8 labeled already, 0 answered" in more.stderr
    run = rp.load(scans / "run")
    shown = pool_picture(run, len(run.task.unlabeled) - 1)
    assert isinstance(shown, torch.Tensor)
    assert tuple(shown.shape) == (3, 120, 200)


def test_a_damaged_image_is_named_or_left_out(scans: Path) -> None:
    (scans / "scans/red/torn.png").write_bytes(b"\x89PNG torn")
    done = refprior(*SCANS, cwd=scans)
    assert done.returncode == 2
    assert "scans/red/torn.png: not a readable image" in done.stderr
    assert "--keep-going" in done.stderr
    done = refprior(*SCANS, "--keep-going", cwd=scans)
    assert done.returncode == 0, done.stderr
    assert "left out 1 damaged image: red/torn.png" in done.stderr
    assert ["red", "4"] in [line.split() for line in done.stdout.splitlines()]
    shown = refprior("data", "show", "scans", "--keep-going", cwd=scans)
    assert shown.returncode == 0, shown.stderr
    assert "8 labeled, 6 unlabeled, 0 test" in shown.stdout  # as `fit` reads it, with nothing held out


def test_held_out_photos_that_were_trained_on_are_reported(scans: Path) -> None:
    for name in COLORS:
        (scans / "two/test" / name).mkdir(parents=True)
        shutil.copytree(scans / "scans" / name, scans / "two/train" / name)
        shutil.copy(scans / "scans" / name / "0.png", scans / "two/test" / name / "copy.png")
    shutil.copy(scans / "scans/unlabeled/0.png", scans / "two/test/red/other.png")
    done = refprior("fit", "two", *SCANS[2:], cwd=scans)
    assert done.returncode == 0, done.stderr
    assert "2 of 3 held-out inputs are among the training inputs too" in done.stderr


def test_another_fit_in_the_same_folder_names_fresh_which_it_knows(scans: Path) -> None:
    assert refprior(*SCANS, cwd=scans).returncode == 0
    other = refprior(*SCANS[:-1], "particles=3", cwd=scans)
    assert other.returncode == 2
    assert "--fresh" in other.stderr
    assert refprior(*SCANS[:-1], "particles=3", "--fresh", cwd=scans).returncode == 0
    assert rp.load(scans / "run").particles.count == 3


def test_labels_of_photos_may_be_in_a_table(scans: Path) -> None:
    flat = scans / "flat/2026"
    flat.mkdir(parents=True)
    for file in sorted((scans / "scans").rglob("*.png")):
        file.rename(flat / f"{file.parent.name}-{file.name}")
    rows = [f"2026/{file.name},{file.name[:3]}" for file in sorted(flat.iterdir()) if file.name[0] != "u"]
    table = scans / "labels.csv"
    table.write_text("\n".join(["file,color", *rows, "2026/unlabeled-0.png,"]))
    words = ("fit", "flat", "--labels", "labels.csv", *SCANS[2:])
    done = refprior(*words, cwd=scans)
    assert done.returncode == 2
    assert "no column 'label' with labels beside the names of files: there are color" in done.stderr
    done = refprior(*words, "--target", "color", cwd=scans)
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()[2:5]] == [["blu", "4"], ["red", "4"], ["unlabeled", "6"]]
    task = rp.load(scans / "run").task
    assert task.names[-1] == "2026/unlabeled-5.png"
    shown = refprior("data", "show", "flat", "--labels", "labels.csv", "--target", "color", cwd=scans)
    assert shown.returncode == 0, shown.stderr
    assert "8 labeled, 6 unlabeled, 0 test" in shown.stdout
    assert rp.data.FewLabels(
        str(scans / "flat"), labels=None, test=0, labels_file=str(table), target="color"
    ).outline() == (2, (3, 120, 200), None, 8, 6, False)

    for line, message in {
        "2026/none.png,red": "row 9: '2026/none.png' is not an image of",
        "2026/red-0.png,blu": "row 9: '2026/red-0.png' has two different labels",
    }.items():
        table.write_text("\n".join(["file,color", *rows, "2026/unlabeled-0.png,", line]))
        done = refprior(*words, "--target", "color", cwd=scans)
        assert done.returncode == 2
        assert message in done.stderr


def test_a_folder_of_one_class_is_rejected(scans: Path) -> None:
    for file in (scans / "scans/red").iterdir():
        file.unlink()
    (scans / "scans/red").rmdir()
    done = refprior(*SCANS, cwd=scans)
    assert done.returncode == 2
    assert "scans has only one class, 'blue': a classifier needs at least two classes" in done.stderr


@pytest.mark.parametrize("taken", [False, True])
def test_answered_photos_move_into_the_folders_of_their_classes(scans: Path, taken: bool) -> None:
    for i in range(6 if not taken else 0):
        (scans / f"scans/unlabeled/{i}.png").rename(scans / f"scans/unlabeled/new-{i}.png")
    assert refprior(*SCANS, cwd=scans).returncode == 0
    asked = refprior("suggest", "run", "--budget", "6", "--about", "inputs", cwd=scans)
    names = re.findall(r"unlabeled/(\S+png)", asked.stdout)
    done = refprior("answer", "run", "red", "red", "red", "blue", "blue", "--move", cwd=scans)
    if taken:  # both have 0.png
        assert done.returncode == 2
        assert "would be overwritten: give photos different names" in done.stderr
        assert len(list((scans / "scans/unlabeled").iterdir())) == 6
        return
    assert "Moved 5 photos" in done.stdout
    assert {file.name for file in (scans / "scans/red").iterdir()} == {*names[:3], *(f"{i}.png" for i in range(4))}
    done = refprior(*SCANS, "--fresh", cwd=scans)
    assert [line.split() for line in done.stdout.splitlines()[2:5]] == [["blue", "6"], ["red", "7"], ["unlabeled", "1"]]
