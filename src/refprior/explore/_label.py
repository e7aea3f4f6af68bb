"""Label: the questions of a run and its doubtful labels, one by one. An answer is on disk before it is confirmed.

Several tabs and `refprior answer` may work on the same run: each change locks the folder, reads the questions, changes
them, and writes them as a whole.
"""

# K particles, n inputs of the pool, C classes

import shlex
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import combinations, zip_longest
from pathlib import Path

from refprior import labeling
from refprior._files import Json, locked, write_figure
from refprior._kinds import noun
from refprior.explore._watch import Runs, _hash, _stamp, shown_input
from refprior.labeling import FILE, Ensemble, Questions
from refprior.posterior import Consensus, LabelQuality, Rules
from refprior.report import labeled_picture, pool_name, pool_picture, questions_figure, short_name
from refprior.training import Run, load
from refprior.training.store import check_no_links, read_header

PATIENCE = 3.0  # seconds to wait for another process in the folder
SHOWN = 20  # open questions, doubtful labels and newest answers sent to the page
RULES, APART = 6, 8  # rules, and inputs that separate them
TABLE = "answers.csv"


class ConflictError(ValueError):
    """The request no longer fits the state of the run."""

    status = 409


class BusyError(ValueError):
    """Another process uses the folder; the request can be repeated."""

    status = 423


