"""Tables and pages from run folders made by hand, so that every number in them is known."""

import re
from html import escape
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from PIL import Image

from refprior.report import as_latex, as_markdown, find_runs, group, pivot, rows, summarize, write_report
from refprior.report._figures import as_png, plain
from tests import records
from tests.report.folders import write_run


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    write_run(tmp_path / "a-1", "first", 1, 0.92)
    write_run(tmp_path / "a-0", "first", 0, 0.90)
    write_run(tmp_path / "b-0", "second", 0, 0.80, entropies=False)
    return tmp_path


def test_runs_that_differ_in_their_seed_are_one_row(runs: Path) -> None:
    groups = group([summarize(path) for path in find_runs([runs])])
    assert [[run.seed for run in g] for g in groups] == [[0, 1], [0]]
    head, first, second = rows(groups)
    assert head[:3] == ["recipe", "seeds", "ensemble, EMA %"]
    assert first == ["first", "2", "91.0 ± 1.4", "86.0 ± 1.4", "86.0 ± 1.4", "81.0 ± 1.4", "0.250 ± 0.000",
                     "0.020 ± 0.000", "2.0 ± 0.0"]  # fmt: skip
    assert second[2] == "80.0"
    assert as_markdown(rows(groups)).splitlines()[2].startswith("| first | 2 | 91.0 ± 1.4 |")


def test_the_page_carries_everything(runs: Path) -> None:
    out = runs / "sub" / "report.html"
    write_report([runs], out)
    text = out.read_text()
    assert text.count("data:image/svg+xml;base64,") == 5  # two groups with accuracy and calibration, one with entropies
    assert "91.0 ± 1.4" in text
    links = re.findall(r"""(?:src|href)=["'](?!data:)""", text)
    assert not links
    assert not re.search("https?:", text)


