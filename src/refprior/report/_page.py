"""The report: one self-contained HTML page with tables, figures, examples and settings."""

import logging
import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, get_args

from refprior._files import write_figure, write_text
from refprior._progress import Progress, no_progress
from refprior._style import PAGE
from refprior._words import printable
from refprior.report._figures import as_image, confusion_of, figures, sheets
from refprior.report._published import Source, find_published
from refprior.report._rules import rules_section
from refprior.report._runs import EMPTY, Group, find_runs, group, setting_rows, summarize_finished
from refprior.report._tables import as_html, class_rows, confusion_rows, mistake_rows, note, pivot, rows
from refprior.report._tiles import labels_figure, uncertain_figure
from refprior.training import Run, custom_parts, load

log = logging.getLogger("refprior")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # characters that a terminal would obey
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"  # the page loads nothing from elsewhere
_STYLE = f"""{PAGE}
body {{ max-width: 72rem; margin: 1.5rem auto; padding: 0 1rem }}
.wide {{ overflow-x: auto; margin: 1rem 0 }} table {{ border-collapse: collapse; font-size: .85rem }}
th, td {{ padding: .35rem .45rem; text-align: right; vertical-align: bottom }}
th {{ border-bottom: 2px solid var(--soft) }} td {{ border-bottom: 1px solid var(--line); white-space: nowrap }}
th:first-child, td:first-child {{ text-align: left; white-space: normal; min-width: 11rem; overflow-wrap: anywhere }}
.figures {{ display: flex; flex-wrap: wrap; gap: .5rem }} .figures img {{ width: 28rem; max-width: 100%; height: auto }}
.sheet {{ width: 46rem; max-width: 100%; min-width: 34rem; height: auto }} details {{ overflow-x: auto }}
details {{ margin: .5rem 0 }} summary {{ cursor: pointer; overflow-wrap: anywhere }}
.words th, .words td {{ text-align: left; white-space: normal; overflow-wrap: anywhere }}
.pairs {{ display: flex; flex-wrap: wrap; gap: 1rem; margin: .75rem 0 }} figure {{ margin: 0; width: 7.6rem }}
figure img {{ display: block; width: 100%; image-rendering: pixelated; background: #888 }}
figcaption {{ font-size: .85rem; overflow-wrap: anywhere; margin-top: .25rem }}
.high {{ max-height: 32rem; overflow: auto }} li {{ overflow-wrap: anywhere }}
@media print {{
  .wide, .high {{ overflow: visible; max-height: none }} table {{ font-size: 7pt }} td {{ white-space: normal }}
  .figures img {{ width: 45% }} details::details-content {{ content-visibility: visible; display: block }}
}}
"""
_WHOLE = 20  # classes up to which the whole confusion matrix is a table
_EXAMPLES = 4  # groups with examples: each is a network to load and data to read
_AMONG = 1000  # inputs of a part among which examples are searched
_DRAWN = 20  # groups with figures; those of hundreds would take minutes
_TEST = "Test accuracy at the last step, which no choice of the program depends on. "
_VALIDATION = "There is no test part: accuracy at the last step on the validation part, by which settings are chosen. "
_MEANINGS = (
    "Mean ± standard deviation over seeds. "
    "Ensemble: the mean of the particles' probabilities; particle: the mean accuracy of single particles; EMA: moving "
    "average of the weights. NLL (nats) and ECE (15 bins) are of the EMA ensemble. Consensus: clusters of unlabeled "
    "inputs in the predictions of all particles, matched to the classes; stability: how far two halves of them agree. "
    "Out of fold: the labels, predicted by the particles that have not learned them."
)

_OF_LABELS = (
    "Some particles hold out each label. They disagree most with these labels. Above each input: its number and its "
    "label. Below: the probability that the label is right, and the class that the particles suggest. Mistakes of "
    "confident particles count as wrong labels. Intervals are 95 %: Wilson for the accuracy, bootstrap for NLL and ECE."
)

