"""Watch training: the runs of a folder as the page shows them, while `refprior train` writes them."""

# K particles, S snapshots, E evaluations

import hashlib
import math
import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from refprior._files import LOCK, Json, read_bytes
from refprior._kinds import noun
from refprior._words import in_short
from refprior.explore._play import rounded
from refprior.labeling import FILE, Questions
from refprior.report import (
    class_rows,
    find_runs,
    most_uncertain,
    origin_of,
    picture_url,
    run_confusion,
    scene_of_runs,
    settings_of,
)
from refprior.training import Evaluation, Record, custom_parts, load, read_trajectory
from refprior.training.store import METRICS, RECIPE, Header, checkpoint_steps, read_header, read_records

MOST_POINTS = 400  # of a curve
MOST_PARTICLES = 3000  # of an embedding
UNCERTAIN = 12  # examples
_AGAIN = 1.5  # seconds before the folder is searched again
_VALUES = 12  # of an input that is not an image


class Runs:
    """The runs in and below a folder, by identifiers of this program: the page sends no paths.

    definitions: the user's classes and functions by name, for runs with custom parts
    """

    def __init__(self, folder: Path, definitions: Mapping[str, Callable[..., Any]] | None = None) -> None:
        self.folder, self.definitions = folder, definitions
        self.found: dict[str, Path] = {}
        self.searched = -math.inf
        self.summaries: dict[str, tuple[str, Json]] = {}  # by identifier: version and summary

    def parts(self, path: Path) -> Json:
        """Return the custom parts of a run."""
        return {} if self.definitions is None else custom_parts(path, self.definitions)

    def path(self, identity: str) -> Path:
        if identity not in self.found:
            self._search()
        if identity not in self.found:
            raise ValueError("this run no longer exists: reload the page")
        return self.found[identity]

    def listed(self, known: str = "") -> Json:
        """List all runs; only {"version"} if nothing has changed since the known version."""
        if time.monotonic() - self.searched > _AGAIN:
            self._search()
        shown = []
        for identity, path in self.found.items():
            version, before = version_of(path), self.summaries.get(identity)
            if before is None or before[0] != version:
                self.summaries[identity] = before = version, summary(path, self.folder)
            shown.append({"id": identity, "version": version, **before[1]})
        version = _hash(*(run["version"] for run in shown))
        return {"version": version} if version == known else {"version": version, "runs": shown}

    def _search(self) -> None:
        self.searched = time.monotonic()
        try:
            paths = find_runs([self.folder])
        except (ValueError, OSError):  # none yet
            paths = []
        self.found = {_hash(os.fsencode(path)): path for path in paths}


def version_of(path: Path) -> str:
    """Return a text that changes with everything the page shows of a run."""
    parts = [path / name for name in (RECIPE, METRICS, FILE, LOCK, "checkpoints", "snapshots")]
    return _hash(*(_stamp(part) for part in parts), holder(path) or "")


def _stamp(path: Path) -> str:
    try:
        found = path.lstat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns} {found.st_size} {found.st_ino}"