def test_folders_without_runs_are_rejected(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="is not a folder"):
        find_runs([tmp_path / "missing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="holds no run"):
        find_runs([tmp_path / "empty"])


def test_unfinished_runs_are_named_and_left_out(runs: Path, caplog: pytest.LogCaptureFixture) -> None:
    lines = (runs / "a-0" / "metrics.jsonl").read_text().splitlines()
    (runs / "a-0" / "metrics.jsonl").write_text(lines[0] + "\n")
    (first,) = [g for g in write_report([runs], runs / "report.html") if g[0].label == "first"]
    assert [run.seed for run in first] == [1]
    assert "a-0 is not finished: step 10 of 20" in caplog.text
    with pytest.raises(ValueError, match="none of the runs is finished"):
        write_report([runs / "a-0"], runs / "report.html")


def test_the_same_run_twice_is_rejected(runs: Path) -> None:
    write_run(runs / "c-0", "first", 0, 0.5)
    with pytest.raises(ValueError, match="are the same recipe with the same seed"):
        write_report([runs], runs / "report.html")


def test_only_stages_of_a_run_are_left_out(runs: Path) -> None:
    write_run(runs / "start", "third", 0, 0.5)
    write_run(runs / "b-0" / "start", "stage", 0, 0.5)
    assert [path.name for path in find_runs([runs])] == ["a-0", "a-1", "b-0", "start"]
    assert find_runs([runs / "start"]) == [runs / "start"]


@pytest.mark.parametrize("content", ["{}", "[1]", '{"recipe": {"seed": 1}}', '{"origin": 3, "recipe": {}}', "nonsense"])
def test_a_damaged_record_is_named(runs: Path, content: str) -> None:
    (runs / "a-0" / "recipe.json").write_text(content)
    with pytest.raises(ValueError, match=r"recipe\.json"):
        summarize(runs / "a-0")


@pytest.mark.parametrize("line", ["5", "[]", '{"no": "step"}'])
def test_a_line_that_is_no_record_is_named(runs: Path, line: str) -> None:
    (runs / "a-0" / "metrics.jsonl").write_text(f"{line}\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl, line 1 is not a record"):
        summarize(runs / "a-0")


def test_a_pivot_has_the_papers_layout_and_numbers(tmp_path: Path) -> None:
    for labels, accuracy in (("250", 0.60), ("50", 0.40)):
        for seed in (0, 1):
            settings = {"labels": labels, "method": "FixMatch", "strong": "RandAugment"}
            write_run(tmp_path / f"{labels}-{seed}", "cifar10_ssl", seed, accuracy + 0.02 * seed, settings)
    groups = group([summarize(path) for path in find_runs([tmp_path])])
    head, ours, *paper = pivot(groups, "labels")
    assert head == ["accuracy, % (labels →)", "50", "50, paper", "250", "250, paper"]
    assert ours == [
        *("cifar10_ssl method=FixMatch strong=RandAugment", "41.00 ± 1.41 (2)", "86.19 ± 3.37 (40)"),
        *("61.00 ± 1.41 (2)", "94.93 ± 0.65"),
    ]
    assert ["tab:cifar10_ssl: Deep Reference Prior", "–", "85.45 ± 2.12", "–", "92.13 ± 0.39"] in paper
    assert ["tab:cifar10_ssl: Mixup", "–", "–", "–", "52.57"] in paper
    assert len(paper) == 10  # of the eleven rows, those that were not run here
    assert r"41.00 $\pm$ 1.41 (2) & 86.19 $\pm$ 3.37 (40) & 61.00" in as_latex([head, ours])
    assert "cifar10\\_ssl" in as_latex([head, ours])
    write_report([tmp_path], tmp_path / "report.html", column="labels")
    assert "85.45 ± 2.12" in (tmp_path / "report.html").read_text()
    with pytest.raises(ValueError, match="has no setting 'order': --columns takes labels, method"):
        pivot(groups, "order")


def test_a_pivot_rejects_two_recipes_for_one_cell(tmp_path: Path) -> None:
    """The same settings, but a default that another version had differently: neither may hide the other."""
    for name in ("old", "new"):
        write_run(tmp_path / name, "digits_ssl", 0, 0.5, {"labels": "50"})
    header = tmp_path / "old" / "recipe.json"
    records.change(header, recipe={**records.content(header)["recipe"], "ema": "another"})
    groups = group([summarize(path) for path in find_runs([tmp_path])])
    with pytest.raises(ValueError, match=r"are both digits_ssl labels=50, but their recipes differ"):
        pivot(groups, "labels")


def test_a_pivot_takes_settings_left_at_their_defaults(tmp_path: Path) -> None:
    write_run(tmp_path / "set", "digits_ssl", 0, 0.6, {"labels": "100"})
    write_run(tmp_path / "default", "digits_ssl", 0, 0.5, defaults={"labels": 50, "target": "high"})
    groups = group([summarize(path) for path in find_runs([tmp_path])])
    assert pivot(groups, "labels") == [
        ["accuracy, % (labels →)", "50", "100"],
        ["digits_ssl", "50.00 (1)", "60.00 (1)"],
    ]
    assert pivot(groups[:1], "target")[0] == ["accuracy, % (target →)", "high"]
    assert pivot(groups[:1], "task.type")[0] == ["accuracy, % (task.type →)", "digits_ssl"]
    assert pivot(groups[:1], "method")[0] == ["accuracy, % (method →)", "Y"]


NASTY = r"<b>[red]a|b_c*`$x$&\ %#{}~^"


def test_names_are_shown_as_they_are(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "digits_ssl", 0, 0.6, {"data": NASTY})
    groups = write_report([tmp_path], tmp_path / "report.html", tmp_path / "figures", column="data")
    text = (tmp_path / "report.html").read_text()
    assert "<b>" not in text
    assert escape(NASTY) in text
    (line,) = as_markdown(pivot(groups, "data")).splitlines()[:1]
    assert line.endswith(r"| &lt;b&gt;\[red\]a\|b_c\*\`$x$&amp;\\ %#{}\~^ |")
    expected = (
        r"\textless{}b\textgreater{}{[}red{]}a\textbar{}b\_c{*}`\$x\$\&\textbackslash{} \%\#\{\}"
        r"\textasciitilde{}\textasciicircum{}"
    )
    assert expected in as_latex(pivot(groups, "data"))
    with pytest.raises(ValueError, match="has no setting"):
        write_report([tmp_path], tmp_path / "report.html", column="<b>")
    write_run(tmp_path / "\x1b[2J", "digits_ssl", 1, 0.6, {"data": NASTY})
    write_report([tmp_path], tmp_path / "report.html")
    assert r"\x1b[2J" in (tmp_path / "report.html").read_text()
    assert "\x1b" not in (tmp_path / "report.html").read_text()


def test_the_heading_of_a_pivot_is_escaped(tmp_path: Path) -> None:
    write_run(tmp_path / "a", "digits_ssl", 0, 0.6, {"<i>": "1"})
    write_report([tmp_path], tmp_path / "report.html", column="<i>")
    assert "<i>" not in (tmp_path / "report.html").read_text()


def test_a_page_of_many_recipes_draws_the_first_and_says_so(tmp_path: Path) -> None:
    for number in range(23):
        write_run(tmp_path / f"r{number:02}", f"recipe{number}", 0, 0.5)
    told: list[tuple[str, int, int]] = []
    groups = write_report(
        [tmp_path], tmp_path / "report.html", tmp_path / "f", progress=lambda *said: told.append(said)
    )
    text = (tmp_path / "report.html").read_text()
    assert len(groups) == 23
    assert "<td>recipe22</td>" in text
    assert text.count("data:image/svg+xml;base64,") == 60
    assert text.count("The first 20 of 23 groups are drawn; the table has all.") == 3
    assert told[0] == ("reading runs", 0, 23)
    assert ("drawing figures", 59, 60) in told
    assert told[-1] == ("looking for examples", 3, 4)
    with Image.open(tmp_path / "f" / "calibration.png") as drawn:
        assert max(drawn.size) < 3000


def test_a_name_with_dollars_is_no_formula() -> None:
    figure = Figure()
    figure.suptitle(plain(r"a class called $\nosuch{$"))
    assert as_png(figure).startswith(b"\x89PNG")