_PRINTED = (
    " Columns of the paper and of the authors' log are what these printed; nothing of it was measured here. "
    "*: evaluated by the paper's authors; (40): with 40 labels."
)

_NOTHING = (
    "The tasks have neither a test nor a validation part: there is no accuracy. Losses and their terms are in "
    "metrics.jsonl of each run. "
)


def write_report(
    paths: Sequence[Path],
    out: Path,
    pictures: Path | None = None,
    column: str | None = None,
    progress: Progress = no_progress,
    definitions: Mapping[str, Any] | None = None,
) -> list[Group]:
    """Write a self-contained HTML report on runs.

    Parameters
    ----------
    paths : sequence of Path
        Folders that are or contain run folders.
    out : Path
        HTML file to write.
    pictures : Path, optional
        Folder in which the figures are also written as PNG files.
    column : str, optional
        Name of a setting; the report then has a table with one column per value of it.
    progress : callable, optional
        Called with the current work, the completed part and the total.
    definitions : mapping, optional
        Classes and functions by name, for examples of runs with custom parts.

    Returns
    -------
    list of list of Summary
        The runs in the report, grouped by recipe.

    Examples
    --------
    >>> import refprior as rp
    >>> recipe, origin = rp.recipes.named("digits_ssl", {"steps": 5}, seed=0)
    >>> run = rp.train(recipe, "runs/a", origin=origin)
    >>> from pathlib import Path
    >>> groups = rp.report.write_report([Path("runs")], Path("report.html"))
    >>> Path("report.html").exists()
    True
    """
    groups = group(summarize_finished(find_runs(paths), progress))
    text = page(groups, column, progress, definitions)
    if pictures is not None:
        for title, figure in sheets(groups[:_DRAWN]).items():
            write_figure(pictures / f"{title.lower().replace(' ', '_')}.png", figure, dpi=140)
    write_text(out, _CONTROL.sub(lambda found: printable(found[0]), text))
    return groups


def page(
    groups: Sequence[Group],
    column: str | None = None,
    progress: Progress = no_progress,
    definitions: Mapping[str, Any] | None = None,
) -> str:
    """Return the HTML text."""
    printed = any(find_published(runs[0], source) for runs in groups for source in get_args(Source))
    folders = [(str(run.path), run.data or EMPTY, run.label, str(run.seed)) for runs in groups for run in runs]
    sections = {
        **({f"Accuracy by {column}": as_html(pivot(groups, column))} if column else {}),
        "Results": f"{as_html(rows(groups))}{note(_meaning(groups) + (_PRINTED if printed else ''))}",
        **_drawings(groups, progress),
        **_rules_and_examples(groups, progress, definitions),
        **_classes(groups[:_DRAWN]),
        "Settings": _folded([(g, as_html(setting_rows(g), " words")) for g in groups[:_DRAWN]]),
        "Runs": as_html([("folder", "data", "recipe", "seed"), *folders], " words"),
    }
    body = "\n".join(f"<h2>{escape(title)}</h2>\n{content}" for title, content in sections.items())
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>refprior report</title>"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>"
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        f"<style>{_STYLE}</style></head>\n<body><h1>Reference priors: report</h1>\n{body}\n</body></html>\n"
    )


def _drawings(groups: Sequence[Group], progress: Progress) -> dict[str, str]:
    """Return a section per kind of figure, by title."""
    limit = f" The first {_DRAWN} of {len(groups)} groups are drawn; the table has all."
    found = figures(groups[:_DRAWN])
    done, total = 0, sum(map(len, found.values()))
    sections = {}
    for kind, drawn in found.items():
        images = []
        for figure in drawn:
            progress("drawing figures", done, total)
            images.append(as_image(figure, kind.title))
            done += 1
        words = note(kind.note + (limit if len(groups) > _DRAWN else ""))
        sections[kind.title] = f"{words}<div class='figures'>{''.join(images)}</div>"
    return sections