def _hash(*parts: str | bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update((part if isinstance(part, bytes) else part.encode(errors="surrogateescape")) + b"\n")
    return digest.hexdigest()[:20]


def holder(path: Path) -> str | None:
    """Return the owner of the lock of a run folder; None if its process on this machine is gone."""
    try:
        words = read_bytes(path / LOCK, 1000).decode(errors="replace")
    except (OSError, ValueError):
        return None
    match = re.fullmatch(r"process (\d+) on (.*)", words.strip())
    if match and match[2] == platform.node() and not Path(f"/proc/{match[1]}").exists() and Path("/proc/self").exists():
        return None
    return words.strip() or None


def summary(path: Path, folder: Path) -> Json:
    """Summarize a run for the list, with its problem if it cannot be read."""
    name = str(path.relative_to(folder)) if path != folder else path.resolve().name
    name = name.encode(errors="replace").decode()
    try:
        header = read_header(path)
        records = read_records(path) if (path / METRICS).exists() else []
        return {"name": name, **_in_short(path, header, records), "problem": None}
    except (ValueError, OSError) as error:
        return {"name": name, "label": name, "state": "damaged", "problem": in_short(error), "settings": {}}


def _in_short(path: Path, header: Header, records: Sequence[Record]) -> Json:
    recipe, changed, defaults = origin_of(header)
    last = records[-1] if records else None
    evaluations = [record.evaluation for record in records if record.evaluation is not None]
    part, accuracy = best_part(evaluations[-1]) if evaluations else (None, None)
    step = last.step if last else 0
    state = "finished" if step >= header.steps else "training" if holder(path) else "stopped"
    method = header.recipe.get("method")
    kind = str(method.get("type", method.get("own", ""))).rpartition(".")[2] if isinstance(method, dict) else ""
    questions = Questions.load(path)
    return {
        "label": " ".join([recipe, *(f"{name}={value}" for name, value in sorted(changed.items()))]),
        "settings": {**defaults, **changed, "recipe": recipe, "method": kind, "seed": str(header.seed)},
        "state": state,
        "step": step,
        "steps": header.steps,
        "seconds": last.seconds if last else 0,
        "left": last.seconds / step * (header.steps - step) if last and step else None,
        "accuracy": accuracy,
        "part": part,
        "open": len(questions.open),
        "answers": len(questions.answers),
        "checkpoint": max(checkpoint_steps(path), default=None),
        "snapshots": len(list(path.glob("snapshots/step-*.safetensors"))),
    }


def best_part(found: Evaluation) -> tuple[str | None, float | None]:
    """Return the scored part and its accuracy: test or validation, of the consensus if clusters are scored."""
    for name in ("test", "validation"):
        if found.consensus is not None and getattr(found.consensus, name) is not None:
            return f"consensus, {name}", finite(getattr(found.consensus, name))
        if found.consensus is None and getattr(found, name) is not None:
            return name, finite(getattr(found, name).ema.accuracy)
    return None, None


def finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def details(path: Path) -> Json:
    """Return the curves of a run, its last scores, and all settings."""
    header = read_header(path)
    records = read_records(path) if (path / METRICS).exists() else []
    names = list(dict.fromkeys(name for record in records for name in record.terms))
    drawn = thinned(records)
    scored = [(record.step, record.evaluation) for record in records if record.evaluation is not None]
    last = scored[-1][1] if scored else None
    return {
        "classes": header.data.classes,
        "settings": [["seed", str(header.seed)], *([name, value] for name, value in settings_of(header.recipe))],
        "step": [record.step for record in drawn],
        "loss": [finite(record.loss) for record in drawn],
        "terms": {name: [finite(record.terms.get(name)) for record in drawn] for name in names},
        "evaluations": _evaluations(scored),
        "calibration": None if last is None else _calibration(last),
        "confusion": None if last is None else last.confusion,
    }


def thinned(records: Sequence[Record]) -> list[Record]:
    """Thin records evenly for a curve; the last is kept."""
    if len(records) <= MOST_POINTS:
        return list(records)
    places = np.unique(np.linspace(0, len(records) - 1, MOST_POINTS).round().astype(int))
    return [records[i] for i in places]


def _evaluations(scored: Sequence[tuple[int, Evaluation]]) -> Json:
    """Return accuracies of the ensemble and of every particle by step: (E,) and (K, E)."""
    found = [(step, e, e.validation if e.test is None else e.test) for step, e in scored]
    ema = [None if part is None else part.ema for _, _, part in found]
    count = max((len(scores.particle_accuracies) for scores in ema if scores is not None), default=0)
    particles = [
        [None if s is None or k >= len(s.particle_accuracies) else finite(s.particle_accuracies[k]) for s in ema]
        for k in range(count)
    ]
    return {
        "step": [step for step, _, _ in found],
        "part": next((best_part(e)[0] for _, e, _ in found[::-1]), None),
        "best": [best_part(e)[1] for _, e, _ in found],
        "raw": [None if part is None else finite(part.raw.accuracy) for _, _, part in found],
        "particles": particles,
        "information": [None if scores is None else finite(scores.information) for scores in ema],
    }


def _calibration(last: Evaluation) -> Json | None:
    """Return the reliability diagram of the EMA ensemble; None if outputs are not classes."""
    part = last.validation if last.test is None else last.test
    if part is None or last.consensus is not None:
        return None
    bins = part.ema.reliability
    return {
        "counts": bins.counts,
        "confidence": rounded(bins.confidence),
        "accuracy": rounded(bins.accuracy),
        "error": finite(part.ema.calibration_error),
        "nll": finite(part.ema.negative_log_likelihood),
        "brier": finite(part.ema.brier),
    }


def embedding(path: Path, **parts: Any) -> Json:
    """Return the particles in prediction space by snapshot: coordinates (S, K, 3)."""
    seen = scene_of_runs([read_trajectory(path, **parts)])
    cloud = seen.clouds[0]
    kept = np.unique(np.linspace(0, cloud.coordinates.shape[1] - 1, MOST_PARTICLES).round().astype(int))
    return {
        "steps": cloud.steps,
        "points": [[rounded(point, 4) for point in shot[kept]] for shot in cloud.coordinates],
        "accuracy": [rounded(shot[kept], 3) for shot in cloud.particle.accuracy],
        "entropy": [rounded(shot[kept], 3) for shot in cloud.particle.entropy],
        "information": rounded(cloud.information),
        "marginal": rounded(cloud.marginal_entropy),
        "conditional": rounded(cloud.conditional_entropy),
        "order": cloud.order,
        "explained": rounded(seen.explained, 3),
        "landmarks": {name: rounded(place, 4) for name, place in seen.landmarks.items()},
        "particles": cloud.coordinates.shape[1],
        "inputs": len(seen.all_labels),
    }


def examples(path: Path, **parts: Any) -> Json:
    """Return the most uncertain inputs and the confusion matrix, which need the weights and the data."""
    run = load(path, **parts)
    counts = run_confusion(run)
    return {
        "step": run.step,
        "uncertain": [
            {**shown_input(given, run.task.features), "votes": votes, "truth": truth, "nats": nats}
            for given, votes, truth, nats in most_uncertain(run, UNCERTAIN)
        ],
        "confusion": None if counts is None else counts.tolist(),
        "classes": run.data.classes,
        "per_class": None if counts is None else class_rows(counts, run.data.classes),
    }


def shown_input(given: Tensor | str, features: Sequence[str]) -> Json:
    """Return {"picture": PNG as a data URL}, or {"values": [[name, value], …], "more": number of values not shown}."""
    if isinstance(given, str):
        return {"values": [["text", given]], "more": 0}
    values = np.asarray(given.detach().cpu().double() if given.is_floating_point() else given.cpu())
    if noun(values.shape) == "image":
        return {"picture": picture_url(values)}
    flat = values.reshape(-1)
    names = features or [f"[{i}]" for i in range(min(_VALUES, len(flat)))]
    pairs = [[names[i], f"{flat[i].item():.4g}"] for i in range(min(_VALUES, len(flat)))]
    return {"values": pairs, "more": len(flat) - len(pairs)}
