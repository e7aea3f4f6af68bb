"""Accuracies that others published for the recipes of refprior: shown next to ours, never mixed with them.

`PUBLISHED` has them by the name of the recipe. To add one, state its source and the runs that it can be compared with.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from refprior.report._runs import Summary

Source = Literal["paper", "authors' log"]


@dataclass(frozen=True, kw_only=True)
class Published:
    """A published accuracy in percent, and the runs that it can be compared with.

    A run fits if it has these `settings` (a part by the name of its class), no other change of the method or of the
    number of particles, and no first stage but that of `start.method`.
    """

    source: Source = "paper"
    table: str  # its label in the paper's LaTeX source
    name: str  # of the method, as it is printed there
    labels: int  # of the target
    ensemble: str = ""  # by the moving average of the weights
    raw: str = ""  # by the weights themselves
    particles: str = ""  # each by itself, raw weights
    consensus: str = ""  # without labels of the target
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def accuracy(self) -> str:
        """The accuracy of the ensemble or of its consensus, whichever was printed."""
        return self.ensemble or self.consensus

    @property
    def ablation(self) -> bool:
        """Whether it is for a change of the method or of the number of particles."""
        return bool(_changes(self.settings))

    def fits(self, run: Summary) -> bool:
        """Return whether the number can be compared with a run."""
        labels = run.setting("labels") or run.setting("task.labels") or run.setting("task.target.labels")
        wanted = {"start.method": "none", **self.settings}
        same = all((run.setting(name) or "none").lower() == value.lower() for name, value in wanted.items())
        return labels == str(self.labels) and same and _changes(run.settings) <= set(self.settings)


def _changes(settings: Mapping[str, str]) -> set[str]:
    return {name for name in settings if name.startswith("method.") or name == "particles"}


def on_other_data(run: Summary) -> bool:
    """Return whether a run used the user's data in place of the recipe's."""
    return any(name.startswith("--") for name in run.settings)


def find_published(run: Summary, source: Source) -> Published | None:
    """Return what a source printed for runs like this one; nothing for a run on the user's data."""
    if on_other_data(run):
        return None
    return next((row for row in PUBLISHED.get(run.recipe, ()) if row.source == source and row.fits(run)), None)


_LABELS = (50, 100, 250, 500, 1000)
_PRIOR = {"method": "ReferencePrior", "strong": "RandAugment"}


def _row(name: str, settings: Mapping[str, str], *accuracies: str, raw: tuple[str, ...] = ()) -> list[Published]:
    """Make a row of tab:cifar10_ssl: one text per number of labels, empty where there is none."""
    without = raw or ("",) * len(_LABELS)
    return [
        Published(table="tab:cifar10_ssl", name=name, labels=n, ensemble=ema, raw=no_ema, settings=settings)
        for n, ema, no_ema in zip(_LABELS, accuracies, without, strict=True)
        if ema
    ]


def _ablation(table: str, name: str, labels: int, accuracy: str, **settings: str) -> Published:
    """Make an entry with one change of settings; the tables of orders and particles look like numbers without EMA."""
    changed = _PRIOR | {setting.replace("__", "."): value for setting, value in settings.items()}
    ema, raw = (accuracy, "") if table == "tab:app:ablation2" else ("", accuracy)
    return Published(table=table, name=name, labels=labels, ensemble=ema, raw=raw, settings=changed)