def _rules_and_examples(
    groups: Sequence[Group], progress: Progress, definitions: Mapping[str, Any] | None
) -> dict[str, str]:
    """Return the sections of rules, doubtful labels and examples; runs that cannot be loaded here have none."""
    rules, labels, examples = [], [], []
    for done, runs in enumerate(groups[:_EXAMPLES]):
        progress("looking for examples", done, min(_EXAMPLES, len(groups)))
        try:
            run = load(runs[0].path, **({} if definitions is None else custom_parts(runs[0].path, definitions)))
            figure = uncertain_figure(run, 8, 4, _AMONG)
            section = rules_section(run, _AMONG)
            checked = None if runs[0].evaluation.out_of_fold is None else _labels(run)
        except (OSError, ValueError) as error:  # the data or a custom part may not be here
            log.info("no examples of %s: %s", runs[0].path, error)
            continue
        label = f"{runs[0].label}, seed {runs[0].seed}"
        image = as_image(figure, f"inputs that the particles of {label} disagree about most")
        examples.append((runs, image.replace("<img ", "<img class='sheet' ")))
        if section is not None:
            rules.append((runs, section))
        if checked is not None:
            labels.append((runs, checked))
    first = f" Of the first {_EXAMPLES} groups." if len(groups) > _EXAMPLES else ""
    of_rules = (
        "A rule is a group of particles of the first seed that agree with each other on at least 90 % of the unlabeled "
        "pool, of which at most 1,000 inputs are used. ≠: share of the pool to which two rules give different labels."
        + first
    )
    of_examples = (
        "The inputs that the particles of the first seed disagree about most, among at most 1,000 evenly taken from "
        "the test part, or from what there is instead: with these the prior asks for a label first." + first
    )
    return {
        **({"Rules that fit the labels": note(of_rules) + _folded(rules, opened=True)} if rules else {}),
        **({"Check these labels first": note(_OF_LABELS + first) + _folded(labels, opened=True)} if labels else {}),
        **({"Examples": note(of_examples) + _folded(examples, opened=True)} if examples else {}),
    }


def _labels(run: Run) -> str:
    """Return the labels of a run with folds that are least probable to be right."""
    quality = run.label_quality()
    image = as_image(labels_figure(run, quality), "labels that are least probable to be right")
    rate = f"About {100 * quality.error_rate:.0f} % of the labels are wrong."
    if not quality.informative:
        rate = "The labels are predicted no better than chance, so that wrong ones cannot be found."
    scores = f"Seed {run.recipe.seed}, {run.out_of_fold()}."
    return note(f"{scores} {rate}") + image.replace("<img ", "<img class='sheet' ")


def _meaning(groups: Sequence[Group]) -> str:
    """Explain the numbers of the table, and from which part they are."""
    found = [run.evaluation for runs in groups for run in runs]
    if any(e.test is not None for e in found):
        return _TEST + _MEANINGS
    if any(e.validation is not None for e in found):
        return _VALIDATION + _MEANINGS
    return _NOTHING + (_MEANINGS if any(e.consensus is not None for e in found) else "")


def _classes(groups: Sequence[Group]) -> dict[str, str]:
    """Return the section of scores of each class, if a run has them."""
    tables = []
    for runs in groups:
        counts, names = confusion_of(runs), runs[0].classes
        if counts is not None:
            pairs = confusion_rows if len(names) <= _WHOLE else mistake_rows
            tables.append((runs, as_html(class_rows(counts, names)) + as_html(pairs(counts, names))))
    if not tables:
        return {}
    words = (
        "Of the test part, or of the validation part where there is none; the EMA ensemble or its consensus at the "
        "last step, all seeds together. Below: what is taken for what; of more than "
        f"{_WHOLE} classes, the most frequent mistakes."
    )
    return {"Each class": note(words) + _folded(tables)}


def _folded(tables: Sequence[tuple[Group, str]], opened: bool = False) -> str:
    """Return tables under the names of their groups, folded; a single one is open."""
    state = " open" if opened or len(tables) == 1 else ""
    return "".join(
        f"<details{state}><summary>{escape(runs[0].label)}</summary>{table}</details>" for runs, table in tables
    )
