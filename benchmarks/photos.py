"""Photos from the command line: three classes of CIFAR-10, 8 labels each, 200 unlabeled, five draws.

    python -m benchmarks.photos --out photos.jsonl

Each draw writes PNG files, runs `refprior fit` and `refprior predict` as a user would, and compares the accuracy on 600
other photos with logistic regression on the same features of the 24 labeled photos. `--features none` trains from
scratch.
"""

import argparse
import csv
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression

import refprior as rp

CLASSES = (1, 6, 7)  # automobile, frog, horse: classes that the features separate
LABELS, POOL, TEST = 8, 200, 600


def write_photos(root: Path, draw: int) -> tuple[list[str], np.ndarray]:
    """Write the photos of a draw; return the test files and their classes."""
    data = rp.data.read("cifar10")
    assert data.test is not None
    random = np.random.RandomState(draw)
    labels = data.train.labels.numpy()
    of_class = [random.permutation(np.flatnonzero(labels == c)) for c in CLASSES]
    rest = random.permutation(np.concatenate([some[LABELS:] for some in of_class]))[:POOL]
    parts = {data.classes[c]: some[:LABELS] for c, some in zip(CLASSES, of_class, strict=True)} | {"unlabeled": rest}
    for name, chosen in parts.items():
        (root / "photos" / name).mkdir(parents=True)
        for i in chosen:
            Image.fromarray(data.train.inputs[i].permute(1, 2, 0).numpy()).save(root / "photos" / name / f"{i}.png")
    (root / "new").mkdir()
    known = data.test.labels.numpy()
    chosen = random.permutation(np.flatnonzero(np.isin(known, CLASSES)))[:TEST]
    files = []
    for i in chosen:
        files.append(str(root / "new" / f"{i}.png"))
        Image.fromarray(data.test.inputs[i].permute(1, 2, 0).numpy()).save(files[-1])
    return files, np.array([data.classes[c] for c in known[chosen]])


def measure(draw: int, features: str | None, settings: list[str]) -> dict[str, object]:
    """Fit and predict from the command line, and compare with logistic regression."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        files, truth = write_photos(root, draw)
        chosen = ["--features", features] if features else []
        changes = ["--set", *settings] if settings else []
        refprior = [sys.executable, "-m", "refprior"]
        subprocess.run([*refprior, "fit", "photos", "--out", "run", *chosen, *changes], cwd=root, check=True)
        subprocess.run([*refprior, "predict", "run/model", "new", "--out", "out.csv"], cwd=root, check=True)
        with (root / "out.csv").open() as file:
            found = {Path(row["name"]).name: row["class"] for row in csv.DictReader(file)}
        predicted = np.array([found[Path(file).name] for file in files])
        record: dict[str, object] = {"draw": draw, "features": features or "default", "settings": settings}
        record["refprior"] = round(100 * float((predicted == truth).mean()), 1)
        record["shares"] = {name: round(float((predicted == name).mean()), 3) for name in np.unique(truth)}
        if features != "none":
            task = rp.data.FewLabels(
                str(root / "photos"), labels=None, test=0, features=features or "efficientnet-lite0"
            )()
            backbone = task.preparation
            assert isinstance(backbone, rp.data.Backbone)
            model = LogisticRegression(max_iter=5000).fit(task.labeled.inputs, task.labeled.labels)
            given = np.array(task.classes)[model.predict(backbone.of_files([Path(file) for file in files]).numpy())]
            record["logistic_regression"] = round(100 * float((given == truth).mean()), 1)
        return record


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", default="0,1,2,3,4")
    parser.add_argument("--features")
    parser.add_argument("--set", nargs="*", default=[])
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    for draw in map(int, options.draws.split(",")):
        record = measure(draw, options.features, options.set)
        print(json.dumps(record))
        if options.out is not None:
            with options.out.open("a") as file:
                file.write(json.dumps(record) + "\n")


if __name__ == "__main__":
    main()