# tab:cifar10_ssl and tab:app:ema. *: evaluated by the paper's authors; (40): with 40 labels; all else is from the
# papers of the methods.
_CIFAR10 = (
    *_row("Mixup", {"method": "Mixup"}, "", "", "52.57", "63.86", "74.28"),
    *_row("VAT", {"method": "VAT"}, "", "", "63.97", "73.89", "81.32"),
    *_row("Mean Teacher", {"method": "MeanTeacher"}, "", "", "52.68", "57.99", "82.68"),
    *_row("MixMatch", {"method": "MixMatch"}, "64.21*", "80.29*", "88.91*", "90.35*", "92.25*"),
    *_row(
        "FixMatch (RA)",
        {"method": "FixMatch", "strong": "RandAugment"},
        *("86.19 ± 3.37 (40)", "90.12*", "94.93 ± 0.65", "93.91*", "94.3*"),
    ),
    *_row(
        "FixMatch (CTA)",
        {"method": "FixMatch", "strong": "CTAugment"},
        *("88.61 ± 3.35 (40)", "", "94.93 ± 0.33", "", ""),
    ),
    *_row("DASH (RA)", {"method": "Dash", "strong": "RandAugment"}, "86.78 ± 3.75 (40)", "", "95.44 ± 0.13", "", ""),
    *_row("DASH (CTA)", {"method": "Dash", "strong": "CTAugment"}, "90.84 ± 4.31 (40)", "", "95.22 ± 0.12", "", ""),
    *_row(
        "SelfMatch",
        {"method": "FixMatch", "strong": "RandAugment", "start.method": "Contrastive"},
        *("93.19 ± 1.08 (40)", "", "95.13 ± 0.26", "", ""),
    ),
    *_row("FlexMatch", {"method": "FlexMatch"}, "95.03 ± 0.06 (40)", "", "95.02 ± 0.09", "", ""),
    *_row(
        "Deep Reference Prior",
        _PRIOR,
        *("85.45 ± 2.12", "88.53 ± 0.67", "92.13 ± 0.39", "92.94 ± 0.22", "93.48 ± 0.24"),
        raw=("82.36 ± 2.13", "85.64 ± 0.43", "89.75 ± 0.36", "90.06 ± 1.71", "91.57 ± 0.25"),
    ),
    _ablation("tab:app:ablation2", "No stop gradient to p_g1", 250, "10", method__stop_gradient="false"),
    _ablation("tab:app:ablation2", "No Jensen's inequality", 250, "86.55", method__jensen="false"),
    _ablation("tab:app:ablation2", "No masking", 250, "92.35", method__threshold="none"),
    _ablation("tab:app:order", "order 2", 1000, "91.76", method__order="2"),
    _ablation("tab:app:order", "order 3", 1000, "90.53", method__order="3"),
    _ablation("tab:app:order", "order 4", 1000, "91.51", method__order="4"),
    _ablation("tab:app:order", "order 5", 1000, "91.36", method__order="5"),
    _ablation("tab:app:particles", "2 particles", 1000, "91.3", particles="2"),
    _ablation("tab:app:particles", "4 particles", 1000, "91.76", particles="4"),
    _ablation("tab:app:particles", "8 particles", 1000, "89.79", particles="8"),
    _ablation("tab:app:particles", "16 particles", 1000, "90.72", particles="16"),
    Published(  # the last line of the log that was released with the code: seed 0, 250 epochs, mean of logits
        source="authors' log",
        table="released log",
        name="Deep Reference Prior",
        labels=250,
        ensemble="93.36",
        raw="92.58",
        particles="85.65 / 86.82 / 84.60 / 69.47",
        settings=_PRIOR | {"preset": "authors_code"},
    ),
)

# tab:mnist_transfer1.
_HALVES = {"high": "0–4 to 5–9", "low": "5–9 to 0–4"}
_LABEL_FREE = tuple(
    Published(
        table="tab:mnist_transfer1",
        name=f"Unsupervised Transfer, {_HALVES[target]}",
        labels=0,
        consensus=accuracy,
        settings={"data": "mnist", "target": target, "method": "UnsupervisedTransfer"},
    )
    for target, accuracy in (("high", "87.4"), ("low", "95.2"))
)
_FINE_TUNING = tuple(
    Published(
        table="tab:mnist_transfer1",
        name=f"Fine-Tuning, {_HALVES[target]}",
        labels=labels,
        ensemble=accuracy,
        settings={"data": "mnist", "target": target, "baseline": "new", "start.method": "Supervised"},
    )
    for target, accuracies in (("high", ("71.1", "78.8", "86.6", "93.0")), ("low", ("90.2", "92.4", "94.7", "96.2")))
    for labels, accuracy in zip((50, 100, 250, 500), accuracies, strict=True)
)


def _cell(name: str, accuracy: str, **settings: str) -> Published:
    """Make a cell of fig:matrix or of its table."""
    wanted = {key.replace("__", "."): value for key, value in settings.items()}
    return Published(table="fig:matrix", name=name, labels=100, ensemble=accuracy, settings=wanted)


# fig:matrix: its table, and the two cells that its caption prints; all other cells are only in the picture.
_TASKS = ("vehicles_1", "vehicles_2", "fish", "people", "aquatic_mammals")
_PAIR = {"source": "vehicles_1", "target": "vehicles_2"}
_MATRIX = (
    *(
        _cell("Supervised Learning", accuracy, target=target, approach="supervised", method="Supervised")
        for target, accuracy in zip(_TASKS, ("42.2", "63.2", "56.8", "31.0", "42.6"), strict=True)
    ),
    *(
        _cell(
            "Deep Reference Prior (SSL)", accuracy, target=target, approach="semi_supervised", method="ReferencePrior"
        )
        for target, accuracy in zip(_TASKS, ("63.6", "75.2", "54.6", "34.0", "47.4"), strict=True)
    ),
    _cell("Deep Reference Prior", "86", **_PAIR, approach="transfer", method="Transfer"),
    _cell("Fine-Tuning", "66", **_PAIR, approach="fine_tuning", start__method="Supervised"),
)

# The smaller recipes have other networks and other steps: the numbers only show their distance from the paper.
PUBLISHED: Mapping[str, tuple[Published, ...]] = MappingProxyType(
    {
        "cifar10_ssl": _CIFAR10,
        "cifar10_ssl_medium": _CIFAR10,
        "cifar10_ssl_small": _CIFAR10,
        "label_free_transfer": _LABEL_FREE,
        "fine_tuning": _FINE_TUNING,
        "cifar100_transfer": _MATRIX,
        "cifar100_transfer_medium": _MATRIX,
        "cifar100_transfer_small": _MATRIX,
    }
)
