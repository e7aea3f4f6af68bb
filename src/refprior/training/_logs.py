"""Logs of a run's records in other tools: a table, TensorBoard, MLflow, Weights & Biases.

metrics.jsonl is the truth: when a run is resumed, a log takes what it lacks from there, and no point is written twice.
Loggers are imported only if they are used. Each stage of a run has its log in its folder.
"""

import csv
import io
import logging
import math
import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, Protocol

from refprior._files import Json, read_record, write_record, write_text
from refprior._process import rank
from refprior._words import in_short
from refprior.training.loop import Record
from refprior.training.store import current_stage, read_header, read_records

Kind = Literal["csv", "tensorboard", "mlflow", "wandb"]
log = logging.getLogger("refprior")
_NEEDS = {"csv": "csv", "tensorboard": "tensorboard", "mlflow": "mlflow", "wandb": "wandb"}  # modules
_FORMAT = 1


class Log(Protocol):
    """Where the records of one stage go."""

    last: int  # step that it has already, and all before it

    def write(self, record: Record) -> None: ...
    def close(self) -> None: ...


@contextmanager
def log_to(folder: Path | str, *kinds: str) -> Iterator[Callable[[Record], None]]:
    """Log the records of a run to other places; yields a function for `train`'s ``watch``.

    A resumed run continues its curves. If a log fails during training, a warning says so and training continues.

    Parameters
    ----------
    folder : Path or str
        The run folder.
    *kinds : {"csv", "tensorboard", "mlflow", "wandb"}
        metrics.csv or tensorboard/ in the folder, MLflow where ``MLFLOW_TRACKING_URI`` points, or Weights & Biases
        according to its variables.

    Returns
    -------
    context manager
        Gives the function to pass as ``watch``.

    Examples
    --------
    >>> from pathlib import Path
    >>> import refprior as rp
    >>> recipe = rp.recipes.override(rp.recipes.digits_ssl(), {"steps": 20})
    >>> with rp.training.log_to("runs/logged", "csv") as watch:
    ...     run = rp.train(recipe, "runs/logged", watch=watch)
    >>> Path("runs/logged/metrics.csv").read_text().split(",")[:3]
    ['step', 'learning_rate', 'loss']
    """
    for kind in kinds:
        if kind not in _NEEDS:
            raise ValueError(f"a log is one of {', '.join(_NEEDS)}, got {kind!r}")
        if find_spec(_NEEDS[kind]) is None:
            raise ValueError(f"{kind} is not installed: pip install 'refprior[{kind}]'")
    with ExitStack() as stack:
        streams = [stack.enter_context(_stream(kind, Path(folder))) for kind in kinds if rank() == 0]

        def watch(record: Record) -> None:
            for stream in streams:
                stream(record)

        yield watch


def scalars(record: Record) -> dict[str, float]:
    """Return the finite numbers of a record by name: loss, terms/cross_entropy, test/ema/accuracy."""
    found = record.to_dict()
    parts = {**found, **(found.pop("evaluation") or {}), "evaluation": None, "step": None, "steps": None}
    return dict(_numbers(parts))