class Labels:
    """Questions and answers of the runs of a folder."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.alone: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)
        self.loaded: tuple[str, Run] | None = None  # the last run, by the stamp of its checkpoints
        self.estimates: dict[Path, tuple[str, Json]] = {}  # by the stamp of the questions
        # Of the last run: its rules unless the labels determine the task, and the quality of its labels with folds.
        self.found: tuple[str, Rules | None, LabelQuality | None] | None = None

    def state(self, identity: str, known: str = "") -> Json:
        """Return all that the page shows; only {"version"} if nothing has changed since the known version.

        "rules", "checks" and "estimates" are None until `estimate` has computed them.
        """
        path = self.runs.path(identity)
        estimate, found = self.estimates.get(path), self.found
        if found is not None and found[0] != self._version(path):
            found = None  # of another run, or of other weights
        computed = estimate[0] if estimate else "", "" if found is None else "rules"
        version = _hash(_stamp(path / FILE), self._version(path), *computed)
        if version == known:
            return {"version": version}
        questions, run = Questions.load(path), self._run(path)
        classes, current = run.data.classes, estimate is not None and estimate[0] == _stamp(path / FILE)

        def shown(index: int) -> Json:
            given = shown_input(pool_picture(run, index), run.task.features)
            return {"index": index, "name": pool_name(run, index), **given}

        given = list(zip(questions.answered, questions.answers, strict=True))[-SHOWN:]
        return {
            "version": version,
            "classes": classes,
            "noun": noun(run.task.shape),
            "labels": len(run.task.labeled),
            "pool": len(run.task.unlabeled) - len(labeling.labeled_in_pool(run)),
            "open": [shown(index) for index in questions.open[:SHOWN]],
            "answered": [{**shown(index), "label": label} for index, label in reversed(given)],
            "counts": {"open": len(questions.open), "answers": len(questions.answers)},
            "corrected": len(labeling.corrections(run, questions)),
            "estimates": estimate[1] if estimate and current else None,
            "outputs": labeling.outputs_are_classes(run),
            "rules": None if found is None else _shown_rules(run, found[1], questions, shown),
            "checks": None if found is None else _shown_checks(run, found[2], questions),
            "train": f"refprior answer {shlex.quote(str(path))} --train {shlex.quote(f'{path}-labeled')}",
        }

    def answer(self, identity: str, index: int, label: int) -> None:
        """Write an answer; it is on disk when this returns. Repeating an answer changes nothing."""

        def change(questions: Questions, classes: tuple[str, ...]) -> Questions:
            if not 0 <= label < len(classes):
                raise ValueError(f"label must be 0 to {len(classes) - 1}, got {label}")
            if index in questions.answered:
                before = questions.answers[questions.answered.index(index)]
                if before != label:
                    raise ConflictError(f"input {index} was already labeled {classes[before]} elsewhere")
                return questions
            if index not in questions.open:
                raise ConflictError(f"input {index} is no longer an open question")
            others = tuple(other for other in questions.open if other != index)
            return replace(questions, asked=(*questions.answered, index, *others)).answer([label])

        self._change(identity, change)

    def check(self, identity: str, index: int, label: int) -> None:
        """Write the right class of a label, the same or another; -1 withdraws the check."""

        def change(questions: Questions, classes: tuple[str, ...]) -> Questions:
            if not -1 <= label < len(classes):
                raise ValueError(f"label must be -1 to {len(classes) - 1}, got {label}")
            checked = {place: y for place, y in questions.checked if place != index}  # the newest is last
            checked |= {} if label < 0 else {index: label}
            return replace(questions, checked=tuple(checked.items()))

        count = read_header(self.runs.path(identity)).data.parts["labeled"].count
        if not 0 <= index < count:
            raise ValueError(f"index must be 0 to {count - 1}, got {index}")
        self._change(identity, change)

    def undo(self, identity: str, index: int) -> None:
        """Undo an answer; its question becomes the first open one."""

        def change(questions: Questions, classes: tuple[str, ...]) -> Questions:
            if index not in questions.answered:
                return questions
            pairs = [pair for pair in zip(questions.answered, questions.answers, strict=True) if pair[0] != index]
            kept, answers = tuple(i for i, _ in pairs), tuple(y for _, y in pairs)
            return replace(questions, asked=(*kept, index, *questions.open), answers=answers)

        self._change(identity, change)

    def suggest(self, identity: str, budget: int) -> None:
        """Choose new inputs like `refprior suggest`; open questions are withdrawn.

        They are about the rule while the answers leave several, and then about inputs to train on.
        """
        path = self.runs.path(identity)
        run = self._run(path)
        with self._only(path):
            before = Questions.load(path)
            questions = labeling.suggest(run, budget, before)
            if not questions.open:
                questions = labeling.suggest(run, budget, before, about="inputs")
            write_figure(path / "questions.png", questions_figure(run, questions))
            questions.save(path)

    def estimate(self, identity: str) -> None:
        """Find rules and doubtful labels, and classify the pool with the answers: scores, and a table."""
        path = self.runs.path(identity)
        if self.found is None or self.found[0] != self._version(path):
            run = self._run(path)
            rules = run.rules() if run.has_rules else None
            quality = run.label_quality() if run.has_folds else None
            self.found = self._version(path), rules if rules is not None and rules.ambiguous else None, quality
        stamp, questions = _stamp(path / FILE), Questions.load(path)
        before = self.estimates.get(path)
        if not questions.answers or (before is not None and before[0] == stamp):
            return
        run = self._run(path)
        named = labeling.classifier(run, questions)
        found = labeling.classify_pool(run, named, questions)
        with self._only(path):
            labeling.write_classes(path / TABLE, run, found)
        self.estimates[path] = stamp, {"of": len(questions.answers), **_scores(run, named, questions)}

    def _change(self, identity: str, change: Callable[[Questions, tuple[str, ...]], Questions]) -> None:
        path = self.runs.path(identity)
        classes = read_header(path).data.classes
        with self._only(path):
            before = Questions.load(path)
            after = change(before, classes)
            if after != before:
                after.save(path)

    @contextmanager
    def _only(self, path: Path) -> Iterator[None]:
        """Lock a run folder, waiting shortly for another process."""
        deadline = time.monotonic() + PATIENCE

        def busy(holder: str) -> None:
            if time.monotonic() > deadline:
                raise BusyError(f"{path} is in use by {holder}")

        check_no_links(path)
        with self.alone[path], locked(path, busy):
            yield

    def _run(self, path: Path) -> Run:
        """Return the run with its data, reloaded after a new checkpoint."""
        stamp = self._version(path)
        if self.loaded is None or self.loaded[0] != stamp:
            self.loaded = stamp, load(path, **self.runs.parts(path))
        return self.loaded[1]

    def _version(self, path: Path) -> str:
        """Return a text that changes with the weights of a run."""
        return f"{path} {_stamp(path / 'checkpoints')} {_stamp(path / 'recipe.json')}"


def _shown_rules(run: Run, rules: Rules | None, questions: Questions, shown: Callable[[int], Json]) -> Json:
    """Return the likeliest rules given the answers, their probabilities, and their labels of the same inputs."""
    if rules is None:
        return {"count": 0}
    evidence = labeling.evidence(run, questions)
    weights = labeling.rule_probabilities(evidence.log_selected, rules)
    ranked = sorted(range(len(rules)), key=weights.__getitem__, reverse=True)
    best, listed = ranked[0], sorted(ranked[:RULES])
    apart = [rules.separating(i, j, APART) for i, j in combinations(listed, 2)]  # of each pair in turn
    places = list(dict.fromkeys(place for row in zip_longest(*apart) for place in row if place is not None))[:APART]
    return {
        "count": len(rules),
        "disagreement": rules.disagreement,
        "explained": evidence.explained,
        "settled": best if weights[best] >= labeling.SETTLED else None,
        "inputs": [shown(place) for place in places],
        "rules": [
            {
                "rule": i,
                "particles": len(rules.members[i]),
                "weight": weights[i],
                "labels": [rules.answers(place)[i] for place in places],
                "worst": rules.worst_groups[i] if rules.groups else None,
            }
            for i in listed
        ],
    }


def _shown_checks(run: Run, quality: LabelQuality | None, questions: Questions) -> Json:
    """Return the labels to check first, without those that were checked, and the newest checks."""
    if quality is None:
        return {"open": [], "checked": [], "doubtful": 0}
    before, done = labeling.checked_before(run), dict(questions.checked)
    order = [i for i in quality.order.tolist() if i not in done and i not in before]

    def shown(index: int) -> Json:
        name = short_name(run.task, quality.names[index]) if quality.names else f"label {index}"
        return {"index": index, "name": name, **shown_input(labeled_picture(run, index), run.task.features)}

    def doubted(index: int) -> Json:
        given, suggested = (run.data.classes.index(str(names[index])) for names in (quality.given, quality.suggested))
        return {**shown(index), "given": given, "suggested": suggested, "right": float(quality.right[index])}

    return {
        "open": [doubted(index) for index in order[:SHOWN]],
        "checked": [{**doubted(index), "label": label} for index, label in questions.checked[: -SHOWN - 1 : -1]],
        "doubtful": int((quality.right[order] < 0.5).sum()) if quality.informative else 0,
        **({"rate": quality.error_rate} if quality.informative else {}),
    }


def _scores(run: Run, named: Consensus | Ensemble, questions: Questions) -> Json:
    """Return the accuracy on labeled inputs, and how many answers the run predicted."""
    part = run.task.validation if run.task.test is None else run.task.test
    kind = None if part is None else "validation" if run.task.test is None else "test"
    right = None
    if part is not None:
        right = (labeling.classify(run, named, part.inputs) == part.labels).double().mean().item()
    agreed = None
    if isinstance(named, Ensemble):
        asked = run.task.unlabeled[list(questions.answered)]
        predicted = labeling.classify(run, labeling.classifier(run), asked)  # before any answer
        agreed = int((predicted == predicted.new_tensor(questions.answers)).sum())
    return {"part": kind, "accuracy": right, "agreed": agreed}
