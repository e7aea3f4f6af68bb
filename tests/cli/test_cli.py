"""The command line as a user has it: real processes, exit codes, no traceback."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from refprior.cli import main, recipe_lines
from refprior.recipes import RECIPES
from tests.cli.running import COMMAND, SHORT, environment, refprior, start


def processor_seconds() -> float:
    """Of all processes that were started here and have ended: a busy machine makes it no longer."""
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


def test_help_is_fast_and_complete() -> None:
    seconds = []
    for _ in range(3):
        before = processor_seconds()
        done = subprocess.run([*COMMAND, "--help"], env=environment(COLUMNS="100"), capture_output=True, text=True)
        seconds.append(processor_seconds() - before)
        assert done.returncode == 0
    for command in (
        "recipes",
        "train",
        "evaluate",
        "report",
        "demo",
        "sweep",
        "suggest",
        "answer",
        "predict",
        "export",
        "transfer-matrix",
        "status",
        "exact",
        "data",
        "doctor",
    ):
        assert re.search(rf"│ {command}\s+\w", done.stdout)
    assert 0 < min(seconds) < 0.5


def test_help_does_not_import_torch() -> None:
    probe = "import sys, refprior.cli; print([m for m in ('torch', 'numpy', 'sklearn') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("command", [["recipes"], ["data", "list"]])
def test_lists_do_not_import_torch(command: list[str]) -> None:
    probe = (
        "import sys, refprior.cli as cli\n"
        "try: cli.main(sys.argv[1:])\n"
        "finally: print('torch' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", probe, *command], capture_output=True, text=True)
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "False"


@pytest.mark.parametrize(
    "command",
    [
        *("train", "evaluate", "report", "sweep", "demo", "suggest", "answer", "predict", "export", "transfer-matrix"),
        "status",
        "doctor",
    ],
)
def test_every_flag_has_help(command: str) -> None:
    text = refprior(command, "--help").stdout
    flags = re.findall(r"│[ *]+(--?[\w-]+|[A-Z]+)(?: [A-Z-]+(?:\.\.\.)?| \(-h\))*\s+(\S.*?)│", text)
    assert len(flags) >= (1 if command in ("status", "doctor") else 2)  # which have one parameter
    assert all(len(help_text.strip()) > 3 for _, help_text in flags)


def test_recipes_are_those_of_the_package() -> None:
    lines = {name: (function.__doc__ or "").partition("\n")[0] for name, function in RECIPES.items()}
    assert recipe_lines() == lines
    assert list(recipe_lines()) == list(lines)


def test_recipes_are_listed_one_per_line_and_fast() -> None:
    seconds = []
    for _ in range(3):
        before = processor_seconds()
        lines = subprocess.run([*COMMAND, "recipes"], capture_output=True, text=True).stdout.splitlines()
        seconds.append(processor_seconds() - before)
    assert 0 < min(seconds) < 0.5
    assert len(lines) == len(RECIPES)
    assert any(re.match(r"digits_ssl +Semi-supervised learning on 8×8 digits", line) for line in lines)
    assert all(len(line.split(maxsplit=1)) == 2 for line in lines)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["train", "nope"], "there is no recipe 'nope'; known are: digits_ssl"),
        (["train", "digits_ssl", "--set", "method.alhpa=1"], "did you mean 'method.alpha'"),
        (["train", "digits_ssl", "--set", "method.alpha=-1"], "alpha must be at least 0, got -1"),
        (["train", "digits_ssl", "--set", "alpha"], "--set takes NAME=VALUE, got 'alpha'"),
        (["train", "digits_ssl", "--set"], "--set takes NAME=VALUE, got nothing"),
        (["train", "digits_ssl", "--out", ""], "the value after --out is empty"),
        (["train", "digits_ssl", "--out="], "the value after --out= is empty"),
        (["report", ""], "the value after report is empty"),
        (["report", ".", "--out", "a_file/report.html"], "a_file cannot be a folder: a_file is a file"),
        (["report", ".", "--out", "."], ". is a folder: give the name of a file in it"),
        (["evaluate", ".", "--uncertain", "a_file/q.png"], "a_file cannot be a folder"),
        (["evaluate", ".", "--uncertain", "q.txt"], "a picture must be .png, .pdf or .svg, got q.txt"),
        (["suggest", ".", "--out", "a_file/q.png"], "a_file cannot be a folder"),
        (["answer", ".", "1", "--out", "a_file/a.csv"], "a_file cannot be a folder"),
        (["embed", ".", "--picture", "a_file/p.png"], "a_file cannot be a folder"),
        (["transfer-matrix", "--out", "m"], "no cifar100 in"),
        (["sweep", "mnist_ssl", "--out", "m"], "get it with: refprior data get mnist"),
        (["train", "digits_ssl", "--seed", "one"], "--seed"),
        (["train", "digits_ssl", "--seed", "1.5"], "--seed"),
        (["train", "digits_ssl", "--sead", "1"], "Unknown option"),
        (["train", "digits_ssl", "--device", "tpu9"], "device 'tpu9' cannot be used here"),
        (["train", "digits_ssl", "--set", "labels=5000"], "labels must be at most"),
        (["train", "digits_ssl", "--set", "labels=7"], "labels must be a multiple of the 10 classes"),
        (["train", "digits_ssl", "--device", "meta"], "device 'meta' cannot be used here"),
        (["train", "digits_ssl", "--set", "weak.pixels=-1"], "pixels must be a whole number of at least 0, got -1"),
        (["train", "digits_ssl", "--set", "network.width=0"], "width must be a whole number of at least 1, got 0"),
        (["train", "digits_ssl", "--set", "optimizer.learning_rate=1e400"], "learning_rate must be a number"),
        (
            ["train", "digits_ssl", "--set", "unlabeled_batch=800", "method.order=400"],
            "order 400 of 10 classes has 1.0e400",
        ),
        (["train", "digits_ssl", "--set", "task.validation=-1"], "validation"),
        (["train", "digits_ssl", "--seed", "1", "--set", "seed=2"], "use --seed instead of --set"),
        (["exact", "coin", "-n", "0"], "whole number of at least 1, got 0"),
        (["data", "get", "imagenet"], "imagenet"),
        (["train", "digits_ssl", "--save-every", "nan"], "save_every must be at least 0, got nan"),
        (["train", "digits_ssl", "--set", "steps=5", "steps=6"], "--set gives steps twice: 5 and 6"),
        (
            ["train", "digits_ssl", "--seed", "99999999999"],
            "a whole number of at least 0 and at most 4294967292",
        ),
        (["sweep", "digits_ssl", "--out", "s", "--seeds", "a,b"], "--seeds takes whole numbers"),
        (["sweep", "digits_ssl", "--out", "s", "--set", "method=FixMatch,nope"], "method cannot be 'nope'"),
        (["train"], "RECIPE"),
        (["tarin"], "Unknown command"),
        (["evaluate", "missing"], "missing is not a run folder"),
        (["report", "missing"], "missing is not a folder"),
        (["demo", "--seeds", "0"], "seeds must be at least 1, got 0"),
        (["demo", "--set", "method=FixMatch"], "the demo compares two fixed methods"),
        (["train", "digits_ssl", "--set", "lables=50"], "did you mean 'labels' or"),
        (["train", "digits_ssl", "--set", "alpha=1"], "did you mean 'method.alpha'?"),
        (["train", "digits_ssl", "--set", "optimizer.warmup=600"], "600 steps of warm-up do not fit a run of 600"),
        (["train", "mine.py:recipe"], "mine.py is not a file"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_mistakes_get_one_line_and_exit_code_two(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, because half a hundred of them would spend minutes on imports."""
    (tmp_path / "a_file").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REFPRIOR_DATA", str(tmp_path / "no data"))
    with pytest.raises(SystemExit) as end:
        main(arguments)
    out, error = capsys.readouterr()
    assert (end.value.code, out) == (2, "")
    assert len(error.strip().splitlines()) == 1
    assert expected in error