def _numbers(values: Json, before: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{before}{name}/")
        elif isinstance(value, int | float) and math.isfinite(value):
            yield f"{before}{name}", value


@contextmanager
def _stream(kind: str, folder: Path) -> Iterator[Callable[[Record], None]]:
    """Open a log with the first record of each stage, where errors raise; later errors are only warnings."""
    stage: Path | None = None
    to: Log | None = None

    def write(record: Record) -> None:
        nonlocal stage, to
        now = current_stage(folder)
        if now != stage:
            _close(kind, to)
            stage, to = now, _opened(kind, now, record)
        if to is not None and record.step > to.last:
            try:
                to.write(record)
            except Exception as error:
                log.warning("could not log to %s (%s): training continues without it", kind, in_short(error))
                to = None

    try:
        yield write
    finally:
        _close(kind, to)


def _opened(kind: str, stage: Path, first: Record) -> Log:
    """Open a log and write the earlier records that it lacks."""
    kinds: dict[str, Callable[[Path], Log]] = {
        "csv": _Csv,
        "tensorboard": _TensorBoard,
        "mlflow": _MLflow,
        "wandb": _Wandb,
    }
    try:
        opened = kinds[kind](stage)
        for record in _before(stage, first.step):
            if record.step > opened.last:
                opened.write(record)
    except Exception as error:
        raise ValueError(f"cannot log to {kind}: {in_short(error)}") from error
    return opened


def _close(kind: str, to: Log | None) -> None:
    try:
        if to is not None:
            to.close()
    except Exception as error:
        log.warning("could not end the log of %s: %s", kind, in_short(error))


def _before(stage: Path, step: int) -> Iterable[Record]:
    try:
        return [record for record in read_records(stage) if record.step < step]
    except ValueError:  # damaged: there is a warning of it elsewhere
        return []


def _settings(stage: Path) -> dict[str, str]:
    """Return the settings that recipe.json records."""
    origin = read_header(stage).origin
    return {} if origin is None else {"recipe": origin.recipe, "seed": str(read_header(stage).seed), **origin.changes}


class _Csv:
    """metrics.csv, written anew when a run is resumed and when a record has a new column."""

    def __init__(self, stage: Path) -> None:
        self.path, self.last = stage / "metrics.csv", 0
        self.rows: list[dict[str, float]] = []
        self.columns: list[str] = ["step"]

    def write(self, record: Record) -> None:
        row = {"step": record.step, **scalars(record)}
        self.rows.append(row)
        if new := [name for name in row if name not in self.columns]:
            self.columns += new
            write_text(self.path, _lines(self.columns, self.rows, header=True))
            return
        with self.path.open("a") as file:
            file.write(_lines(self.columns, [row]))

    def close(self) -> None:
        pass


def _lines(columns: Sequence[str], rows: Sequence[dict[str, float]], header: bool = False) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    if header:
        writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


class _TensorBoard:
    """Event files; a resumed run purges the earlier ones and writes them again."""

    def __init__(self, stage: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.last = 0
        self.writer = SummaryWriter(str(stage / "tensorboard"), purge_step=0)

    def write(self, record: Record) -> None:
        for name, value in scalars(record).items():
            self.writer.add_scalar(name, value, record.step)
        self.writer.flush()

    def close(self) -> None:
        self.writer.close()


class _MLflow:
    """A run of MLflow, whose store knows its last step; mlflow.json keeps its id."""

    def __init__(self, stage: Path) -> None:
        from mlflow.tracking import MlflowClient

        self.client, note = MlflowClient(), stage / "mlflow.json"
        if note.exists():
            self.run = str(read_record(note, _FORMAT)["run"])
            self.client.update_run(self.run, status="RUNNING")
        else:
            self.run = self._new(stage)
            write_record(note, _FORMAT, {"run": self.run})
        known = self.client.get_metric_history(self.run, "learning_rate")
        self.last = max((metric.step for metric in known), default=0)
        self.finished = False

    def _new(self, stage: Path) -> str:
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME", "refprior")
        found = self.client.get_experiment_by_name(name)
        experiment = found.experiment_id if found is not None else self.client.create_experiment(name)
        run = self.client.create_run(experiment, run_name=str(stage)).info.run_id
        for setting, value in _settings(stage).items():
            self.client.log_param(run, setting.replace("--", ""), value)
        return str(run)

    def write(self, record: Record) -> None:
        from mlflow.entities import Metric

        now = int(1000 * time.time())
        points = [Metric(name, value, now, record.step) for name, value in scalars(record).items()]
        self.client.log_batch(self.run, points)
        self.finished = record.step == record.steps

    def close(self) -> None:
        self.client.set_terminated(self.run, "FINISHED" if self.finished else "KILLED")


class _Wandb:
    """A run of Weights & Biases; wandb.json keeps its id and last step, which nothing else knows offline."""

    def __init__(self, stage: Path) -> None:
        import wandb

        self.note = stage / "wandb.json"
        new: Json = {"run": secrets.token_hex(4), "step": 0}
        known = read_record(self.note, _FORMAT) if self.note.exists() else new
        self.id, self.last = str(known["run"]), int(known["step"])
        self.run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", "refprior"),
            id=self.id,
            resume="allow",
            name=str(stage),
            dir=str(stage),
            config=_settings(stage),
            settings=wandb.Settings(silent=True, console="off"),
        )

    def write(self, record: Record) -> None:
        self.run.log(scalars(record), step=record.step)  # one step is one point, if it should come twice
        with suppress(OSError):
            write_record(self.note, _FORMAT, {"run": self.id, "step": record.step})

    def close(self) -> None:
        self.run.finish()