def test_a_mistake_of_a_real_process_is_one_line_and_exit_code_two(tmp_path: Path) -> None:
    done = refprior("train", "digits_ssl", "--set", "method.alpha=-1", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "refprior: alpha must be at least 0, got -1.0\n"


@pytest.mark.parametrize("text", ["recipe = nothing", "def recipe(:", "def recipe(seed=0): return [][1]"])
def test_a_mistake_in_the_users_own_file_is_theirs(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as end:
        main(["train", "mine.py:recipe"])
    assert end.value.code == 2
    assert re.fullmatch(r"refprior: mine\.py\S* fails with \w+Error: [^\n]+\n", capsys.readouterr().err)


def test_train_evaluate_report(tmp_path: Path) -> None:
    trained = refprior("train", "digits_ssl", *SHORT, "--seed", "1", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    folder = "runs/digits_ssl,evaluate_every=2,steps=4,unlabeled_batch=8-1"
    assert folder in trained.stdout
    assert "4/4" in trained.stderr
    assert (tmp_path / folder / "report.html").exists()
    again = refprior("train", "digits_ssl", "--seed", "1", "--set", *reversed(SHORT[1:]), cwd=tmp_path)
    assert again.returncode == 0
    assert f"{folder} is complete: all 4 steps are done" in again.stderr
    for changed, said in (("steps=5", "steps: 4 → 5"), ("labels=7", "labels must be a multiple of the 10 classes")):
        refused = refprior("train", "digits_ssl", "--out", folder, "--set", changed, "--seed", "1", cwd=tmp_path)
        assert refused.returncode == 2
        assert said in refused.stderr
    evaluated = refprior("evaluate", folder, "--uncertain", "most.png", "--per-class", cwd=tmp_path)
    assert evaluated.returncode == 0, evaluated.stderr
    assert "step 4 of 4" in evaluated.stdout
    assert (tmp_path / "most.png").read_bytes().startswith(b"\x89PNG")
    assert re.search(r"^test part, 600 images$", evaluated.stdout, re.MULTILINE)
    assert re.search(r"^validation part, 300 images$", evaluated.stdout, re.MULTILINE)
    each = evaluated.stdout.partition("Per class")[2]
    assert len(re.findall(r"^[0-9] +(?:\d+\.\d|–) +\d+\.\d +\d+\.\d +60 ", each, re.MULTILINE)) == 10
    assert len(re.findall(r"(?:ema|raw)\s+prior\s+\w+\s+\d+\.\d", evaluated.stdout)) == 6
    reported = refprior("report", "runs", "--format", "markdown", cwd=tmp_path)
    assert reported.returncode == 0, reported.stderr
    assert "| digits_ssl" in reported.stdout
    assert (tmp_path / "report.html").stat().st_size > 20_000
    table = refprior("report", "runs", "--columns", "labels", "--format", "markdown", cwd=tmp_path)
    assert table.stdout.startswith("| accuracy, % (labels →) | 50 |"), table.stderr


@pytest.mark.parametrize("more", [[], ["--fresh"]])
def test_a_run_is_not_mixed_into_a_folder_of_photos(more: list[str], tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("cat.jpg", "dog.jpg"):
        (tmp_path / "photos" / name).touch()
    for command in ("train", "sweep"):
        done = refprior(
            command, "digits_ssl", *SHORT, "--out", "photos", *(more if command == "train" else []), cwd=tmp_path
        )
        assert done.returncode == 2
        assert "photos holds" in done.stderr
        assert len(done.stderr.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.rglob("*")) == ["cat.jpg", "dog.jpg", "photos"]


def test_a_sweep_trains_every_cell_once(tmp_path: Path) -> None:
    arguments = ["sweep", "digits_ssl", "--seeds", "0,1", "--out", "sweep", "--jobs", "2", "--set", "steps=3"]
    arguments += ["unlabeled_batch=8", "method=FixMatch,Supervised"]
    first = refprior(*arguments, cwd=tmp_path)
    assert first.returncode == 0, first.stderr
    cells = sorted(p.parent.relative_to(tmp_path / "sweep").as_posix() for p in tmp_path.rglob("recipe.json"))
    assert len(cells) == 4
    assert cells[0] == "steps=3,unlabeled_batch=8,method=FixMatch/seed-0"
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("metrics.jsonl")}
    again = refprior(*arguments, cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    assert "4/4" in again.stderr
    assert {p: p.stat().st_mtime_ns for p in before} == before
    table = refprior("report", "sweep", "--columns", "method", "--format", "markdown", cwd=tmp_path)
    assert table.stdout.startswith("| accuracy, % (method →) | FixMatch | Supervised |")


def test_a_fraction_makes_no_folder_in_a_folder(tmp_path: Path) -> None:
    arguments = ["sweep", "digits_ssl", "--seeds", "0", "--out", "sweep", "--set", "steps=2", "method.tau=1/3,0.5"]
    done = refprior(*arguments, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    cells = sorted(p.parent.relative_to(tmp_path / "sweep").as_posix() for p in tmp_path.rglob("recipe.json"))
    assert cells == ["steps=2,method.tau=0.5/seed-0", "steps=2,method.tau=1:3/seed-0"]


def test_a_cell_that_fails_leaves_the_report_of_the_others(tmp_path: Path) -> None:
    arguments = [
        "sweep",
        "digits_ssl",
        "--seeds",
        "0",
        "--out",
        "sweep",
        "--set",
        "steps=3",
        "unlabeled_batch=8,100000",
    ]
    done = refprior(*arguments, cwd=tmp_path, fresh=True)
    assert done.returncode == 1
    assert "a step takes 100000 unlabeled inputs" in done.stderr
    assert "failed: steps=3,unlabeled_batch=100000/seed-0 a step takes 100000" in done.stderr.splitlines()[-2]
    assert done.stderr.strip().splitlines()[-1] == "refprior: 1 of 2 cells failed; the same command retries them"
    assert (tmp_path / "sweep" / "report.html").exists()
    (recipe,) = tmp_path.rglob("recipe.json")
    assert json.loads(recipe.read_text())["environments"][0]["threads"] == 1  # all that OMP_NUM_THREADS allows


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_terminated_sweep_leaves_no_process_behind_and_goes_on(jobs: str, tmp_path: Path) -> None:
    command = ["sweep", "digits_ssl", "--seeds", "0,1", "--out", "sweep", "--jobs", jobs, "--set", "steps=100000"]
    for records in (1, 3):  # the second time it goes on from what the first has left
        terminate_after(records, command, tmp_path)


def terminate_after(records: int, command: list[str], folder: Path) -> None:
    """Run a sweep until a cell has this many lines of metrics, terminate it, and see that nothing is left of it."""
    with start(*command, cwd=folder, session=True) as process:
        while max((len(p.read_text().splitlines()) for p in folder.rglob("metrics.jsonl")), default=0) < records:
            assert process.poll() is None
            time.sleep(0.1)
        process.terminate()
        assert "stopped after 0 of 2 cells; the same command resumes" in process.communicate(timeout=60)[1]
        assert process.returncode == 143
        for _ in range(100):  # helpers of the pool need a moment
            try:
                os.killpg(process.pid, 0)
            except ProcessLookupError:
                return
            time.sleep(0.1)
        pytest.fail("processes of the sweep outlived it")


def test_a_dry_run_says_what_it_takes_and_writes_nothing(tmp_path: Path) -> None:
    done = refprior("train", "digits_ssl", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "14,058 per particle, 4 particles" in done.stdout
    assert re.search(r"steps +600 and 12 evaluations", done.stdout)
    assert re.search(r"the run +about \d+(\.\d)? (s|seconds|minutes)\b", done.stdout)
    assert list(tmp_path.iterdir()) == []


def test_the_demo_runs_twice(tmp_path: Path) -> None:
    for out in ("demo", "demo-2"):
        done = refprior("demo", "--seeds", "1", "--out", "demo", *SHORT, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"Report: {out}/report.html" in done.stdout
        assert "method=Supervised" in done.stdout
        assert (tmp_path / out / "report.html").exists()


def test_labels_are_suggested_and_answered(tmp_path: Path) -> None:
    short = ("--set", "data=digits", "steps=60", "evaluate_every=60", "particles=20")
    assert refprior("train", "label_free_transfer", *short, "--out", "run", cwd=tmp_path).returncode == 0
    wrong = refprior("answer", "run", "5", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "run has no open question: run refprior suggest run first" in wrong.stderr
    asked = refprior("suggest", "run", "--budget", "5", cwd=tmp_path)
    assert asked.returncode == 0, asked.stderr
    assert len(re.findall(r"image \d+ of the unlabeled pool", asked.stdout)) == 5
    assert (tmp_path / "run" / "questions.png").read_bytes().startswith(b"\x89PNG")
    unknown = refprior("answer", "run", "3", cwd=tmp_path)
    assert unknown.returncode == 2
    assert "no class '3'; the classes are 5, 6, 7, 8, 9" in unknown.stderr
    before = (tmp_path / "run" / "questions.json").read_bytes()
    for wrong_place in ("run/recipe.json/q.png", "run"):
        refused = refprior("suggest", "run", "--out", wrong_place, cwd=tmp_path)
        assert refused.returncode == 2
    assert (tmp_path / "run" / "questions.json").read_bytes() == before
    one = refprior("answer", "run", "5", cwd=tmp_path)
    assert re.search(r"^1 answer: [\d.]+ % of the test images are right", one.stdout), one.stderr
    done = refprior("answer", "run", "6", "7", "8", "9", cwd=tmp_path)
    assert re.search(r"5 answers: [\d.]+ % of the test images are right", done.stdout)
    lines = (tmp_path / "run" / "answers.csv").read_text().splitlines()
    assert lines[0] == "input,class"
    assert {line.partition(",")[2] for line in lines[1:]} == {"5", "6", "7", "8", "9"}
    many = refprior("suggest", "run", "--budget", "100000", cwd=tmp_path)
    assert many.returncode == 2
    assert "can ask for 1 to" in many.stderr


OWN = '''
from dataclasses import dataclass, replace

import refprior as rp


@dataclass(frozen=True)
class Agree:
    """Two weak views of an image should agree; a mean over all steps is remembered."""

    weight: float = 1.0
    needs = rp.Needs(views=("weak", "weak", "strong"))

    def __call__(self, step: rp.Step) -> rp.Loss:
        views = step.batch.views
        labeled, one, two = step.predict(step.batch.labeled, views["weak"], views["weak_2"])
        likelihood = rp.losses.supervised(labeled, step.batch.labels, step.log_prior.detach()).total
        apart = (one.exp() - two.exp()).square().sum(-1).mean()
        mean = step.memory.get("apart", apart.detach())
        step.memory["apart"] = 0.9 * mean + 0.1 * apart.detach()
        return rp.Loss.of(likelihood + self.weight * apart, cross_entropy=likelihood, apart=step.memory["apart"])


def recipe(labels: int = 50, seed: int = 0) -> rp.Recipe:
    return replace(rp.recipes.digits_ssl(labels=labels, seed=seed), method=Agree(), steps=30, evaluate_every=10)
'''


def test_a_method_in_the_users_file_trains_resumes_sweeps_and_reports(tmp_path: Path) -> None:
    """Nothing of the package knows the method: it uses memory and two weak views."""
    (tmp_path / "mine.py").write_text(OWN)
    whole = refprior("train", "mine.py:recipe", "--out", "whole", cwd=tmp_path)
    assert whole.returncode == 0, whole.stderr
    metrics = tmp_path / "cut" / "metrics.jsonl"
    with start("train", "mine.py:recipe", "--out", "cut", "--save-every", "0", cwd=tmp_path) as process:
        while not metrics.exists() or not metrics.read_text():
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
        assert process.wait() == -signal.SIGKILL
    resumed = refprior("train", "mine.py:recipe", "--out", "cut", cwd=tmp_path)
    assert resumed.returncode == 0, resumed.stderr
    ends = [(tmp_path / run / "checkpoints" / "step-00000030.safetensors").read_bytes() for run in ("whole", "cut")]
    assert ends[0] == ends[1]
    header = json.loads((tmp_path / "cut" / "recipe.json").read_text())
    recorded = header["recipe"]["method"]
    assert (recorded["own"], recorded["weight"], len(recorded["source"])) == ("mine.Agree", 1.0, 16)
    arguments = ["sweep", "mine.py:recipe", "--seeds", "0", "--out", "sweep", "--jobs", "2", "--set", "steps=3"]
    swept = refprior(*arguments, "method.weight=0.5,2", cwd=tmp_path, fresh=True)  # which have to read the file
    assert swept.returncode == 0, swept.stderr
    table = refprior("report", "sweep", "--columns", "method.weight", "--format", "markdown", cwd=tmp_path)
    assert table.stdout.startswith("| accuracy, % (method.weight →) | 0.5 | 2 |"), table.stderr
    evaluated = refprior("evaluate", "cut", cwd=tmp_path)
    assert "step 30 of 30" in evaluated.stdout, evaluated.stderr
